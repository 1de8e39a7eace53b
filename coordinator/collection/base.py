"""How votes become counts: the one seam between a federation's modes.

A mode is a class here or in a module beside this one, and nobody outside asks which it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from consilium.protocol.queries import query_ids, query_set_hash


@dataclass(frozen=True)
class Queries:
    """Public rows that parties are asked about. rows: canonical float32 (n, features), see `protocol.queries`.
    round: 1, or 2 for the second sum of a mechanism that has one."""

    rows: np.ndarray = field(repr=False)
    round: int = 1

    @cached_property
    def hash(self) -> str:
        return query_set_hash(self.rows)

    @cached_property
    def ids(self) -> list[str]:
        return query_ids(self.rows)


@dataclass(frozen=True)
class Counts:
    """Sums of the parties' votes. votes: int64 (queries, classes). Each row sums to `teachers`, where no noise is in
    it. parties: in the sums, by name. teachers: votes on each query, a public number. sigma: of the noise that each
    count holds, by the parties or two aggregators; 0.0 for exact counts."""

    votes: np.ndarray = field(repr=False)
    parties: tuple[str, ...]
    teachers: int
    sigma: float = 0.0


class Collector(Protocol):
    """Asks the parties."""

    def collect(self, queries: Queries, sigma: float) -> Counts:
        """The sums of their votes on these queries. sigma: the mechanism's noise on a count in this round, of which
        hidden sums hold the parties' part; exact counts hold none. Raises ConsiliumError: there are no sums."""
        ...

    def settle(self) -> None:
        """What was collected is in the ledger, and need not be kept for it any more."""
        ...
