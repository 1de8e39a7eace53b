"""A party's five answers. Each is checked, computed, made durable and only then returned.

The coordinator is not trusted: it may repeat, reorder, alter or withhold any message and show different parties
different sets. A check that fails leaves the session as it was and gives nothing. A second, different request for a
stage that is done can only come from a coordinator that tells two stories: the session is aborted and its secrets
are erased (Bonawitz et al. 2017, section 6.2 and figure 4).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from consilium.party.store import Store
from consilium.party.sum_store import Sessions, SessionStatus, StoredSession, ids_of, rounds_of
from consilium.protocol.identity import Identity
from consilium.protocol.messages import WireModel
from consilium.sums.agreement import new_private, public_of
from consilium.sums.errors import InconsistentView, Replay, RosterMismatch, StageOrder
from consilium.sums.packing import message_digest, pack_message, unpack_message
from consilium.sums.roster import Roster
from consilium.sums.secure.messages import (
    ADVERT,
    CONSISTENCY,
    MASKED,
    AdvertiseReply,
    AdvertiseRequest,
    ConsistencyReply,
    ConsistencyRequest,
    MaskedReply,
    MaskedRequest,
    SessionMessage,
    ShareReply,
    ShareRequest,
    Stage,
    UnmaskReply,
    UnmaskRequest,
    advert_parts,
    consistency_parts,
    masked_parts,
    self_commitment,
    set_digest,
)
from consilium.sums.secure.party import (
    Memory,
    NoiseOf,
    VotesOn,
    check_adverts,
    check_signatures,
    check_subset,
    check_wanted,
    checked_queries,
    checked_votes,
    mask,
    matrix,
    noise_share,
    open_shares,
    secret,
    share_secrets,
)
from consilium.sums.secure.shares import mask_private, new_seed
from consilium.sums.secure.terms import MaskedTerms

Accept = Callable[[MaskedTerms], None]
"""Raises `Refused` for terms that the party's own policy does not allow."""

Reply = TypeVar("Reply", bound=WireModel)

BEFORE = {
    Stage.SHARE: SessionStatus.ADVERTISED,
    Stage.MASKED: SessionStatus.SHARED,
    Stage.CONSISTENCY: SessionStatus.MASKED,
    Stage.UNMASK: SessionStatus.CONSISTENT,
}
AFTER = {
    Stage.SHARE: SessionStatus.SHARED,
    Stage.MASKED: SessionStatus.MASKED,
    Stage.CONSISTENCY: SessionStatus.CONSISTENT,
    Stage.UNMASK: SessionStatus.DONE,
}


class PartySession:
    """One party's answers in any session.

    Parameters
    ----------
    store : what it remembers.
    identity : the party's signing key.
    party : its name in the roster.
    roster : its own pinned copy.
    clock : seconds since the epoch.

    Raises
    ------
    RosterMismatch : the roster does not list this party, or lists it with another key.
    """

    def __init__(
        self, store: Store, identity: Identity, party: str, roster: Roster, clock: Callable[[], float] = time.time
    ) -> None:
        self._store, self._sessions = store, Sessions(store)
        self._identity = identity
        self._roster = roster
        self._clock = clock
        self._me = roster.place(party)
        if roster.key(self._me) != identity.public:
            raise RosterMismatch(f"the roster lists {party} with another key than this party has")

    def __repr__(self) -> str:
        return f"PartySession(party={self._roster.name(self._me)!r}, store={self._store!r})"

    def state(self, sid: bytes) -> SessionStatus | None:
        """Where the session is; None if it was never begun here."""
        session = self._sessions.session(sid)
        return None if session is None else session.state

    def abort(self, sid: bytes) -> None:
        """Throw the session away and erase its secrets. Queries whose sum was unmasked stay answered."""
        with self._store.transaction():
            self._sessions.erase(sid)

    def sweep(self) -> None:
        """Throw away every session whose lifetime is over, so that nothing secret stays behind. Cheap; call at will."""
        with self._store.transaction():
            for session in self._sessions.live():
                if self._over(session):
                    self._sessions.erase(session.sid)

    def advertise(self, request: AdvertiseRequest, accept: Accept) -> AdvertiseReply:
        """Stage 0: two X25519 keys and the hash of b, signed, if the terms are acceptable.

        `accept` is asked before anything is made. Earlier sessions of the same federation are superseded: what they
        still hold is erased.

        Raises
        ------
        BadSignature, RosterMismatch, UnsafeSession, OverflowRisk, MalformedMessage : see `MaskedTerms.open`.
        Replay : the sid was used with other terms.
        AlreadyAnswered : this party has helped to unmask a sum on this query set.
        StageOrder : the session is over.
        Refused : from `accept`.
        """
        terms = MaskedTerms.open(request.descriptor, request.signature, self._roster)
        sid = terms.sid_bytes
        digest = message_digest(request)
        with self._store.transaction():
            known = self._sessions.session(sid)
            if known is not None:
                if known.descriptor != request.descriptor:
                    raise Replay(f"session {terms.sid} is known here with other terms")
                self._check_lifetime(known)
                return self._cached(sid, Stage.ADVERTISE, digest, AdvertiseReply)
            self._sessions.check_query_set(terms)
            accept(terms)
            for other in self._sessions.live():
                if other.federation == terms.federation:
                    self._sessions.erase(other.sid)
            cipher, mask_seed, b = new_private(), new_seed(), new_seed()
            commitment = self_commitment(terms.ctx, self._me, b)
            keys = public_of(cipher) + public_of(mask_private(mask_seed)) + commitment
            signature = self._identity.sign(ADVERT, *advert_parts(terms.ctx, self._me, keys))
            reply = AdvertiseReply(sid=sid, party=self._me, keys=keys, signature=signature)
            memory: Memory = {"b": b, "mask_seed": mask_seed, "cipher": cipher, "keys": keys}
            self._sessions.begin(
                StoredSession(
                    sid,
                    terms.federation,
                    terms.query_set,
                    rounds_of(terms),
                    SessionStatus.ADVERTISED,
                    self._clock(),
                    request.descriptor,
                    memory,
                )
            )
            self._sessions.answer(sid, Stage.ADVERTISE, digest, pack_message(reply))
            return reply

    def share(self, request: ShareRequest) -> ShareReply:
        """Stage 1: shares of b and of the mask key, sealed for each peer in U1.

        Raises
        ------
        ThresholdNotMet : |U1| < t.
        InconsistentView : a party that is not in the roster, or this party's own advert is missing or altered.
        BadSignature : an advert does not verify under the pinned key.
        BadKey : a key is of low order, or used twice.
        StageOrder : not the stage that is due, or the session is over.
        """

        def compute(terms: MaskedTerms, memory: Memory) -> tuple[ShareReply, Memory]:
            ctx = terms.ctx
            check_adverts(self._roster, self._me, ctx, request, secret(memory, "keys"))
            return share_secrets(self._roster, self._me, ctx, memory, request)

        return self._serve(Stage.SHARE, request, ShareReply, compute)

    def masked(self, request: MaskedRequest, votes_on: VotesOn, noise: NoiseOf) -> MaskedReply:
        """Stage 2: the masked votes y, once per session.

        `votes_on` is called after all checks have passed; if it raises, nothing is given and the stage may be tried
        again.

        Raises
        ------
        InconsistentView : U2 is not within U1, lacks this party or has too few parties; or the queries are not those
            of QH.
        AlreadyAnswered : this party has helped to unmask a sum on one of the queries, in any session.
        Replay : a query stands twice in this set.
        BadShare : what a peer sealed for this party cannot be used.
        StageOrder : not the stage that is due, or the session is over.
        Refused : from `votes_on`, or what it gave has the wrong form.
        """

        def compute(terms: MaskedTerms, memory: Memory) -> tuple[MaskedReply, Memory]:
            queries = checked_queries(request, terms)
            check_subset(self._roster, self._me, "U2", request.sharers, "U1", matrix(memory, "advertised"))
            ids = ids_of(queries)
            self._sessions.check_unanswered(terms, ids)
            ctx = terms.ctx
            memory_after, pairs = open_shares(self._roster, self._me, ctx, memory, request)
            values = checked_votes(votes_on(queries), terms) + noise_share(noise, terms)
            y = mask(values, terms, self._me, secret(memory, "b"), pairs)
            parts = masked_parts(ctx, self._me, secret(memory_after, "u1"), secret(memory_after, "u2"), y)
            signature = self._identity.sign(MASKED, *parts)
            reply = MaskedReply(sid=request.sid, party=self._me, y=y, signature=signature)
            return reply, {**memory_after, "queries": ids}

        return self._serve(Stage.MASKED, request, MaskedReply, compute)

    def consistency(self, request: ConsistencyRequest) -> ConsistencyReply:
        """Stage 3: a signature on the one U3 that this party will help to unmask.

        Raises
        ------
        InconsistentView : U3 is not within U2, lacks this party, or has too few parties; or it is another U3 than
            the one that was signed, and then the session is aborted.
        AlreadyAnswered : a query was answered in another session meanwhile.
        StageOrder : not the stage that is due, or the session is over.
        """

        def compute(terms: MaskedTerms, memory: Memory) -> tuple[ConsistencyReply, Memory]:
            u3 = request.survivors
            check_subset(self._roster, self._me, "U3", u3, "U2", matrix(memory, "sharers"))
            self._sessions.check_unanswered(terms, matrix(memory, "queries"))
            ctx = terms.ctx
            hashes = secret(memory, "u1"), secret(memory, "u2"), set_digest("U3", ctx, u3)
            signature = self._identity.sign(CONSISTENCY, *consistency_parts(ctx, self._me, *hashes))
            reply = ConsistencyReply(sid=request.sid, party=self._me, signature=signature)
            return reply, {**memory, "survivors": u3, "u3": hashes[2]}

        return self._serve(Stage.CONSISTENCY, request, ConsistencyReply, compute)

    def unmask(self, request: UnmaskRequest) -> UnmaskReply:
        """Stage 4: for each party of U3 its share of b, for each of U2 without U3 its share of the mask key.

        With them its queries are used up.

        Raises
        ------
        InconsistentView : the survivors and dropped are not the U3 and U2 without U3 of this session.
        ThresholdNotMet : fewer than t signers.
        BadSignature : a signer's signature on this very U3 does not verify.
        AlreadyAnswered : another session was unmasked meanwhile.
        StageOrder : not the stage that is due, or the session is over.
        """

        def compute(terms: MaskedTerms, memory: Memory) -> tuple[UnmaskReply, Memory]:
            check_wanted(memory, request)
            check_signatures(self._roster, terms.ctx, memory, request)
            self._sessions.use_up(terms, memory)
            alive = np.isin(matrix(memory, "sharers"), request.survivors)
            shares = np.where(alive[:, None], matrix(memory, "b_shares"), matrix(memory, "mask_shares"))
            return UnmaskReply(sid=request.sid, party=self._me, shares=shares), {}

        return self._serve(Stage.UNMASK, request, UnmaskReply, compute)

    def _serve(
        self,
        stage: Stage,
        request: SessionMessage,
        model: type[Reply],
        compute: Callable[[MaskedTerms, Memory], tuple[Reply, Memory]],
    ) -> Reply:
        sid: bytes = request.sid
        digest = message_digest(request)
        with self._store.transaction():
            session = self._sessions.session(sid)
            if session is None:
                raise StageOrder(f"session {sid.hex()} was never begun here")
            self._check_lifetime(session)
            if self._sessions.answered(sid, stage) is not None:
                return self._cached(sid, stage, digest, model)
            if session.state != BEFORE[stage]:
                raise StageOrder(f"stage {stage} is not due: session {sid.hex()} is {session.state}")
            terms = MaskedTerms.parse(session.descriptor)
            terms.check(self._roster)
            reply, memory = compute(terms, session.memory)
            self._sessions.answer(sid, stage, digest, pack_message(reply))
            self._sessions.advance(sid, AFTER[stage], memory)
            return reply

    def _over(self, session: StoredSession) -> bool:
        return self._clock() - session.started > MaskedTerms.parse(session.descriptor).lifetime

    def _check_lifetime(self, session: StoredSession) -> None:
        if self._over(session):
            self._end(session.sid)
            raise StageOrder(f"session {session.sid.hex()} is over: its lifetime has passed")

    def _cached(self, sid: bytes, stage: Stage, digest: bytes, model: type[Reply]) -> Reply:
        """The reply that was given to this very request; another request for the same stage aborts the session."""
        answered = self._sessions.answered(sid, stage)
        if answered is None or answered.request != digest:
            self._end(sid)
            raise InconsistentView(f"stage {stage} of session {sid.hex()} was done with another request")
        if answered.reply is None:
            raise StageOrder(f"session {sid.hex()} is over, its replies are erased")
        return unpack_message(answered.reply, model)

    def _end(self, sid: bytes) -> None:
        """Erase it for good, before the error that ends this transaction."""
        self._sessions.erase(sid)
        self._store.commit()
