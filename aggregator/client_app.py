"""Flower ClientApp of a second aggregator: message in, call on an `AggregatorNode`, message out. Its folder is opened
for each message, as `party.client_app` does."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from flwr.app import Context

from consilium.aggregator.home import open_home
from consilium.aggregator.node import AggregatorNode
from consilium.node.answering import AnsweringNode, folder_of
from consilium.protocol.messages import WireModel
from consilium.sums.verified.messages import AggregatorRequest, CheckRequest, GiveRequest, OpenRequest

log = logging.getLogger("consilium.aggregator")


@contextmanager
def _open(context: Context) -> Iterator[AggregatorNode]:
    yield open_home(folder_of(context)).node()


ANSWERS: Mapping[type[WireModel], str] = {
    AggregatorRequest: "hello",
    OpenRequest: "open",
    CheckRequest: "check",
    GiveRequest: "give",
}
aggregator = AnsweringNode("aggregator", _open, ANSWERS, log)
app = aggregator.app()
