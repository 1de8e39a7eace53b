"""The terms of one verified sum."""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

from pydantic import model_validator

from consilium.protocol.digests import Hash, canonical_digest
from consilium.protocol.messages import CollectionMode
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise
from consilium.sums.errors import OverflowRisk
from consilium.sums.roster import SumRoster
from consilium.sums.terms import TAIL, SumTerms
from consilium.sums.verified.field import MOST_REACH
from consilium.sums.verified.proof import MOST_ROWS, SPACE, VoteGrid

MOST_CELLS = 2**28
"""Elements of one share, a gigabyte: a bound of what a message may ask of a node."""


class VerifiedTerms(SumTerms):
    """Terms of one session, see `SumTerms`; each of the votes is proved.

    leader_key: the leader's X25519 key of this session's link to the helper, made for it, hex. sigma: standard
    deviation of the noise that each aggregator adds to one count of its total.
    """

    collection: ClassVar[CollectionMode] = "verified"
    SIGNED_AS: ClassVar[str] = SPACE + "session"

    leader_key: Hash

    @model_validator(mode="after")
    def _is_bounded(self) -> VerifiedTerms:
        rows = self.queries * self.teachers
        if rows > MOST_ROWS or rows * self.classes > MOST_CELLS:
            raise ValueError(f"{rows} votes for {self.classes} classes are more than one session takes")
        return self

    def check(self, roster: SumRoster) -> None:
        """See `SessionTerms.check`. Raises OverflowRisk where sums do not fit into half of the field."""
        super().check(roster)
        reach = reach_of(roster.n, self.teachers, self.sigma)
        if reach > MOST_REACH:
            raise OverflowRisk(reach, MOST_REACH)

    @property
    def noise(self) -> tuple[float, int]:
        """See `SumTerms.noise`: each aggregator adds the whole."""
        return self.sigma, 1

    @property
    def tail(self) -> int:
        """How far noise may carry a count."""
        return tail_of(self.sigma)

    def half_noise(self, seed: int | None, whose: str) -> NoiseSource:
        """Of one aggregator. seed: of a simulation; None elsewhere: the operating system's."""
        if seed is None:
            return SystemNoise()
        return SeededNoise(int(canonical_digest([seed, whose, self.query_set, self.round]), 16))

    @cached_property
    def grid(self) -> VoteGrid:
        """Sizes of what is sent and proved."""
        return VoteGrid(self.queries, self.classes, self.teachers)


def tail_of(sigma: float) -> int:
    """How far both aggregators' noise may carry a count: nine standard deviations."""
    return math.ceil(TAIL * math.sqrt(2) * sigma)


def reach_of(parties: int, teachers: int, sigma: float) -> int:
    """How many different values a count of a sum may have: votes, and noise on both sides. At most half of the field.

    >>> reach_of(1_000, 2, 3.0)
    2078
    """
    return parties * teachers + 2 * tail_of(sigma)
