"""The second aggregator's answers, on plain objects: hello, open, check, give; and what it gives its half of a sum for,
whatever the coordinator asks: its policy, what it was promised, and what it has given before.

The coordinator is not trusted: it may repeat, reorder, alter or withhold any message. Each answer is checked, computed,
made durable and only then returned; the same message gets the same answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from consilium.accounting.events import PartyNoise, ReleaseEvent
from consilium.aggregator.store import GivenStore, GivenSums, OpenSession
from consilium.node.answering import check_pinned, check_protocol, pool_of
from consilium.node.limits import NodePolicy, check_within, events_of
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import DataError
from consilium.protocol.identity import Identity, SealingKey, digest
from consilium.protocol.messages import Terms
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise
from consilium.protocol.pool import proves
from consilium.protocol.queries import canonical_queries, query_ids, query_set_hash
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.versions import program_versions
from consilium.sums.errors import Replay, StageOrder
from consilium.sums.roster import VerifiedRoster
from consilium.sums.terms import LIFETIME
from consilium.sums.verified.aggregators import Helper
from consilium.sums.verified.field import TOTAL_DTYPE
from consilium.sums.verified.messages import (
    AggregatorReply,
    AggregatorRequest,
    CheckReply,
    CheckRequest,
    GiveReply,
    GiveRequest,
    OpenReply,
    OpenRequest,
    as_array,
)
from consilium.sums.verified.uploads import VerifiedTerms, sign_key

log = logging.getLogger("consilium.aggregator")


def release_of(promise: str) -> ReleaseEvent:
    """The one release that is promised. Refused (PROMISE) if there is none, or several."""
    releases = [event for event in events_of(promise) if not event.mechanism.closing]
    if len(releases) != 1:
        raise Refused(Rule.PROMISE, limit=1, requested=len(releases), detail="a promise is one release")
    return releases[0]


def noise_of(release: ReleaseEvent, round: int) -> PartyNoise:
    """What each aggregator adds to one count in this round. Refused (PROMISE) where it is not the whole noise."""
    noise = release.party_noise(round)
    if noise is None or noise.shares != 1:
        raise Refused(Rule.PROMISE, detail="of verified votes each aggregator adds the whole noise of a sum")
    return noise


def check_terms(policy: NodePolicy, terms: Terms, roster: VerifiedRoster, given: GivenSums) -> None:
    """Raise Refused if the policy does not let this aggregator serve in a federation with these terms, beside all that
    it has given."""
    policy.check_simulation(terms)
    if terms.collection != VerifiedTerms.collection:
        raise Refused(Rule.VOTES, detail=f"{terms.collection} votes need no second aggregator")
    if terms.roster != roster.digest:
        raise Refused(
            Rule.ROSTER_MISMATCH, detail=f"the coordinator has {terms.roster[:12]}, this node {roster.digest[:12]}"
        )
    pool_of(terms)
    if roster.sure < policy.least_parties:
        raise Refused(Rule.LEAST_PARTIES, limit=policy.least_parties, requested=roster.sure)
    noise_of(release_of(terms.promise), 1)
    check_within((*given.other_promises(terms.federation), terms.promise), policy, given.execute)


def check_new(given: GivenSums, policy: NodePolicy, agreed: Terms, terms: VerifiedTerms, ids: list[str]) -> None:
    """Raise Refused unless a sum on these queries may be given: each is in one sum of each round (ALREADY_ANSWERED),
    and within the query budgets, the promise's (PROMISE) and the policy's (MOST_QUERIES)."""
    answered = given.given_of(ids, terms.round)
    if answered:
        raise Refused(Rule.ALREADY_ANSWERED, limit=len(ids) - answered, requested=len(ids))
    most = release_of(agreed.promise).queries_in(terms.round)
    queries = given.given_in(terms.federation, terms.round) + len(ids)
    if queries > most:
        raise Refused(Rule.PROMISE, limit=most, requested=queries)
    ever = given.ever(ids)
    if ever > policy.most_queries:
        raise Refused(Rule.MOST_QUERIES, limit=policy.most_queries, requested=ever)


@dataclass(frozen=True)
class AggregatorNode:
    """One second aggregator, open for as long as its settings stay. Everything it remembers is in its store. name: as
    it calls itself, for people. pinned: terms of the one federation that it serves; None for any. noise_seed: of
    simulations."""

    store: GivenStore
    name: str
    policy: NodePolicy
    roster: VerifiedRoster
    identity: Identity
    sealing: SealingKey = field(repr=False)
    pinned: Terms | None = None
    noise_seed: int | None = None

    def hello(self, request: AggregatorRequest) -> AggregatorReply:
        """Name and key, if the policy lets it serve; Refused otherwise."""
        check_protocol(request.protocol_version)
        check_pinned(self.pinned, request.terms)
        with self._transaction() as sums:
            known = sums.terms(request.federation)
            if known is not None and known != request.terms:
                raise Refused(Rule.PROMISE, detail="this federation's terms are not those it came with first")
            check_terms(self.policy, request.terms, self.roster, sums)
            sums.keep_terms(request.terms)
        program = program_versions()
        if request.program != program:
            log.warning("another version: the coordinator runs %s, this node %s", request.program or "none", program)
        return AggregatorReply(name=self.name, key=self.identity.public.hex(), program=program)

    def open(self, request: OpenRequest) -> OpenReply:
        """Begin a session on these queries, if it is what was promised and nothing of it was given before. Raises
        Refused, SecAggError. The queries are looked at themselves: a digest would let the coordinator show this node
        others than the parties."""
        terms = VerifiedTerms.open(request.terms, request.signature, self.roster)
        try:
            queries = canonical_queries(request.queries, request.queries.shape[1])
        except DataError:
            raise Refused(Rule.MALFORMED) from None
        ids = query_ids(queries)
        if query_set_hash(queries) != terms.query_set or not len(set(ids)) == len(ids) == terms.queries:
            raise Refused(Rule.MALFORMED, detail="the queries are not those of the session, or one stands twice")
        with self._transaction() as sums:
            session = sums.session(terms.sid)
            if session is None:
                agreed = self._agreed(sums, terms)
                pool = pool_of(agreed)
                if pool is not None and not proves(pool, ids, request.places, request.proof):
                    raise Refused(Rule.POOL, detail="a query is not proved to be a public row")
                check_new(sums, self.policy, agreed, terms, ids)
                session = sums.open(terms, ids, SealingKey.generate().secret, time.time())
            elif session.terms != request.terms:
                raise Replay(f"session {terms.sid} is known with other terms")
            signed = sums.signed(terms.federation)
        key = SealingKey(session.key).public if session.key else b""
        signature = sign_key(self.identity, terms.ctx, key) if key else b""
        return OpenReply(sid=terms.sid_bytes, signed=signed, key=key, signature=signature)

    def check(self, request: CheckRequest) -> CheckReply:
        """What this node says of a batch of uploads. Raises Refused, SecAggError: the session is not open, or the batch
        is none."""
        with self._transaction() as sums:
            session = self._session(sums, request.sid)
            terms, helper = self._helper(session)
            self._agreed(sums, terms)
            checked = helper.check(request.content.tobytes())
            sums.checked(terms.sid, helper.total.tobytes(), bytes(helper.codes), helper.met.tobytes())
        return CheckReply(sid=request.sid, content=as_array(checked))

    def give(self, request: GiveRequest) -> GiveReply:
        """Half of the sum, and what is signed of it; the session's key is deleted. The same message gets the same bytes
        again. Raises Refused, SecAggError: the session is not open, or its half is not to be given."""
        question = request.content.tobytes()
        asked = digest("aggregator/question", question)
        with self._transaction() as sums:
            session = self._session(sums, request.sid)
            given = session.answer, session.record, session.signature
            if session.question != asked:
                terms, helper = self._helper(session)
                agreed = self._agreed(sums, terms)
                check_new(sums, self.policy, agreed, terms, session.ids)  # another may have been given since
                answer, record = helper.give(question, session.ids, self._noise(terms, agreed))
                given = answer, record.canonical(), record.sign(self.identity)
                sums.give(terms, session.ids, asked, *given)
        return GiveReply(sid=request.sid, content=as_array(given[0]), record=given[1], signature=given[2])

    @contextmanager
    def _transaction(self) -> Iterator[GivenSums]:
        """Of one message; sessions that have lived their time are given up first."""
        with self.store.transaction() as sums:
            sums.erase_before(time.time() - LIFETIME)
            yield sums

    def _agreed(self, sums: GivenSums, terms: VerifiedTerms) -> Terms:
        """What the federation came with, if this session is one that it promised and that the policy allows. The noise
        must be, to the digit, that of the release that is charged."""
        agreed = sums.terms(terms.federation)
        if agreed is None:
            raise Refused(Rule.PROMISE, detail="this federation was never introduced (query.va_hello)")
        check_pinned(self.pinned, agreed)
        check_terms(self.policy, agreed, self.roster, sums)
        if (terms.teachers, terms.classes) != (agreed.teachers, len(agreed.classes)):
            raise Refused(Rule.PROMISE, limit=agreed.teachers, requested=terms.teachers)
        if terms.noise != noise_of(release_of(agreed.promise), terms.round):
            raise Refused(Rule.PROMISE, detail="the noise of the session is not that of the promise")
        return agreed

    def _session(self, sums: GivenSums, sid: bytes) -> OpenSession:
        session = sums.session(sid.hex())
        if session is None:
            raise StageOrder(f"session {sid.hex()} was never opened here")
        return session

    def _helper(self, session: OpenSession) -> tuple[VerifiedTerms, Helper]:
        terms = VerifiedTerms.parse(session.terms)
        if not session.key:
            raise StageOrder(f"session {terms.sid} is over: its keys are deleted")
        helper = Helper(terms, self.roster, self.sealing, SealingKey(session.key))
        if session.codes:
            helper.total += np.frombuffer(session.total, dtype=TOTAL_DTYPE).reshape(terms.shape)
            helper.codes[:] = session.codes
            helper.met[:] = np.frombuffer(session.met, dtype=np.uint8).reshape(helper.met.shape)
        return terms, helper

    def _noise(self, terms: VerifiedTerms, agreed: Terms) -> NoiseSource:
        if self.noise_seed is None or not agreed.simulation:
            return SystemNoise()
        parts = [self.noise_seed, "second aggregator", terms.query_set, terms.round]
        return SeededNoise(int(canonical_digest(parts), 16))
