"""Flower ClientApp of a party: message in, call on a `PartyNode`, message out.

Where the party's folder is, only the node says (`folder` in node_config). It is opened for each message, which is a
process of its own, so that another policy, federation or file holds from the next message on."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from flwr.app import Context

from consilium.node.answering import AnsweringNode, folder_of
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.protocol.messages import HelloRequest, TrainRequest, VoteRequest, WireModel
from consilium.sums.modes import ANSWERS as TO_SUMS

log = logging.getLogger("consilium.party")


@contextmanager
def _open(context: Context) -> Iterator[PartyNode]:
    home = open_home(folder_of(context))
    with closing(home.store()) as store:
        yield PartyNode(home.settings(), home.rows(), store)


ANSWERS: Mapping[type[WireModel], str] = {
    HelloRequest: "hello",
    TrainRequest: "train",
    VoteRequest: "vote",
    **dict.fromkeys(TO_SUMS, "hidden"),
}
party = AnsweringNode("party", _open, ANSWERS, log)
app = party.app()
