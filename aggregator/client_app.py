"""Flower ClientApp of a second aggregator: message in, call on an `AggregatorNode`, message out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from consilium.aggregator.acceptance import check_is_accepted
from consilium.aggregator.home import open_home
from consilium.aggregator.node import AggregatorNode
from consilium.node.answering import TO_PARTIES, home_folder, refusal_for, refusing, thread_pools
from consilium.protocol.messages import WireModel
from consilium.protocol.records import from_record, refusal_to_record, to_record
from consilium.sums.aggregators.wire import AggregatorRequest, LinkRequest, OpenRequest

log = logging.getLogger("consilium.aggregator")
app = ClientApp()

Request = TypeVar("Request", bound=WireModel)


def _answer(
    message: Message,
    context: Context,
    model: type[Request],
    action: Callable[[AggregatorNode, Request], WireModel],
) -> Message:
    """Run one action; whatever goes wrong becomes a typed refusal, and its text stays in this node's log."""
    try:
        request = from_record(message.content, model)
        node = AggregatorNode(open_home(home_folder(context)))
        check_is_accepted(node.home)
        with thread_pools().limit(limits=1):
            reply = to_record(action(node, request))
    except Exception as error:  # Flower would send the text of any exception to the coordinator
        reply = refusal_to_record(refusal_for(model.kind, error, log, "aggregator"))
    return Message(reply, reply_to=message)


@app.query("va_hello")
def hello(message: Message, context: Context) -> Message:
    """`query.va_hello`."""
    return _answer(message, context, AggregatorRequest, AggregatorNode.hello)


@app.query("va_open")
def open_session(message: Message, context: Context) -> Message:
    """`query.va_open`."""
    return _answer(message, context, OpenRequest, AggregatorNode.open)


@app.query("va_link")
def link(message: Message, context: Context) -> Message:
    """`query.va_link`."""
    return _answer(message, context, LinkRequest, AggregatorNode.link)


refusing(app, TO_PARTIES, log)
