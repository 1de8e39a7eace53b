"""The second aggregator as the coordinator reaches it: one more node behind the same transport, found by its key."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from consilium.coordinator.collection.admission import Greeting
from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.collection.exchange import (
    Failure,
    Member,
    Steps,
    Transport,
    exchange,
    no_node,
    stream,
    tell_left_out,
)
from consilium.coordinator.collection.history import SumCollector
from consilium.coordinator.collection.kept_session import GivenRecords, KeptSession
from consilium.coordinator.collection.means import Collecting, Standing
from consilium.coordinator.collection.secure import check_digest
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.messages import PROTOCOL_VERSION, WireModel
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise
from consilium.protocol.refusals import CURES_OF_SECOND, Rule
from consilium.sums.agreement import new_private, public_of
from consilium.sums.errors import (
    FAULTS,
    AggregatorAway,
    AggregatorRefuses,
    AggregatorWentBack,
    SecAggError,
    ThresholdNotMet,
)
from consilium.sums.field import FIELD
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.half import VerifiedSum
from consilium.sums.verified.leader import Leader
from consilium.sums.verified.messages import MOST_BATCH
from consilium.sums.verified.sealing import check_key
from consilium.sums.verified.terms import VerifiedTerms, reach_of
from consilium.sums.verified.uploads import upload_bytes
from consilium.sums.verified.wire import (
    AggregatorReply,
    AggregatorRequest,
    LinkReply,
    LinkRequest,
    OpenReply,
    OpenRequest,
    UploadReply,
    UploadRequest,
    as_array,
)

Reply = TypeVar("Reply", bound=WireModel)
ATTEMPTS = 2
"""How often a message is sent to a node that is silent; it is looked for anew in between."""


class SecondAggregator:
    """Finds the node that has the second aggregator's key, and asks it.

    Parties announce themselves to `query.hello`; whoever refuses that since it is another kind of node is asked here. A
    node that only claims the key cannot go on: all that it says later is sealed and signed.

    members : nodes of the parties that serve now, which are not asked.
    """

    def __init__(
        self,
        transport: Transport,
        config: FederationConfig,
        roster: VerifiedRoster,
        greeting: Greeting,
        members: Callable[[], Collection[int]],
        log: EventLog,
    ) -> None:
        self._transport, self._config, self._roster, self._log = transport, config, roster, log
        self._greeting, self._members = greeting, members
        self._node: int | None = None

    def find(self) -> int:
        """Its node, which would serve in this federation.

        Raises
        ------
        AggregatorAway : no such node is connected. AggregatorRefuses : it does not serve.
        """
        members = set(self._members())
        others = [node for node in self._transport.nodes() if node not in members]
        request = AggregatorRequest(
            **self._config.terms().model_dump(),
            protocol_version=PROTOCOL_VERSION,
            **self._greeting.position().model_dump(),
            program=self._greeting.program,
        )
        replies = exchange(
            self._transport, dict.fromkeys(others, request), AggregatorReply, self._config.timeouts.enrol, _untold
        )
        nodes = [node for node, reply in replies.answers.items() if reply.key == self._roster.helper.ed25519_pk]
        if not nodes:
            raise _why(list(replies.failures.values()), len(replies.answers))
        self._node = min(nodes)
        self._log.write("second-aggregator", name=replies.answers[self._node].name, node=self._node)
        return self._node

    def ask(self, request: WireModel, model: type[Reply], timeout: float) -> Reply:
        """Its answer to one message.

        Raises
        ------
        AggregatorAway : it is not there, or silent. AggregatorRefuses : it says no.
        """
        failure = no_node()
        for _attempt in range(ATTEMPTS):
            node = self.find() if self._node is None else self._node
            replies = exchange(self._transport, {node: request}, model, timeout, _untold)
            if node in replies.answers:
                return replies.answers[node]
            failure, self._node = replies.failures[node], None
            if not failure.silent:
                break
        raise _error(failure)


def _untold(done: int, total: int) -> None:
    """One node: there is no progress to tell."""


def _why(failures: list[Failure], others: int) -> AggregatorAway | AggregatorRefuses:
    """What there is to say where no node is the one: the refusal of one that is no party, if there is any."""
    others_of = [failure for failure in failures if failure.rule is not Rule.NODE_KIND]
    refused = next((failure for failure in others_of if not failure.silent), None)
    if refused is not None:
        return _error(refused)
    if others:
        return AggregatorAway("a node answers as second aggregator, with another key than the roster's")
    return AggregatorAway(others_of[0].reason if others_of else "no such node is connected")


def _error(failure: Failure) -> AggregatorAway | AggregatorRefuses:
    if failure.silent:
        return AggregatorAway(failure.reason)
    reason = failure.reason if failure.refusal is None else str(failure.refusal)
    return AggregatorRefuses(reason, failure.cure(CURES_OF_SECOND), failure.rule)


@dataclass(frozen=True)
class VerifiedKeys:
    """The roster with both aggregators, the coordinator's signing key and its sealing key."""

    roster: VerifiedRoster
    signer: Identity
    sealing: SealingKey

    @property
    def least_sum(self) -> int:
        """Parties that must be in a sum."""
        return self.roster.least

    def check(self, config: FederationConfig) -> None:
        """Raise ConfigError unless they are those of the federation."""
        check_digest(config, self.roster)
        if (self.signer.public.hex(), self.sealing.public.hex()) != (
            self.roster.leader.ed25519_pk,
            self.roster.leader.x25519_pk,
        ):
            raise ConfigError(
                "the roster lists the coordinator with other keys than these", "Name the files that belong to it"
            )
        check_verified_sums(config, self.roster)

    def second(self, means: Collecting) -> SecondAggregator:
        """The second aggregator, as it can be reached."""
        members = means.members

        def nodes() -> list[int]:
            return [member.node for member in members]

        return SecondAggregator(means.transport, means.config, self.roster, means.greeting, nodes, means.log)

    def check_reachable(self, means: Collecting) -> None:
        """See `VoteKeys`."""
        self.second(means).find()

    def collector(self, means: Collecting) -> VerifiedCollector:
        """See `VoteKeys`."""
        second = self.second(means)
        return VerifiedCollector(
            means.transport, means.config, means.members, self, second, means.sessions, means.standing, means.log
        )


def check_verified_sums(config: FederationConfig, roster: VerifiedRoster) -> None:
    """Raise ConfigError unless all sums over this roster, with both aggregators' noise, fit into half of the field."""
    event = config.node_event(0, 0)
    drawn = [event.party_noise(round) for round in (1, 2)]
    sigma = max((noise.sigma for noise in drawn if noise is not None), default=0.0)
    reach = reach_of(roster.n, config.teachers_per_party, sigma)
    if reach > FIELD.most_reach:
        raise ConfigError(
            f"verified sums of {roster.n} parties may reach {reach}, the most is {FIELD.most_reach}",
            "Use fewer parties or teachers, or less noise",
        )


MOST_SESSIONS = 10
"""On one query set in one call; each after the first is without parties that the one before it left out."""
MOST_REFUSED = 3
"""Sessions in which both aggregators may fail to accept a party, and nothing shows why: one of them may lie. After
these it is not asked any more."""
BATCH_BYTES = 2**26
"""Of uploads that are checked together: what is in memory at once is twice as much."""
NO_HALF = frozenset({Rule.STAGE_ORDER, Rule.BAD_SIGNATURE, Rule.INCONSISTENT_VIEW})
"""Refusals after which a session that was resumed is begun anew: the second aggregator does not know it so."""
PASSING = frozenset({Rule.STORAGE, Rule.INTERNAL, Rule.POLICY})
"""Refusals that may be mended at the second aggregator: the session is kept, since its half may have been given."""


class VerifiedCollector(SumCollector):
    """The `Collector` of verified votes; see `SumCollector`."""

    SUFFIX = ".verified"

    def __init__(
        self,
        transport: Transport,
        config: FederationConfig,
        members: list[Member],
        keys: VerifiedKeys,
        second: SecondAggregator,
        folder: Path,
        standing: Standing,
        log: EventLog,
    ) -> None:
        keys.check(config)
        super().__init__(transport, config, members, keys.roster, folder, standing, log)
        self._keys, self._second = keys, second
        self._records = GivenRecords(folder.parent, keys.roster)

    def collect(self, queries: Queries, sigma: float, progress: Progress = no_progress) -> Counts:
        """The sum over the parties whose votes are votes, with both aggregators' noise.

        Raises
        ------
        AggregatorAway, AggregatorWentBack : the same session goes on when it is asked again; so it does where the
            second aggregator's disk was full. AggregatorRefuses, ThresholdNotMet, SecAggError : there is no sum;
            nothing is used up unless the second aggregator gave its half. MalformedMessage : `aggregator.jsonl` is
            damaged; the session is kept.
        """
        self._signed = len(self._records)  # a damaged file is said before the session could be forgotten
        session = KeptSession(self._begin(queries))
        self._finished.append(session.forget)
        resumed, self._fewer = session.begun, False
        self._refused: set[str] = set()
        for left in reversed(range(MOST_SESSIONS)):
            try:
                if not session.begun:
                    fresh = new_private()
                    drawn, key = self._giver_noise(sigma).sigma, public_of(fresh).hex()
                    terms = self._new_terms(VerifiedTerms, queries, leader_key=key, sigma=drawn)
                    session.begin(terms, self._keys.signer, fresh)
                elif resumed:
                    self._log.write("resumed-session", stage="votes" if session.leader() is None else "sum")
                result = self._sum(session, queries, progress)
                return self._counts(result.sums, result.accepted, sigma)
            except AggregatorAway:
                raise
            except (SecAggError, ConfigError, MalformedMessage) as error:
                refused = error if isinstance(error, AggregatorRefuses) else None
                if refused is not None and (refused.rule is None or refused.rule in PASSING):
                    raise
                no_half = refused is not None and refused.rule in NO_HALF
                lost = resumed and (isinstance(error, ConfigError) or no_half)
                session.forget()
                if left == 0 or not (self._fewer or lost):
                    raise
                self._log.write("session-lost", reason=type(error).__name__)
                resumed = False
        raise ThresholdNotMet("votes", 0, self._keys.roster.least, ())

    def _sum(self, session: KeptSession, queries: Queries, progress: Progress) -> VerifiedSum:
        """From the session on disk to its sum. `_fewer` says afterwards whether others are left out than before."""
        self._fewer = False
        terms, signature = session.terms(self._keys.roster)
        if terms.query_set != queries.hash or terms.federation != self._config.digest():
            raise ConfigError(f"{session.folder} is of other queries", "The session is begun anew")
        sid, (places, proof) = terms.sid_bytes, self._standing.proof(queries.rows)
        begin = {
            "terms": terms.canonical(),
            "signature": signature,
            "queries": queries.rows,
            "places": places,
            "proof": proof,
        }
        opened = self._second.ask(OpenRequest(**begin), OpenReply, self._config.timeouts.secure)
        if opened.signed < self._signed:
            raise AggregatorWentBack(self._signed, opened.signed)
        begin |= {"helper_key": self._helper_key(session, terms, opened), "helper_signature": opened.signature}
        if session.leader() is None:
            self._collect(session, terms, begin, progress)
            self._check_enough(session.places())
        private, noise = self._keys.sealing.private(), self._noise(terms)
        fresh, state = session.fresh(), session.leader()
        leader = Leader(terms, self._keys.roster, private, fresh, begin["helper_key"], noise, state=state)
        if state is None:
            self._check(session, leader, progress)
        question = leader.ask()
        session.keep_leader(leader.state())
        reply = self._link(sid, question)
        result = leader.finish(reply.content.tobytes())
        self._records.keep(reply.record, reply.signature, terms, queries.ids, result)
        return result

    def _helper_key(self, session: KeptSession, terms: VerifiedTerms, opened: OpenReply) -> bytes:
        """The second aggregator's of this session. Uploads are sealed for the one that came first."""
        before = session.key()
        if before is None:
            check_key(bytes.fromhex(self._keys.roster.helper.ed25519_pk), terms.ctx, opened.key, opened.signature)
            session.keep_key(opened.key)
            return opened.key
        if session.leader() is None and opened.key != before:
            raise ConfigError("the second aggregator has another key of this session", "The session is begun anew")
        return before

    def _collect(self, session: KeptSession, terms: VerifiedTerms, begin: dict[str, Any], progress: Progress) -> None:
        """Ask for the uploads that are not here yet, and keep them as they come."""
        roster, there = self._keys.roster, {*session.places()}
        out = self._history.left_out.keys() | self._refused
        by_node = {
            member.node: member.party
            for member in self._members
            if member.party not in out and roster.place(member.party) not in there
        }
        requests = dict.fromkeys(by_node, UploadRequest(**begin))
        if by_node:
            self._standing.voting(begin["queries"], list(by_node.values()))
        steps = Steps(self._log, "secure sum: votes", len(by_node), progress)
        failures: dict[str, Failure] = {}
        most = upload_bytes(terms.grid)
        replies = stream(self._transport, requests, UploadReply, self._config.timeouts.vote, steps, most)
        for node, reply in replies:
            party = by_node[node]
            if isinstance(reply, Failure):
                failures[party] = reply
            elif reply.party != party or reply.sid.hex() != terms.sid:
                failures[party] = Failure("answers for another party or another session")
            else:
                session.keep_upload(roster.place(party), reply.upload.tobytes())
        tell_left_out(self._log, "secure sum: votes", failures)

    def _check_enough(self, there: list[int]) -> None:
        """Raise ThresholdNotMet where too few have answered."""
        roster = self._keys.roster
        if len(there) < roster.least:
            present = {*there}
            missing = (entry.id for place, entry in enumerate(roster.parties) if place not in present)
            raise ThresholdNotMet("votes", len(there), roster.least, missing)

    def _check(self, session: KeptSession, leader: Leader, progress: Progress) -> None:
        """Every upload, with the second aggregator; who is not accepted is left out by name."""
        places, roster, sid = session.places(), self._keys.roster, leader.terms.sid_bytes
        steps, size = Steps(self._log, "secure sum: check", len(places), progress), _batch_size(leader.terms)
        for start in range(0, len(places), size):
            part = places[start : start + size]
            batch = leader.batch({roster.name(place): session.upload(place) for place in part})
            if batch is not None:
                leader.settle(self._link(sid, batch).content.tobytes())
            steps(start + len(part), len(places))
        if leader.left_out:
            reasons = {name: Failure(f"not accepted: it {FAULTS[fault]}") for name, fault in leader.left_out.items()}
            tell_left_out(self._log, "secure sum: check", reasons)
            for name, fault in leader.left_out.items():
                self._refused.add(name)
                if self._history.refuse(name) >= MOST_REFUSED:
                    self._history.leave_out([name], str(fault))
                    self._log.write("excluded", party=name, reason=str(fault))
            self._fewer = True

    def _link(self, sid: bytes, content: bytes) -> LinkReply:
        request = LinkRequest(sid=sid, content=as_array(content))
        reply = self._second.ask(request, LinkReply, self._config.timeouts.secure)
        if reply.sid != sid:
            raise AggregatorRefuses("it answers for another session", "Ask again")
        return reply

    def _noise(self, terms: VerifiedTerms) -> NoiseSource:
        seed = self._config.noise_seed
        if seed is None:
            return SystemNoise()
        parts = [seed, "coordinator's half", terms.query_set, terms.round]
        return SeededNoise(int(canonical_digest(parts), 16))


def _batch_size(terms: VerifiedTerms) -> int:
    return max(1, min(MOST_BATCH, BATCH_BYTES // upload_bytes(terms.grid)))
