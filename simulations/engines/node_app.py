"""The ClientApp of simulated nodes, the same on each engine: parties as `party.client_app` has them, made from a
`Population`. It alone also answers what teachers say of an analysis's rows; no app that is deployed does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from consilium.aggregator.deployed import aggregator
from consilium.aggregator.node import AggregatorNode
from consilium.node.answering import AnsweringNode, refusal_for
from consilium.party.client_app import log, party
from consilium.party.node import PartyNode
from consilium.party.voting import Latest
from consilium.protocol.messages import WireModel
from consilium.protocol.records import from_record, refusal_to_record, to_record
from consilium.protocol.refusals import Refusal, Rule
from consilium.simulations.said import SaidRequest, said_reply

Node = PartyNode | AggregatorNode
Opened = Callable[[Context], AbstractContextManager[Node]]
"""The node that the context is of, while the context manager is open."""

_decoded: Latest[tuple[int, type[WireModel]], tuple[RecordDict, WireModel]] = Latest()


def index_of(context: Context) -> int:
    """Of the party in its case, or one more than the last party's for a second aggregator."""
    return int(context.node_config["partition-id"])


def app_of(opened: Opened) -> ClientApp:
    """As Flower calls it."""
    app = ClientApp()
    for model in (*party.answers, *aggregator.answers, SaidRequest):
        category, _, action = model.kind.partition(".")
        {"query": app.query, "train": app.train}[category](action)(_handler(model, opened))
    return app


def _handler(model: type[WireModel], opened: Opened) -> Callable[[Message, Context], Message]:
    def handle(message: Message, context: Context) -> Message:
        content = message.content
        try:
            # decoded once for all parties that are sent the same: while it is kept, its place in memory is its name
            decoded = _decoded.get((id(content), model), lambda: (content, from_record(content, model)))
            with opened(context) as node:
                reply = _reply(node, decoded[1])
        except Exception as error:  # Flower would send the text of any exception to the coordinator
            reply = refusal_to_record(refusal_for(model.kind, error, log, "node"))
        return Message(reply, reply_to=message)

    return handle


def _reply(node: Node, request: WireModel) -> RecordDict:
    if isinstance(node, PartyNode) and isinstance(request, SaidRequest):
        return to_record(said_reply(node, request))
    kind: AnsweringNode[Any] = party if isinstance(node, PartyNode) else aggregator
    if type(request) not in kind.answers:
        return refusal_to_record(Refusal(rule=Rule.NODE_KIND))
    return kind.reply(node, request)
