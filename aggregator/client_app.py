"""Flower ClientApp of a second aggregator: message in, call on an `AggregatorNode`, message out. Its home is opened
once in a process, and anew when one of its files is another one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from flwr.app import Context

from consilium.aggregator.home import check_is_accepted, open_home
from consilium.aggregator.node import AggregatorNode
from consilium.node.answering import TO_PARTIES, AnsweringNode, home_folder
from consilium.protocol.messages import WireModel
from consilium.sums.verified.messages import AggregatorRequest, CheckRequest, GiveRequest, OpenRequest

log = logging.getLogger("consilium.aggregator")
_opened: dict[Path, tuple[object, AggregatorNode]] = {}


def _open(context: Context) -> AggregatorNode:
    folder = home_folder(context)
    seen = [(path, path.stat()) for path in sorted(folder.glob("*")) if path.is_file()]
    stamps = [(path.name, stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in seen]
    before, node = _opened.get(folder, (None, None))
    if node is None or before != stamps:
        home = open_home(folder)
        check_is_accepted(home)
        node = home.node()
        _opened[folder] = stamps, node
    return node


ANSWERS: Mapping[type[WireModel], str] = {
    AggregatorRequest: "hello",
    OpenRequest: "open",
    CheckRequest: "check",
    GiveRequest: "give",
}
aggregator = AnsweringNode("aggregator", _open, ANSWERS, TO_PARTIES, log)
app = aggregator.app()
