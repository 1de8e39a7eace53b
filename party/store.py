"""All that a party remembers, in one SQLite database, a file of its own or memory; and what it may give.

A message is one transaction, there for good before its reply leaves: whatever process serves the next one finds either
the whole message or nothing of it. What is deleted is overwritten (`secure_delete`); what the disk itself keeps of old
blocks is beyond a program's reach.

Queries and promises are counted over all federations, before a vote leaves. Where the coordinator adds the noise, the
party cannot see what it does with the votes, but holds it to the terms of the enrolment: mechanism, parameters and
query budget, whose worst case composes over federations. Where the parties add the noise, what is charged is what is
drawn (`party.policy`)."""

from __future__ import annotations

import hashlib
import pickle
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Self

from consilium.node.answering import pool_of
from consilium.node.limits import EPSILONS, check_within, kept_epsilon
from consilium.node.signed import EarlierFederation
from consilium.party.policy import Policy, Promise, promise_of
from consilium.party.voting import TeacherSet
from consilium.protocol.databases import Database
from consilium.protocol.messages import HelloRequest, LedgerPosition, Terms
from consilium.protocol.pool import PoolTerms
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
party (`charge`)."""


@dataclass(frozen=True)
class Agreed:
    """The terms of an enrolment, as they are parsed once for many messages and parties."""

    terms: Terms
    promise: Promise
    pool: PoolTerms | None


@lru_cache(maxsize=8)
def agreed_in(text: str) -> Agreed:
    """Of the terms as a store has them. Raises Refused for a promise or pool that is none."""
    terms = Terms.model_validate_json(text)
    return Agreed(terms, promise_of(terms), pool_of(terms))


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
        statement = "SELECT COALESCE(SUM(length(queries)), 0) / 32 FROM given WHERE federation = ? AND round = ?"
        return self.execute(statement, federation, round)[0][0]

    def give(self, federation: str, teachers: str, round: int, queries: bytes, further: int) -> None:
        """See `TABLES`. None of the queries was given before."""
        self.execute("INSERT INTO given VALUES (?, ?, ?, ?, ?)", federation, teachers, round, queries, further)

    # What may be given.

    def enrol(self, request: HelloRequest, policy: Policy) -> int:
        """Keep terms and ledger of a federation, if the policy allows its promise. `KnownFederation.asked` of it.
        Raises Refused: the promise is none, or too much (MOST_EPSILON, MOST_QUERIES); other terms (PROMISE) or another
        ledger (LEDGER) than this federation came with first, or a ledger that has gone back, see `check_position`;
        (SECOND_COORDINATOR): the coordinator's start does not go on from the one that asked for votes last. It has a
        copy of the ledger from before, and so forgets what may have been released since."""
        text, tokens = request.terms.model_dump_json(), request.starts
        with self.transaction():
            self.check(request.terms, policy)
            known = self.federation(request.federation)
            if known.terms not in ("", text):
                raise Refused(Rule.PROMISE, detail="this federation's terms are not those it came with first")
            known = replace(known, terms=text, ledger=known.ledger or request.ledger)
            check_position(known, request.position)
            _check_start(known, tokens)
            if tokens:
                known = replace(known, enrolled=len(tokens), enrolled_token=tokens[-1])
            self.keep_federation(known)
        return known.asked

    def check(self, terms: Terms, policy: Policy) -> None:
        """Raise Refused (MOST_EPSILON, MOST_QUERIES) if this federation would be too much beside all others.

        A party that refuses in the middle of a hidden sum costs the others, whose queries are used up: there its
        queries must last. Of plaintext votes it is left out alone, and answers as many as it likes."""
        promises, elsewhere = self.past(terms.federation)
        queries = elsewhere + promise_of(terms).release.queries_in(1)
        if terms.collection in MODES and queries > policy.most_queries:
            raise Refused(Rule.MOST_QUERIES, limit=policy.most_queries, requested=queries)
        check_within((*promises, terms.promise), policy, self.execute)

    def epsilon(self, terms: Terms, policy: Policy) -> float:
        """Of this federation alone, in the policy's unit, if it could be served now. Raises Refused as `check`."""
        self.check(terms, policy)
        return kept_epsilon(self.execute, (terms.promise,), policy)

    def past(self, federation: str) -> tuple[tuple[str, ...], int]:
        """What other federations were charged: their promises, and queries answered in them."""
        return self.other_promises(federation), self.answered(but=federation)

    def agreed(self, federation: str) -> Agreed:
        """The terms of the enrolment. Refused (PROMISE) if this federation never enrolled here."""
        text = self.federation(federation).terms
        if not text:
            raise Refused(Rule.PROMISE, detail="this federation was never introduced (query.hello)")
        return agreed_in(text)

    def charge(
        self,
        agreed: Agreed,
        teachers: str,
        ids: Sequence[str],
        policy: Policy,
        round: int,
        position: LedgerPosition,
        *,
        start: str = "",
        again: bool = False,
    ) -> None:
        """Count the queries, or refuse the whole request.

        A query to the same `teachers` (digest of the set) counts once, in whatever set or session it comes: the votes
        are the same. In round 2 the queries are some of those of round 1: they count against the federation's cap on
        answers, and as further queries where a coordinator asks others.

        ids: query ids, hex, all different. position: where the ledger stands, which is noted. start: token of the
        coordinator's start, where it says so. again: all count that counted before in this round, too: what leaves is
        another sum of the same votes, with other noise.

        Raises Refused: the policy's limit on queries or epsilon, or the federation's own cap (QUERY_BUDGET), would be
        passed; a query twice; the promise is not the one that was given before; another coordinator has enrolled the
        party since (SECOND_COORDINATOR). And as `check_position`."""
        federation, promise, most = agreed.terms.federation, agreed.terms.promise, agreed.promise.most(round)
        queries = query_keys(tuple(ids))
        if len(queries) < len(ids):
            raise Refused(Rule.MALFORMED, detail="a query stands twice in one request")
        with self.transaction():
            before = self.federation(federation)
            check_position(before, position)
            if start and before.enrolled_token and start != before.enrolled_token:
                raise Refused(Rule.SECOND_COORDINATOR)
            known = replace(before, batch=position.batch, head=position.head, asked=position.batch + 1)
            if known.enrolled:
                known = replace(known, voted=known.enrolled, voted_token=known.enrolled_token)
            if known.promise not in ("", promise):
                raise Refused(Rule.PROMISE)
            new = further = queries
            for answered_in, together in self.execute("SELECT round, queries FROM given WHERE teachers = ?", teachers):
                answered = _separate(together)
                if not again or answered_in < round:
                    further = further - answered
                if not again and answered_in == round:
                    new = new - answered
            here = self.answered_in(federation, round) + len(new)
            if here > most:
                raise Refused(Rule.QUERY_BUDGET, limit=most, requested=here)
            if further and (ever := self.answered() + len(further)) > policy.most_queries:
                raise Refused(Rule.MOST_QUERIES, limit=policy.most_queries, requested=ever)
            check_within((*self.other_promises(federation), promise), policy, self.execute)
            if before != (known := replace(known, promise=promise)):
                self.keep_federation(known)
            if new:
                self.give(federation, teachers, round, b"".join(sorted(new)), len(further))

    # Teachers, and what shards are made with.

    def teachers(self, federation: str) -> TeacherSet:
        """Of an earlier lesson. Refused (NOT_TRAINED) if there are none, or what was written is damaged."""
        row = self.one("SELECT digest FROM teachers WHERE federation = ?", federation)
        if row is None:
            raise Refused(Rule.NOT_TRAINED, detail=f"{self.path}: nothing was trained for this federation")
        if (known := self._teachers.get(federation)) is not None and known.digest == row[0]:
            return known
        ((digest, content),) = self.execute("SELECT digest, content FROM teachers WHERE federation = ?", federation)
        if hashlib.sha256(content).hexdigest() != digest:
            raise Refused(Rule.NOT_TRAINED, detail=f"{self.path}: teachers are not what was written")
        try:
            known = self._teachers[federation] = replace(pickle.loads(content), digest=digest)
        except Exception as error:  # what unpickling raises where another version wrote it is anything
            raise Refused(Rule.NOT_TRAINED, detail=f"{self.path}: {type(error).__name__}") from None
        return known

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


@lru_cache(maxsize=2)  # many simulated parties charge the same
def query_keys(ids: tuple[str, ...]) -> frozenset[bytes]:
    """Query ids, hex, as a store keeps them."""
    return frozenset(map(bytes.fromhex, ids))


@lru_cache(maxsize=2)
def _separate(together: bytes) -> frozenset[bytes]:
    return frozenset(together[place : place + 32] for place in range(0, len(together), 32))


def _check_start(known: KnownFederation, tokens: Sequence[str]) -> None:
    """Refused (SECOND_COORDINATOR) where the last of these starts does not go on from the one that votes went to."""
    if known.voted > len(tokens) or (known.voted and tokens[known.voted - 1] != known.voted_token):
        raise Refused(Rule.SECOND_COORDINATOR, limit=known.voted, requested=len(tokens))


def check_position(known: KnownFederation, position: LedgerPosition) -> None:
    """Raise Refused (LEDGER) for another ledger, or one that has gone back or was rewritten: what was charged in it may
    be forgotten, and the same queries would be answered again with fresh noise."""
    if known.ledger != position.ledger:
        raise Refused(Rule.LEDGER, detail="not the ledger that this federation came with first")
    if position.batch < known.batch or (position.batch == known.batch and position.head != known.head):
        raise Refused(Rule.LEDGER, limit=known.batch, requested=position.batch)
