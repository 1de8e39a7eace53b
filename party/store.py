"""All that a party remembers, in one SQLite database: a file of its own, or memory.

A message is one transaction, there for good before its reply leaves: whatever process serves the next one finds either
the whole message or nothing of it. What is deleted is overwritten (`secure_delete`); what the disk itself keeps of old
blocks is beyond a program's reach. Nothing is decided here: `party.account` has the rules of what may be given, and
`consilium.sums` those of hidden sums."""

from __future__ import annotations

import hashlib
import pickle
import secrets
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Self

from consilium.node.limits import EPSILONS
from consilium.node.signed import EarlierFederation
from consilium.party.voting import TeacherSet
from consilium.protocol.databases import Database
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.modes import MODES

FORMAT = 1
SECRET_BYTES = 32
TABLES = (
    "federations (federation TEXT PRIMARY KEY, terms TEXT NOT NULL, promise TEXT NOT NULL, inherited INTEGER NOT NULL,"
    " ledger TEXT NOT NULL, batch INTEGER NOT NULL, head TEXT NOT NULL, asked INTEGER NOT NULL,"
    " enrolled INTEGER NOT NULL, enrolled_token TEXT NOT NULL, voted INTEGER NOT NULL, voted_token TEXT NOT NULL)",
    "given (federation TEXT NOT NULL, teachers TEXT NOT NULL, round INTEGER NOT NULL, queries BLOB NOT NULL,"
    " further INTEGER NOT NULL)",
    "teachers (federation TEXT PRIMARY KEY, digest TEXT NOT NULL, content BLOB NOT NULL)",
    "secret (secret BLOB NOT NULL)",
    EPSILONS,
    *(table for mode in MODES.values() for table in mode.tables),
)
"""promise: of federations that votes were given in. inherited: queries answered under the party's names before, at
most. given: ids of queries, 32 bytes each, that teachers answered, and how many of them count as further ones for the
party (`party.account`)."""


@dataclass(frozen=True)
class KnownFederation:
    """What is known of one. terms, promise: as text, empty where there is none yet. ledger, batch, head: where its
    ledger last stood. asked: one more than the batch at which votes were asked for last; 0: never. enrolled,
    enrolled_token: number and token of the coordinator's start that enrolled the party last. voted, voted_token: of the
    one that it gave votes to last."""

    federation: str
    terms: str = ""
    promise: str = ""
    inherited: int = 0
    ledger: str = ""
    batch: int = 0
    head: str = "0" * 64
    asked: int = 0
    enrolled: int = 0
    enrolled_token: str = ""
    voted: int = 0
    voted_token: str = ""


class Store(Database):
    """See above. Of a file, mode 0600; it is made where it is missing. Open it once in a process."""

    def __init__(self, path: Path | None, durable: bool = True, wait: float | None = None) -> None:
        """Raises LedgerError, as every method does: see `Database`, `Database.make`."""
        self._teachers: dict[str, TeacherSet] = {}
        super().__init__(path, durable=durable, wait=wait)
        if path is not None and self.execute("PRAGMA user_version") != [(FORMAT,)]:
            self.make(TABLES, FORMAT)  # not each time: whoever only reads waits for nobody who writes

    @classmethod
    def in_memory(cls, content: bytes = b"") -> Self:
        """One that ends with the process. content: of another, see `content`."""
        store = cls(None)
        store._connection.deserialize(content or _empty())
        return store

    def __repr__(self) -> str:
        return f"Store({str(self.path or ':memory:')!r})"

    def content(self) -> bytes:
        """All of it, for `in_memory`. Secret."""
        with self._lock:
            return self._connection.serialize()

    def federation(self, federation: str) -> KnownFederation:
        """By its digest; an empty one where nothing is known of it."""
        rows = self.execute(f"SELECT {_COLUMNS} FROM federations WHERE federation = ?", federation)
        return KnownFederation(*rows[0]) if rows else KnownFederation(federation)

    def keep_federation(self, federation: KnownFederation) -> None:
        """In place of what was known."""
        marks = ", ".join("?" * len(fields(KnownFederation)))
        self.execute(f"INSERT OR REPLACE INTO federations ({_COLUMNS}) VALUES ({marks})", *vars(federation).values())

    def other_promises(self, federation: str) -> tuple[str, ...]:
        """Of all other federations that votes were given in."""
        rows = self.execute("SELECT promise FROM federations WHERE federation != ? AND promise != ''", federation)
        return tuple(chain.from_iterable(rows))

    def inherit(self, federations: Iterable[EarlierFederation]) -> None:
        """Take over what the party's patients cost under names before; again does nothing."""
        for earlier in federations:
            with self.transaction():
                known = self.federation(earlier.digest)
                if not known.inherited:
                    promise = known.promise or earlier.promise
                    self.keep_federation(replace(known, promise=promise, inherited=earlier.queries))

    def answered(self, but: str = "") -> int:
        """Queries ever answered, each once for the same teachers; but for those of this federation."""
        inherited = "SELECT COALESCE(SUM(inherited), 0) FROM federations"
        further = "SELECT COALESCE(SUM(further), 0) FROM given WHERE federation != ?"
        return self.execute(f"SELECT ({inherited}) + ({further})", but)[0][0]

    def answered_in(self, federation: str, round: int) -> int:
        """Queries answered in this round of this federation."""
        statement = "SELECT COALESCE(SUM(length(queries)), 0) / 32 FROM given WHERE federation = ? AND round = ?"
        return self.execute(statement, federation, round)[0][0]

    def answers_of(self, teachers: str) -> list[tuple[int, bytes]]:
        """Rounds, and ids of the queries that these teachers answered in them, in whatever federation."""
        return self.execute("SELECT round, queries FROM given WHERE teachers = ?", teachers)

    def give(self, federation: str, teachers: str, round: int, queries: bytes, further: int) -> None:
        """See `TABLES`. None of the queries was given before."""
        self.execute("INSERT INTO given VALUES (?, ?, ?, ?, ?)", federation, teachers, round, queries, further)

    def teachers(self, federation: str) -> TeacherSet:
        """Of an earlier lesson. Refused (NOT_TRAINED) if there are none, or what was written is damaged."""
        rows = self.execute("SELECT digest FROM teachers WHERE federation = ?", federation)
        if not rows:
            raise Refused(Rule.NOT_TRAINED, detail=f"{self.path}: nothing was trained for this federation")
        known = self._teachers.get(federation)
        if known is None or known.digest != rows[0][0]:
            known = self._teachers[federation] = self._read_teachers(federation)
        return known

    def _read_teachers(self, federation: str) -> TeacherSet:
        ((digest, content),) = self.execute("SELECT digest, content FROM teachers WHERE federation = ?", federation)
        if hashlib.sha256(content).hexdigest() != digest:
            raise Refused(Rule.NOT_TRAINED, detail=f"{self.path}: teachers are not what was written")
        try:
            return replace(pickle.loads(content), digest=digest)
        except Exception as error:  # what unpickling raises where another version wrote it is anything
            raise Refused(Rule.NOT_TRAINED, detail=f"{self.path}: {type(error).__name__}") from None

    def keep_teachers(self, federation: str, trained: TeacherSet) -> None:
        """For `teachers`, which gives them their digest."""
        content = pickle.dumps(trained)
        digest = hashlib.sha256(content).hexdigest()
        self.execute("INSERT OR REPLACE INTO teachers VALUES (?, ?, ?)", federation, digest, content)
        self._teachers[federation] = replace(trained, digest=digest)

    def forget_teachers(self) -> int:
        """Delete those of all federations; how many had some."""
        self._teachers.clear()
        return len(self.execute("DELETE FROM teachers RETURNING federation"))

    def secret(self) -> bytes | None:
        """What decides which row is in which shard; None where none was made yet."""
        row = self.one("SELECT secret FROM secret")
        return row[0] if row else None

    def own_secret(self) -> bytes:
        """The same, made of the system's entropy on first use. It never leaves the party."""
        with self.transaction():
            secret = self.secret()
            if secret is None:
                secret = secrets.token_bytes(SECRET_BYTES)
                self.execute("INSERT INTO secret VALUES (?)", secret)
            return secret


_COLUMNS = ", ".join(field.name for field in fields(KnownFederation))


@cache
def _empty() -> bytes:
    """A database without a row. Small pages: most tables of most parties in memory stay empty."""
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA page_size=1024")
    for table in TABLES:
        connection.execute(f"CREATE TABLE {table}")
    return connection.serialize()
