"""What the second aggregator remembers, on its own disk: federations, sessions, and every half of a sum that it gave.

One SQLite file, mode 0600. A message is one transaction, committed before its reply leaves: whatever process serves the
next one finds either all of it or nothing. What it holds of a session is a share of a sum, which alone says nothing,
and its key, which is overwritten (`secure_delete`) when the half is given or the session is given up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from consilium.node.limits import EPSILONS
from consilium.protocol.databases import Database, committed
from consilium.protocol.errors import LedgerError
from consilium.protocol.messages import Terms
from consilium.sums.verified.uploads import VerifiedTerms

FORMAT = 1
"""In SQLite's `user_version`."""
COLUMNS = ("terms", "ids", "key", "total", "codes", "met", "question", "answer", "record", "signature")
"""Of an `OpenSession`."""
TABLES = (
    "terms (federation TEXT PRIMARY KEY, content TEXT NOT NULL)",
    "sessions (sid TEXT PRIMARY KEY, federation TEXT, query_set TEXT, round INTEGER,"
    f" opened REAL, {', '.join(f'{name} BLOB' for name in COLUMNS)})",
    "given (query TEXT, round INTEGER, federation TEXT, PRIMARY KEY (query, round)) WITHOUT ROWID",
    EPSILONS,
)
ERASED = "UPDATE sessions SET key = X'', total = X'', codes = X'', met = X''"


@dataclass(frozen=True, repr=False)
class OpenSession:
    """terms: canonical bytes. ids: of its queries, hex, in order. key: private, of this session; empty where its half
    was given, or it was given up. total, codes, met: of the `Helper`, once it has checked something. question: digest
    of what got the half; answer, record, signature: what it got."""

    terms: bytes
    ids: list[str]
    key: bytes
    total: bytes = b""
    codes: bytes = b""
    met: bytes = b""
    question: bytes = b""
    answer: bytes = b""
    record: bytes = b""
    signature: bytes = b""


class GivenSums:
    """All reads and writes of one message."""

    def __init__(self, file: Database) -> None:
        self._file, self.execute = file, file.execute

    def terms(self, federation: str) -> Terms | None:
        row = self._file.one("SELECT content FROM terms WHERE federation = ?", federation)
        return None if row is None else _terms(row[0])

    def keep_terms(self, terms: Terms) -> None:
        self.execute("INSERT OR IGNORE INTO terms VALUES (?, ?)", terms.federation, terms.model_dump_json())

    def other_promises(self, federation: str) -> list[str]:
        """What all other federations that gave a sum have promised. Raises LedgerError."""
        others = "federation != ? AND federation IN (SELECT federation FROM given)"
        rows = self.execute(f"SELECT content FROM terms WHERE {others}", federation)
        return [_terms(content).promise for (content,) in rows]

    def session(self, sid: str) -> OpenSession | None:
        row = self._file.one(f"SELECT {', '.join(COLUMNS)} FROM sessions WHERE sid = ?", sid)
        return None if row is None else OpenSession(row[0], json.loads(row[1]), *row[2:])

    def open(self, terms: VerifiedTerms, ids: Sequence[str], key: bytes, moment: float) -> OpenSession:
        """Begin a session. Others on the same queries in the same round, which have given nothing, are given up."""
        same = terms.federation, terms.query_set, terms.round
        self.execute(f"{ERASED} WHERE (federation, query_set, round) = (?, ?, ?)", *same)
        session = OpenSession(terms.canonical(), list(ids), key)
        row = terms.sid, *same, moment, *{**vars(session), "ids": json.dumps(ids)}.values()
        self.execute(f"INSERT INTO sessions VALUES ({', '.join('?' * len(row))})", *row)
        return session

    def erase_before(self, moment: float) -> None:
        """Give up all sessions that were opened before. Of those that gave their half a sealed answer is left, without
        a key, for a coordinator that has not got it."""
        self.execute(f"{ERASED} WHERE length(key) > 0 AND opened < ?", moment)

    def checked(self, sid: str, total: bytes, codes: bytes, met: bytes) -> None:
        self.execute("UPDATE sessions SET total = ?, codes = ?, met = ? WHERE sid = ?", total, codes, met, sid)

    def give(self, terms: VerifiedTerms, ids: Sequence[str], *given: bytes) -> None:
        """Its half is about to be given. given: question, answer, record and signature."""
        self.execute(f"{ERASED}, question = ?, answer = ?, record = ?, signature = ? WHERE sid = ?", *given, terms.sid)
        values = terms.round, terms.federation, json.dumps(ids)
        self.execute("INSERT INTO given SELECT value, ?, ? FROM json_each(?)", *values)

    def signed(self, federation: str) -> int:
        return self._count("sessions WHERE federation = ? AND length(record) > 0", federation)

    def given_in(self, federation: str, round: int) -> int:
        """Queries in sums of this round of this federation that were given."""
        return self._count("given WHERE federation = ? AND round = ?", federation, round)

    def given_of(self, ids: Sequence[str], round: int) -> int:
        """How many of these queries are in a sum of this round that was given, of whatever federation."""
        chosen = "given WHERE round = ? AND query IN (SELECT value FROM json_each(?))"
        return self._count(chosen, round, json.dumps(ids))

    def ever(self, ids: Sequence[str] = ()) -> int:
        """Queries ever in a sum that was given, and these."""
        return self._count("(SELECT query FROM given UNION SELECT value FROM json_each(?))", json.dumps(ids))

    def _count(self, rows: str, *values: object) -> int:
        return self.execute(f"SELECT COUNT(*) FROM {rows}", *values)[0][0]


def _terms(content: str) -> Terms:
    try:
        return Terms.model_validate_json(content)
    except ValidationError:
        raise LedgerError(
            "given.db: terms of a federation in it are damaged",
            "Restore the newest backup of state/; without it nothing is given",
        ) from None


class GivenStore:
    """The file `given.db`; made on first use."""

    def __init__(self, path: Path, wait: float | None = None) -> None:
        self._path, self._wait = path, wait

    @contextmanager
    def transaction(self) -> Iterator[GivenSums]:
        """One transaction, committed at the end and undone by any error. Raises LedgerError: the file cannot be read or
        written, or has another format."""
        with committed(self._path, TABLES, FORMAT, self._wait) as file:
            yield GivenSums(file)
