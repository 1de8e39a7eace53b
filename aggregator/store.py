"""What the second aggregator remembers, on its own disk: federations, sessions, and every half of a sum that it gave.

One SQLite file, mode 0600. A message is one transaction, committed before its reply leaves: whatever process serves the
next one finds either all of it or nothing. What it holds of a session is a share of a sum, which alone says nothing,
and the seed of its keys, which is overwritten (`secure_delete`) when the half is given or the session is given up.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from consilium.protocol.errors import LedgerError
from consilium.protocol.files import committed
from consilium.protocol.messages import Terms

FORMAT = 1
"""In SQLite's `user_version`."""
TABLES = (
    "CREATE TABLE IF NOT EXISTS terms (federation TEXT PRIMARY KEY, content TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS sessions (sid TEXT PRIMARY KEY, terms BLOB NOT NULL, ids BLOB NOT NULL, state BLOB)",
    "CREATE TABLE IF NOT EXISTS given (query BLOB PRIMARY KEY, rounds INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS charged (federation TEXT, round INTEGER, queries INTEGER NOT NULL,"
    " PRIMARY KEY (federation, round)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS opened (sid TEXT PRIMARY KEY, moment REAL NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS records (sid TEXT PRIMARY KEY, record BLOB NOT NULL, signature BLOB NOT NULL)",
)
ID_BYTES = 32
KEY_OF_TERMS = " || ' ' || ".join(
    f"json_extract(CAST(terms AS TEXT), '$.{name}')" for name in ("federation", "query_set", "round")
)
SAME_KEY = f"SELECT {KEY_OF_TERMS} FROM (SELECT ? AS terms)"
MOST_VARIABLES = 500
"""Of one statement; SQLite before 3.32 takes 999."""


@dataclass(frozen=True)
class OpenSession:
    """terms: canonical bytes. ids: of its queries, hex, in order. state: of the protocol's helper; None where the
    session was given up, and its keys are deleted."""

    terms: bytes
    ids: tuple[str, ...] = field(repr=False)
    state: bytes | None = field(repr=False)


class GivenSums:
    """All reads and writes of one message."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def terms(self, federation: str) -> Terms | None:
        """Of a federation that was introduced. Raises LedgerError."""
        row = self._connection.execute("SELECT content FROM terms WHERE federation = ?", (federation,)).fetchone()
        return None if row is None else _terms(row[0])

    def keep_terms(self, terms: Terms) -> None:
        """Keep them; those that are kept already stay."""
        row = (terms.federation, terms.model_dump_json())
        self._connection.execute("INSERT OR IGNORE INTO terms VALUES (?, ?)", row)

    def other_promises(self, federation: str) -> list[str]:
        """What all other federations that gave a sum have promised. Raises LedgerError."""
        rows = self._connection.execute(
            "SELECT content FROM terms WHERE federation != ? AND federation IN (SELECT federation FROM charged)",
            (federation,),
        )
        return [_terms(content).promise for (content,) in rows]

    def session(self, sid: str) -> OpenSession | None:
        """A session that was opened."""
        row = self._connection.execute("SELECT terms, ids, state FROM sessions WHERE sid = ?", (sid,)).fetchone()
        if row is None:
            return None
        return OpenSession(row[0], _ids(row[1]), row[2])

    def open(self, sid: str, terms: bytes, ids: Sequence[str], moment: float) -> None:
        """Begin a session. Others on the same queries in the same round, which have given nothing, are given up."""
        self._connection.execute(
            f"UPDATE sessions SET state = NULL WHERE {KEY_OF_TERMS} = ({SAME_KEY})"
            " AND sid NOT IN (SELECT sid FROM records)",
            (terms,),
        )
        row = (sid, terms, bytes.fromhex("".join(ids)))
        self._connection.execute("INSERT INTO sessions (sid, terms, ids) VALUES (?, ?, ?)", row)
        self._connection.execute("INSERT INTO opened VALUES (?, ?)", (sid, moment))

    def erase_before(self, moment: float) -> None:
        """Give up all sessions that were opened before and have given nothing. Of the others a sealed answer is left,
        without a key, for a coordinator that has not got it."""
        self._connection.execute(
            "UPDATE sessions SET state = NULL WHERE state IS NOT NULL"
            " AND sid IN (SELECT sid FROM opened WHERE moment < ?) AND sid NOT IN (SELECT sid FROM records)",
            (moment,),
        )

    def save(self, sid: str, state: bytes) -> None:
        """The state of the protocol's helper."""
        self._connection.execute("UPDATE sessions SET state = ? WHERE sid = ?", (state, sid))

    def in_sums(self, ids: Iterable[str], rounds: int) -> int:
        """How many of these queries are in a sum that was given, in one of these rounds, a set of bits."""
        return self._count(ids, f"rounds & {rounds:d}")

    def known(self, ids: Iterable[str]) -> int:
        """How many of these queries are in any sum that was given."""
        return self._count(ids, "1")

    def _count(self, ids: Iterable[str], condition: str) -> int:
        keys, count = [bytes.fromhex(query_id) for query_id in ids], 0
        for start in range(0, len(keys), MOST_VARIABLES):
            part = keys[start : start + MOST_VARIABLES]
            statement = f"SELECT COUNT(*) FROM given WHERE {condition} AND query IN ({','.join('?' * len(part))})"
            count += self._connection.execute(statement, part).fetchone()[0]
        return count

    def answered(self) -> int:
        """Queries ever in a sum that was given."""
        return self._connection.execute("SELECT COUNT(*) FROM given").fetchone()[0]

    def charged(self, federation: str, round: int) -> int:
        """Queries in sums of this round that were given."""
        row = self._connection.execute(
            "SELECT queries FROM charged WHERE federation = ? AND round = ?", (federation, round)
        ).fetchone()
        return 0 if row is None else row[0]

    def charge(self, federation: str, round: int, ids: Iterable[str], rounds: int) -> None:
        """A sum on these queries is about to be given."""
        keys = [bytes.fromhex(query_id) for query_id in ids]
        self._connection.execute(
            "INSERT INTO charged VALUES (?, ?, ?)"
            " ON CONFLICT (federation, round) DO UPDATE SET queries = queries + excluded.queries",
            (federation, round, len(keys)),
        )
        self._connection.executemany(
            "INSERT INTO given VALUES (?, ?) ON CONFLICT (query) DO UPDATE SET rounds = rounds | excluded.rounds",
            ((key, rounds) for key in keys),
        )

    def record(self, sid: str) -> tuple[bytes, bytes] | None:
        """What was signed when the half of this sum was given, and the signature."""
        return self._connection.execute("SELECT record, signature FROM records WHERE sid = ?", (sid,)).fetchone()

    def signed(self, federation: str) -> int:
        """Sums of this federation of which the half was given."""
        terms = "json_extract(CAST(terms AS TEXT), '$.federation')"
        count = f"SELECT COUNT(*) FROM records JOIN sessions USING (sid) WHERE {terms} = ?"
        return self._connection.execute(count, (federation,)).fetchone()[0]

    def keep_record(self, sid: str, record: bytes, signature: bytes) -> None:
        """Keep what is signed; it is signed once."""
        self._connection.execute("INSERT INTO records VALUES (?, ?, ?)", (sid, record, signature))


def _ids(content: bytes) -> tuple[str, ...]:
    return tuple(content[place : place + ID_BYTES].hex() for place in range(0, len(content), ID_BYTES))


def _terms(content: str | bytes) -> Terms:
    try:
        return Terms.model_validate_json(content)
    except ValidationError:
        raise LedgerError(
            "given.db: terms of a federation in it are damaged",
            "Restore the newest backup of state/; without it nothing is given",
        ) from None


class GivenStore:
    """The file `given.db`; made on first use."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def transaction(self) -> Iterator[GivenSums]:
        """One transaction, committed at the end and undone by any error.

        Raises
        ------
        LedgerError : the file cannot be read or written, or has another format.
        """
        with committed(self._path, TABLES, FORMAT) as connection:
            yield GivenSums(connection)
