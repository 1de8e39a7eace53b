"""What a party has ever given: queries answered and worst-case epsilon promised to it, durable, over all federations.

It also keeps the terms of its enrolment, since later messages do not repeat them, and where the
coordinator's ledger stood when it last asked.

Queries and promises are counted before a vote leaves. Where the coordinator adds the noise, the party cannot see what
it does with the votes, but holds it to the terms of the enrolment: mechanism, parameters and query budget, whose worst
case composes over federations. Where the parties add the noise, what is charged is what is drawn (`party.promise`)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from consilium.accounting.events import ReleaseEvent
from consilium.node.limits import events_of
from consilium.party.home import Policy
from consilium.party.promise import Promise, check_within, epsilon, own_weight, promise_of
from consilium.protocol.files import check_format
from consilium.protocol.messages import LedgerPosition, Terms
from consilium.protocol.refusals import Refused, Rule

FORMAT = 2
"""Of spend.db, sessions.db and uploads.db. Since 2, sessions.db holds the block of exact sums."""


TABLES = (
    "CREATE TABLE IF NOT EXISTS given (teachers TEXT, phase INTEGER, query BLOB, federation TEXT NOT NULL,"
    " PRIMARY KEY (teachers, phase, query)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS promises (federation TEXT PRIMARY KEY, event TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS terms (federation TEXT PRIMARY KEY, content TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS ledgers (federation TEXT PRIMARY KEY, ledger TEXT NOT NULL, batch INTEGER NOT NULL,"
    " head TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS heads (federation TEXT, batch INTEGER, head TEXT NOT NULL,"
    " PRIMARY KEY (federation, batch)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS asked_at (federation TEXT PRIMARY KEY, batch INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS weights (federation TEXT PRIMARY KEY, weight INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS scheduled (federation TEXT, teachers TEXT, release INTEGER, phase INTEGER, query BLOB,"
    " PRIMARY KEY (federation, teachers, release, phase, query)) WITHOUT ROWID",
)
GIVE = (
    "WITH RECURSIVE row (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM row WHERE i + 1 < ?)"
    " INSERT INTO given (teachers, phase, query, federation) SELECT ?, ?, substr(?, 32 * i + 1, 32), ? FROM row"
)
"""Query ids, one after the other in one value: many simulated parties write down hundreds each."""
OLD_COUNT = "SELECT COALESCE(SUM(queries), 0) FROM answered WHERE phase = 1"
"""Versions before 0.2 counted query sets in a table `answered`; what is in it stays counted."""


class Share(NamedTuple):
    """What a federation means for this party: how often its answers count, and its own worst case at that weight."""

    weight: int
    epsilon: float


class SeenLedger(NamedTuple):
    """What a party knows of a federation's ledger. ledger: its id. heads: hash of the last batch, by its number, each
    time that it was told. asked_at: the last batch when votes were asked for last, -1 where they never were. answered:
    ids of the queries that it was asked, by the number of the release, from 1.
    """

    ledger: str
    heads: dict[int, str]
    asked_at: int
    answered: dict[int, frozenset[str]]


class Past(NamedTuple):
    """What other federations than one were charged: events at the party's weights there, of how many federations, and
    queries answered in them. weight: that the party has in the one, None before it enrols."""

    events: list[ReleaseEvent]
    federations: int
    elsewhere: int
    weight: int | None


class SpendStore:
    """The file `spend.db`; made on first use. durable: see `party.home.Home`."""

    def __init__(self, path: Path, durable: bool = True) -> None:
        self._path, self._synchronous = path, "FULL" if durable else "OFF"

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction, committed at the end and undone by any error.

        Refused (POLICY) if the file is unusable, LedgerError if a newer program wrote it.
        """
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            self._path.chmod(0o600)  # one that an older version made
        except OSError as error:
            raise Refused(Rule.POLICY, detail=f"{self._path}: {error}") from None
        try:
            with closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as connection:
                connection.execute(f"PRAGMA synchronous={self._synchronous}")
                connection.execute("BEGIN IMMEDIATE")  # closing the connection undoes it, unless it is committed
                check_format(connection, self._path, FORMAT)
                for statement in TABLES:
                    connection.execute(statement)
                yield connection
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise Refused(Rule.POLICY, detail=f"{self._path}: {error}") from None

    def enrol(self, terms: Terms, ledger: str, policy: Policy, agreed: int | None = None) -> int:
        """Check that the policy's epsilon allows the promise, and keep terms, ledger and weight of a federation.

        The weight that is returned is the one of the first enrolment, whatever the policy allows by now: with another,
        the votes on a query would be others. agreed: see `party.weight.own_weight`.

        Raises
        ------
        Refused : the promise is none, or too much (MOST_EPSILON, MOST_QUERIES); other terms (PROMISE) or another ledger
            (LEDGER) than this federation came with first.
        """
        promise = promise_of(terms)
        with self._transaction() as connection:
            _check_queries(terms, promise, policy, _answered_elsewhere(connection, terms.federation))
            weight = self._weight(connection, terms.federation, promise, policy, agreed)
            connection.execute("INSERT OR IGNORE INTO weights VALUES (?, ?)", (terms.federation, weight))
            _keep_first(connection, terms.federation, terms.model_dump_json())
            connection.execute(
                "INSERT OR IGNORE INTO ledgers VALUES (?, ?, 0, ?)", (terms.federation, ledger, "0" * 64)
            )
            _ledger_of(connection, terms.federation, ledger)
        return weight

    def check(self, terms: Terms, policy: Policy, agreed: int | None = None) -> Share:
        """Weight and epsilon of this federation alone, in the policy's unit, if it could be served now. Records
        nothing.

        Raises
        ------
        Refused : as `enrol`.
        """
        promise = promise_of(terms)
        if self._path.exists():
            with self._transaction() as connection:
                _check_queries(terms, promise, policy, _answered_elsewhere(connection, terms.federation))
                weight = self._weight(connection, terms.federation, promise, policy, agreed)
        else:
            _check_queries(terms, promise, policy, 0)
            weight = own_weight(promise, policy, agreed=agreed)
        return Share(weight, epsilon(promise.of_weight(weight).events, policy))

    def answered(self) -> int:
        """Queries ever answered, over all federations."""
        if not self._path.exists():
            return 0
        with self._transaction() as connection:
            return _answered(connection)

    def past(self, federation: str) -> Past:
        """What was given beside this federation."""
        if not self._path.exists():
            return Past([], 0, 0, None)
        with self._transaction() as connection:
            others = connection.execute("SELECT COUNT(*) FROM promises WHERE federation != ?", (federation,))
            return Past(
                _earlier(connection, federation),
                others.fetchone()[0],
                _answered_elsewhere(connection, federation),
                _weight_of(connection, federation),
            )

    def weight(self, federation: str) -> int:
        """How often this party's answers count in a federation that it enrolled in."""
        with self._transaction() as connection:
            return _weight_of(connection, federation) or 1  # enrolled before there were weights

    def terms(self, federation: str) -> Terms:
        """The terms of the enrolment. Refused (PROMISE) if this federation never enrolled here."""
        if self._path.exists():
            with self._transaction() as connection:
                row = connection.execute("SELECT content FROM terms WHERE federation = ?", (federation,)).fetchone()
            if row:
                return Terms.model_validate_json(row[0])
        raise Refused(Rule.PROMISE, detail="this federation was never introduced (query.hello)")

    def follow(self, federation: str, position: LedgerPosition) -> None:
        """Note where the federation's ledger stands.

        Raises
        ------
        Refused (LEDGER) : another ledger, or one that has gone back or was rewritten: what was charged in it may be
            forgotten, and the same queries would be answered again with fresh noise.
        """
        with self._transaction() as connection:
            _check_position(connection, federation, position)
            _keep_head(connection, federation, position)
            connection.execute(
                "UPDATE ledgers SET batch = ?, head = ? WHERE federation = ?",
                (position.batch, position.head, federation),
            )
            connection.execute("INSERT OR REPLACE INTO asked_at VALUES (?, ?)", (federation, position.batch))

    def seen(self, federation: str, position: LedgerPosition) -> int:
        """One more than the last batch at which votes were asked for, 0 where they never were. Refused (LEDGER) as
        `follow`."""
        with self._transaction() as connection:
            _check_position(connection, federation, position)
            _keep_head(connection, federation, position)
            row = connection.execute("SELECT batch FROM asked_at WHERE federation = ?", (federation,)).fetchone()
        return 0 if row is None else row[0] + 1

    def seen_ledger(self, federation: str) -> SeenLedger | None:
        """What is known of the federation's ledger; None where the party never enrolled in it."""
        if not self._path.exists():
            return None
        with self._transaction() as connection:
            ledger = connection.execute(
                "SELECT ledger, batch, head FROM ledgers WHERE federation = ?", (federation,)
            ).fetchone()
            if ledger is None:
                return None
            heads = dict(connection.execute("SELECT batch, head FROM heads WHERE federation = ?", (federation,)))
            asked_at = connection.execute("SELECT batch FROM asked_at WHERE federation = ?", (federation,)).fetchone()
            answered: dict[int, set[str]] = {}
            for release, query in connection.execute(
                "SELECT release, query FROM scheduled WHERE federation = ? UNION SELECT 1, query FROM given"
                " WHERE federation = ? AND NOT EXISTS (SELECT 1 FROM scheduled WHERE federation = ?)",
                (federation,) * 3,
            ):
                answered.setdefault(release, set()).add(query.hex())
        heads |= {ledger[1]: ledger[2]}  # what was kept before there was a table of all
        return SeenLedger(
            ledger[0],
            heads,
            -1 if asked_at is None else asked_at[0],
            {release: frozenset(ids) for release, ids in answered.items()},
        )

    def charge(
        self, terms: Terms, teachers: str, ids: Sequence[str], policy: Policy, phase: int = 1, release: int = 1
    ) -> None:
        """Count the queries that were not counted before, or refuse the whole request; on disk when this returns.

        A query to the same `teachers` (digest of the set) counts once, in whatever set or session it comes: the votes
        are the same. In phase 2 the queries are some of those of phase 1: they count against the federation's cap on
        answers and not as further queries. Where several releases are promised, each has its own cap, and they come in
        order: after queries of a later one there are no new ones of an earlier. A query counts for each release that it
        is asked for: its votes are the same, but whoever sums them could release it twice.

        Parameters
        ----------
        ids : query ids, hex, all different.
        release : number of the promised release that the queries are for, from 1.

        Raises
        ------
        Refused : the policy's limit on queries or epsilon, or the federation's own cap, would be passed; a query twice;
            the promise is not the one that was given before; or the count cannot be kept.
        """
        promise = promise_of(terms)
        if len(set(ids)) < len(ids):
            raise Refused(Rule.MALFORMED, detail="a query stands twice in one request")
        keys = [bytes.fromhex(query_id) for query_id in ids]
        with self._transaction() as connection:
            before = connection.execute(
                "SELECT event FROM promises WHERE federation = ?", (terms.federation,)
            ).fetchone()
            if before is not None and before[0] != terms.promise:
                raise Refused(Rule.PROMISE)
            counted = {
                key
                for (key,) in connection.execute(
                    "SELECT query FROM given WHERE teachers = ? AND phase = ?", (teachers, phase)
                )
            }
            new = [key for key in keys if key not in counted]
            count = "SELECT COUNT(*) FROM given WHERE federation = ? AND phase = ?"
            queries = connection.execute(count, (terms.federation, phase)).fetchone()[0] + len(new)
            of_release: list[Scheduled] = []
            if promise.later:
                wanted = [(terms.federation, teachers, release, phase, key) for key in sorted(keys)]
                of_release = _not_counted(connection, wanted)
                queries = _asked_for(connection, terms.federation, release, phase, len(of_release))
            if queries > promise.only(release).most(phase):
                raise Refused(Rule.PROMISE, limit=promise.only(release).most(phase), requested=queries)
            spent = _answered(connection)
            if phase == 1 and new and spent + len(new) > policy.most_queries:
                raise Refused(Rule.MOST_QUERIES, limit=policy.most_queries, requested=spent + len(new))
            weight = _weight_of(connection, terms.federation) or promise.weight
            check_within([*_earlier(connection, terms.federation), *promise.of_weight(weight).events], policy)
            connection.execute("INSERT OR IGNORE INTO promises VALUES (?, ?)", (terms.federation, terms.promise))
            if new:
                connection.execute(GIVE, (len(new), teachers, phase, b"".join(sorted(new)), terms.federation))
            if promise.later:
                connection.executemany("INSERT INTO scheduled VALUES (?, ?, ?, ?, ?)", of_release)

    def _weight(
        self, connection: sqlite3.Connection, federation: str, promise: Promise, policy: Policy, agreed: int | None
    ) -> int:
        """The weight that is kept, else the one to take. Raises Refused if it does not fit."""
        recorded = _weight_of(connection, federation)
        if recorded is not None and agreed is not None and recorded != agreed:
            raise Refused(
                Rule.PROMISE, limit=recorded, requested=agreed, detail="another weight than this party began with"
            )
        return own_weight(promise, policy, _earlier(connection, federation), recorded or agreed)


Scheduled = tuple[str, str, int, int, bytes]
"""A row of `scheduled`: federation, digest of the teachers, release, phase of its mechanism, query."""


def _not_counted(connection: sqlite3.Connection, rows: list[Scheduled]) -> list[Scheduled]:
    """Those of the rows, all of one release and phase, that are not in `scheduled` yet."""
    where = "federation = ? AND teachers = ? AND release = ? AND phase = ?"
    counted = set(connection.execute(f"SELECT * FROM scheduled WHERE {where}", rows[0][:4]) if rows else ())
    return [row for row in rows if row not in counted]


def _asked_for(connection: sqlite3.Connection, federation: str, release: int, phase: int, new: int) -> int:
    """Queries for this release of a schedule in this phase of its mechanism, with so many new ones. Refused (PROMISE)
    for new ones after those of a later release.
    """
    last, same = connection.execute(
        "SELECT COALESCE(MAX(release), 0), COALESCE(SUM(release = ? AND phase = ?), 0) FROM scheduled"
        " WHERE federation = ?",
        (release, phase, federation),
    ).fetchone()
    if new and last > release:
        raise Refused(Rule.PROMISE, limit=last, requested=release, detail="this release is over")
    return same + new


def _earlier(connection: sqlite3.Connection, federation: str) -> list[ReleaseEvent]:
    """What all other federations were charged, each at the weight that the party has in it."""
    rows = connection.execute(
        "SELECT event, weight FROM promises LEFT JOIN weights USING (federation) WHERE federation != ?", (federation,)
    ).fetchall()
    return [
        event if weight is None else replace(event, weight=weight) for text, weight in rows for event in events_of(text)
    ]


def _weight_of(connection: sqlite3.Connection, federation: str) -> int | None:
    row = connection.execute("SELECT weight FROM weights WHERE federation = ?", (federation,)).fetchone()
    return None if row is None else row[0]


def _keep_first(connection: sqlite3.Connection, federation: str, text: str) -> None:
    connection.execute("INSERT OR IGNORE INTO terms VALUES (?, ?)", (federation, text))
    recorded = connection.execute("SELECT content FROM terms WHERE federation = ?", (federation,)).fetchone()[0]
    if recorded != text:
        raise Refused(Rule.PROMISE, detail="this federation's terms are not those it came with first")


def _ledger_of(connection: sqlite3.Connection, federation: str, ledger: str) -> tuple[int, str]:
    """Batch and head where the federation's ledger last stood; Refused (LEDGER) for another ledger."""
    row = connection.execute("SELECT ledger, batch, head FROM ledgers WHERE federation = ?", (federation,)).fetchone()
    if row is None or row[0] != ledger:
        raise Refused(Rule.LEDGER, detail="not the ledger that this federation came with first")
    return row[1], row[2]


def _check_position(connection: sqlite3.Connection, federation: str, position: LedgerPosition) -> None:
    """Refused (LEDGER) for another ledger than before, or one that stands before where it stood."""
    batch, head = _ledger_of(connection, federation, position.ledger)
    if position.batch < batch or (position.batch == batch and position.head != head):
        raise Refused(Rule.LEDGER, limit=batch, requested=position.batch)


def _keep_head(connection: sqlite3.Connection, federation: str, position: LedgerPosition) -> None:
    connection.execute("INSERT OR IGNORE INTO heads VALUES (?, ?, ?)", (federation, position.batch, position.head))


def _check_queries(terms: Terms, promise: Promise, policy: Policy, elsewhere: int) -> None:
    """Raise Refused (MOST_QUERIES) if the policy would end sums of this federation half way.

    A party that refuses in the middle of a sum costs the others, whose queries are used up. Of plaintext votes it is
    left out alone, and answers as many as it likes.
    """
    if terms.collection != "plaintext" and elsewhere + promise.queries > policy.most_queries:
        raise Refused(Rule.MOST_QUERIES, limit=policy.most_queries, requested=elsewhere + promise.queries)


def _answered_elsewhere(connection: sqlite3.Connection, federation: str) -> int:
    """Queries ever answered in other federations."""
    counted = "SELECT COUNT(*) FROM given WHERE federation = ? AND phase = 1"
    return _answered(connection) - connection.execute(counted, (federation,)).fetchone()[0]


def _answered(connection: sqlite3.Connection) -> int:
    """Queries ever answered, over all federations."""
    old = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'answered'").fetchone()
    earlier = connection.execute(OLD_COUNT).fetchone()[0] if old else 0
    return earlier + connection.execute("SELECT COUNT(*) FROM given WHERE phase = 1").fetchone()[0]
