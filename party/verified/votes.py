"""Verified votes at a party: one answer to a session that its own policy, terms and budget allow.

The coordinator is not trusted: another request in the same session is refused, a repeated one gets the same bytes, and
sessions on one query set are few. What a party cannot see, whether its votes were summed, and with whom, the second
aggregator looks after (`consilium.aggregator`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from consilium.party.home import Home
from consilium.party.policy import check_terms
from consilium.party.promise import promise_of
from consilium.party.secagg import once
from consilium.party.secagg.store import SESSIONS, SessionStore
from consilium.party.secagg.votes import ChargedVotes, QuerySet
from consilium.party.spend import SpendStore
from consilium.party.verified.store import KeptUpload, UploadStore
from consilium.protocol.aggregators.messages import UploadReply, UploadRequest, as_array
from consilium.protocol.parties.messages import LedgerPosition, Terms
from consilium.protocol.parties.refusals import Refused, Rule
from consilium.protocol.secagg.errors import Replay, StageOrder
from consilium.protocol.secagg.identity import Identity
from consilium.protocol.secagg.packing import message_digest
from consilium.protocol.secagg.session import LIFETIME
from consilium.protocol.verified.client import VoteClient
from consilium.protocol.verified.roster import VerifiedRoster
from consilium.protocol.verified.sealing import SignedKey
from consilium.protocol.verified.session import VerifiedSession, open_session

MOST_SESSIONS = 20
"""On one query set in one phase. A session that is not brought to its end may be tried again; each is a chance for an
aggregator to refuse this party and see what follows."""


def check_roster(home: Home, terms: Terms) -> VerifiedRoster:
    """The party's own copy of the roster, with both aggregators, if it is the one of these terms and can be served
    under the policy.

    Raises
    ------
    Refused : another roster, or too few honest parties in a sum.
    ConfigError : no usable roster file.
    """
    roster = VerifiedRoster.load(home.roster_file)
    if roster.digest != terms.roster:
        raise Refused(
            Rule.ROSTER_MISMATCH, detail=f"the coordinator has {terms.roster[:12]}, this party {roster.digest[:12]}"
        )
    sure = roster.least_accepted - roster.c
    if sure < home.policy.least_parties:
        raise Refused(Rule.LEAST_PARTIES, limit=home.policy.least_parties, requested=sure)
    return roster


@dataclass(frozen=True)
class VerifiedVotes:
    """The one answer. spend: where the party keeps the terms of its enrolment. clock: seconds since the epoch."""

    home: Home
    spend: SpendStore
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
        roster = VerifiedRoster.load(self.home.roster_file)
        session = open_session(request.terms, request.signature, roster)
        told = self._accept(session)
        digest, now = message_digest(request), self.clock()
        self._store.erase_before(now - LIFETIME)
        kept = self._store.find(session.sid)
        if kept is None:
            self._check_sessions(session)
            key = SignedKey(request.helper_key, request.helper_signature)
            client = VoteClient(session, roster, self.home.name, Identity.load(self.home.identity_file), key)
            asked = QuerySet(request.queries, session.query_set, request.places, request.proof)
            upload = client.upload(self.charged_votes(asked, told, session.phase, session.release))
            if session.sigma == 0:
                with SessionStore(self.home.state / SESSIONS).transaction() as tx:
                    once.keep_block(tx, roster, roster.place(self.home.name))
                    tx.commit()
            kept = self._store.keep(session.sid, session.query_set, session.phase, now, digest, upload)
        return UploadReply(
            sid=bytes.fromhex(session.sid), party=self.home.name, upload=as_array(_given(kept, digest, session.sid))
        )

    def _accept(self, session: VerifiedSession) -> Terms:
        """The terms of the enrolment, if this session is one that they and the policy allow.

        The noise that the aggregators are to add must be, to the digit, that of the release that the party charges.
        """
        told = self.spend.terms(session.federation)
        check_terms(self.home.policy, told)
        if told.votes != "verified":
            raise Refused(Rule.VOTES, detail=f"a verified session in a federation of {told.votes} votes")
        if session.roster != check_roster(self.home, told).digest:
            raise Refused(Rule.ROSTER_MISMATCH, detail="the session has another roster than the terms")
        if (session.teachers, session.classes) != (told.teachers, len(told.classes)):
            raise Refused(Rule.PROMISE, limit=told.teachers, requested=session.teachers)
        promise = promise_of(told).only(session.release)
        noise = promise.noise(session.phase)
        sigma = 0.0 if noise is None else noise.sigma
        if (session.leader_sigma, session.helper_sigma) != (sigma, sigma):
            raise Refused(Rule.PROMISE, detail="the noise of the session is not that of the promise")
        most = min(promise.most(session.phase), self.home.policy.most_queries)
        if session.queries > most:
            raise Refused(Rule.MOST_QUERIES, limit=most, requested=session.queries)
        position = LedgerPosition(ledger=session.ledger, batch=session.batch, head=session.head)
        self.spend.follow(session.federation, position)
        return told

    def _check_sessions(self, session: VerifiedSession) -> None:
        tried = self._store.sessions_on(session.query_set, session.phase)
        if tried >= MOST_SESSIONS:
            raise Refused(
                Rule.REPLAY, limit=MOST_SESSIONS, requested=tried + 1, detail="so many sessions on the same queries"
            )

    @property
    def _store(self) -> UploadStore:
        return UploadStore(self.home.state / "uploads.db")


def _given(kept: KeptUpload | None, digest: bytes, sid: str) -> bytes:
    """The bytes that are given, to this very request only."""
    if kept is None or kept.request != digest:
        raise Replay(f"session {sid} was asked in another way before")
    if kept.upload is None:
        raise StageOrder(f"session {sid} is over: its lifetime has passed")
    return kept.upload
