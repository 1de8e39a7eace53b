"""Collection of verified votes: the sessions of `sums.verified` over the exchanges with the parties and with the second
aggregator, which is one more node behind the same transport, found by its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.collection.exchange import Failure, Steps, exchange, no_node, stream, tell_left_out
from consilium.coordinator.collection.kept_sums import SESSIONS, KeptSession, KeptSums, VerifiedSessions
from consilium.coordinator.collection.means import Collecting, SumCollector, VoteKeys, check_digest
from consilium.coordinator.config import FederationConfig
from consilium.node.keys import IDENTITY, SEALING
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.messages import PROTOCOL_VERSION, WireModel
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise
from consilium.protocol.refusals import CURES_OF_SECOND, Rule
from consilium.sums.errors import SecAggError, ThresholdNotMet
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.aggregators import Leader, VerifiedSum
from consilium.sums.verified.field import MOST_REACH
from consilium.sums.verified.messages import (
    MOST_BATCH,
    AggregatorReply,
    AggregatorRequest,
    CheckReply,
    CheckRequest,
    GiveReply,
    GiveRequest,
    OpenReply,
    OpenRequest,
    UploadReply,
    UploadRequest,
    as_array,
)
from consilium.sums.verified.uploads import VerifiedTerms, check_key, reach_of, upload_bytes

Reply = TypeVar("Reply", bound=WireModel)
ATTEMPTS = 2
"""How often a message is sent to a node that is silent; it is looked for anew in between."""


class AggregatorAway(SecAggError):
    """The second aggregator is not there, does not answer, or has forgotten what it gave. Nothing is used up: the same
    session goes on later."""

    CURE = "Start it, or telephone whoever runs it, and ask again; nothing was used up"


class AggregatorRefuses(SecAggError):
    """The second aggregator does not serve in this federation, or does not give its half of this sum. rule: of its
    refusal; None where what it said is no refusal."""

    rule: Rule | None = None


class SecondAggregator:
    """Finds the node that has the second aggregator's key, among those that are no parties, and asks it. A node that
    only claims the key cannot go on: all that it says later is sealed and signed."""

    def __init__(self, means: Collecting, roster: VerifiedRoster) -> None:
        self._means, self._roster = means, roster
        self._node: int | None = None

    def find(self) -> int:
        """Its node, which would serve in this federation. Raises AggregatorAway (no such node is connected),
        AggregatorRefuses (it does not serve)."""
        means, config = self._means, self._means.config
        members = {member.node for member in means.members}
        others = [node for node in means.transport.nodes() if node not in members]
        request = AggregatorRequest(
            **config.terms().model_dump(), protocol_version=PROTOCOL_VERSION, program=means.standing.program
        )
        requests = dict.fromkeys(others, request)
        replies = exchange(means.transport, requests, AggregatorReply, config.timeouts.enrol)
        nodes = [node for node, reply in replies.answers.items() if reply.key == self._roster.helper.ed25519_pk]
        if not nodes:
            failures = [each for each in replies.failures.values() if each.rule is not Rule.NODE_KIND]
            refused = next((failure for failure in failures if not failure.silent), None)
            if refused is not None:
                raise _error(refused)
            reason = failures[0].reason if failures else "no such node is connected"
            if replies.answers:
                reason = "a node answers as second aggregator, with another key than the roster's"
            raise _error(Failure(reason, silent=True))
        self._node = min(nodes)
        means.log.write("second-aggregator", name=replies.answers[self._node].name, node=self._node)
        return self._node

    def ask(self, request: WireModel, model: type[Reply]) -> Reply:
        """Its answer to one message. Raises AggregatorAway (it is not there, or silent), AggregatorRefuses."""
        failure, wait = no_node(), self._means.config.timeouts.secure
        for _attempt in range(ATTEMPTS):
            node = self.find() if self._node is None else self._node
            replies = exchange(self._means.transport, {node: request}, model, wait)
            if node in replies.answers:
                return replies.answers[node]
            failure, self._node = replies.failures[node], None
            if not failure.silent:
                break
        raise _error(failure)


def _error(failure: Failure) -> AggregatorAway | AggregatorRefuses:
    if failure.silent:
        return AggregatorAway(f"the second aggregator does not answer: {failure.reason}")
    reason, cure = failure.refusal or failure.reason, failure.cure(CURES_OF_SECOND)
    ask = "Its own log has the detail; nothing was given"
    error = AggregatorRefuses(f"the second aggregator refuses: {reason}", f"{cure}. {ask}" if cure else ask)
    error.rule = failure.rule
    return error


@dataclass(frozen=True)
class VerifiedKeys(VoteKeys):
    """See `VoteKeys`: the roster with both aggregators, the coordinator's signing key and its sealing key."""

    roster: VerifiedRoster
    signer: Identity
    sealing: SealingKey

    @classmethod
    def of(cls, roster: VerifiedRoster, own: Mapping[str, Any]) -> VerifiedKeys:
        return cls(roster, own[IDENTITY], own[SEALING])

    @classmethod
    def check_sums(cls, config: FederationConfig, roster: VerifiedRoster) -> None:
        """Raise ConfigError unless all sums over this roster, with both halves of noise, fit into half of the field."""
        drawn = (config.node_event(0, 0).party_noise(round) for round in (1, 2))
        sigma = max((noise.sigma for noise in drawn if noise is not None), default=0.0)
        reach = reach_of(roster.n, config.teachers_per_party, sigma)
        if reach > MOST_REACH:
            raise ConfigError(
                f"verified sums of {roster.n} parties may reach {reach}, the most is {MOST_REACH}",
                "Use fewer parties or teachers, or less noise",
            )

    def check(self, config: FederationConfig) -> None:
        check_digest(config, self.roster)
        listed = self.roster.leader
        if (self.signer.public.hex(), self.sealing.public.hex()) != (listed.ed25519_pk, listed.x25519_pk):
            raise ConfigError(
                "the roster lists the coordinator with other keys than these", "Name the files that belong to it"
            )
        self.check_sums(config, self.roster)

    def check_reachable(self, means: Collecting) -> None:
        SecondAggregator(means, self.roster).find()

    def collector(self, means: Collecting) -> VerifiedCollector:
        return VerifiedCollector(means, self)


BATCH_BYTES = 2**26
"""Of uploads that are checked together: what is in memory at once is twice as much."""
NO_HALF = frozenset({Rule.STAGE_ORDER, Rule.BAD_SIGNATURE, Rule.INCONSISTENT_VIEW})
"""Refusals after which a session that was resumed is begun anew: the second aggregator does not know it so."""
PASSING = frozenset({Rule.STORAGE, Rule.LOCKED, Rule.INTERNAL, Rule.POLICY, None})
"""Refusals that may be mended at the second aggregator: the session is kept, since its half may have been given."""


class VerifiedCollector(SumCollector):
    """The `Collector` of verified votes; see `SumCollector`."""

    def __init__(self, means: Collecting, keys: VerifiedKeys) -> None:
        keys.check(means.config)
        super().__init__(means, keys.roster)
        self._keys, self._second = keys, SecondAggregator(means, keys.roster)
        self._sessions: VerifiedSessions = VerifiedSessions(means.sessions / SESSIONS)
        self._sums = KeptSums(means.run_dir, keys.roster)

    def collect(self, queries: Queries, sigma: float) -> Counts:
        """The sum over the parties whose votes are votes, with both aggregators' noise. Raises AggregatorAway: the same
        session goes on when it is asked again; so it does where the second aggregator's disk was full.
        AggregatorRefuses, ThresholdNotMet, SecAggError: there is no sum; nothing is used up unless the second
        aggregator gave its half. LedgerError: a file of sums is damaged; the session is kept."""
        name, signed = self._begin(queries), self._sums.signed()
        session: KeptSession | None = self._sessions.session(name)
        if session is not None:
            self._log.write("resumed-session", stage="votes" if session.question is None else "sum")
            try:
                return self._tried(name, session, queries, sigma, signed)
            except (AggregatorRefuses, ConfigError) as error:
                if isinstance(error, AggregatorRefuses) and error.rule not in NO_HALF:
                    raise
                self._log.write("session-lost", reason=type(error).__name__)
        fresh, drawn = SealingKey.generate(), self._config.sum_noise(sigma).drawn.sigma
        terms = self._new_terms(VerifiedTerms, queries, leader_key=fresh.public.hex(), sigma=drawn)
        session = KeptSession(terms.canonical(), terms.sign(self._keys.signer), fresh.secret)
        self._sessions.keep(name, session)
        return self._tried(name, session, queries, sigma, signed)

    def _tried(self, name: str, session: KeptSession, queries: Queries, sigma: float, signed: int) -> Counts:
        """What comes of a session; of one that gives no sum nothing is kept, unless it may go on."""
        try:
            result = self._sum(name, session, queries, signed)
        except (SecAggError, ConfigError, MalformedMessage) as error:
            passes = isinstance(error, AggregatorRefuses) and error.rule in PASSING
            if not passes and not isinstance(error, AggregatorAway):
                self._sessions.forget(name)
            raise
        return self._counts(result.sums, map(self._roster.name, result.accepted), sigma)

    def _sum(self, name: str, session: KeptSession, queries: Queries, signed: int) -> VerifiedSum:
        """From the session on disk to its sum. signed: sums that the second aggregator gave its half of, and knows."""
        roster = self._keys.roster
        terms = VerifiedTerms.open(session.terms, session.signature, roster)
        if terms.query_set != queries.hash or terms.federation != self._config.digest():
            raise ConfigError("the open session is of other queries", "It is begun anew")
        self._standing.stated(terms)
        places, proof = self._standing.proof(queries.rows)
        begin: dict[str, Any] = {"terms": session.terms, "signature": session.signature, "queries": queries.rows}
        begin |= {"places": places, "proof": proof}
        opened = self._second.ask(OpenRequest(**begin), OpenReply)
        if opened.signed < signed:
            # an older state of it was restored: it would give its half of the same queries again
            raise AggregatorAway(
                f"the second aggregator's state went back: it gave its half of {signed} sums of this federation, and"
                f" knows {opened.signed}",
                "Have the newest backup of its state/ restored; if that is lost, put another in its place: consilium"
                " provision revoke and add",
            )
        key, fresh, question = session.key or opened.key, SealingKey(session.fresh), session.question
        if question is None:
            if not opened.key or opened.key != key:  # uploads are sealed for the one that came first
                raise ConfigError("the second aggregator has not this key of the session", "It is begun anew")
            check_key(bytes.fromhex(roster.helper.ed25519_pk), terms.ctx, key, opened.signature)
            session = replace(session, key=key)
            self._sessions.keep(name, session)
        leader = Leader(terms, roster, self._keys.sealing, fresh, key)
        if question is None:
            request = UploadRequest(**begin, helper_key=key, helper_signature=opened.signature)
            self._ask_parties(name, terms, request)
            self._check(name, leader)
            question = leader.ask(self._noise(terms))
            self._sessions.keep(name, replace(session, question=question))
        reply = self._second.ask(GiveRequest(sid=terms.sid_bytes, content=as_array(question.sealed)), GiveReply)
        result = leader.finish(question, reply.content.tobytes())
        self._sums.keep(reply.record, reply.signature, terms, queries.ids, result)
        return result

    def _ask_parties(self, name: str, terms: VerifiedTerms, request: UploadRequest) -> None:
        """Ask for the uploads that are not here yet, and keep them. Raises ThresholdNotMet where too few answer."""
        roster, there = self._keys.roster, {*self._sessions.places(name)}
        asked = {member.node: member.party for member in self._members if roster.place(member.party) not in there}
        if asked:
            self._standing.voting(request.queries, list(asked.values()))
        steps = Steps(self._log, "secure sum: votes", len(asked))
        failures: dict[str, Failure] = {}
        uploads: dict[int, bytes] = {}
        most, wait = upload_bytes(terms.grid), self._config.timeouts.vote
        try:
            replies = stream(self._transport, dict.fromkeys(asked, request), UploadReply, wait, steps, most)
            for node, reply in replies:
                party = asked[node]
                if isinstance(reply, Failure):
                    failures[party] = reply
                elif reply.party != party or reply.sid != terms.sid_bytes:
                    failures[party] = Failure("answers for another party or another session")
                else:
                    uploads[roster.place(party)] = reply.upload.tobytes()
                    if len(uploads) * most > BATCH_BYTES:
                        self._sessions.keep_uploads(name, uploads)
                        uploads.clear()
        finally:
            self._sessions.keep_uploads(name, uploads)
        tell_left_out(self._log, "secure sum: votes", failures)
        present = {*self._sessions.places(name)}
        if len(present) < roster.least:
            missing = (entry.id for place, entry in enumerate(roster.parties) if place not in present)
            raise ThresholdNotMet("votes", len(present), roster.least, missing)

    def _check(self, name: str, leader: Leader) -> None:
        """Every upload, with the second aggregator; who is not accepted is left out by name."""
        places, sid = self._sessions.places(name), leader.terms.sid_bytes
        steps = Steps(self._log, "secure sum: check", len(places))
        size = max(1, min(MOST_BATCH, BATCH_BYTES // upload_bytes(leader.terms.grid)))
        for start in range(0, len(places), size):
            part = places[start : start + size]
            batch = leader.batch(self._sessions.uploads(name, part))
            if batch is not None:
                checked = self._second.ask(CheckRequest(sid=sid, content=as_array(batch)), CheckReply)
                leader.settle(checked.content.tobytes())
            steps(start + len(part), len(places))
        reasons = {party: Failure(f"not accepted: it {fault}") for party, fault in leader.left_out.items()}
        tell_left_out(self._log, "secure sum: check", reasons)

    def _noise(self, terms: VerifiedTerms) -> NoiseSource:
        if self._config.noise_seed is None:
            return SystemNoise()
        parts = [self._config.noise_seed, "coordinator's half", terms.query_set, terms.round]
        return SeededNoise(int(canonical_digest(parts), 16))
