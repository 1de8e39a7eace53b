"""What collectors of a federation are made from: what they send with each request, and what they write down."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from consilium.accounting.events import PartyNoise
from consilium.coordinator.collection.admission import Latecomers
from consilium.coordinator.collection.base import Collector, Counts, Queries, Standing
from consilium.coordinator.collection.exchange import Member, Transport
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog
from consilium.protocol.databases import committed
from consilium.protocol.errors import ConfigError, LedgerError
from consilium.sums.roster import SumRoster
from consilium.sums.terms import SumTerms


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


@dataclass(frozen=True)
class NotedCollector:
    """A `Collector` in whose next sum are the parties that came since the last, and of whose parties it is written down
    at which position of the ledger they were asked."""

    collector: Collector
    late: Latecomers | None
    members: list[Member]
    standing: Standing

    def collect(self, queries: Queries, sigma: float) -> Counts:
        if self.late is not None:
            self.late.join(self.members)
        self.standing.begin()
        counts = self.collector.collect(queries, sigma)
        self.standing.voted(counts.parties)
        return counts

    def settle(self) -> None:
        self.collector.settle()


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

    def _giver_noise(self, sigma: float) -> PartyNoise:
        """What each party, or each aggregator, adds for this noise of the mechanism on a count."""
        return self._config.sum_noise(sigma).drawn

    def _counts(self, sums: np.ndarray, parties: Iterable[str], sigma: float) -> Counts:
        """Of these parties, with the noise that all givers have added for this noise of the mechanism."""
        names, drawn = tuple(sorted(parties)), self._giver_noise(sigma)
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
