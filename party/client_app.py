"""Flower ClientApp of a party: message in, call on a `PartyNode`, message out.

Where the party's home is, only the node says (`home` in node_config). A simulated node (it has a `partition-id`)
has its home in a folder of the run's `party-root`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from consilium.node.answering import TO_AGGREGATORS, home_folder, refusal_for, refusing, thread_pools
from consilium.party import journal
from consilium.party.acceptance import check_is_accepted
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.protocol.messages import HelloRequest, TrainRequest, VoteRequest, WireModel
from consilium.protocol.records import from_record, refusal_to_record, to_record
from consilium.sums.aggregators.wire import UploadRequest
from consilium.sums.masks.messages import (
    AdvertiseRequest,
    ConsistencyRequest,
    MaskedRequest,
    ShareRequest,
    UnmaskRequest,
)

log = logging.getLogger("consilium.party")
app = ClientApp()

Request = TypeVar("Request", bound=WireModel)


def _answer(
    message: Message,
    context: Context,
    model: type[Request],
    action: Callable[[PartyNode, Request], WireModel],
) -> Message:
    """Run one action; whatever goes wrong becomes a typed refusal, and its text stays in this party's log."""
    node, request, refusal = None, None, None
    try:
        request = from_record(message.content, model)
        node = PartyNode(open_home(home_folder(context), "home" in context.node_config))
        check_is_accepted(node.home)
        with thread_pools().limit(limits=1):  # many parties may share one machine: a pool each would only thrash
            reply = to_record(action(node, request))
    except Exception as error:  # Flower would send the text of any exception to the coordinator
        refusal = refusal_for(model.kind, error, log, "party")
        reply = refusal_to_record(refusal)
    if node is not None:
        told = (str(getattr(request, "federation", "")), bool(getattr(request, "late", False)))
        journal.note(node.home, model.kind, *told, refusal)
    return Message(reply, reply_to=message)


@app.query("hello")
def hello(message: Message, context: Context) -> Message:
    """`query.hello`."""
    return _answer(message, context, HelloRequest, PartyNode.hello)


@app.train("teacher")
def train_teacher(message: Message, context: Context) -> Message:
    """`train.teacher`."""
    return _answer(message, context, TrainRequest, PartyNode.train)


@app.query("vote")
def vote(message: Message, context: Context) -> Message:
    """`query.vote`."""
    return _answer(message, context, VoteRequest, PartyNode.vote)


@app.query("sa_advertise")
def secure_advertise(message: Message, context: Context) -> Message:
    """`query.sa_advertise`."""
    return _answer(message, context, AdvertiseRequest, lambda node, request: node.secure.advertise(request))


@app.query("sa_share")
def secure_share(message: Message, context: Context) -> Message:
    """`query.sa_share`."""
    return _answer(message, context, ShareRequest, lambda node, request: node.secure.share(request))


@app.query("sa_masked")
def secure_masked(message: Message, context: Context) -> Message:
    """`query.sa_masked`."""
    return _answer(message, context, MaskedRequest, lambda node, request: node.secure.masked(request))


@app.query("sa_consistency")
def secure_consistency(message: Message, context: Context) -> Message:
    """`query.sa_consistency`."""
    return _answer(message, context, ConsistencyRequest, lambda node, request: node.secure.consistency(request))


@app.query("sa_unmask")
def secure_unmask(message: Message, context: Context) -> Message:
    """`query.sa_unmask`."""
    return _answer(message, context, UnmaskRequest, lambda node, request: node.secure.unmask(request))


@app.query("va_upload")
def verified_upload(message: Message, context: Context) -> Message:
    """`query.va_upload`."""
    return _answer(message, context, UploadRequest, lambda node, request: node.verified.upload(request))


refusing(app, TO_AGGREGATORS, log)
