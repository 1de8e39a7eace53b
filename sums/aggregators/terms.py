"""The terms of one verified sum."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import model_validator

from consilium.protocol.digests import Hash
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.identity import Identity
from consilium.sums.aggregators.proof import MOST_ROWS, VERSION, VoteGrid
from consilium.sums.agreement import check_order
from consilium.sums.errors import OtherVersion, SumTooLarge, UnsafeSession
from consilium.sums.field import FIELD_16, FIELD_21, Field
from consilium.sums.roster import SumRoster
from consilium.sums.terms import TAIL, SessionTerms

MOST_CELLS = 2**28
"""Elements of one share, half a gigabyte, or a whole one: a bound of what a message may ask of a node."""
FIELDS: Mapping[int, Field] = {VERSION: FIELD_16, VERSION + 1: FIELD_21}
"""By the version of a session's terms. Nodes that know the first alone say that they do not know the other."""
MOST_REACH = FIELD_21.most_reach


class VerifiedTerms(SessionTerms):
    """Terms of one session, see `SessionTerms`; each of the votes is proved.

    version: by which field its sums are (`FIELDS`): the smallest into half of which they fit. leader_key: the leader's
    X25519 key of this session's link to the helper, made for it, hex. sigma: standard deviation of the noise that each
    aggregator adds to one count of its total.
    """

    version: Literal[2, 3] = 2
    leader_key: Hash

    @model_validator(mode="after")
    def _is_bounded(self) -> Self:
        rows = self.queries * self.teachers
        if rows > MOST_ROWS or rows * self.classes > MOST_CELLS:
            raise ValueError(f"{rows} votes for {self.classes} classes are more than one session takes")
        return self

    @classmethod
    def _follows(cls, roster: SumRoster, teachers: int, others: Mapping[str, Any]) -> dict[str, Any]:
        return {"version": version_for(reach_of(roster.n, teachers, others["sigma"]))}

    @classmethod
    def _label(cls, content: bytes) -> str:
        version = _version(content)
        return _signed_as(VERSION if version is None or version not in FIELDS else version)

    @classmethod
    def _unsigned(cls, content: bytes) -> ConsiliumError:
        version = _version(content)
        return super()._unsigned(content) if version in FIELDS else OtherVersion("the session", version, max(FIELDS))

    def check(self, roster: SumRoster) -> None:
        """See `SessionTerms.check`.

        Raises
        ------
        SumTooLarge : sums do not fit into half of its field. UnsafeSession : they fit into a smaller one. BadKey : the
            leader's key is of low order.
        """
        super().check(roster)
        check_order(bytes.fromhex(self.leader_key), "the leader")
        reach = reach_of(roster.n, self.teachers, self.sigma)
        if reach > self.field.most_reach:
            raise SumTooLarge(reach, self.field.most_reach)
        if self.version != version_for(reach):
            raise UnsafeSession(
                f"the session is of version {self.version}, for sums above {FIELD_16.most_reach}; its own reach {reach}"
            )

    def sign(self, coordinator: Identity) -> bytes:
        """The coordinator's signature, 64 bytes, as that version of a session."""
        return coordinator.sign(_signed_as(self.version), self.canonical())

    @property
    def field(self) -> Field:
        """Of the numbers of this session."""
        return FIELDS[self.version]

    @property
    def noise(self) -> tuple[float, int]:
        """See `SessionTerms.noise`: each aggregator adds the whole."""
        return self.sigma, 1

    @property
    def tail(self) -> int:
        """How far noise may carry a count."""
        return tail_of(self.sigma)

    @cached_property
    def grid(self) -> VoteGrid:
        """Sizes of what is sent and proved."""
        return VoteGrid(self.queries, self.classes, self.teachers, self.field)


def tail_of(sigma: float) -> int:
    """How far both aggregators' noise may carry a count: nine standard deviations."""
    return math.ceil(TAIL * math.sqrt(2) * sigma)


def reach_of(parties: int, teachers: int, sigma: float) -> int:
    """How many different values a count of a sum may have: votes, and noise on both sides. At most MOST_REACH.

    >>> reach_of(1_000, 2, 3.0)
    2078
    """
    return parties * teachers + 2 * tail_of(sigma)


def version_for(reach: int) -> int:
    """Of the terms of a session whose counts may have so many values: that of the smallest field with room for them.

    Raises
    ------
    SumTooLarge : no field has.

    >>> version_for(32_760), version_for(32_761)
    (2, 3)
    """
    for version, field in FIELDS.items():
        if reach <= field.most_reach:
            return version
    raise SumTooLarge(reach, MOST_REACH)


def _signed_as(version: int) -> str:
    """What terms of this version are signed as, so that a node that does not know it cannot take them for another."""
    return f"verified/{version}/session"


def _version(content: bytes) -> int | None:
    """What unsigned bytes say that they are; None for no number."""
    try:
        version = json.loads(content).get("version")
    except (ValueError, AttributeError, RecursionError):
        return None
    return version if type(version) is int else None
