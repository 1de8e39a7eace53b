"""The second aggregator's three answers, on plain objects: hello, open, link. Flower is at the edge (`client_app`).

The coordinator is not trusted: it may repeat, reorder, alter or withhold any message. Each answer is checked, computed,
made durable and only then returned; the same message gets the same answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from consilium.aggregator.home import AggregatorHome
from consilium.aggregator.policy import KeptRules, check_terms, release_of, sigma_of
from consilium.aggregator.store import GivenStore, GivenSums, OpenSession
from consilium.node.answering import check_pinned, check_protocol, pool_of
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import DataError
from consilium.protocol.messages import Terms
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.rows.pool import proves
from consilium.protocol.rows.queries import canonical_queries, query_ids, query_set_hash
from consilium.protocol.versions import program_versions
from consilium.sums.aggregators.half import ASKED, BATCH
from consilium.sums.aggregators.helper import Helper
from consilium.sums.aggregators.terms import VerifiedTerms
from consilium.sums.aggregators.wire import (
    AggregatorReply,
    AggregatorRequest,
    GivenRecord,
    LinkReply,
    LinkRequest,
    OpenReply,
    OpenRequest,
    as_array,
    ids_digest,
)
from consilium.sums.errors import Replay, StageOrder
from consilium.sums.roster import VerifiedRoster
from consilium.sums.terms import LIFETIME

log = logging.getLogger("consilium.aggregator")

ANSWERS: Mapping[int, Callable[[Helper, bytes], bytes]] = {BATCH: Helper.check, ASKED: Helper.give}
"""By the kind that a message of the first aggregator says it is of, in plaintext in its second byte; it is sealed as
one of that kind."""


@dataclass(frozen=True)
class AggregatorNode:
    """One second aggregator. Everything it remembers is on its own disk, so a new process can go on at any message.

    clock: seconds since the epoch."""

    home: AggregatorHome
    clock: Callable[[], float] = time.time

    def hello(self, request: AggregatorRequest) -> AggregatorReply:
        """Name and key, if the policy lets it serve; Refused otherwise."""
        check_protocol(request.protocol_version)
        check_pinned(self.home.pinned_terms(), request.terms)
        roster = self.home.roster()
        with self._transaction() as given:
            known = given.terms(request.federation)
            if known is not None and known != request.terms:
                raise Refused(Rule.PROMISE, detail="this federation's terms are not those it came with first")
            check_terms(self.home.policy, request.terms, roster, given.other_promises(request.federation))
            given.keep_terms(request.terms)
        own = program_versions()
        if request.program != own:
            log.warning("another version: the coordinator runs %s, this node %s", request.program or "none", own)
        return AggregatorReply(name=self.home.name, key=roster.helper.ed25519_pk, program=own)

    def open(self, request: OpenRequest) -> OpenReply:
        """Begin a session on these queries, if it is what was promised and nothing of it was given before.

        The queries are looked at themselves: a digest would let the coordinator show this node others than the parties.

        Raises
        ------
        Refused, SecAggError : it is not.
        """
        roster = self.home.roster()
        terms = VerifiedTerms.open(request.terms, request.signature, roster)
        try:
            queries = canonical_queries(request.queries, request.queries.shape[1])
        except DataError:
            raise Refused(Rule.MALFORMED) from None
        ids = query_ids(queries)
        if query_set_hash(queries) != terms.query_set or len(set(ids)) != terms.queries:
            raise Refused(Rule.MALFORMED, detail="the queries are not those of the session, or one stands twice")
        with self._transaction() as given:
            known = given.session(terms.sid)
            if known is None:
                told = self._accept(given, terms)
                pool = pool_of(told)
                if pool is not None and not proves(pool, ids, request.places, request.proof):
                    raise Refused(Rule.POOL, detail="a query is not proved to be a public row")
                helper = self._helper(given, roster, terms, told, ids, None)
                given.open(terms.sid, request.terms, ids, self.clock())
                given.save(terms.sid, helper.state())
            elif known.terms != request.terms:
                raise Replay(f"session {terms.sid} is known with other terms")
            else:
                helper = self._restored(given, roster, terms, known)
            signed = given.signed(terms.federation)
        keys = b"" if helper is None or helper.closed else helper.keys(self.home.identity()).content
        return OpenReply(sid=terms.sid_bytes, signed=signed, keys=as_array(keys))

    def link(self, request: LinkRequest) -> LinkReply:
        """The answer of the protocol's helper to a message of the leader; with the half of a sum, what is signed.

        Raises
        ------
        Refused, SecAggError : the session is not open, or the sum is one that this node does not give its half of.
        """
        roster, sid, content = self.home.roster(), request.sid.hex(), request.content.tobytes()
        answer = ANSWERS.get(content[1] if len(content) > 1 else 0)
        if answer is None:
            raise Refused(Rule.MALFORMED, detail="no message of the first aggregator")
        with self._transaction() as given:
            known = given.session(sid)
            if known is None:
                raise StageOrder(f"session {sid} was never opened here")
            terms = VerifiedTerms.parse(known.terms)
            helper = self._restored(given, roster, terms, known)
            if helper is None:
                raise StageOrder(f"session {sid} was given up here: its keys are deleted")
            reply = answer(helper, content)
            given.save(sid, helper.state())
            record, signature = self._record(given, terms, known, helper) if helper.closed else (b"", b"")
        return LinkReply(sid=request.sid, content=as_array(reply), record=record, signature=signature)

    @property
    def store(self) -> GivenStore:
        """What it has given."""
        return GivenStore(self.home.store_file)

    @contextmanager
    def _transaction(self) -> Iterator[GivenSums]:
        """Of one message; sessions that have lived their time are given up first."""
        with self.store.transaction() as given:
            given.erase_before(self.clock() - LIFETIME)
            yield given

    def _accept(self, given: GivenSums, terms: VerifiedTerms) -> Terms:
        """What the federation came with, if this session is one that it promised and that the policy allows.

        The noise must be, to the digit, that of the release that is charged.
        """
        told = given.terms(terms.federation)
        if told is None:
            raise Refused(Rule.PROMISE, detail="this federation was never introduced (query.va_hello)")
        check_pinned(self.home.pinned_terms(), told)
        check_terms(self.home.policy, told, self.home.roster(), given.other_promises(terms.federation))
        if (terms.teachers, terms.classes) != (told.teachers, len(told.classes)):
            raise Refused(Rule.PROMISE, limit=told.teachers, requested=terms.teachers)
        sigma = sigma_of(release_of(told.promise, terms.release), terms.phase)
        if (terms.leader_sigma, terms.helper_sigma) != (sigma, sigma):
            raise Refused(Rule.PROMISE, detail="the noise of the session is not that of the promise")
        return told

    def _rules(self, given: GivenSums, roster: VerifiedRoster, told: Terms, ids: list[str]) -> KeptRules:
        return KeptRules(given, self.home.policy, roster, told, ids)

    def _restored(
        self, given: GivenSums, roster: VerifiedRoster, terms: VerifiedTerms, known: OpenSession
    ) -> Helper | None:
        """The helper of a session that was opened before; None where it was given up."""
        if known.state is None:
            return None
        return self._helper(given, roster, terms, self._accept(given, terms), list(known.ids), known.state)

    def _helper(
        self,
        given: GivenSums,
        roster: VerifiedRoster,
        terms: VerifiedTerms,
        told: Terms,
        ids: list[str],
        state: bytes | None,
    ) -> Helper:
        rules = [self._rules(given, roster, told, ids)]
        noise = self._noise(terms, told)
        return Helper(terms, roster, self.home.sealing().private(), rules, noise, state=state)

    def _noise(self, terms: VerifiedTerms, told: Terms) -> NoiseSource:
        seed = self.home.settings.simulated_noise_seed
        if seed is None or not told.simulation:
            return SystemNoise()
        parts = [seed, "second aggregator", terms.query_set, terms.phase, terms.release]
        return SeededNoise(int(canonical_digest(parts), 16))

    def _record(
        self, given: GivenSums, terms: VerifiedTerms, known: OpenSession, helper: Helper
    ) -> tuple[bytes, bytes]:
        """What is signed of a half that is given, and the signature; the same each time."""
        before = given.record(terms.sid)
        if before is not None:
            return before
        record = GivenRecord(
            sid=terms.sid,
            federation=terms.federation,
            roster=terms.roster,
            ids=ids_digest(known.ids),
            queries=terms.queries,
            accepted=tuple(map(helper.roster.place, helper.accepted)),
            left_out=len(helper.left_out),
            sigma=terms.helper_sigma,
            phase=terms.phase,
            release=terms.release,
            session=terms.ctx.hex(),
            commitment=helper.commitments[0],
            half=helper.commitments[1],
        )
        signed = record.canonical(), record.sign(self.home.identity())
        given.keep_record(terms.sid, *signed)
        return signed
