"""What a party remembers of hidden sums, on its own disk, and what it never gives twice.

sessions.db holds its masked sessions, and every query whose sum it has helped to unmask. uploads.db holds the bytes of
its verified votes, so that a repeated request gets the same ones. Mode 0600 both. A stage is one transaction, committed
before its reply leaves: whatever process serves the next message finds either the whole stage or nothing of it. Secrets
are overwritten when they are no longer needed (`secure_delete`); what the disk itself keeps is beyond a program.

A party helps to unmask a sum on a query once.
Queries are checked early, so that a refusal comes before work, and again in the transaction that records them: the one
in which the shares are given that unmask the sum. Before that nothing is used up. Unmasking needs the shares of t
parties; two groups of t have an honest party in common (2t > n + c), and that one refuses the second time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import numpy as np

from consilium.party.account import FORMAT
from consilium.protocol.files import begun, committed
from consilium.protocol.queries import query_ids
from consilium.sums.errors import AlreadyAnswered, Replay
from consilium.sums.masks.messages import Stage
from consilium.sums.masks.party import Memory, matrix
from consilium.sums.masks.terms import MaskedTerms
from consilium.sums.packing import Value, pack, unpack

TABLES = (
    "CREATE TABLE IF NOT EXISTS sessions (sid BLOB PRIMARY KEY, federation TEXT NOT NULL, query_set TEXT NOT NULL,"
    " phases INTEGER NOT NULL, state TEXT NOT NULL, started REAL NOT NULL, descriptor BLOB NOT NULL, memory BLOB)",
    "CREATE TABLE IF NOT EXISTS replies (sid BLOB, stage TEXT, request BLOB NOT NULL, reply BLOB,"
    " PRIMARY KEY (sid, stage))",
    "CREATE TABLE IF NOT EXISTS released (query BLOB PRIMARY KEY, phases INTEGER NOT NULL) WITHOUT ROWID",
)
SESSIONS = "sessions.db"
MOST_VARIABLES = 500
"""Of one statement; SQLite before 3.32 takes 999."""


COLUMNS = "sid, federation, query_set, phases, state, started, descriptor, memory"


class SessionStatus(StrEnum):
    """Where a session is at this party. There is no row before ADVERTISED: that is idle."""

    ADVERTISED = "advertised"
    SHARED = "shared"
    MASKED = "masked"
    CONSISTENT = "consistent"
    DONE = "done"
    ABORTED = "aborted"


@dataclass(frozen=True)
class StoredSession:
    """What is known of one session.

    phases: bits, in which it uses up its queries. memory: secrets, never printed; empty once they are erased.
    """

    sid: bytes
    federation: str
    query_set: str
    phases: int
    state: SessionStatus
    started: float
    descriptor: bytes
    memory: dict[str, Value] = field(repr=False)


@dataclass(frozen=True)
class AnsweredStage:
    """A stage that is done: digest of its request, and the reply's bytes, None once they are erased."""

    request: bytes
    reply: bytes | None = field(repr=False)


def _session(row: tuple) -> StoredSession:
    sid, federation, query_set, phases, state, started, descriptor, memory = row
    return StoredSession(
        sid, federation, query_set, phases, SessionStatus(state), started, descriptor, unpack(memory) if memory else {}
    )


class Transaction:
    """All reads and writes of one stage."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def session(self, sid: bytes) -> StoredSession | None:
        """The session, or None if it was never begun here."""
        row = self._connection.execute(f"SELECT {COLUMNS} FROM sessions WHERE sid = ?", (sid,)).fetchone()
        return None if row is None else _session(row)

    def begin(self, session: StoredSession) -> None:
        """Write a new session."""
        self._connection.execute(
            f"INSERT INTO sessions ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                session.sid,
                session.federation,
                session.query_set,
                session.phases,
                session.state,
                session.started,
                session.descriptor,
                pack(session.memory),
            ),
        )

    def answered(self, sid: bytes, stage: Stage) -> AnsweredStage | None:
        """What was answered in this stage, or None."""
        row = self._connection.execute(
            "SELECT request, reply FROM replies WHERE sid = ? AND stage = ?", (sid, stage)
        ).fetchone()
        return None if row is None else AnsweredStage(*row)

    def answer(self, sid: bytes, stage: Stage, request: bytes, reply: bytes) -> None:
        """Keep the reply of a stage; a stage is answered once."""
        self._connection.execute("INSERT INTO replies VALUES (?, ?, ?, ?)", (sid, stage, request, reply))

    def advance(self, sid: bytes, state: SessionStatus, memory: Mapping[str, Value]) -> None:
        """Go to a state with a new memory; what the old one held is overwritten."""
        self._connection.execute(
            "UPDATE sessions SET state = ?, memory = ? WHERE sid = ?", (state, pack(memory) if memory else None, sid)
        )

    def erase(self, sid: bytes) -> None:
        """Overwrite a session's secrets and replies; one that is not done becomes ABORTED."""
        self._connection.execute(
            "UPDATE sessions SET memory = NULL, state = CASE state WHEN ? THEN state ELSE ? END WHERE sid = ?",
            (SessionStatus.DONE, SessionStatus.ABORTED, sid),
        )
        self._connection.execute("UPDATE replies SET reply = NULL WHERE sid = ?", (sid,))

    def live(self) -> list[StoredSession]:
        """Sessions of which something is left to erase."""
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM sessions WHERE memory IS NOT NULL OR EXISTS"
            " (SELECT 1 FROM replies WHERE replies.sid = sessions.sid AND reply IS NOT NULL)"
        )
        return [_session(row) for row in rows]

    def query_set_released(self, query_set: str, phases: int) -> bool:
        """Whether shares were given that unmask a sum on this very query set, in one of these phases."""
        row = self._connection.execute(
            "SELECT 1 FROM sessions JOIN replies USING (sid) WHERE stage = ? AND query_set = ? AND phases & ?",
            (Stage.UNMASK, query_set, phases),
        ).fetchone()
        return row is not None

    def released(self, queries: np.ndarray, phases: int) -> int:
        """How many of the queries (ids, uint8 (n, 32)) are in a sum that was helped to be unmasked, in one of these
        phases; `phases` is a set of bits."""
        ids = [query.tobytes() for query in queries]
        count = 0
        for start in range(0, len(ids), MOST_VARIABLES):
            part = ids[start : start + MOST_VARIABLES]
            statement = f"SELECT COUNT(*) FROM released WHERE phases & ? AND query IN ({','.join('?' * len(part))})"
            count += self._connection.execute(statement, (phases, *part)).fetchone()[0]
        return count

    def release(self, queries: np.ndarray, phases: int) -> None:
        """Record that shares leave which unmask a sum on these queries."""
        self._connection.executemany(
            "INSERT INTO released VALUES (?, ?) ON CONFLICT (query) DO UPDATE SET phases = phases | excluded.phases",
            ((query.tobytes(), phases) for query in queries),
        )

    def commit(self) -> None:
        """Make all of it durable."""
        self._connection.execute("COMMIT")


class SessionStore:
    """The file. It is made on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """One transaction, undone unless it is committed. Raises LedgerError (`protocol.files.begun`)."""
        with begun(self.path, TABLES, FORMAT) as connection:
            yield Transaction(connection)


TABLE = (
    "CREATE TABLE IF NOT EXISTS uploads (sid TEXT PRIMARY KEY, query_set TEXT NOT NULL, phase INTEGER NOT NULL,"
    " started REAL NOT NULL, request BLOB NOT NULL, upload BLOB)"
)


@dataclass(frozen=True)
class KeptUpload:
    """request: digest of what was asked. upload: None once its bytes are erased. Never printed."""

    request: bytes
    upload: bytes | None = field(repr=False)


class Uploads(Protocol):
    """Where a party keeps the verified votes that it gave."""

    def find(self, sid: str) -> KeptUpload | None:
        """What was given in a session."""
        ...

    def sessions_on(self, query_set: str, phase: int) -> int:
        """In how many sessions votes on this very query set were given, in this phase."""
        ...

    def keep(
        self, sid: str, query_set: str, phase: int, started: float, request: bytes, upload: bytes
    ) -> KeptUpload | None:
        """Keep the upload, unless another process has given one meanwhile; what is kept, there for good."""
        ...

    def erase_before(self, moment: float) -> None:
        """Overwrite the bytes of sessions that began before."""
        ...


class UploadStore:
    """See `Uploads`: in the file `uploads.db`, made on first use.

    Raises
    ------
    LedgerError : it cannot be read or written, or has another format.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, sid: str) -> KeptUpload | None:
        """What was given in a session."""
        with self._transaction() as connection:
            return _find(connection, sid)

    def sessions_on(self, query_set: str, phase: int) -> int:
        """In how many sessions votes on this very query set were given, in this phase."""
        statement = "SELECT COUNT(*) FROM uploads WHERE query_set = ? AND phase = ?"
        with self._transaction() as connection:
            return connection.execute(statement, (query_set, phase)).fetchone()[0]

    def keep(
        self, sid: str, query_set: str, phase: int, started: float, request: bytes, upload: bytes
    ) -> KeptUpload | None:
        """Keep the upload, unless another process has given one meanwhile; what is kept, on disk when this returns."""
        row = (sid, query_set, phase, started, request, upload)
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO uploads VALUES (?, ?, ?, ?, ?, ?)", row)
            return _find(connection, sid)

    def erase_before(self, moment: float) -> None:
        """Overwrite the bytes of sessions that began before."""
        with self._transaction() as connection:
            connection.execute("UPDATE uploads SET upload = NULL WHERE started < ? AND upload IS NOT NULL", (moment,))

    def _transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        return committed(self._path, (TABLE,), FORMAT)


def _find(connection: sqlite3.Connection, sid: str) -> KeptUpload | None:
    row = connection.execute("SELECT request, upload FROM uploads WHERE sid = ?", (sid,)).fetchone()
    return None if row is None else KeptUpload(*row)


def phases_of(terms: MaskedTerms) -> int:
    """The bit of the phase in which a query is used up."""
    return 1 << (terms.phase - 1)


def check_query_set(tx: Transaction, terms: MaskedTerms) -> None:
    """Raise AlreadyAnswered if this very set was answered; all that can be told before the queries are here."""
    if tx.query_set_released(terms.query_set, phases_of(terms)):
        raise AlreadyAnswered(terms.queries, terms.queries)


def ids_of(queries: np.ndarray) -> np.ndarray:
    """Ids of canonical queries, uint8 (queries, 32). Raises Replay if one stands twice: it would be answered twice."""
    ids = query_ids(queries)
    if len(set(ids)) < len(ids):
        raise Replay("a query stands twice in the set")
    return np.frombuffer(bytes.fromhex("".join(ids)), dtype=np.uint8).reshape(len(ids), -1)


def check_unanswered(tx: Transaction, terms: MaskedTerms, ids: np.ndarray) -> None:
    """Raise AlreadyAnswered if any of the queries was answered, in whatever set, session or federation."""
    answered = tx.released(ids, phases_of(terms))
    if answered:
        raise AlreadyAnswered(answered, len(ids))


def use_up(tx: Transaction, terms: MaskedTerms, memory: Memory) -> None:
    """Check once more, and record: shares that unmask the session's sum leave with this transaction.

    Raises
    ------
    AlreadyAnswered : another session was unmasked meanwhile.
    """
    ids = matrix(memory, "queries")
    check_unanswered(tx, terms, ids)
    tx.release(ids, phases_of(terms))
