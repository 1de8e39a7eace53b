"""The modes of collecting votes whose sums nobody reads whole. What is particular to one stands in its package; all
others look it up here. Plaintext votes have no entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from consilium.protocol.messages import CollectionMode, WireModel
from consilium.sums.roster import Roster, SumRoster, VerifiedRoster
from consilium.sums.secure import party as secure
from consilium.sums.secure.messages import MaskedRequest
from consilium.sums.terms import Voter
from consilium.sums.verified import party as verified
from consilium.sums.verified.messages import AggregatorRequest, CheckRequest, GiveRequest, OpenRequest, UploadRequest

Answer = Callable[[Voter, Any], WireModel]


@dataclass(frozen=True)
class Mode:
    """answers: what a party says to each request. votes: the one with whose answer votes leave. tables: of a party's
    database, for CREATE TABLE. second: requests that a second aggregator answers, where there is one. aggregators: who
    add the noise of a sum, each the whole of it; 0 where each party adds a share. givers: the same in words."""

    roster: type[SumRoster]
    answers: Mapping[type[WireModel], Answer] = field(repr=False)
    votes: type[WireModel]
    tables: tuple[str, ...] = field(repr=False)
    second: tuple[type[WireModel], ...] = ()
    aggregators: int = 0
    givers: str = "the parties"


MODES: Mapping[CollectionMode, Mode] = {
    "secure": Mode(Roster, secure.ANSWERS, MaskedRequest, secure.TABLES),
    "verified": Mode(
        VerifiedRoster,
        verified.ANSWERS,
        UploadRequest,
        verified.TABLES,
        second=(AggregatorRequest, OpenRequest, CheckRequest, GiveRequest),
        aggregators=2,
        givers="each of two aggregators",
    ),
}

ANSWERS: Mapping[type[WireModel], Answer] = {
    request: answer for mode in MODES.values() for request, answer in mode.answers.items()
}
"""Of all modes, by the kind of request."""

WITH_SECOND: tuple[CollectionMode, ...] = tuple(name for name, mode in MODES.items() if mode.second)
"""Modes with a second aggregator."""
