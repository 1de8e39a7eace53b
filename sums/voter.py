"""What the protocols of hidden sums need of a party: its votes, its noise, its keys, and what it remembers.

Each protocol stands in its own package with a table of answers; `party.node.PartyNode` is the one `Voter`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from consilium.protocol.databases import Database
from consilium.protocol.identity import Identity
from consilium.protocol.noise import NoiseSource
from consilium.sums.roster import SumRoster
from consilium.sums.terms import SumTerms

R = TypeVar("R", bound=SumRoster)


@dataclass(frozen=True)
class QuerySet:
    """Queries, float32 (queries, features), their hash, and the proof that they are of the pool (`protocol.pool`)."""

    queries: np.ndarray = field(repr=False)
    query_set: str
    places: np.ndarray = field(repr=False)
    proof: np.ndarray = field(repr=False)


class Voter(Protocol):
    """A party in hidden sums: its name in the roster, of which it has its own pinned copy, its signing key, and what it
    remembers, in tables that each package names. What it refuses, it refuses by `Refused`; ConfigError where it has no
    key or roster."""

    @property
    def name(self) -> str: ...

    @property
    def store(self) -> Database: ...

    @property
    def identity(self) -> Identity: ...

    def roster(self, kind: type[R]) -> R: ...

    def check(self, terms: SumTerms) -> None:
        """Raise Refused unless the federation is enrolled here with this collection, roster and ledger position, the
        policy allows it, and teachers, classes, number of queries and, to the digit, noise are those of the promise."""
        ...

    def votes(self, terms: SumTerms, query_set: QuerySet, again: bool) -> np.ndarray:
        """Votes uint16 (queries, classes), checked and charged first, durably with the transaction that they are asked
        in. Secret.

        again: each call is charged anew, since noise on the same queries is fresh; else the same queries of the same
        teachers count once.
        """
        ...

    def noise(self, terms: SumTerms) -> NoiseSource:
        """The operating system's; seeded in simulations only."""
        ...
