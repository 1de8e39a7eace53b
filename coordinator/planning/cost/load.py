"""How much a federation asks: the numbers that its cost hangs on, all of them public."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from consilium.protocol.errors import ConfigError
from consilium.sums.aggregators.proof import VoteGrid
from consilium.sums.masks.ring import sigma_total
from consilium.sums.roster import least_sum

CostedMode = Literal["clear", "secure", "distributed", "verified"]
COSTED_MODES: tuple[CostedMode, ...] = ("clear", "secure", "distributed", "verified")
"""The ways to collect votes whose cost is known."""
NOISY: frozenset[CostedMode] = frozenset({"distributed"})
"""Those in which parties add noise."""

LOST = 0.1
"""Share of the parties that are lost in the midst of a sum, as `benchmarks.secagg` loses them."""


@dataclass(frozen=True)
class Load:
    """One exchange of votes: all queries of a federation in one set.

    parties: that are asked. queries, classes: shape of the sum. features: of a query. teachers: of each party, each of
    which gives one vote. pool: rows that the queries are proved to be among; 0 where there is no pool. lost: share of
    the parties that are gone before their masked votes: those of a secure sum have to be unmasked one by one.
    sigma: noise on one count that parties add in shares, where they do.

    Raises
    ------
    ConfigError : a number below what a federation has.
    """

    parties: int
    queries: int
    classes: int
    features: int = 10
    teachers: int = 1
    pool: int = 0
    lost: float = LOST
    sigma: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("parties", 2), ("queries", 1), ("classes", 2), ("features", 1), ("teachers", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}, the least is {least}", f"Give {least} or more")
        if not 0 <= self.lost < 1:
            raise ConfigError(f"lost is {self.lost}, it must be a share from 0 to below 1", "Give, for example, 0.1")

    def of(self, parties: int) -> Load:
        """The same with another number of parties."""
        return replace(self, parties=parties)

    @property
    def gone(self) -> int:
        """Parties that are lost.

        >>> Load(250, 10_000, 10).gone
        25
        """
        return math.floor(self.lost * self.parties)

    @property
    def cells(self) -> int:
        """Counts of the sum."""
        return self.queries * self.classes

    @property
    def votes(self) -> int:
        """Votes of one party."""
        return self.queries * self.teachers

    @property
    def grid(self) -> VoteGrid:
        """As verified votes are proved."""
        return VoteGrid(self.queries, self.classes, self.teachers)

    def ring_bytes(self, sigma: float = 0.0) -> int:
        """Of one masked count. sigma: as `Load.sigma`, in as many shares as parties are sure to be; 0.0 for none."""
        noise = sigma_total(sigma, least_sum(self.parties, 0), self.parties)
        return 2 if self.teachers * self.parties + 9 * noise < 2**15 else 4
