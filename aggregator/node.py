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
from consilium.aggregator.policy import KeptRules, check_terms, noise_of, release_of
from consilium.aggregator.store import GivenStore, GivenSums, OpenSession
from consilium.node.answering import check_pinned, check_protocol, pool_of
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import DataError
from consilium.protocol.messages import Terms
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise
from consilium.protocol.pool import proves
from consilium.protocol.queries import canonical_queries, query_ids, query_set_hash
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.versions import program_versions
from consilium.sums.errors import Replay, StageOrder
from consilium.sums.roster import VerifiedRoster
from consilium.sums.terms import LIFETIME
from consilium.sums.verified.half import ASKED, BATCH
from consilium.sums.verified.helper import Helper
from consilium.sums.verified.sealing import sign_key
from consilium.sums.verified.terms import VerifiedTerms
from consilium.sums.verified.wire import (
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

log = logging.getLogger("consilium.aggregator")

ANSWERS: Mapping[int, Callable[[Helper, bytes], bytes]] = {BATCH: Helper.check, ASKED: Helper.give}
"""By the kind that a message of the first aggregator says it is of, in plaintext in its first byte; it is sealed as
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
        with self._transaction() as sums:
            known = sums.terms(request.federation)
            if known is not None and known != request.terms:
                raise Refused(Rule.PROMISE, detail="this federation's terms are not those it came with first")
            check_terms(self.home.policy, request.terms, roster, sums.other_promises(request.federation))
            sums.keep_terms(request.terms)
        program = program_versions()
        if request.program != program:
            log.warning("another version: the coordinator runs %s, this node %s", request.program or "none", program)
        return AggregatorReply(name=self.home.name, key=roster.helper.ed25519_pk, program=program)

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
        with self._transaction() as sums:
            known = sums.session(terms.sid)
            if known is None:
                agreed = self._accept(sums, terms)
                pool = pool_of(agreed)
                if pool is not None and not proves(pool, ids, request.places, request.proof):
                    raise Refused(Rule.POOL, detail="a query is not proved to be a public row")
                helper = self._helper(sums, roster, terms, agreed, ids, None)
                sums.open(terms.sid, request.terms, ids, self.clock())
                sums.save(terms.sid, helper.state())
            elif known.terms != request.terms:
                raise Replay(f"session {terms.sid} is known with other terms")
            else:
                helper = self._restored(sums, roster, terms, known)
            signed = sums.signed(terms.federation)
        key = b"" if helper is None else helper.key
        signature = sign_key(self.home.identity(), terms.ctx, key) if key else b""
        return OpenReply(sid=terms.sid_bytes, signed=signed, key=key, signature=signature)

    def link(self, request: LinkRequest) -> LinkReply:
        """The answer of the protocol's helper to a message of the leader; with the half of a sum, what is signed.

        Raises
        ------
        Refused, SecAggError : the session is not open, or the sum is one that this node does not give its half of.
        """
        roster, sid, content = self.home.roster(), request.sid.hex(), request.content.tobytes()
        answer = ANSWERS.get(content[0] if content else 0)
        if answer is None:
            raise Refused(Rule.MALFORMED, detail="no message of the first aggregator")
        with self._transaction() as sums:
            known = sums.session(sid)
            if known is None:
                raise StageOrder(f"session {sid} was never opened here")
            terms = VerifiedTerms.parse(known.terms)
            helper = self._restored(sums, roster, terms, known)
            if helper is None:
                raise StageOrder(f"session {sid} was given up here: its keys are deleted")
            reply = answer(helper, content)
            sums.save(sid, helper.state())
            record, signature = self._record(sums, terms, known, helper) if helper.closed else (b"", b"")
        return LinkReply(sid=request.sid, content=as_array(reply), record=record, signature=signature)

    @property
    def store(self) -> GivenStore:
        """What it has given."""
        return GivenStore(self.home.store_file)

    @contextmanager
    def _transaction(self) -> Iterator[GivenSums]:
        """Of one message; sessions that have lived their time are given up first."""
        with self.store.transaction() as sums:
            sums.erase_before(self.clock() - LIFETIME)
            yield sums

    def _accept(self, sums: GivenSums, terms: VerifiedTerms) -> Terms:
        """What the federation came with, if this session is one that it promised and that the policy allows.

        The noise must be, to the digit, that of the release that is charged.
        """
        agreed = sums.terms(terms.federation)
        if agreed is None:
            raise Refused(Rule.PROMISE, detail="this federation was never introduced (query.va_hello)")
        check_pinned(self.home.pinned_terms(), agreed)
        check_terms(self.home.policy, agreed, self.home.roster(), sums.other_promises(terms.federation))
        if (terms.teachers, terms.classes) != (agreed.teachers, len(agreed.classes)):
            raise Refused(Rule.PROMISE, limit=agreed.teachers, requested=terms.teachers)
        if terms.noise != noise_of(release_of(agreed.promise), terms.round):
            raise Refused(Rule.PROMISE, detail="the noise of the session is not that of the promise")
        return agreed

    def _restored(
        self, sums: GivenSums, roster: VerifiedRoster, terms: VerifiedTerms, known: OpenSession
    ) -> Helper | None:
        """The helper of a session that was opened before; None where it was given up."""
        if known.state is None:
            return None
        return self._helper(sums, roster, terms, self._accept(sums, terms), list(known.ids), known.state)

    def _helper(
        self,
        sums: GivenSums,
        roster: VerifiedRoster,
        terms: VerifiedTerms,
        agreed: Terms,
        ids: list[str],
        state: bytes | None,
    ) -> Helper:
        rules = KeptRules(sums, self.home.policy, agreed, ids)
        noise = self._noise(terms, agreed)
        return Helper(terms, roster, self.home.sealing().private(), rules, noise, state=state)

    def _noise(self, terms: VerifiedTerms, agreed: Terms) -> NoiseSource:
        seed = self.home.settings.simulated_noise_seed
        if seed is None or not agreed.simulation:
            return SystemNoise()
        parts = [seed, "second aggregator", terms.query_set, terms.round]
        return SeededNoise(int(canonical_digest(parts), 16))

    def _record(self, sums: GivenSums, terms: VerifiedTerms, known: OpenSession, helper: Helper) -> tuple[bytes, bytes]:
        """What is signed of a half that is given, and the signature; the same each time."""
        before = sums.record(terms.sid)
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
            sigma=terms.sigma,
            round=terms.round,
            session=terms.ctx.hex(),
            commitment=helper.commitments[0],
            half=helper.commitments[1],
        )
        signed = record.canonical(), record.sign(self.home.identity())
        sums.keep_record(terms.sid, *signed)
        return signed
