"""Flower ClientApp of a second aggregator: message in, call on an `AggregatorNode`, message out. Its folder is opened
once in a process, and anew when one of its files is another one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from flwr.app import Context

from consilium.aggregator.home import STORE, open_home
from consilium.aggregator.node import AggregatorNode
from consilium.node.answering import TO_PARTIES, AnsweringNode, folder_of
from consilium.protocol.messages import WireModel
from consilium.sums.verified.messages import AggregatorRequest, CheckRequest, GiveRequest, OpenRequest

log = logging.getLogger("consilium.aggregator")
_opened: dict[Path, tuple[object, AggregatorNode]] = {}


def _open(context: Context) -> AggregatorNode:
    folder = folder_of(context)
    stamp = folder.stamp(STORE)
    before, node = _opened.get(folder.path, (None, None))
    if node is None or before != stamp:
        node = open_home(folder).node()
        _opened[folder.path] = stamp, node
    return node


ANSWERS: Mapping[type[WireModel], str] = {
    AggregatorRequest: "hello",
    OpenRequest: "open",
    CheckRequest: "check",
    GiveRequest: "give",
}
aggregator = AnsweringNode("aggregator", _open, ANSWERS, TO_PARTIES, log)
app = aggregator.app()
