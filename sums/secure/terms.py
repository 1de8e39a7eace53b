"""The terms of a session under masks, and of each sum in it."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from pydantic import Field

from consilium.protocol.messages import CollectionMode
from consilium.protocol.records import MOST_CELLS
from consilium.sums.errors import UnsafeSession
from consilium.sums.roster import MOST_PARTIES, SumRoster
from consilium.sums.secure.masks import check_ring
from consilium.sums.terms import SessionTerms, SumTerms

Rounds = tuple[Literal[1]] | tuple[Literal[2]] | tuple[Literal[1], Literal[2]]


class KeyTerms(SessionTerms):
    """Terms of a session's keys and shares, see `SessionTerms`.

    rounds: of the mechanism, for each of which there is a sum. A second one alone is of a mechanism whose first sum was
    in another session.
    """

    collection: ClassVar[CollectionMode] = "secure"
    SIGNED_AS: ClassVar[str] = "session"

    rounds: Rounds


class MaskedTerms(SumTerms):
    """Terms of one sum of a session, see `SumTerms`.

    noise_shares: of honest parties, which together are noise of `sigma`: no more than the roster is sure of.
    """

    collection: ClassVar[CollectionMode] = "secure"
    SIGNED_AS: ClassVar[str] = "masked-sum"

    noise_shares: int = Field(ge=1, le=MOST_PARTIES)

    def check(self, roster: SumRoster) -> None:
        """See `SessionTerms`. Also the noise is in shares that are sure to be there, and the ring and a message hold
        the sum."""
        super().check(roster)
        if self.noise_shares > roster.sure:
            raise UnsafeSession(
                f"noise in {self.noise_shares} shares, but only least - c = {roster.sure} honest parties are sure to"
                " be in the sum"
            )
        if self.sigma**2 < self.noise_shares:
            raise UnsafeSession(f"a share of the noise has variance {self.sigma**2 / self.noise_shares:.3g}, below 1")
        if self.queries * self.classes > MOST_CELLS:
            raise UnsafeSession(f"{self.queries * self.classes} counts in a sum, a message holds {MOST_CELLS}")
        check_ring(self.teachers * roster.n, self.deviation(roster.n))

    def deviation(self, parties: int) -> float:
        """Standard deviation of the noise in a sum of so many: each adds variance sigma^2 / noise_shares."""
        return self.sigma / math.sqrt(self.noise_shares) * math.sqrt(parties)

    @property
    def noise(self) -> tuple[float, int]:
        """See `SumTerms.noise`."""
        return self.sigma, self.noise_shares
