"""Secure and distributed votes at a party: sessions of `party.secagg` under its own policy, terms and budget."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from accounting.events import DistributedEvent, DistributedTwoPhaseEvent
from accounting.release import ReleaseEvent
from party import spend
from party.home import Home
from party.policy import check_teachers, check_votes_mode
from party.secagg.session import PartySession
from party.secagg.store import SessionStore
from protocol.messages import NAME_PATTERN
from protocol.noise import NoiseSource, SeededNoise, SystemNoise
from protocol.refusals import Refusal, Refused, Rule
from protocol.schema import canonical_digest
from protocol.secagg import errors
from protocol.secagg.identity import Identity
from protocol.secagg.messages import (
    AdvertiseReply,
    AdvertiseRequest,
    ConsistencyReply,
    ConsistencyRequest,
    MaskedReply,
    MaskedRequest,
    ShareReply,
    ShareRequest,
    UnmaskReply,
    UnmaskRequest,
)
from protocol.secagg.roster import Roster
from protocol.secagg.session import SessionDescriptor, parse_descriptor

RULES: dict[type[errors.SecAggError], Rule] = {
    errors.RosterMismatch: Rule.ROSTER_MISMATCH,
    errors.UnsafeSession: Rule.UNSAFE_SESSION,
    errors.OverflowRisk: Rule.OVERFLOW_RISK,
    errors.BadSignature: Rule.BAD_SIGNATURE,
    errors.BadKey: Rule.BAD_KEY,
    errors.BadShare: Rule.BAD_SHARE,
    errors.InconsistentView: Rule.INCONSISTENT_VIEW,
    errors.Replay: Rule.REPLAY,
    errors.AlreadyAnswered: Rule.ALREADY_ANSWERED,
    errors.SetTooClose: Rule.SET_TOO_CLOSE,
    errors.StageOrder: Rule.STAGE_ORDER,
    errors.ThresholdNotMet: Rule.THRESHOLD,
}
"""What the coordinator is told of an error; the text stays in the party's log."""


def refusal_of(error: errors.SecAggError) -> Refusal:
    """What travels instead of the error: the rule, and the counts or the party at fault that it names."""
    # some errors name the coordinator or several: those are no party's name
    named = getattr(error, "party", None)
    known = isinstance(named, str) and re.fullmatch(NAME_PATTERN, named) is not None
    counts = error if isinstance(error, errors.AlreadyAnswered | errors.SetTooClose) else None
    return Refusal(
        rule=RULES.get(type(error), Rule.INTERNAL),
        limit=counts.limit if counts else None,
        requested=counts.requested if counts else None,
        party=named if known else None,
    )


class Ballot(Protocol):
    """`PartyNode.charged_votes`: counts the queries against the party's limits, then gives its votes."""

    def __call__(
        self, queries: np.ndarray, query_set: str, federation: str, promise: str, phase: int = 1
    ) -> np.ndarray: ...


def check_roster(home: Home, digest: str) -> Roster:
    """The party's own copy of the roster, if it is the one with this hash and can be served under the policy.

    Raises
    ------
    Refused : another roster, too few honest parties in a sum, or sums that may differ by too few. The last is asked
        here and not of each sum: t others could unmask what this party alone finds too close.
    ConfigError : no usable roster file.
    """
    roster = Roster.load(home.roster_file)
    if roster.digest != digest:
        raise Refused(
            Rule.ROSTER_MISMATCH, detail=f"the coordinator has {digest[:12]}, this party {roster.digest[:12]}"
        )
    if roster.u_min - roster.c < home.policy.least_parties:
        raise Refused(Rule.LEAST_PARTIES, limit=home.policy.least_parties, requested=roster.u_min - roster.c)
    if roster.least_difference < home.policy.least_difference:
        raise Refused(Rule.LEAST_DIFFERENCE, limit=home.policy.least_difference, requested=roster.least_difference)
    return roster


@dataclass(frozen=True)
class SecureVotes:
    """The five stages of one party. Each raises Refused, SecAggError or ConfigError and gives nothing then.

    spend_file: where the terms are kept that the party was told when it enrolled.
    """

    home: Home
    spend_file: Path
    ballot: Ballot

    def advertise(self, request: AdvertiseRequest) -> AdvertiseReply:
        """Stage 0: keys, if the session is one that this party was promised."""
        session = self._session()
        session.sweep()
        return session.advertise(request, self.accept)

    def share(self, request: ShareRequest) -> ShareReply:
        """Stage 1."""
        return self._session().share(request)

    def masked(self, request: MaskedRequest) -> MaskedReply:
        """Stage 2: votes, counted, with this party's share of the noise where it is asked for, under masks."""
        session = self._session()
        with SessionStore(self._store).transaction() as transaction:
            begun = transaction.session(request.sid)
        if begun is None:
            raise errors.StageOrder(f"session {request.sid.hex()} was never begun here")
        terms = parse_descriptor(begun.descriptor)
        told = self._told(terms.federation)

        def votes(queries: np.ndarray) -> np.ndarray:
            return self.ballot(queries, terms.query_set, terms.federation, told.promise, terms.phase)

        source = self._noise(terms, told)
        return session.masked(request, votes, lambda sigma, shape: source.gaussian(sigma, shape))

    def consistency(self, request: ConsistencyRequest) -> ConsistencyReply:
        """Stage 3."""
        return self._session().consistency(request)

    def unmask(self, request: UnmaskRequest) -> UnmaskReply:
        """Stage 4."""
        return self._session().unmask(request)

    def accept(self, terms: SessionDescriptor) -> None:
        """Refused unless the session's terms are what the policy allows and what was promised at enrolment."""
        told = self._told(terms.federation)
        if told.votes == "clear" or (told.votes == "distributed") != (terms.sigma > 0):
            raise Refused(Rule.VOTES, detail=f"promised {told.votes} votes, the session has sigma {terms.sigma:g}")
        check_votes_mode(self.home.policy, told.votes)
        check_teachers(self.home.policy, terms.teachers)
        check_roster(self.home, terms.roster)
        event = spend.parse_promise(told.promise)[0]
        if terms.teachers != event.teachers_per_party:
            raise Refused(Rule.PROMISE, limit=event.teachers_per_party, requested=terms.teachers)
        if terms.sigma > 0 and (terms.sigma, terms.noise_shares) != promised_noise(event, terms.phase):
            raise Refused(Rule.PROMISE, detail="the noise of the session is not that of the promise")

    def _told(self, federation: str) -> spend.FederationTerms:
        told = spend.told_terms(self.spend_file, federation)
        if told is None:
            raise Refused(Rule.PROMISE, detail="this federation was never introduced (query.hello)")
        return told

    def _noise(self, terms: SessionDescriptor, told: spend.FederationTerms) -> NoiseSource:
        seed = self.home.simulated_noise_seed
        if seed is None or not told.simulation:
            return SystemNoise()
        return SeededNoise(int(canonical_digest([seed, self.home.name, terms.query_set, terms.phase]), 16))

    @property
    def _store(self) -> Path:
        return self.home.state / "sessions.db"

    def _session(self) -> PartySession:
        roster = Roster.load(self.home.roster_file)
        return PartySession(self._store, Identity.load(self.home.identity_file), self.home.name, roster)


def promised_noise(event: ReleaseEvent, phase: int) -> tuple[float, int] | None:
    """Sigma and number of shares that the promised event charges for in this phase; None where it has none."""
    if isinstance(event, DistributedEvent) and phase == 1:
        return event.sigma, event.noise_shares
    if isinstance(event, DistributedTwoPhaseEvent):
        return (event.sigma1 if phase == 1 else event.sigma2), event.noise_shares
    return None
