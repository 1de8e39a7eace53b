"""Votes of a party in sums that nobody reads whole: sessions under its own policy, terms and budget.

The coordinator is not trusted. A masked session has five stages (`party.masked_session`), a verified one a single
upload: another request in the same session is refused, a repeated one gets the same bytes, and sessions on one query
set are few. What a party cannot see, whether its verified votes were summed, and with whom, the second aggregator looks
after (`consilium.aggregator`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from consilium.party.account import Account, Agreed
from consilium.party.hidden_votes import check_own_roster
from consilium.party.home import PartySettings
from consilium.party.masked_session import PartySession
from consilium.party.store import Store
from consilium.party.sum_store import Kept, Sessions, Uploads
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity
from consilium.protocol.messages import LedgerPosition, Terms
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.errors import Replay, StageOrder
from consilium.sums.packing import message_digest
from consilium.sums.roster import Roster, VerifiedRoster
from consilium.sums.secure import party
from consilium.sums.secure.messages import (
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
from consilium.sums.secure.terms import MaskedTerms
from consilium.sums.terms import LIFETIME
from consilium.sums.verified.terms import VerifiedTerms
from consilium.sums.verified.uploads import VoteClient
from consilium.sums.verified.wire import UploadReply, UploadRequest, as_array
from consilium.sums.voter import QuerySet

T = TypeVar("T")


class Voter(Protocol):
    """A `PartyNode`, as hidden votes need it."""

    @property
    def settings(self) -> PartySettings: ...

    @property
    def store(self) -> Store: ...

    @property
    def account(self) -> Account: ...

    def agreed(self, federation: str) -> Agreed: ...

    def charged_votes(
        self, query_set: QuerySet, agreed: Agreed, round: int, position: LedgerPosition
    ) -> np.ndarray: ...


def _own(value: object, kind: type[T], name: str) -> T:
    """What the party has of this kind. Raises ConfigError where it has none."""
    if not isinstance(value, kind):
        raise ConfigError(f"this party has no {name} for such votes", "Unpack the kit again, or ask the operator")
    return value


def accepted(voter: Voter, terms: MaskedTerms | VerifiedTerms) -> Agreed:
    """The terms of the enrolment, if this session is one that they and the policy allow.

    The noise that the party is about to draw, or that the aggregators are to add, must be, to the digit, the noise of
    the release that the party charges.

    Raises
    ------
    Refused : it is not. ConfigError : no usable roster.
    """
    agreed, policy = voter.agreed(terms.federation), voter.settings.policy
    enrolled, kind = agreed.terms, "secure" if isinstance(terms, MaskedTerms) else "verified"
    if kind != enrolled.collection:
        raise Refused(Rule.VOTES, detail=f"a {kind} session in a federation of {enrolled.collection} votes")
    check_own_roster(voter.settings, enrolled)
    if terms.roster != enrolled.roster:
        raise Refused(Rule.ROSTER_MISMATCH, detail="the session has another roster than the terms")
    if (terms.teachers, terms.classes) != (enrolled.teachers, len(enrolled.classes)):
        raise Refused(Rule.PROMISE, limit=enrolled.teachers, requested=terms.teachers)
    noise = agreed.promise.noise(terms.round)
    if noise is None or terms.noise != noise:
        raise Refused(Rule.PROMISE, detail="the noise of the session is not that of the promise")
    most = min(agreed.promise.most(terms.round), policy.most_queries)
    if terms.queries > most:
        raise Refused(Rule.MOST_QUERIES, limit=most, requested=terms.queries)
    voter.account.check_position(terms.federation, terms.position)
    return agreed


@dataclass(frozen=True)
class SecureVotes:
    """The five stages of one party. Each raises Refused, SecAggError or ConfigError and gives nothing then."""

    voter: Voter

    def advertise(self, request: AdvertiseRequest) -> AdvertiseReply:
        """Stage 0: keys, if the session is one that this party was promised."""
        session = self._session()
        session.sweep()
        return session.advertise(request, self.accept)

    def share(self, request: ShareRequest) -> ShareReply:
        """Stage 1."""
        return self._session().share(request)

    def masked(self, request: MaskedRequest) -> MaskedReply:
        """Stage 2: votes, counted, with this party's share of the noise, under masks."""
        begun = Sessions(self.voter.store).session(request.sid)
        if begun is None:
            raise StageOrder(f"session {request.sid.hex()} was never begun here")
        terms = MaskedTerms.parse(begun.descriptor)
        query_set = QuerySet(request.queries, terms.query_set, request.places, request.proof)
        return self._session().masked(request, *self.sources(terms, query_set))

    def sources(self, terms: MaskedTerms, query_set: QuerySet) -> tuple[party.VotesOn, party.NoiseOf]:
        """Where the votes and the share of the noise of an accepted session come from: the votes are charged first."""
        agreed = self.voter.agreed(terms.federation)
        source = self._noise(terms, agreed.terms)

        def votes(queries: np.ndarray) -> np.ndarray:
            asked = replace(query_set, queries=queries)
            return self.voter.charged_votes(asked, agreed, terms.round, terms.position)

        return votes, source.gaussian

    def consistency(self, request: ConsistencyRequest) -> ConsistencyReply:
        """Stage 3."""
        return self._session().consistency(request)

    def unmask(self, request: UnmaskRequest) -> UnmaskReply:
        """Stage 4."""
        return self._session().unmask(request)

    def accept(self, terms: MaskedTerms) -> None:
        """See `accepted`."""
        accepted(self.voter, terms)

    def _noise(self, terms: MaskedTerms, agreed: Terms) -> NoiseSource:
        seed, name = self.voter.settings.noise_seed, self.voter.settings.name
        if seed is None or not agreed.simulation:
            return SystemNoise()
        return SeededNoise(int(canonical_digest([seed, name, terms.query_set, terms.round]), 16))

    def _session(self) -> PartySession:
        settings = self.voter.settings
        roster, identity = _own(settings.roster, Roster, "roster"), _own(settings.identity, Identity, "signing key")
        return PartySession(self.voter.store, identity, settings.name, roster)


MOST_SESSIONS = 20
"""On one query set in one round. A session that is not brought to its end may be tried again; each is a chance for an
aggregator to refuse this party and see what follows."""


@dataclass(frozen=True)
class VerifiedVotes:
    """The one answer. clock: seconds since the epoch."""

    voter: Voter
    clock: Callable[[], float] = time.time

    def upload(self, request: UploadRequest) -> UploadReply:
        """Votes, counted against the party's limits, in two parts of which neither tells anything.

        Raises
        ------
        Refused : policy, promise or budget do not allow it, or so many sessions were tried.
        SecAggError : the session is not the coordinator's, not of this roster, or was asked in another way before; or
            the key to seal for is not the second aggregator's of this session.
        ConfigError : no usable key or roster.
        """
        settings, uploads = self.voter.settings, Uploads(self.voter.store)
        roster = _own(settings.roster, VerifiedRoster, "roster")
        identity = _own(settings.identity, Identity, "signing key")
        terms = VerifiedTerms.open(request.terms, request.signature, roster)
        digest, now = message_digest(request), self.clock()
        with self.voter.store.transaction():
            agreed = accepted(self.voter, terms)
            uploads.erase_before(now - LIFETIME)
            answer = uploads.find(terms.sid)
            if answer is None:
                tried = uploads.sessions_on(terms.query_set, terms.round)
                if tried >= MOST_SESSIONS:
                    detail = "so many sessions on the same queries"
                    raise Refused(Rule.REPLAY, limit=MOST_SESSIONS, requested=tried + 1, detail=detail)
                key, signature = request.helper_key, request.helper_signature
                client = VoteClient(terms, roster, settings.name, identity, key, signature)
                query_set = QuerySet(request.queries, terms.query_set, request.places, request.proof)
                upload = client.upload(self.voter.charged_votes(query_set, agreed, terms.round, terms.position))
                answer = Kept(digest, upload)
                uploads.keep(terms.sid, terms.query_set, terms.round, now, answer)
        given = as_array(_given(answer, digest, terms.sid))
        return UploadReply(sid=terms.sid_bytes, party=settings.name, upload=given)


def _given(answer: Kept, digest: bytes, sid: str) -> bytes:
    """The bytes that are given, to this very request only."""
    if answer.request != digest:
        raise Replay(f"session {sid} was asked in another way before")
    if answer.reply is None:
        raise StageOrder(f"session {sid} is over: its lifetime has passed")
    return answer.reply
