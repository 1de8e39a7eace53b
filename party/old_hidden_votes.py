"""Votes of a party in sums that nobody reads whole: sessions under its own policy, terms and budget.

The coordinator is not trusted. A masked session has five stages (`party.masked_session`), a verified one a single
upload: another request in the same session is refused, a repeated one gets the same bytes, and sessions on one query
set are few. What a party cannot see, whether its verified votes were summed, and with whom, the second aggregator looks
after (`consilium.aggregator`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from consilium.party.account import Account, Agreed
from consilium.party.hidden_votes import check_own_roster
from consilium.party.home import PartySettings
from consilium.party.store import Store
from consilium.party.sum_store import Kept, Uploads
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity
from consilium.protocol.messages import LedgerPosition
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.errors import Replay, StageOrder
from consilium.sums.packing import message_digest
from consilium.sums.roster import VerifiedRoster
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


def accepted(voter: Voter, terms: VerifiedTerms) -> Agreed:
    """The terms of the enrolment, if this session is one that they and the policy allow.

    The noise that the party is about to draw, or that the aggregators are to add, must be, to the digit, the noise of
    the release that the party charges.

    Raises
    ------
    Refused : it is not. ConfigError : no usable roster.
    """
    agreed, policy = voter.agreed(terms.federation), voter.settings.policy
    enrolled, kind = agreed.terms, "verified"
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
