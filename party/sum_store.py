"""What a party remembers of hidden sums, and what it never gives twice: its masked sessions, every query whose sum it
has helped to unmask, and the bytes of its verified votes, so that a repeated request gets the same ones.

A stage is one transaction of the party's `Store`, committed before its reply leaves. Secrets are overwritten when they
are no longer needed.

A party helps to unmask a sum on a query once. Queries are checked early, so that a refusal comes before work, and again
in the transaction that records them: the one in which the shares are given that unmask the sum. Before that nothing is
used up. Unmasking needs the shares of t parties; two groups of t have an honest party in common (2t > n + c), and that
one refuses the second time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from consilium.party.store import Store
from consilium.protocol.queries import query_ids
from consilium.sums.errors import AlreadyAnswered, Replay
from consilium.sums.packing import Value, pack, unpack
from consilium.sums.secure.messages import Stage
from consilium.sums.secure.party import Memory, matrix
from consilium.sums.secure.terms import MaskedTerms

MOST_VARIABLES = 500
"""Of one statement; SQLite before 3.32 takes 999."""
_COLUMNS = "sid, federation, query_set, rounds, state, started, descriptor, memory"


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

    rounds: bits, in which it uses up its queries. memory: secrets, never printed; empty once they are erased.
    """

    sid: bytes
    federation: str
    query_set: str
    rounds: int
    state: SessionStatus
    started: float
    descriptor: bytes
    memory: dict[str, Value] = field(repr=False)


@dataclass(frozen=True)
class Kept:
    """What was given for a request, of which `request` is the digest; None once its bytes are erased. Never printed."""

    request: bytes
    reply: bytes | None = field(repr=False)


def _session(row: tuple) -> StoredSession:
    sid, federation, query_set, rounds, state, started, descriptor, memory = row
    return StoredSession(
        sid, federation, query_set, rounds, SessionStatus(state), started, descriptor, unpack(memory) if memory else {}
    )


@dataclass(frozen=True)
class Sessions:
    """Reads and writes of masked sessions, within a transaction of the store."""

    store: Store

    def session(self, sid: bytes) -> StoredSession | None:
        """The session, or None if it was never begun here."""
        row = self.store.one(f"SELECT {_COLUMNS} FROM sessions WHERE sid = ?", sid)
        return None if row is None else _session(row)

    def begin(self, session: StoredSession) -> None:
        """Write a new session."""
        *values, memory = vars(session).values()
        marks = ", ".join("?" * (len(values) + 1))
        self.store.execute(f"INSERT INTO sessions ({_COLUMNS}) VALUES ({marks})", *values, pack(memory))

    def answered(self, sid: bytes, stage: Stage) -> Kept | None:
        """What was answered in this stage, or None."""
        row = self.store.one("SELECT request, reply FROM replies WHERE sid = ? AND stage = ?", sid, stage)
        return None if row is None else Kept(*row)

    def answer(self, sid: bytes, stage: Stage, request: bytes, reply: bytes) -> None:
        """Keep the reply of a stage; a stage is answered once."""
        self.store.execute("INSERT INTO replies VALUES (?, ?, ?, ?)", sid, stage, request, reply)

    def advance(self, sid: bytes, state: SessionStatus, memory: Mapping[str, Value]) -> None:
        """Go to a state with a new memory; what the old one held is overwritten."""
        packed = pack(memory) if memory else None
        self.store.execute("UPDATE sessions SET state = ?, memory = ? WHERE sid = ?", state, packed, sid)

    def erase(self, sid: bytes) -> None:
        """Overwrite a session's secrets and replies; one that is not done becomes ABORTED."""
        self.store.execute(
            "UPDATE sessions SET memory = NULL, state = CASE state WHEN ? THEN state ELSE ? END WHERE sid = ?",
            SessionStatus.DONE,
            SessionStatus.ABORTED,
            sid,
        )
        self.store.execute("UPDATE replies SET reply = NULL WHERE sid = ?", sid)

    def live(self) -> list[StoredSession]:
        """Sessions of which something is left to erase."""
        rows = self.store.execute(
            f"SELECT {_COLUMNS} FROM sessions WHERE memory IS NOT NULL OR EXISTS"
            " (SELECT 1 FROM replies WHERE replies.sid = sessions.sid AND reply IS NOT NULL)"
        )
        return [_session(row) for row in rows]

    def check_query_set(self, terms: MaskedTerms) -> None:
        """Raise AlreadyAnswered if this very set was answered; all that can be told before the queries are here."""
        statement = (
            "SELECT 1 FROM sessions JOIN replies USING (sid) WHERE stage = ? AND query_set = ? AND rounds & ? LIMIT 1"
        )
        if self.store.one(statement, Stage.UNMASK, terms.query_set, rounds_of(terms)):
            raise AlreadyAnswered(terms.queries, terms.queries)

    def check_unanswered(self, terms: MaskedTerms, ids: np.ndarray) -> None:
        """Raise AlreadyAnswered if any of the queries (ids, uint8 (n, 32)) was answered, in whatever set, session or
        federation."""
        keys, answered = [query.tobytes() for query in ids], 0
        for start in range(0, len(keys), MOST_VARIABLES):
            part = keys[start : start + MOST_VARIABLES]
            marks = ",".join("?" * len(part))
            statement = f"SELECT COUNT(*) FROM released WHERE rounds & ? AND query IN ({marks})"
            answered += self.store.execute(statement, rounds_of(terms), *part)[0][0]
        if answered:
            raise AlreadyAnswered(answered, len(ids))

    def use_up(self, terms: MaskedTerms, memory: Memory) -> None:
        """Check once more, and record: shares that unmask the session's sum leave with this transaction.

        Raises
        ------
        AlreadyAnswered : another session was unmasked meanwhile.
        """
        ids, rounds = matrix(memory, "queries"), rounds_of(terms)
        self.check_unanswered(terms, ids)
        for start in range(0, len(ids), MOST_VARIABLES // 2):
            rows = [value for query in ids[start : start + MOST_VARIABLES // 2] for value in (query.tobytes(), rounds)]
            marks = ",".join(["(?, ?)"] * (len(rows) // 2))
            update = "ON CONFLICT (query) DO UPDATE SET rounds = rounds | excluded.rounds"
            self.store.execute(f"INSERT INTO released VALUES {marks} {update}", *rows)


def rounds_of(terms: MaskedTerms) -> int:
    """The bit of the round in which a query is used up."""
    return 1 << (terms.round - 1)


def ids_of(queries: np.ndarray) -> np.ndarray:
    """Ids of canonical queries, uint8 (queries, 32). Raises Replay if one stands twice: it would be answered twice."""
    ids = query_ids(queries)
    if len(set(ids)) < len(ids):
        raise Replay("a query stands twice in the set")
    return np.frombuffer(bytes.fromhex("".join(ids)), dtype=np.uint8).reshape(len(ids), -1)
