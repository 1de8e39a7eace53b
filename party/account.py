"""Where a party's count is kept: a file of its own (`SpendFile`), or with those of many simulated parties.

Nothing is decided here: `party.spend` has the rules, and sees an account within one transaction at a time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from pydantic import ValidationError

from consilium.protocol.files import check_format
from consilium.protocol.inheritance import ACCOUNT_FILE, Inheritance
from consilium.protocol.messages import LedgerPosition
from consilium.protocol.refusals import Refused, Rule

FORMAT = 1
"""Of spend.db, sessions.db and uploads.db."""


TABLES = (
    "CREATE TABLE IF NOT EXISTS given (teachers TEXT, phase INTEGER, query BLOB, federation TEXT NOT NULL,"
    " PRIMARY KEY (teachers, phase, query)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS promises (federation TEXT PRIMARY KEY, event TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS terms (federation TEXT PRIMARY KEY, content TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ledgers (federation TEXT PRIMARY KEY, ledger TEXT NOT NULL, batch INTEGER NOT NULL,"
    " head TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS asked_at (federation TEXT PRIMARY KEY, batch INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS starts (federation TEXT PRIMARY KEY, enrolled INTEGER NOT NULL,"
    " enrolled_token TEXT NOT NULL, voted INTEGER NOT NULL, voted_token TEXT NOT NULL)",
)
INHERITED = "CREATE TABLE IF NOT EXISTS inherited (federation TEXT PRIMARY KEY, queries INTEGER NOT NULL)"
"""What the party's patients answered under names before its own, at most: see `protocol.inheritance`."""
GIVE = (
    "WITH RECURSIVE row (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM row WHERE i + 1 < ?)"
    " INSERT INTO given (teachers, phase, query, federation) SELECT ?, ?, substr(?, 32 * i + 1, 32), ? FROM row"
)
"""Query ids, one after the other in one value: many simulated parties write down hundreds each."""
ANSWERED = (
    "SELECT COUNT(*) FROM given AS one WHERE federation != ? AND (phase = 1 OR NOT EXISTS"
    " (SELECT 1 FROM given WHERE teachers = one.teachers AND phase = 1 AND query = one.query))"
)


class Position(NamedTuple):
    """Where a federation's ledger last stood. ledger: its id. head: hash of its last batch."""

    ledger: str
    batch: int
    head: str


class Starts(NamedTuple):
    """Of coordinators with one ledger. enrolled, enrolled_token: number and token of the start that enrolled the party
    last. voted, voted_token: of the one that it gave votes to last; 0 and empty where there is none."""

    enrolled: int = 0
    enrolled_token: str = ""
    voted: int = 0
    voted_token: str = ""


class Account(Protocol):
    """What one party has given, over all federations, as it stands within a transaction. Federations by their digest;
    query ids as 32 bytes. What is `first` is kept only where there is nothing yet."""

    def terms(self, federation: str) -> str | None: ...

    def first_terms(self, federation: str, text: str) -> None: ...

    def position(self, federation: str) -> Position | None: ...

    def first_position(self, federation: str, ledger: str) -> None:
        """A ledger that stands at its beginning."""
        ...

    def move(self, federation: str, position: LedgerPosition) -> None:
        """The ledger stands there, where votes were asked for."""
        ...

    def asked_at(self, federation: str) -> int | None:
        """The last batch when votes were asked for."""
        ...

    def starts(self, federation: str) -> Starts: ...

    def keep_starts(self, federation: str, starts: Starts) -> None: ...

    def promise(self, federation: str) -> str | None: ...

    def first_promise(self, federation: str, text: str) -> None: ...

    def other_promises(self, federation: str) -> list[str]:
        """Of all other federations that votes were given in."""
        ...

    def answers_of(self, teachers: str, phase: int) -> Collection[bytes]:
        """Queries that these teachers answered, in whatever federation."""
        ...

    def give(self, federation: str, teachers: str, phase: int, queries: frozenset[bytes]) -> None:
        """None of them was given before."""
        ...

    def answered(self, but: str = "") -> int:
        """Queries ever answered, each once for the same teachers: in phase 1, and in phase 2 alone; but for
        those of this federation."""
        ...

    def answered_in(self, federation: str, phase: int) -> int: ...


class SpendBook(Protocol):
    """Where an account is kept."""

    def exists(self) -> bool:
        """Whether anything was ever written."""
        ...

    def transaction(self) -> AbstractContextManager[Account]:
        """The account; what was changed is there for good at the end, and undone by any error.

        Raises
        ------
        Refused (POLICY) : it cannot be read or written. LedgerError : another format.
        """
        ...


class SpendFile:
    """The file `spend.db`; made on first use. durable: see `party.home.Home`."""

    def __init__(self, path: Path, durable: bool = True) -> None:
        self._path, self._synchronous = path, "FULL" if durable else "OFF"
        self._inherited = path.parent.parent / ACCOUNT_FILE

    def exists(self) -> bool:
        """See `SpendBook`."""
        return self._path.exists() or self._inherited.exists()

    @contextmanager
    def transaction(self) -> Iterator[Account]:
        """See `SpendBook`."""
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise Refused(Rule.POLICY, detail=f"{self._path}: {error}") from None
        try:
            with closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as connection:
                connection.execute(f"PRAGMA synchronous={self._synchronous}")
                connection.execute("BEGIN IMMEDIATE")  # closing the connection undoes it, unless it is committed
                check_format(connection, self._path, FORMAT)
                for statement in (*TABLES, INHERITED):
                    connection.execute(statement)
                _inherit(connection, self._inherited)
                yield _Stored(connection)
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise Refused(Rule.POLICY, detail=f"{self._path}: {error}") from None


def _inherit(connection: sqlite3.Connection, path: Path) -> None:
    """Take over what a kit's account says; again does nothing. Raises Refused (POLICY) where it cannot be read."""
    if not path.exists():
        return
    try:
        inherited = Inheritance.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise Refused(Rule.POLICY, detail=f"{path} cannot be read") from None
    for earlier in inherited.federations:
        connection.execute("INSERT OR IGNORE INTO promises VALUES (?, ?)", (earlier.federation, earlier.promise))
        connection.execute("INSERT OR IGNORE INTO inherited VALUES (?, ?)", (earlier.federation, earlier.queries))


class _Stored:
    """See `Account`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _one(self, statement: str, *values: object) -> tuple | None:
        return self._connection.execute(statement, values).fetchone()

    def terms(self, federation: str) -> str | None:
        row = self._one("SELECT content FROM terms WHERE federation = ?", federation)
        return None if row is None else row[0]

    def first_terms(self, federation: str, text: str) -> None:
        self._connection.execute("INSERT OR IGNORE INTO terms VALUES (?, ?)", (federation, text))

    def position(self, federation: str) -> Position | None:
        row = self._one("SELECT ledger, batch, head FROM ledgers WHERE federation = ?", federation)
        return None if row is None else Position(*row)

    def first_position(self, federation: str, ledger: str) -> None:
        self._connection.execute("INSERT OR IGNORE INTO ledgers VALUES (?, ?, 0, ?)", (federation, ledger, "0" * 64))

    def move(self, federation: str, position: LedgerPosition) -> None:
        self._connection.execute(
            "UPDATE ledgers SET batch = ?, head = ? WHERE federation = ?", (position.batch, position.head, federation)
        )
        self._connection.execute("INSERT OR REPLACE INTO asked_at VALUES (?, ?)", (federation, position.batch))

    def asked_at(self, federation: str) -> int | None:
        row = self._one("SELECT batch FROM asked_at WHERE federation = ?", federation)
        return None if row is None else row[0]

    def starts(self, federation: str) -> Starts:
        row = self._one("SELECT * FROM starts WHERE federation = ?", federation)
        return Starts() if row is None else Starts(*row[1:])

    def keep_starts(self, federation: str, starts: Starts) -> None:
        self._connection.execute("INSERT OR REPLACE INTO starts VALUES (?, ?, ?, ?, ?)", (federation, *starts))

    def promise(self, federation: str) -> str | None:
        row = self._one("SELECT event FROM promises WHERE federation = ?", federation)
        return None if row is None else row[0]

    def first_promise(self, federation: str, text: str) -> None:
        self._connection.execute("INSERT OR IGNORE INTO promises VALUES (?, ?)", (federation, text))

    def other_promises(self, federation: str) -> list[str]:
        rows = self._connection.execute("SELECT event FROM promises WHERE federation != ?", (federation,))
        return [event for (event,) in rows]

    def answers_of(self, teachers: str, phase: int) -> Collection[bytes]:
        rows = self._connection.execute("SELECT query FROM given WHERE teachers = ? AND phase = ?", (teachers, phase))
        return {query for (query,) in rows}

    def give(self, federation: str, teachers: str, phase: int, queries: frozenset[bytes]) -> None:
        together = b"".join(sorted(queries))
        self._connection.execute(GIVE, (len(queries), teachers, phase, together, federation))

    def answered(self, but: str = "") -> int:
        inherited = self._count("SELECT COALESCE(SUM(queries), 0) FROM inherited")
        return inherited + self._count(ANSWERED, but)

    def answered_in(self, federation: str, phase: int) -> int:
        return self._count("SELECT COUNT(*) FROM given WHERE federation = ? AND phase = ?", federation, phase)

    def _count(self, statement: str, *values: object) -> int:
        return self._connection.execute(statement, values).fetchone()[0]
