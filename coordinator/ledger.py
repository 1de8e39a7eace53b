"""The ledger: what was charged and what was released, durable before a label leaves.

One SQLite database, append-only, one durable transaction for each answered batch. A batch holds its event and the
outcome of each query, with its noisy histogram where that is released, and with the votes and the student's prediction
where they decide what is charged at them: the file is secret, and readable by its owner only. It is chained by SHA-256
to the batch before. The chain ends with the closing, if there is one: after it nothing is charged any more.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from consilium.coordinator.config import FederationConfig
from consilium.protocol.databases import Database, unusable
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import BudgetExceeded, LedgerError
from consilium.protocol.label_source import NO_LABEL, Outcome
from consilium.protocol.messages import LedgerPosition

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE batches (
    seq INTEGER PRIMARY KEY, at TEXT NOT NULL, event TEXT NOT NULL, parties INTEGER NOT NULL, previous TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE);
CREATE TABLE releases (
    query_id TEXT PRIMARY KEY, seq INTEGER NOT NULL REFERENCES batches, position INTEGER NOT NULL,
    outcome INTEGER NOT NULL, label INTEGER NOT NULL, counts BLOB, histogram BLOB, probabilities BLOB);
CREATE TABLE closing (
    only INTEGER PRIMARY KEY CHECK (only = 1), at TEXT NOT NULL, result TEXT NOT NULL, previous TEXT NOT NULL,
    hash TEXT NOT NULL);
CREATE TABLE attempts (
    number INTEGER PRIMARY KEY, parties TEXT NOT NULL, batch INTEGER NOT NULL, session TEXT NOT NULL);
CREATE TABLE voted (query_id TEXT, attempt INTEGER, PRIMARY KEY (query_id, attempt)) WITHOUT ROWID;
CREATE TABLE starts (number INTEGER PRIMARY KEY, token TEXT NOT NULL, used INTEGER NOT NULL);
CREATE TABLE checks (queries TEXT PRIMARY KEY, outcome TEXT NOT NULL);
CREATE TABLE seen (party TEXT PRIMARY KEY, least INTEGER NOT NULL);
"""
"""Of the last five: attempts and voted say who was asked for votes on which queries, until these are released; what is
left there is what a sum that failed used up at the parties, once for a query, or, where a session is named, in each
session anew. starts: of a deployment, a random token for each start of a coordinator that asked for votes, and for the
last one, see `Ledger.begin_start`. checks: what a check on noisy sums let pass, until these queries are released.
seen: by party, the least `HelloReply.seen` that it must report."""

_ROWS = "query_id, outcome, label, counts, histogram, probabilities FROM releases WHERE seq = ? ORDER BY position"
_VOTED = "voted JOIN attempts ON number = attempt"
_LAST_SESSION = "SELECT session FROM attempts ORDER BY number DESC LIMIT 1"
HISTOGRAM, PROBABILITIES = np.dtype("<i8"), np.dtype("<f8")


def blobs(matrix: np.ndarray | None, dtype: np.dtype, rows: int) -> list[bytes | None]:
    """A blob for each row, or None for all."""
    return [None] * rows if matrix is None else [row.astype(dtype).tobytes() for row in matrix]


def matrix_of(cells: list[bytes | None], dtype: np.dtype) -> np.ndarray | None:
    """The inverse of `blobs`; None where any is missing."""
    filled = [cell for cell in cells if cell is not None]
    return np.stack([np.frombuffer(cell, dtype) for cell in filled]) if filled and len(filled) == len(cells) else None


@dataclass(frozen=True)
class Release:
    """The recorded outcome of one query; counts: the noisy histogram, where that was released."""

    outcome: Outcome
    label: int
    counts: tuple[int, ...] | None


@dataclass(frozen=True)
class Batch:
    """One charge with what it paid for; arrays in the order of the queries.

    counts int64 (queries, classes): the noisy histograms, where these were released.
    histogram int64 and probabilities float64 (queries, classes): the votes, or None where they decide no cost.
    """

    event: dict[str, Any]
    parties: int
    query_ids: tuple[str, ...]
    labels: np.ndarray = field(repr=False)
    reinforced: np.ndarray = field(repr=False)
    counts: np.ndarray | None = field(default=None, repr=False)
    histogram: np.ndarray | None = field(default=None, repr=False)
    probabilities: np.ndarray | None = field(default=None, repr=False)

    @property
    def answered(self) -> np.ndarray:
        """bool (queries,): where the parties' votes gave a label, which is what was paid for."""
        return (self.labels != NO_LABEL) & ~self.reinforced

    @property
    def outcomes(self) -> np.ndarray:
        without = np.where(self.reinforced, Outcome.REINFORCED, Outcome.ABSTAINED)
        return np.where(self.answered, Outcome.ANSWERED, without)


GENESIS = "0" * 64
"""Hash before the first batch."""
FORMAT = "2"
CLOSED = "the ledger is closed: its sanitised epsilon was released"


def batch_hash(
    salt: str, previous: str, seq: int, moment: str, event: str, parties: int, rows: Sequence[tuple[Any, ...]]
) -> str:
    """SHA-256 (hex) that chains a batch and its releases to the batch before, under the ledger's secret: parties see
    it, and could try votes out."""
    plain = [[cell.hex() if isinstance(cell, bytes) else cell for cell in row] for row in rows]
    return chain_link([salt, previous, seq, moment, event, parties, plain])


def chain_link(value: Sequence[Any]) -> str:
    """SHA-256 (hex) of a list as JSON without spaces."""
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()


class Ledger:
    """The ledger of one federation. `federation` is the hash of its configuration: another one cannot write to it."""

    def __init__(
        self, path: Path | None, federation: str, config_json: str, read_only: bool = False, wait: float | None = None
    ) -> None:
        """Open or create; `read_only` opens what is there and changes nothing. path: None for one in memory. wait: see
        `Database`. Raises LedgerError: not readable or writable, another format, or another federation's ledger;
        LedgerLocked: another program holds it. So does every method: then nothing was written."""
        self.path = path
        self._file = file = Database(path, read_only=read_only, wait=wait)
        if not read_only:
            file.execute("PRAGMA foreign_keys=ON")
            with file.transaction():
                if not file.one("SELECT 1 FROM sqlite_master WHERE name = 'meta'"):
                    for statement in TABLES.split(";"):
                        file.execute(statement)
                    meta = {
                        "format": FORMAT,
                        "federation": federation,
                        "config": config_json,
                        "id": secrets.token_hex(32),  # of this very file: a new one is another, and parties see it
                        "salt": secrets.token_hex(32),  # parties see hashes of batches, and could try votes out
                    }
                    file.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        self._meta = meta = dict(file.execute("SELECT key, value FROM meta"))
        if (meta.get("format"), meta.get("federation")) != (FORMAT, federation) or not {"id", "salt"} <= meta.keys():
            raise LedgerError(
                f"ledger {self.path} belongs to another federation or format",
                "Use the configuration it was made with, or another run folder",
            )
        self.id = meta["id"]

    @classmethod
    def in_memory(cls, config: FederationConfig) -> Ledger:
        """Of a federation that is replayed: a charge does not outlive this object."""
        return cls(None, config.digest(), "")

    @classmethod
    def of(cls, path: Path, config: FederationConfig) -> Ledger:
        """The one file of this federation. Raises LedgerError."""
        return cls(path, config.digest(), config.model_dump_json(exclude={"noise_seed"}))

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the ledger against every other coordinator, from looking a query up until its charge is committed. The
        operating system gives the lock back when its holder dies, however it dies."""
        if self.path is None:  # nobody else has it
            yield
            return
        path = self.path.with_name(self.path.name + ".lock")
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise unusable(path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def spent(self) -> tuple[int, int]:
        """Queries asked and answers given so far."""
        sums = "SELECT COUNT(*), COALESCE(SUM(outcome = ?), 0) FROM releases"
        asked, answered = self._file.execute(sums, int(Outcome.ANSWERED))[0]
        return asked, answered

    def recorded(self) -> frozenset[str]:
        """Ids, hex, of all queries that have an outcome."""
        return frozenset(row[0] for row in self._file.execute("SELECT query_id FROM releases"))

    def find(self, query_ids: Sequence[str]) -> dict[str, Release]:
        """Recorded outcomes of those ids that are in the ledger."""
        rows = self._file.execute(
            "SELECT query_id, outcome, label, counts FROM releases WHERE query_id IN (SELECT value FROM json_each(?))",
            json.dumps([*query_ids]),
        )
        return {
            query_id: Release(Outcome(outcome), label, counts and tuple(np.frombuffer(counts, HISTOGRAM).tolist()))
            for query_id, outcome, label, counts in rows
        }

    def begin_start(self) -> tuple[str, ...]:
        """Tokens of all starts that asked for votes, in order, and of the one that begins; durable when this returns.

        Of two coordinators with copies of one ledger each draws a token of its own, so that to parties which were asked
        by one the other is another. A start that asks nothing leaves no trace: a backup from before it stays good.
        """
        with self._file.transaction():
            self._file.execute("DELETE FROM starts WHERE used = 0")
            add = "INSERT INTO starts (token, used) VALUES (?, 0)"
            self._file.execute(add, secrets.token_hex(8))
            return tuple(row[0] for row in self._file.execute("SELECT token FROM starts ORDER BY number"))

    def voted_on(self, query_ids: Sequence[str], parties: Sequence[str], session: str = "") -> None:
        """Votes on these queries are about to be asked of these parties; durable when this returns. session: of sums
        that parties charge in each session anew; empty where a query counts once."""
        with self._file.transaction():
            add = "INSERT INTO attempts (parties, batch, session) VALUES (?, ?, ?) RETURNING number"
            named = json.dumps(sorted(parties)), self._head()[0], session
            number = self._file.execute(add, *named)[0][0]
            rows = [(query_id, number) for query_id in query_ids]
            self._file.executemany("INSERT INTO voted VALUES (?, ?)", rows)
            self._file.execute("UPDATE starts SET used = 1")

    def asked(self) -> set[str]:
        """Parties that were asked since the last batch. Another one that says that it was, was by a later state."""
        rows = self._file.execute("SELECT parties FROM attempts WHERE batch = ?", self._head()[0])
        return {party for (parties,) in rows for party in json.loads(parties)}

    def seen_by(self, parties: Sequence[str], batch: int) -> None:
        """These parties voted when the ledger stood at `batch`; durable when this returns."""
        add = "INSERT INTO seen VALUES (?, ?) ON CONFLICT (party) DO UPDATE SET least = MAX(least, excluded.least)"
        with self._file.transaction():
            self._file.executemany(add, [(party, batch + 1) for party in parties])

    def least_seen(self, party: str) -> int:
        row = self._file.one("SELECT least FROM seen WHERE party = ?", party)
        return 0 if row is None else row[0]

    def unanswered(self) -> int:
        """How many queries parties voted on that were not released."""
        return self._file.execute(
            "SELECT COUNT(DISTINCT query_id) FROM voted WHERE query_id NOT IN (SELECT query_id FROM releases)"
        )[0][0]

    def in_vain(self) -> int:
        """How many queries parties have charged without a release, each as often as it was charged."""
        count = f"SELECT COUNT(*) FROM (SELECT DISTINCT query_id, session FROM {_VOTED})"
        return self._file.execute(count)[0][0]

    def charged(self, query_ids: Collection[str]) -> int:
        """Of these queries, those that parties do not charge again: of sums that charge a query once, and of the last
        session, if it is asked for all its queries again and so goes on."""
        of_session = f"SELECT query_id FROM {_VOTED} WHERE session = ({{}})"
        free, open_ = (
            {query_id for (query_id,) in self._file.execute(of_session.format(session))}
            for session in ("''", _LAST_SESSION)
        )
        return len(free.union(open_ if open_ == {*query_ids} else ()).intersection(query_ids))

    def checked(self, query_ids: Sequence[str], outcome: str) -> str:
        """The outcome of a check of these queries, about to be shown to parties: this one, durable when this returns,
        or that of an earlier call, where the coordinator died before the release. A check is charged once, and so its
        noise is drawn once."""
        key = canonical_digest(list(query_ids))
        with self._file.transaction():
            self._file.execute("INSERT OR IGNORE INTO checks VALUES (?, ?)", key, outcome)
            return str(self._file.execute("SELECT outcome FROM checks WHERE queries = ?", key)[0][0])

    def commit(self, batch: Batch, most_queries: int, most_answers: int) -> None:
        """Charge and record one batch; durable when this returns. Only then may its labels leave. Raises
        BudgetExceeded: the batch would pass a cap. LedgerError: a query id is already recorded, or the ledger is
        closed."""
        answered = batch.answered
        event = json.dumps(batch.event, sort_keys=True, separators=(",", ":"))
        rows = [
            (query_id, int(outcome), int(label), *more)
            for query_id, outcome, label, *more in zip(
                batch.query_ids,
                batch.outcomes,
                batch.labels,
                blobs(batch.counts, HISTOGRAM, len(answered)),
                blobs(batch.histogram, HISTOGRAM, len(answered)),
                blobs(batch.probabilities, PROBABILITIES, len(answered)),
                strict=True,
            )
        ]
        with self._file.transaction():
            if self._file.one("SELECT 1 FROM closing"):
                raise LedgerError(f"{self.path}: {CLOSED}", "Nothing was released")
            queries_left, answers_left = most_queries - self.spent()[0], most_answers - self.spent()[1]
            if len(rows) > queries_left or answered.sum() > answers_left:
                raise BudgetExceeded(
                    f"the batch needs {len(rows)} queries and {answered.sum()} answers,"
                    f" {queries_left} and {answers_left} are left"
                )
            last, previous = self._head()
            charge = last + 1, _now(), event, batch.parties
            link = batch_hash(self._meta["salt"], previous, *charge, rows)
            self._file.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?)", *charge, previous, link)
            self._file.executemany(
                "INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(row[0], last + 1, position, *row[1:]) for position, row in enumerate(rows)],
            )
            self._file.execute("DELETE FROM checks WHERE queries = ?", canonical_digest(list(batch.query_ids)))
            # what earlier sessions charged stays
            paid_for = f"SELECT number FROM attempts WHERE session IN ('', ({_LAST_SESSION}))"
            drop = f"DELETE FROM voted WHERE query_id = ? AND attempt IN ({paid_for})"
            self._file.executemany(drop, [row[:1] for row in rows])
            old = "number < (SELECT MAX(number) FROM attempts) AND number NOT IN (SELECT attempt FROM voted)"
            self._file.execute(f"DELETE FROM attempts WHERE {old}")

    def close_with(self, result: str) -> None:
        """Record the one closing, JSON text, and end the chain with it; durable when this returns. Raises LedgerError
        where the ledger is closed already."""
        with self._file.transaction():
            _, previous = self._head()
            moment = _now()
            link = chain_link([previous, "closing", moment, result])
            self._file.execute("INSERT INTO closing VALUES (1, ?, ?, ?, ?)", moment, result, previous, link)

    def closing(self) -> str | None:
        """What the ledger was closed with, or None. Raises LedgerError where that is not the end of the chain."""
        row = self._file.one("SELECT at, result, previous, hash FROM closing")
        if row is None:
            return None
        moment, result, previous, link = row
        if previous != self._head()[1] or link != chain_link([previous, "closing", moment, result]):
            raise LedgerError(f"ledger {self.path}: the hash chain is broken at the closing", "Do not trust it")
        return result

    def position(self) -> LedgerPosition:
        """For the parties, who do not follow a ledger that has gone back."""
        batch, head = self._head()
        return LedgerPosition(ledger=self.id, batch=batch, head=head)

    def _head(self) -> tuple[int, str]:
        for seq, link in self._file.execute("SELECT seq, hash FROM batches ORDER BY seq DESC LIMIT 1"):
            return seq, link
        return 0, GENESIS

    def batches(self) -> list[Batch]:
        """All batches in order. Raises LedgerError where the hash chain is broken."""
        found, previous = [], GENESIS
        for seq, moment, event, parties, before, link in self._file.execute("SELECT * FROM batches ORDER BY seq"):
            rows = self._file.execute(f"SELECT {_ROWS}", seq)
            right = batch_hash(self._meta["salt"], previous, seq, moment, event, parties, rows)
            if (before, link) != (previous, right):
                raise LedgerError(f"ledger {self.path}: the hash chain is broken at batch {seq}", "Do not trust it")
            previous = link
            batch = Batch(
                event=json.loads(event),
                parties=parties,
                query_ids=tuple(row[0] for row in rows),
                labels=np.array([row[2] for row in rows], dtype=np.int64),
                reinforced=np.array([row[1] == Outcome.REINFORCED for row in rows], dtype=bool),
                counts=matrix_of([row[3] for row in rows], HISTOGRAM),
                histogram=matrix_of([row[4] for row in rows], HISTOGRAM),
                probabilities=matrix_of([row[5] for row in rows], PROBABILITIES),
            )
            found.append(batch)
        return found

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that is read within is one state of the file, whatever a coordinator commits meanwhile."""
        self._file.execute("BEGIN")
        try:
            yield
        finally:
            self._file.execute("ROLLBACK")

    def uncharged(self) -> int:
        """Releases without a batch, which the chain does not cover."""
        return self._file.execute("SELECT COUNT(*) FROM releases WHERE seq NOT IN (SELECT seq FROM batches)")[0][0]

    def close(self) -> None:
        self._file.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def stored_config(path: Path) -> tuple[str, str]:
    """Hash and JSON of the configuration that a ledger was made with. Raises LedgerError."""
    with closing(Database(path, read_only=True)) as file:
        meta = dict(file.execute("SELECT key, value FROM meta"))
    try:
        return meta["federation"], meta["config"]
    except KeyError:
        raise LedgerError(
            f"ledger {path} does not say which federation it is of", "Restore its newest backup"
        ) from None
