"""How votes become counts: the one seam between a federation's modes.

A mode is a class here or in a module beside this one, and nobody outside asks which it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger import Ledger
from consilium.protocol.messages import PROTOCOL_VERSION, HelloReply, HelloRequest, LedgerPosition
from consilium.protocol.pool import HASH_BYTES, PoolTree
from consilium.protocol.queries import query_ids, query_set_hash
from consilium.protocol.versions import program_versions


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


class Standing:
    """Where the ledger stands: what goes with every request because of it, and what it has of who was asked.

    A coordinator whose ledger went back to an older backup is refused by every party that has seen a later position.
    The other way round, a party reports the last position at which it was asked for votes: one that voted later by the
    ledger has forgotten what it gave, and is left out.

    pool: that queries are proved to be of, if there is one. starts: see `HelloRequest`; none in a simulation."""

    def __init__(self, ledger: Ledger, pool: PoolTree | None = None, starts: Sequence[str] = ()) -> None:
        self._ledger, self._pool, self._starts = ledger, pool, starts
        self.start, self.program = starts[-1] if starts else "", program_versions()
        self._stated: LedgerPosition | None = None

    def greeting(self, config: FederationConfig, late: bool = False) -> HelloRequest:
        """late: see `HelloRequest`."""
        return HelloRequest(
            **config.terms().model_dump(),
            **self._ledger.position().model_dump(),
            protocol_version=PROTOCOL_VERSION,
            program=self.program,
            late=late,
            starts=list(self._starts),
        )

    def behind(self, reply: HelloReply) -> str | None:
        """Why a party whose state went back, or that knows that the ledger did, cannot take part, or None."""
        least = self._ledger.least_seen(reply.party)
        if reply.seen and reply.seen > self._ledger.position().batch and reply.party not in self._ledger.asked():
            return (
                f"it was asked at position {reply.seen} of the ledger, and this one does not know: the ledger is an"
                " older backup. Restore the newest one; if that is lost, close this federation and make another"
            )
        if reply.seen >= least:
            return None
        return (
            f"its state went back: it was asked at position {least} of the ledger, and knows {reply.seen}. Restore the"
            " newest backup of its folder; if that is lost, revoke it, and add it under a new name with --succeeds"
        )

    def position(self) -> LedgerPosition:
        """Of the ledger; it is kept that a request for votes says so."""
        self._stated = self._ledger.position()
        return self._stated

    def proof(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places and proof of canonical queries, see `PoolTree.prove`; both empty where there is no pool."""
        if self._pool is None:
            return np.zeros(0, dtype=np.uint32), np.zeros((0, HASH_BYTES), dtype=np.uint8)
        return self._pool.prove(query_ids(queries))

    def voting(self, queries: np.ndarray, parties: Sequence[str], session: str = "") -> None:
        """See `Ledger.voted_on`; of canonical queries."""
        self._ledger.voted_on(query_ids(queries), parties, session)

    def begin(self) -> None:
        """A sum begins: nothing has been asked for it yet."""
        self._stated = None

    def voted(self, parties: Sequence[str]) -> None:
        """These parties are in a sum. Nothing is noted of a session that is brought to its end after a restart: its
        parties were asked earlier."""
        if self._stated is not None:
            self._ledger.seen_by(parties, self._stated.batch)
