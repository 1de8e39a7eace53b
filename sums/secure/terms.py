"""The terms of one sum under masks."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field

from consilium.protocol.messages import CollectionMode
from consilium.sums.errors import OverflowRisk, UnsafeSession
from consilium.sums.roster import MOST_PARTIES, SumRoster
from consilium.sums.secure.ring import RingBits, choose_ring, sigma_total
from consilium.sums.terms import LIFETIME, TAIL, SumTerms


class MaskedTerms(SumTerms):
    """Terms of one session, see `SumTerms`.

    ring: bits. noise_shares: of honest parties, which together are noise of `sigma`. lifetime: seconds from a party's
    first answer until it throws the session away, by its own clock.
    """

    collection: ClassVar[CollectionMode] = "secure"
    SIGNED_AS: ClassVar[str] = "session"

    ring: RingBits
    noise_shares: int = Field(ge=1, le=MOST_PARTIES)
    lifetime: int = Field(default=LIFETIME, ge=1, le=30 * 24 * 3600)

    @classmethod
    def of_queries(
        cls, roster: SumRoster, federation: str, queries: np.ndarray, classes: int, teachers: int, **others: Any
    ) -> Self:
        """See `SumTerms.of_queries`; with the smallest ring that is safe. Raises OverflowRisk where no ring holds the
        sum."""
        noise = sigma_total(others["sigma"], others["noise_shares"], roster.n)
        others["ring"] = choose_ring(teachers * roster.n, noise)
        return super().of_queries(roster, federation, queries, classes, teachers, **others)

    def check(self, roster: SumRoster) -> None:
        """See `SessionTerms.check`.

        Raises
        ------
        UnsafeSession : more noise shares than honest parties that are sure to be in the sum (least - c), a share of
            variance below 1, too.
        OverflowRisk : the ring is too small.
        """
        super().check(roster)
        if self.noise_shares > roster.sure:
            raise UnsafeSession(
                f"noise in {self.noise_shares} shares, but only least - c = {roster.sure} honest parties"
                " are sure to be in the sum"
            )
        if self.sigma**2 < self.noise_shares:
            raise UnsafeSession(f"a share of the noise has variance {self.sigma**2 / self.noise_shares:.3g}, below 1")
        noise = sigma_total(self.sigma, self.noise_shares, roster.n)
        reach = self.teachers * roster.n + TAIL * noise
        if reach >= 2 ** (self.ring - 1):
            raise OverflowRisk(reach, 2 ** (self.ring - 1))

    @property
    def noise(self) -> tuple[float, int]:
        """See `SumTerms.noise`."""
        return self.sigma, self.noise_shares

    @property
    def sigma_share(self) -> float:
        """Standard deviation of the noise that one party adds to one count."""
        return self.sigma / math.sqrt(self.noise_shares)
