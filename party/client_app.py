"""Flower ClientApp of a party: message in, call on a `PartyNode`, message out.

Where the party's home is, only the node says (`home` in node_config). A simulated node (it has a `partition-id`)
has its home in a folder of the run's `party-root`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from flwr.app import Context

from consilium.node.answering import TO_AGGREGATORS, AnsweringNode, home_folder
from consilium.party.expectation import check_is_accepted
from consilium.party.home import note_answer, open_home
from consilium.party.node import PartyNode
from consilium.protocol.messages import HelloRequest, TrainRequest, VoteRequest, WireModel
from consilium.protocol.refusals import Refusal
from consilium.sums.aggregators.wire import UploadRequest
from consilium.sums.masks.messages import (
    AdvertiseRequest,
    ConsistencyRequest,
    MaskedRequest,
    ShareRequest,
    UnmaskRequest,
)

log = logging.getLogger("consilium.party")


def _open(context: Context) -> PartyNode:
    return PartyNode(open_home(home_folder(context), "home" in context.node_config))


def _check(node: PartyNode) -> None:
    check_is_accepted(node.home)


def _note(node: PartyNode, request: WireModel | None, kind: str, refusal: Refusal | None) -> None:
    note_answer(node.home, kind, request, refusal)


ANSWERS: Mapping[type[WireModel], str] = {
    HelloRequest: "hello",
    TrainRequest: "train",
    VoteRequest: "vote",
    AdvertiseRequest: "secure.advertise",
    ShareRequest: "secure.share",
    MaskedRequest: "secure.masked",
    ConsistencyRequest: "secure.consistency",
    UnmaskRequest: "secure.unmask",
    UploadRequest: "verified.upload",
}
party = AnsweringNode("party", _open, _check, ANSWERS, TO_AGGREGATORS, log, _note)
app = party.app()
