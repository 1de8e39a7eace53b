"""Secure and distributed votes at a party: sessions of `party.secagg` under its own policy, terms and budget."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from consilium.party.home import Home
from consilium.party.policy import check_terms
from consilium.party.promise import promise_of
from consilium.party.secagg import masking
from consilium.party.secagg.session import PartySession
from consilium.party.secagg.store import SESSIONS, SessionStore
from consilium.party.spend import SpendStore
from consilium.protocol.digests import canonical_digest
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise
from consilium.protocol.parties.messages import Terms, VotesMode
from consilium.protocol.parties.refusals import Refused, Rule
from consilium.protocol.secagg import errors
from consilium.protocol.secagg.identity import Identity
from consilium.protocol.secagg.messages import (
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
from consilium.protocol.secagg.roster import Roster
from consilium.protocol.secagg.session import SessionDescriptor, parse_descriptor

MASKED: frozenset[VotesMode] = frozenset({"secure", "distributed"})
"""Votes that are collected in these sessions."""


@dataclass(frozen=True)
class QuerySet:
    """Queries, float32 (queries, features), their hash, and the proof that they are rows of the pool
    (`protocol.rows.pool`)."""

    queries: np.ndarray = field(repr=False)
    query_set: str
    places: np.ndarray = field(repr=False)
    proof: np.ndarray = field(repr=False)


class ChargedVotes(Protocol):
    """`PartyNode.charged_votes`: counts the queries against the party's limits, then gives its votes."""

    def __call__(self, asked: QuerySet, told: Terms, phase: int = 1, release: int = 1) -> np.ndarray: ...


def check_roster(home: Home, terms: Terms) -> Roster:
    """The party's own copy of the roster, if it is the one of these terms and can be served under the policy.

    Raises
    ------
    Refused : another roster, too few honest parties in a sum, or a promise of noise in more shares than there are sure
        to be.
    ConfigError : no usable roster file.
    """
    roster = Roster.load(home.roster_file)
    if roster.digest != terms.roster:
        raise Refused(
            Rule.ROSTER_MISMATCH, detail=f"the coordinator has {terms.roster[:12]}, this party {roster.digest[:12]}"
        )
    sure = roster.u_min - roster.c
    if sure < home.policy.least_parties:
        raise Refused(Rule.LEAST_PARTIES, limit=home.policy.least_parties, requested=sure)
    for release in promise_of(terms).each:
        noise = release.noise(1)
        if noise is not None and noise.shares > sure:
            raise Refused(
                Rule.PROMISE, limit=sure, requested=noise.shares, detail="noise in more shares than are sure to be"
            )
    return roster


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
            raise errors.StageOrder(f"session {request.sid.hex()} was never begun here")
        terms = parse_descriptor(begun.descriptor)
        asked = QuerySet(request.queries, terms.query_set, request.places, request.proof)
        return session.masked(request, *self.sources(terms, asked))

    def sources(self, terms: SessionDescriptor, asked: QuerySet) -> tuple[masking.VotesOn, masking.NoiseOf]:
        """Where the votes and the share of the noise of an accepted session come from: the votes are charged first."""
        told = self.spend.terms(terms.federation)
        source = self._noise(terms, told)

        def votes(queries: np.ndarray) -> np.ndarray:
            return self.charged_votes(replace(asked, queries=queries), told, terms.phase, terms.release)

        return votes, lambda sigma, shape: source.gaussian(sigma, shape)

    def consistency(self, request: ConsistencyRequest) -> ConsistencyReply:
        """Stage 3."""
        return self._session().consistency(request)

    def unmask(self, request: UnmaskRequest) -> UnmaskReply:
        """Stage 4."""
        return self._session().unmask(request)

    def accept(self, terms: SessionDescriptor) -> None:
        """Refused unless the session's terms are what the policy allows and what was promised at enrolment.

        The noise that the party is about to draw must be, to the digit, the noise of the release that it charges: the
        one that the signed descriptor names.
        """
        told = self.spend.terms(terms.federation)
        check_terms(self.home.policy, told)
        if told.votes not in MASKED:
            raise Refused(Rule.VOTES, detail=f"a secure session in a federation of {told.votes} votes")
        if terms.roster != check_roster(self.home, told).digest:
            raise Refused(Rule.ROSTER_MISMATCH, detail="the session has another roster than the terms")
        if (terms.teachers, terms.classes) != (told.teachers, len(told.classes)):
            raise Refused(Rule.PROMISE, limit=told.teachers, requested=terms.teachers)
        promise = promise_of(told).only(terms.release)
        if ((terms.sigma, terms.noise_shares) if terms.sigma > 0 else None) != promise.noise(terms.phase):
            raise Refused(Rule.PROMISE, detail="the noise of the session is not that of the promise")
        most = min(promise.most(terms.phase), self.home.policy.most_queries)
        if terms.queries > most:
            raise Refused(Rule.MOST_QUERIES, limit=most, requested=terms.queries)
        self.spend.follow(terms.federation, terms.position)

    def _noise(self, terms: SessionDescriptor, told: Terms) -> NoiseSource:
        seed = self.home.simulated_noise_seed
        if seed is None or not told.simulation:
            return SystemNoise()
        later = [] if terms.release == 1 else [terms.release]
        return SeededNoise(int(canonical_digest([seed, self.home.name, terms.query_set, terms.phase, *later]), 16))

    @property
    def _store(self) -> Path:
        return self.home.state / SESSIONS

    def _session(self) -> PartySession:
        roster = Roster.load(self.home.roster_file)
        return PartySession(self._store, Identity.load(self.home.identity_file), self.home.name, roster)
