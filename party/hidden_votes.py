"""Votes of a party in sums that nobody reads whole: sessions under its own policy, terms and budget.

The coordinator is not trusted. A masked session has five stages (`party.masked_session`), a verified one a single
upload: another request in the same session is refused, a repeated one gets the same bytes, and sessions on one query
set are few. What a party cannot see, whether its verified votes were summed, and with whom, the second aggregator looks
after (`consilium.aggregator`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from consilium.party.home import Home, check_terms
from consilium.party.masked_session import PartySession
from consilium.party.promise import promise_of
from consilium.party.spend import SpendStore
from consilium.party.sum_store import SESSIONS, KeptUpload, SessionStore, Uploads
from consilium.protocol.digests import canonical_digest
from consilium.protocol.messages import Terms
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.aggregators.sealing import SignedKey
from consilium.sums.aggregators.terms import VerifiedTerms
from consilium.sums.aggregators.uploads import VoteClient
from consilium.sums.aggregators.wire import UploadReply, UploadRequest, as_array
from consilium.sums.errors import Replay, StageOrder
from consilium.sums.masks import party
from consilium.sums.masks.messages import (
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
from consilium.sums.masks.terms import MaskedTerms
from consilium.sums.packing import message_digest
from consilium.sums.roster import ROSTERS, Roster, VerifiedRoster
from consilium.sums.terms import LIFETIME


@dataclass(frozen=True)
class QuerySet:
    """Queries, float32 (queries, features), their hash, and the proof that they are rows of the pool
    (`protocol.pool`)."""

    queries: np.ndarray = field(repr=False)
    query_set: str
    places: np.ndarray = field(repr=False)
    proof: np.ndarray = field(repr=False)


class ChargedVotes(Protocol):
    """`PartyNode.charged_votes`: counts the queries against the party's limits, then gives its votes."""

    def __call__(self, query_set: QuerySet, agreed: Terms, phase: int = 1) -> np.ndarray: ...


def check_roster(home: Home, agreed: Terms) -> Roster | VerifiedRoster:
    """The party's own copy of the roster, if it is the one of these terms and can be served under the policy.

    Raises
    ------
    Refused : another roster, too few honest parties in a sum, or a promise of noise in more shares than there are sure
        to be.
    ConfigError : no usable roster file.
    """
    roster = home.roster(ROSTERS[agreed.collection])
    if roster.digest != agreed.roster:
        raise Refused(
            Rule.ROSTER_MISMATCH, detail=f"the coordinator has {agreed.roster[:12]}, this party {roster.digest[:12]}"
        )
    if roster.sure < home.policy.least_parties:
        raise Refused(Rule.LEAST_PARTIES, limit=home.policy.least_parties, requested=roster.sure)
    noise = promise_of(agreed).noise(1)
    if isinstance(roster, Roster) and noise is not None and noise.shares > roster.sure:
        detail = "noise in more shares than are sure to be"
        raise Refused(Rule.PROMISE, limit=roster.sure, requested=noise.shares, detail=detail)
    return roster


def accepted(home: Home, spend: SpendStore, terms: MaskedTerms | VerifiedTerms) -> Terms:
    """The terms of the enrolment, if this session is one that they and the policy allow.

    The noise that the party is about to draw, or that the aggregators are to add, must be, to the digit, the noise of
    the release that the party charges.

    Raises
    ------
    Refused : it is not. ConfigError : no usable roster.
    """
    agreed = spend.terms(terms.federation)
    check_terms(home.policy, agreed)
    kind = "secure" if isinstance(terms, MaskedTerms) else "verified"
    if kind != agreed.collection:
        raise Refused(Rule.VOTES, detail=f"a {kind} session in a federation of {agreed.collection} votes")
    if terms.roster != check_roster(home, agreed).digest:
        raise Refused(Rule.ROSTER_MISMATCH, detail="the session has another roster than the terms")
    if (terms.teachers, terms.classes) != (agreed.teachers, len(agreed.classes)):
        raise Refused(Rule.PROMISE, limit=agreed.teachers, requested=terms.teachers)
    promise = promise_of(agreed)
    noise = promise.noise(terms.phase)
    if noise is None or terms.noise != noise:
        raise Refused(Rule.PROMISE, detail="the noise of the session is not that of the promise")
    most = min(promise.most(terms.phase), home.policy.most_queries)
    if terms.queries > most:
        raise Refused(Rule.MOST_QUERIES, limit=most, requested=terms.queries)
    spend.follow(terms.federation, terms.position)
    return agreed


@dataclass(frozen=True)
class SecureVotes:
    """The five stages of one party. Each raises Refused, SecAggError or ConfigError and gives nothing then.

    spend: where the party keeps the terms of its enrolment.
    """

    home: Home
    spend: SpendStore
    charged_votes: ChargedVotes

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
            raise StageOrder(f"session {request.sid.hex()} was never begun here")
        terms = MaskedTerms.parse(begun.descriptor)
        query_set = QuerySet(request.queries, terms.query_set, request.places, request.proof)
        return session.masked(request, *self.sources(terms, query_set))

    def sources(self, terms: MaskedTerms, query_set: QuerySet) -> tuple[party.VotesOn, party.NoiseOf]:
        """Where the votes and the share of the noise of an accepted session come from: the votes are charged first."""
        agreed = self.spend.terms(terms.federation)
        source = self._noise(terms, agreed)

        def votes(queries: np.ndarray) -> np.ndarray:
            return self.charged_votes(replace(query_set, queries=queries), agreed, terms.phase)

        return votes, lambda sigma, shape: source.gaussian(sigma, shape)

    def consistency(self, request: ConsistencyRequest) -> ConsistencyReply:
        """Stage 3."""
        return self._session().consistency(request)

    def unmask(self, request: UnmaskRequest) -> UnmaskReply:
        """Stage 4."""
        return self._session().unmask(request)

    def accept(self, terms: MaskedTerms) -> None:
        """See `accepted`."""
        accepted(self.home, self.spend, terms)

    def _noise(self, terms: MaskedTerms, agreed: Terms) -> NoiseSource:
        seed = self.home.simulated_noise_seed
        if seed is None or not agreed.simulation:
            return SystemNoise()
        return SeededNoise(int(canonical_digest([seed, self.home.name, terms.query_set, terms.phase]), 16))

    @property
    def _store(self) -> Path:
        return self.home.state / SESSIONS

    def _session(self) -> PartySession:
        return PartySession(self._store, self.home.identity(), self.home.name, self.home.roster(Roster))


MOST_SESSIONS = 20
"""On one query set in one phase. A session that is not brought to its end may be tried again; each is a chance for an
aggregator to refuse this party and see what follows."""


@dataclass(frozen=True)
class VerifiedVotes:
    """The one answer. spend: where the party keeps the terms of its enrolment. uploads: where it keeps what it gave.
    clock: seconds since the epoch."""

    home: Home
    spend: SpendStore
    uploads: Uploads
    charged_votes: ChargedVotes
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
        roster, uploads = self.home.roster(VerifiedRoster), self.uploads
        terms = VerifiedTerms.open(request.terms, request.signature, roster)
        agreed = accepted(self.home, self.spend, terms)
        digest, now = message_digest(request), self.clock()
        uploads.erase_before(now - LIFETIME)
        answer = uploads.find(terms.sid)
        if answer is None:
            self._check_sessions(terms)
            key = SignedKey(request.helper_key, request.helper_signature)
            client = VoteClient(terms, roster, self.home.name, self.home.identity(), key)
            query_set = QuerySet(request.queries, terms.query_set, request.places, request.proof)
            upload = client.upload(self.charged_votes(query_set, agreed, terms.phase))
            answer = uploads.keep(terms.sid, terms.query_set, terms.phase, now, digest, upload)
        return UploadReply(
            sid=terms.sid_bytes, party=self.home.name, upload=as_array(_given(answer, digest, terms.sid))
        )

    def _check_sessions(self, terms: VerifiedTerms) -> None:
        tried = self.uploads.sessions_on(terms.query_set, terms.phase)
        if tried >= MOST_SESSIONS:
            raise Refused(
                Rule.REPLAY, limit=MOST_SESSIONS, requested=tried + 1, detail="so many sessions on the same queries"
            )


def _given(answer: KeptUpload | None, digest: bytes, sid: str) -> bytes:
    """The bytes that are given, to this very request only."""
    if answer is None or answer.request != digest:
        raise Replay(f"session {sid} was asked in another way before")
    if answer.upload is None:
        raise StageOrder(f"session {sid} is over: its lifetime has passed")
    return answer.upload
