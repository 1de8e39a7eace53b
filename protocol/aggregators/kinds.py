"""The two kinds of nodes that answer a coordinator, and what each of them refuses since it is for the other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from consilium.protocol.aggregators.messages import AggregatorRequest, LinkRequest, OpenRequest, UploadRequest
from consilium.protocol.parties.messages import HelloRequest, TrainRequest, VoteRequest
from consilium.protocol.parties.records import refusal_to_record
from consilium.protocol.parties.refusals import Refusal, Rule
from consilium.protocol.secagg.messages import REQUESTS

TO_AGGREGATORS: tuple[str, ...] = (AggregatorRequest.kind, OpenRequest.kind, LinkRequest.kind)
TO_PARTIES: tuple[str, ...] = (
    HelloRequest.kind,
    TrainRequest.kind,
    VoteRequest.kind,
    UploadRequest.kind,
    *(request.kind for request in REQUESTS.values()),
)


def refusing(app: ClientApp, kinds: Iterable[str], log: logging.Logger) -> None:
    """Have the app refuse messages of these kinds (NODE_KIND): they are for another kind of node."""
    for kind in kinds:
        category, _, action = kind.partition(".")
        register: Callable[[str], Callable] = {"query": app.query, "train": app.train}[category]
        register(action)(_refusal_of(kind, log))


def _refusal_of(kind: str, log: logging.Logger) -> Callable[[Message, Context], Message]:
    def refuse(message: Message, context: Context) -> Message:
        level = logging.INFO if kind == HelloRequest.kind else logging.WARNING  # all nodes are greeted as parties first
        log.log(level, "%s refused: it is for another kind of node", kind)
        return Message(refusal_to_record(Refusal(rule=Rule.NODE_KIND)), reply_to=message)

    return refuse
