"""Flower ClientApp of a party: message in, call on a `PartyNode`, message out.

Where the party's folder is, only the node says (`folder` in node_config). It is opened once in a process, and anew when
one of its files is another one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from flwr.app import Context

from consilium.node.answering import TO_AGGREGATORS, AnsweringNode, folder_of
from consilium.party.home import STORE, open_home
from consilium.party.node import PartyNode
from consilium.protocol.messages import HelloRequest, TrainRequest, VoteRequest, WireModel
from consilium.sums.modes import ANSWERS as TO_SUMS

log = logging.getLogger("consilium.party")
_opened: dict[Path, tuple[object, PartyNode]] = {}


def _open(context: Context) -> PartyNode:
    folder = folder_of(context)
    stamp = folder.stamp(STORE)
    before, node = _opened.get(folder.path, (None, None))
    if node is None or before != stamp:
        if node:
            del _opened[folder.path]
            node.store.close()
        home = open_home(folder)
        node = PartyNode(home.settings(), home.rows(), home.store())
        _opened[folder.path] = folder.stamp(STORE), node
    return node


ANSWERS: Mapping[type[WireModel], str] = {
    HelloRequest: "hello",
    TrainRequest: "train",
    VoteRequest: "vote",
    **dict.fromkeys(TO_SUMS, "hidden"),
}
party = AnsweringNode("party", _open, ANSWERS, TO_AGGREGATORS, log)
app = party.app()
