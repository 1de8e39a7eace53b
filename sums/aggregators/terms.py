"""The terms of one verified sum."""

from __future__ import annotations

import json
import math
from functools import cached_property
from typing import ClassVar, Self

from pydantic import model_validator

from consilium.protocol.digests import Hash
from consilium.protocol.errors import ConsiliumError
from consilium.sums.aggregators.field import PRIME
from consilium.sums.aggregators.proof import MOST_ROWS, SPACE, VERSION, VoteGrid
from consilium.sums.agreement import check_order
from consilium.sums.errors import OtherVersion, SumTooLarge
from consilium.sums.roster import SumRoster
from consilium.sums.terms import TAIL, SessionTerms, Sigma

MOST_CELLS = 2**28
"""Elements of one share, half a gigabyte: a bound of what a message may ask of a node."""
MOST_REACH = PRIME // 2
"""Values that a count may have (`reach_of`): what lies beyond is brought back without a jump, which takes as many."""


class VerifiedTerms(SessionTerms):
    """Terms of one session, see `SessionTerms`; each of the votes is proved.

    leader_key: the leader's X25519 key of this session's link to the helper, made for it, hex. leader_sigma,
    helper_sigma: standard deviation of the noise that each aggregator adds to one count of its total; 0.0 for none.
    """

    SIGNED_AS: ClassVar[str] = SPACE + "session"

    leader_key: Hash
    leader_sigma: Sigma = 0.0
    helper_sigma: Sigma = 0.0

    @model_validator(mode="after")
    def _is_bounded(self) -> Self:
        rows = self.queries * self.teachers
        if rows > MOST_ROWS or rows * self.classes > MOST_CELLS:
            raise ValueError(f"{rows} votes for {self.classes} classes are more than one session takes")
        return self

    @classmethod
    def _unsigned(cls, content: bytes) -> ConsiliumError:
        version = _version(content)
        return super()._unsigned(content) if version == VERSION else OtherVersion("the session", version, VERSION)

    def check(self, roster: SumRoster) -> None:
        """See `SessionTerms.check`.

        Raises
        ------
        SumTooLarge : sums do not fit into half of the field. BadKey : the leader's key is of low order.
        """
        super().check(roster)
        check_order(bytes.fromhex(self.leader_key), "the leader")
        reach = reach_of(roster.n, self.teachers, self.leader_sigma, self.helper_sigma)
        if reach > MOST_REACH:
            raise SumTooLarge(reach, MOST_REACH)

    @property
    def exact(self) -> bool:
        """Whether neither aggregator adds noise."""
        return self.leader_sigma == self.helper_sigma == 0

    @property
    def tail(self) -> int:
        """How far noise may carry a count."""
        return tail_of(self.leader_sigma, self.helper_sigma)

    @cached_property
    def grid(self) -> VoteGrid:
        """Sizes of what is sent and proved."""
        return VoteGrid(self.queries, self.classes, self.teachers)


def tail_of(leader_sigma: float, helper_sigma: float) -> int:
    """How far both aggregators' noise may carry a count: nine standard deviations."""
    return math.ceil(TAIL * math.hypot(leader_sigma, helper_sigma))


def reach_of(parties: int, teachers: int, leader_sigma: float, helper_sigma: float) -> int:
    """How many different values a count of a sum may have: votes, and noise on both sides. At most MOST_REACH.

    >>> reach_of(1_000, 2, 0.0, 0.0), reach_of(1_000, 2, 3.0, 4.0)
    (2000, 2090)
    """
    return parties * teachers + 2 * tail_of(leader_sigma, helper_sigma)


def _version(content: bytes) -> object:
    """What unsigned bytes say that they are."""
    try:
        return json.loads(content).get("version")
    except (ValueError, AttributeError, RecursionError):
        return None
