"""What collectors of a federation are made from: what goes with each request, and what is written down."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from consilium.coordinator.collection.base import Collector, Counts, Queries
from consilium.coordinator.collection.exchange import Member, Transport
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog
from consilium.coordinator.ledger import Ledger
from consilium.protocol.databases import committed
from consilium.protocol.errors import ConfigError, LedgerError
from consilium.protocol.messages import PROTOCOL_VERSION, HelloReply, HelloRequest, LedgerPosition
from consilium.protocol.pool import HASH_BYTES, PoolTree
from consilium.protocol.queries import query_ids
from consilium.protocol.versions import program_versions
from consilium.sums.roster import SumRoster
from consilium.sums.terms import SumTerms


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

    def stated(self, position: LedgerPosition) -> None:
        """A session goes on in which parties were, or are, asked at this position."""
        self._stated = position

    def begin(self) -> None:
        """A sum begins: nothing has been asked for it yet."""
        self._stated = None

    def voted(self, parties: Sequence[str]) -> None:
        """These parties are in a sum, for which they were asked at the position that was stated."""
        if self._stated is not None:
            self._ledger.seen_by(parties, self._stated.batch)


@dataclass(frozen=True)
class Collecting:
    """What collectors over a transport are made from. members: those that serve; others may be added to the list."""

    transport: Transport
    config: FederationConfig
    members: list[Member]
    run_dir: Path
    standing: Standing
    log: EventLog

    @property
    def sessions(self) -> Path:
        return self.run_dir / "sessions"


class VoteKeys:
    """A way to collect votes, with what it needs: a roster and the coordinator's keys, for all but plaintext ones."""

    roster: SumRoster | None

    @classmethod
    def of(cls, roster: Any, own: Mapping[str, Any]) -> VoteKeys:
        """roster: None for plaintext votes. own: the coordinator's private keys by file, as `OwnKeys` has them."""
        raise NotImplementedError

    @classmethod
    def check_sums(cls, config: FederationConfig, roster: Any) -> None:
        """Raise ConfigError unless sums over this roster can be computed; plaintext votes have none."""

    def check(self, config: FederationConfig) -> None:
        """Raise ConfigError unless these are the federation's."""
        raise NotImplementedError

    def check_reachable(self, means: Collecting) -> None:
        """Raise AggregatorAway or AggregatorRefuses where votes could not be collected, before anybody trains. Mostly
        parties are all that is needed."""

    def collector(self, means: Collecting) -> Collector:
        raise NotImplementedError


def check_digest(config: FederationConfig, roster: SumRoster) -> None:
    """Raise ConfigError unless it is the roster that the federation was made with."""
    if roster.digest != config.roster:
        raise ConfigError(
            f"the roster has hash {roster.digest[:12]}, the federation asks for {config.roster[:12]}",
            "Use the roster that the federation was made with",
        )


Terms = TypeVar("Terms", bound=SumTerms)


class KeptSessions:
    """Open sessions, pickled, by name, in one SQLite file; what a method wrote is on disk when it returns, and what is
    forgotten is overwritten. The file is for this machine alone: whoever can write it has the coordinator's key as
    well. Raises LedgerError where it cannot be read or written."""

    TABLES: ClassVar[tuple[str, ...]] = ("sessions (name TEXT PRIMARY KEY, content BLOB)",)

    def __init__(self, path: Path) -> None:
        self._path, self._open = path, partial(committed, path, self.TABLES, 1)

    def session(self, name: str) -> Any:
        with self._open() as file:
            row = file.one("SELECT content FROM sessions WHERE name = ?", name)
        try:
            return None if row is None else pickle.loads(row[0])
        except Exception:  # what unpickling raises where another version wrote it is anything
            raise LedgerError(
                f"{self._path}: not of this version of Consilium",
                "Use the version that wrote it; without the file what parties charged for its sums is charged again",
            ) from None

    def keep(self, name: str, session: object) -> None:
        with self._open() as file:
            file.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?)", name, pickle.dumps(session))

    def forget(self, name: str) -> None:
        with self._open() as file:
            for table in self.TABLES:
                file.execute(f"DELETE FROM {table.split()[0]} WHERE name = ?", name)


class SumCollector:
    """A `Collector` whose sums nobody reads whole. The state of a session is on disk from before its first request
    until its labels are in the ledger."""

    _sessions: KeptSessions

    def __init__(self, means: Collecting, roster: SumRoster) -> None:
        self._transport, self._config, self._members = means.transport, means.config, means.members
        self._folder, self._standing, self._log, self._roster = means.sessions, means.standing, means.log, roster
        self._finished: list[str] = []

    def settle(self) -> None:
        """Forget the sessions that gave the last sums: these are in the ledger. Those that failed are kept."""
        for name in self._finished:
            self._sessions.forget(name)
        self._finished.clear()

    def _begin(self, queries: Queries) -> str:
        """The name of a session."""
        if queries.round == 1:
            self._finished.clear()  # of a request that came to nothing: its session may be gone on with
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._finished.append(f"{queries.hash[:32]}-{queries.round}")
        return self._finished[-1]

    def _counts(self, sums: np.ndarray, parties: Iterable[str], sigma: float) -> Counts:
        """Of these parties, with the noise that all givers have added for this noise of the mechanism."""
        names, drawn = tuple(sorted(parties)), self._config.sum_noise(sigma).drawn
        held = drawn.sigma * math.sqrt(self._config.givers(len(names)) / drawn.shares)
        return Counts(sums, names, len(names) * self._config.teachers_per_party, held)

    def _new_terms(self, kind: type[Terms], queries: Queries, **others: Any) -> Terms:
        return kind.of_queries(
            self._roster,
            self._config.digest(),
            queries.rows,
            len(self._config.rows.classes),
            self._config.teachers_per_party,
            position=self._standing.position(),
            round=queries.round,
            **others,
        )
