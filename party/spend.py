"""What a party has ever given: queries answered and worst-case epsilon promised to it, durable, over all federations.

It also keeps the terms that it was told when it enrolled, since later messages do not repeat them.

Both are counted before a vote leaves. The party cannot see what the coordinator does with its votes, but it holds the
coordinator to the terms that it was told: mechanism, parameters and caps, whose worst case composes over federations.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from accounting.accountant import Accountant
from accounting.conversion import rdp_to_epsilon
from accounting.errors import AccountingError
from accounting.events import ReleaseEvent, event_from_json
from accounting.orders import DEFAULT_ORDERS
from party.policy import Policy
from protocol.messages import VotesMode
from protocol.refusals import Refused, Rule

TABLES = (
    "CREATE TABLE IF NOT EXISTS answered (teachers TEXT, federation TEXT, query_set TEXT, phase INTEGER,"
    " queries INTEGER NOT NULL, PRIMARY KEY (teachers, query_set, phase))",
    "CREATE TABLE IF NOT EXISTS promises (federation TEXT PRIMARY KEY, event TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS terms (federation TEXT PRIMARY KEY, content TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS requests (federation TEXT PRIMARY KEY, content TEXT NOT NULL)",
)


class FederationTerms(BaseModel):
    """What a coordinator told at enrolment, and is held to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    promise: str
    votes: VotesMode
    roster: str
    simulation: bool


def remember_terms(database: Path, federation: str, terms: FederationTerms) -> None:
    """Keep the terms of a federation; Refused (PROMISE) if others were told before."""
    _keep_first(database, "terms", federation, terms.model_dump_json())


def remember_request(database: Path, federation: str, digest: str) -> None:
    """Keep what teachers a federation asks for; Refused (PROMISE) if it asked for others before.

    A federation's digest fixes them. Were they changed, the same rows would answer the same queries once more, with
    other votes, and count against no cap of the federation's.
    """
    _keep_first(database, "requests", federation, digest)


def _keep_first(database: Path, table: str, federation: str, text: str) -> None:
    """The first text of a federation stays; Refused (PROMISE) for another."""
    try:
        with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
            for statement in TABLES:
                connection.execute(statement)
            connection.execute(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", (federation, text))
            query = f"SELECT content FROM {table} WHERE federation = ?"
            kept = connection.execute(query, (federation,)).fetchone()[0]
    except sqlite3.Error as error:
        raise Refused(Rule.POLICY, detail=f"{database}: {error}") from None
    if kept != text:
        raise Refused(Rule.PROMISE, detail=f"this federation's {table} are not those it came with first")


def told_terms(database: Path, federation: str) -> FederationTerms | None:
    """The terms that were told at enrolment, or None."""
    if not database.exists():
        return None
    try:
        with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
            for statement in TABLES:
                connection.execute(statement)
            found = connection.execute("SELECT content FROM terms WHERE federation = ?", (federation,)).fetchone()
    except sqlite3.Error as error:
        raise Refused(Rule.POLICY, detail=f"{database}: {error}") from None
    return FederationTerms.model_validate_json(found[0]) if found else None


def parse_promise(text: str) -> list[ReleaseEvent]:
    """The events that a coordinator promises not to exceed, together; Refused (MALFORMED) if it is no list of some."""
    try:
        events = json.loads(text)
        if not isinstance(events, list) or not events:
            raise ValueError
        return [event_from_json(event) for event in events]
    except (AccountingError, ValueError, TypeError):
        raise Refused(Rule.MALFORMED) from None


def epsilon(events: list[ReleaseEvent], delta: float) -> float:
    """Worst-case epsilon of all events together at `delta`; inf where there is none.

    The least of the Renyi bound and, where all noise is Gaussian, the exact value: as the coordinator states it.
    """
    left = delta - sum(event.added_delta() for event in events)
    if left <= 0:
        return float("inf")
    total = np.zeros(len(DEFAULT_ORDERS))
    for event in events:
        total += event.worst_case_rdp(DEFAULT_ORDERS)
    bound = rdp_to_epsilon(total, DEFAULT_ORDERS, left).epsilon
    try:
        accountant = Accountant(DEFAULT_ORDERS)
        for event in events:
            accountant.commit(event)
        exact = accountant.exact_worst_case_epsilon(delta)
    except AccountingError:
        return bound  # federations with different units or audiences have no common exact form
    return bound if exact is None else min(bound, exact)


def check_promise(database: Path, federation: str, promise: str, policy: Policy) -> None:
    """Raise Refused (MOST_EPSILON) if serving this federation would take the party beyond its own limit.

    Records nothing: it is asked before training, so that a party does not work for votes that it will not give.
    """
    events = parse_promise(promise)
    if not database.exists():
        _check_epsilon(events, policy)
        return
    try:
        with closing(sqlite3.connect(database, timeout=30, isolation_level=None)) as connection:
            for statement in TABLES:
                connection.execute(statement)
            _check_epsilon([*_others(connection, federation), *events], policy)
    except sqlite3.Error as error:
        raise Refused(Rule.POLICY, detail=f"{database}: {error}") from None


def charge(
    database: Path,
    teachers: str,
    federation: str,
    promise: str,
    query_set: str,
    queries: int,
    policy: Policy,
    phase: int = 1,
) -> None:
    """Count `queries` more, or refuse the whole request.

    The count is on disk when this returns. The same query set to the same `teachers` (digest of the set) is counted
    once, in whatever run: a repeated request gets the same votes. In phase 2 the queries are some of those of phase 1:
    they count against the federation's cap on answers and not as further queries.

    Raises
    ------
    Refused : the policy's limit on queries or epsilon, or the federation's own cap on queries, would be passed, the
        promise is not the one that was given before, or the count cannot be kept.
    """
    events = parse_promise(promise)
    try:
        with closing(sqlite3.connect(database, timeout=30, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")  # closing the connection undoes it, unless it is committed
            for statement in TABLES:
                connection.execute(statement)
            if connection.execute(
                "SELECT 1 FROM answered WHERE teachers = ? AND query_set = ? AND phase = ?",
                (teachers, query_set, phase),
            ).fetchone():
                return
            spent = connection.execute("SELECT COALESCE(SUM(queries), 0) FROM answered WHERE phase = 1").fetchone()[0]
            if phase == 1 and spent + queries > policy.most_queries:
                raise Refused(Rule.MOST_QUERIES, limit=policy.most_queries, requested=spent + queries)
            _check_federation(connection, federation, events, promise, query_set, queries, phase)
            _check_epsilon([*_others(connection, federation), *events], policy)
            connection.execute("INSERT OR IGNORE INTO promises VALUES (?, ?)", (federation, promise))
            connection.execute(
                "INSERT INTO answered VALUES (?, ?, ?, ?, ?)", (teachers, federation, query_set, phase, queries)
            )
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise Refused(Rule.POLICY, detail=f"{database}: {error}") from None


def _others(connection: sqlite3.Connection, federation: str) -> list[ReleaseEvent]:
    rows = connection.execute("SELECT event FROM promises WHERE federation != ?", (federation,)).fetchall()
    return [event for (text,) in rows for event in parse_promise(text)]


def _check_epsilon(events: list[ReleaseEvent], policy: Policy) -> None:
    total = epsilon(events, policy.delta)
    if total > policy.most_epsilon:
        raise Refused(Rule.MOST_EPSILON, limit=policy.most_epsilon, requested=round(total, 4))


def _check_federation(
    connection: sqlite3.Connection,
    federation: str,
    events: list[ReleaseEvent],
    promise: str,
    query_set: str,
    queries: int,
    phase: int,
) -> None:
    """Hold the coordinator to its promise. A set that was asked of earlier teachers already does not count again."""
    before = connection.execute("SELECT event FROM promises WHERE federation = ?", (federation,)).fetchone()
    if before is not None and before[0] != promise:
        raise Refused(Rule.PROMISE)
    asked = connection.execute(
        "SELECT COALESCE(SUM(queries), 0) FROM"
        " (SELECT DISTINCT query_set, queries FROM answered WHERE federation = ? AND query_set != ? AND phase = ?)",
        (federation, query_set, phase),
    ).fetchone()[0]
    most = sum(event.asked if phase == 1 else event.answered for event in events)
    if asked + queries > most:
        raise Refused(Rule.PROMISE, limit=most, requested=asked + queries)
