"""A party's five answers. Each is checked, computed, made durable and only then returned.

The coordinator is not trusted: it may repeat, reorder, alter or withhold any message and show different parties
different sets. A check that fails leaves the session as it was and gives nothing. A second, different request for a
stage that is done can only come from a coordinator that tells two stories: the session is aborted and its secrets
are erased (Bonawitz et al. 2017, section 6.2 and figure 4).

For each sum a party shares b, of its own mask, and K, which opens the list of its pairs' mask seeds; later it gives one
of the two for each peer, never both. y = votes + noise share + mask(b) + sum over peers of +-mask(pair), in the ring.
Votes are charged in the transaction that keeps y: whatever has left was paid for, and what never left was not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from consilium.protocol.identity import verify
from consilium.protocol.messages import VOTE_DTYPE, WireModel
from consilium.protocol.queries import query_set_hash
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.errors import (
    BadKey,
    BadShare,
    BadSignature,
    InconsistentView,
    Replay,
    RosterMismatch,
    StageOrder,
    ThresholdNotMet,
)
from consilium.sums.packing import Value, message_digest, pack, pack_message, unpack, unpack_message
from consilium.sums.roster import Roster
from consilium.sums.secure.masks import Masks, encode, own_seed
from consilium.sums.secure.messages import (
    ADVERT,
    CONSISTENCY,
    KINDS,
    MASKED,
    STAGES,
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
    adverts_digest,
    commitment,
    consistency_parts,
    masked_parts,
    set_digest,
)
from consilium.sums.secure.pairs import (
    KEY_BYTES,
    Agreement,
    list_key,
    lock,
    new_private,
    nonces,
    public_of,
    seal,
    unseal,
)
from consilium.sums.secure.shamir import SHARE_BYTES, are_shares, new_seeds, split
from consilium.sums.secure.terms import KeyTerms, MaskedTerms
from consilium.sums.terms import LIFETIME
from consilium.sums.voter import QuerySet, Store, Voter

Memory = dict[str, Value]
Reply = TypeVar("Reply", bound=WireModel)
T = TypeVar("T", bytes, np.ndarray)

TABLES = (
    "secure_sessions (sid BLOB PRIMARY KEY, federation TEXT NOT NULL, started REAL NOT NULL, terms BLOB NOT NULL,"
    " done INTEGER NOT NULL, memory BLOB)",
    "secure_replies (sid BLOB, step INTEGER, request BLOB NOT NULL, reply BLOB, PRIMARY KEY (sid, step))",
)
"""done: the last step that was answered, see `Session.step`. memory: secrets. request: digest of it."""
SECOND_SUM = len(STAGES)
"""The step in which masked votes of a second sum are asked; the first three are 0 to 2."""
ENDED = 99
"""As `done`: nothing secret is left."""


@dataclass(frozen=True)
class Session:
    """What is known of one session. memory: secrets, never printed; empty once they are erased."""

    sid: bytes
    started: float
    terms: KeyTerms
    done: int
    memory: Memory = field(repr=False)

    @classmethod
    def find(cls, store: Store, sid: bytes) -> Session | None:
        """None if it was never begun here."""
        row = store.one("SELECT started, terms, done, memory FROM secure_sessions WHERE sid = ?", sid)
        if row is None:
            return None
        started, terms, done, memory = row
        return cls(sid, started, KeyTerms.parse(terms), done, unpack(memory) if memory else {})

    def step(self, stage: Stage, round_: int | None) -> int:
        """Keys, shares, then three steps for each sum. Raises StageOrder where the session has no such sum."""
        if round_ is None:
            return STAGES.index(stage)
        if round_ not in self.terms.rounds:
            raise StageOrder(f"session {self.terms.sid} has no sum of round {round_}")
        return STAGES.index(stage) + (SECOND_SUM - 2) * self.terms.rounds.index(round_)

    def is_due(self, step: int) -> bool:
        """The next one; or a second sum, from when the first masked votes were given: this party may be needed for no
        more in the first."""
        return step == self.done + 1 or (step == SECOND_SUM and 2 <= self.done < step)

    def secret(self, name: str) -> bytes:
        """Bytes that it remembers."""
        return self._of(name, bytes)

    def matrix(self, name: str) -> np.ndarray:
        """Numbers that it remembers."""
        return self._of(name, np.ndarray)

    def _of(self, name: str, kind: type[T]) -> T:
        value = self.memory[name]
        if not isinstance(value, kind):
            raise TypeError(f"{name} in a session's memory is {type(value).__name__}")
        return value


def erase(store: Store, sid: bytes) -> None:
    """Overwrite a session's secrets and replies: it is over."""
    store.execute("UPDATE secure_sessions SET memory = NULL, done = ? WHERE sid = ?", ENDED, sid)
    store.execute("UPDATE secure_replies SET reply = NULL WHERE sid = ?", sid)


class Party:
    """Who answers. Raises ConfigError and Refused as `Voter`, RosterMismatch if the roster does not list this party, or
    lists it with another key."""

    def __init__(self, voter: Voter) -> None:
        self.voter, self.store, self.roster, self.identity = voter, voter.store, voter.roster(Roster), voter.identity
        self.me = self.roster.place(voter.name)
        if self.roster.key(self.me) != self.identity.public:
            raise RosterMismatch(f"the roster lists {voter.name} with another key than this party has")

    def serve(
        self,
        request: SessionMessage,
        stage: Stage,
        round_: int | None,
        model: type[Reply],
        compute: Callable[[Session], tuple[Reply, Memory]],
    ) -> Reply:
        """The reply to a repeated request, or a new one, with what is remembered after it: one transaction."""
        sid, digest = request.sid, message_digest(request)
        with self.store.transaction():
            session = Session.find(self.store, sid)
            if session is None:
                raise StageOrder(f"session {sid.hex()} was never begun here")
            step = session.step(stage, round_)
            if known := self.repeated(session, stage, step, digest, model):
                return known
            if not session.is_due(step):
                raise StageOrder(f"stage {stage} is not due in session {sid.hex()}")
            reply, memory = compute(session)
            self.store.execute(
                "UPDATE secure_sessions SET done = ?, memory = ? WHERE sid = ?",
                step,
                pack(memory) if memory else None,
                sid,
            )
            self.keep(sid, step, digest, reply)
            return reply

    def keep(self, sid: bytes, step: int, digest: bytes, reply: WireModel) -> None:
        """For whoever asks again; a step is answered once."""
        self.store.execute("INSERT INTO secure_replies VALUES (?, ?, ?, ?)", sid, step, digest, pack_message(reply))

    def repeated(self, session: Session, stage: Stage, step: int, digest: bytes, model: type[Reply]) -> Reply | None:
        """What was replied to this very request; None where the step was never answered.

        Raises
        ------
        StageOrder : the session is over. InconsistentView : it was answered to another request; now it is over.
        """
        if time.time() - session.started > LIFETIME:
            self._end(session.sid)
            raise StageOrder(f"session {session.sid.hex()} is over: its lifetime has passed")
        row = self.store.one("SELECT request, reply FROM secure_replies WHERE sid = ? AND step = ?", session.sid, step)
        if row is None:
            return None
        if row[0] != digest:
            self._end(session.sid)
            raise InconsistentView(f"stage {stage} of session {session.sid.hex()} was done with another request")
        if row[1] is None:
            raise StageOrder(f"session {session.sid.hex()} is over, its replies are erased")
        return unpack_message(row[1], model)

    def _end(self, sid: bytes) -> None:
        """Erase it for good, before the error that ends this transaction."""
        erase(self.store, sid)
        self.store.commit()

    def check_subset(self, small: str, inner: np.ndarray, large: str, outer: np.ndarray) -> None:
        """Raise InconsistentView unless `inner` is within `outer`, holds this party, and has enough parties, two of
        them honest."""
        if not np.isin(inner, outer).all():
            raise InconsistentView(f"{small} names parties that are not in {large}")
        if self.me not in inner:
            raise InconsistentView(f"{small} lacks the party that is asked")
        if len(inner) < self.roster.least:
            raise InconsistentView(f"{small} has {len(inner)} parties, {self.roster.least} are needed")
        if len(inner) - self.roster.c < 2:
            raise InconsistentView(f"{small} has {len(inner)} parties, two more than c = {self.roster.c} are needed")

    def pinned(self, places: np.ndarray) -> bytes:
        """Keys of the roster, 32 bytes each."""
        return b"".join(map(self.roster.key, places.tolist()))


def advertise(voter: Voter, request: AdvertiseRequest) -> AdvertiseReply:
    """Stage 0: an X25519 key and the commitments to b and K of each sum, signed, if the terms are acceptable.

    Earlier sessions of the same federation are superseded, and those whose lifetime is over end: what they still hold
    is erased.

    Raises
    ------
    BadSignature, RosterMismatch, MalformedMessage : see `KeyTerms.open`.
    Replay : the sid was used with other terms.
    StageOrder : the session is over.
    Refused : from `Voter.check`.
    """
    party = Party(voter)
    terms = KeyTerms.open(request.terms, request.signature, party.roster)
    sid, digest, store, me = terms.sid_bytes, message_digest(request), party.store, party.me
    with store.transaction():
        session = Session.find(store, sid)
        if session is not None:
            if session.terms != terms:
                raise Replay(f"session {terms.sid} is known here with other terms")
            if known := party.repeated(session, Stage.ADVERTISE, 0, digest, AdvertiseReply):
                return known
        voter.check(terms)
        old = "SELECT sid FROM secure_sessions WHERE done != ? AND (federation = ? OR started < ?)"
        for (other,) in store.execute(old, ENDED, terms.federation, time.time() - LIFETIME):
            erase(store, other)
        private, seeds = new_private(), new_seeds(len(terms.rounds) * KINDS).reshape(len(terms.rounds), KINDS, -1)
        advert = public_of(private)
        for round_, (b, k) in zip(terms.rounds, seeds, strict=True):
            advert += commitment(terms.ctx, me, b.tobytes(), round_, "b")
            advert += commitment(terms.ctx, me, k.tobytes(), round_, "K")
        signature = party.identity.sign(ADVERT, *advert_parts(terms.ctx, me, advert))
        reply = AdvertiseReply(sid=sid, party=me, advert=advert, signature=signature)
        store.execute(
            "INSERT INTO secure_sessions VALUES (?, ?, ?, ?, ?, ?)",
            sid,
            terms.federation,
            time.time(),
            request.terms,
            0,
            pack({"private": private, "seeds": seeds, "advert": advert}),
        )
        party.keep(sid, 0, digest, reply)
        return reply


def share(voter: Voter, request: ShareRequest) -> ShareReply:
    """Stage 1: shares of each b and K, sealed for each peer in U1, and the lists of pairs' mask seeds, locked by K.

    Raises
    ------
    ThresholdNotMet : |U1| < t.
    InconsistentView : a party that is not in the roster, or this party's own advert is missing or altered.
    BadSignature : an advert does not verify under the pinned key.
    BadKey : a key is of low order, or used twice.
    StageOrder : not the stage that is due, or the session is over.
    """
    party = Party(voter)

    def compute(session: Session) -> tuple[ShareReply, Memory]:
        ctx, rounds, me = session.terms.ctx, session.terms.rounds, party.me
        u1 = _check_adverts(party, session, request)
        seeds, places = session.matrix("seeds"), request.advertised.tolist()
        agreement, row = Agreement(session.secret("private"), ctx, me, rounds), places.index(me)
        dealt = split(seeds.reshape(-1, SHARE_BYTES), party.roster.t, places)
        sealed, keys = list[bytes](), list[bytes]()
        for peer, advert, shares, nonce in zip(places, request.adverts, dealt, nonces(len(places)), strict=True):
            if peer == me:
                continue
            try:
                pair = agreement.keys(peer, advert[:KEY_BYTES].tobytes())
            except ValueError:
                raise BadKey(party.roster.name(peer), "is of low order") from None
            sealed.append(seal(pair[0], nonce, shares.tobytes(), me, peer))
            keys += pair
        of_peers = _rows(keys).reshape(len(sealed), -1, KEY_BYTES)
        lists = [
            lock(list_key(k.tobytes(), ctx, me, round_), of_peers[:, at + 1].tobytes(), u1)
            for at, (round_, k) in enumerate(zip(rounds, seeds[:, 1], strict=True))
        ]
        memory: Memory = {
            "u1": u1,
            "advertised": request.advertised,
            "keys": np.insert(of_peers, row, 0, axis=0),
            "own": dealt[row],
            "b": seeds[:, 0],
        }
        return ShareReply(sid=request.sid, party=me, ciphertexts=_rows(sealed), lists=_rows(lists)), memory

    return party.serve(request, Stage.SHARE, None, ShareReply, compute)


def masked(voter: Voter, request: MaskedRequest) -> MaskedReply:
    """Stage 2: the masked votes y, once for each sum. They are charged first; what is refused costs nothing.

    Raises
    ------
    BadSignature, RosterMismatch, UnsafeSession, OverflowRisk, MalformedMessage : see `MaskedTerms.open`.
    InconsistentView : the terms are not of this session; U2 is not within U1, or that of a second sum not within that
        of the first, lacks this party or has too few parties; or the queries are not those of QH.
    BadShare : what a peer sealed for this party cannot be used.
    StageOrder : not the stage that is due, or the session is over.
    Refused : from `Voter`, or what it gave has the wrong form.
    """
    party = Party(voter)
    terms = MaskedTerms.open(request.terms, request.signature, party.roster)

    def compute(session: Session) -> tuple[MaskedReply, Memory]:
        if (terms.sid, terms.federation) != (session.terms.sid, session.terms.federation):
            raise InconsistentView("the terms of the sum are of another session")
        if query_set_hash(request.queries) != terms.query_set or len(request.queries) != terms.queries:
            raise InconsistentView("the queries are not those of the sum's terms")
        first = session.terms.rounds[0] == terms.round
        name, outer = ("U1", "advertised") if first else ("the U2 of the first sum", "sharers")
        party.check_subset("U2", request.sharers, name, session.matrix(outer))
        if len(request.ciphertexts) != (len(request.sharers) - 1 if first else 0):
            raise InconsistentView("there is not one sealed row for each peer, in the session's first sum")
        seeds, shares, b = (_opened if first else _remembered)(party, session, request)
        query_set = QuerySet(request.queries, terms.query_set, request.places, request.proof)
        values = _checked_votes(voter.votes(terms, query_set, again=True), terms) + _noise_share(voter, terms)
        y = _mask(party, terms, values, b[0].tobytes(), request.sharers, seeds[:, 0])
        u1, u2 = session.secret("u1"), set_digest("U2", terms.ctx, request.sharers)
        signature = party.identity.sign(MASKED, *masked_parts(terms.ctx, party.me, u1, u2, y))
        memory: Memory = {
            "u1": u1,
            "u2": u2,
            "ctx": terms.ctx,
            "sharers": request.sharers,
            "seeds": seeds[:, 0],
            "shares": shares[:, 0],
            "later_seeds": seeds[:, 1:],
            "later_shares": shares[:, 1:],
            "later_b": b[1:],
        }
        return MaskedReply(sid=request.sid, party=party.me, y=y, signature=signature), memory

    return party.serve(request, Stage.MASKED, terms.round, MaskedReply, compute)


def consistency(voter: Voter, request: ConsistencyRequest) -> ConsistencyReply:
    """Stage 3: a signature on the one U3 that this party will help to unmask. Shares of the other kind are erased.

    Raises
    ------
    InconsistentView : U3 is not within U2, lacks this party, or has too few parties; or it is another U3 than
        the one that was signed, and then the session is aborted.
    StageOrder : not the stage that is due, or the session is over.
    """
    party = Party(voter)

    def compute(session: Session) -> tuple[ConsistencyReply, Memory]:
        survivors, sharers = request.survivors, session.matrix("sharers")
        party.check_subset("U3", survivors, "U2", sharers)
        alive, shares, ctx = np.isin(sharers, survivors), session.matrix("shares"), session.secret("ctx")
        hashes = session.secret("u1"), session.secret("u2"), set_digest("U3", ctx, survivors)
        signature = party.identity.sign(CONSISTENCY, *consistency_parts(ctx, party.me, *hashes))
        memory: Memory = {
            **session.memory,
            "u3": hashes[2],
            "survivors": survivors,
            "shares": np.where(alive[:, None], shares[:, 0], shares[:, 1]),
            "seeds": session.matrix("seeds")[~alive],
        }
        return ConsistencyReply(sid=request.sid, party=party.me, signature=signature), memory

    return party.serve(request, Stage.CONSISTENCY, request.round, ConsistencyReply, compute)


def unmask(voter: Voter, request: UnmaskRequest) -> UnmaskReply:
    """Stage 4: for each party of U3 its share of b; for each of U2 without U3 its share of K, and the seed of its own
    mask with this one.

    Raises
    ------
    InconsistentView : the survivors and dropped are not the U3 and U2 without U3 of this sum.
    ThresholdNotMet : fewer than t signers.
    BadSignature : a signer's signature on this very U3 does not verify.
    StageOrder : not the stage that is due, or the session is over.
    """
    party = Party(voter)

    def compute(session: Session) -> tuple[UnmaskReply, Memory]:
        sharers, survivors = session.matrix("sharers"), session.matrix("survivors")
        gone = np.setdiff1d(sharers, survivors, assume_unique=True)
        if not (np.array_equal(request.survivors, survivors) and np.array_equal(request.dropped, gone)):
            raise InconsistentView("shares are asked for other sets than this party signed")
        _check_signatures(party, session, request)
        shares, seeds = session.matrix("shares"), session.matrix("seeds")
        later = {name: session.memory[name] for name in ("u1", "sharers", "later_seeds", "later_shares", "later_b")}
        memory: Memory = later if len(session.matrix("later_b")) else {}
        return UnmaskReply(sid=request.sid, party=party.me, shares=shares, seeds=seeds), memory

    return party.serve(request, Stage.UNMASK, request.round, UnmaskReply, compute)


ANSWERS: Mapping[type[WireModel], Callable[[Voter, Any], WireModel]] = {
    AdvertiseRequest: advertise,
    ShareRequest: share,
    MaskedRequest: masked,
    ConsistencyRequest: consistency,
    UnmaskRequest: unmask,
}


def _check_adverts(party: Party, session: Session, request: ShareRequest) -> bytes:
    """H(U1). Raises unless U1 is large enough, holds this party's own advert, and every advert is by its party."""
    roster, advertised = party.roster, request.advertised.tolist()
    if len(advertised) < roster.t:
        missing = (roster.name(index) for index in range(roster.n) if index not in advertised)
        raise ThresholdNotMet(Stage.SHARE, len(advertised), roster.t, missing)
    if advertised[-1] >= roster.n:
        raise InconsistentView("U1 names a place that the roster does not have")
    own, content = session.secret("advert"), request.adverts.tobytes()
    if party.me not in advertised or request.adverts[advertised.index(party.me)].tobytes() != own:
        raise InconsistentView("this party's own advert is missing from U1, or altered")
    signatures, pinned = request.signatures.tobytes(), party.pinned(request.advertised)
    u1, unsigned, twice = _read_adverts(pinned, session.terms.ctx, tuple(advertised), content, signatures)
    if unsigned is not None:
        raise BadSignature(roster.name(unsigned), "advert")
    if twice is not None:
        raise BadKey(roster.name(twice), "is used twice")
    return u1


@lru_cache(maxsize=2)
def _read_adverts(
    pinned: bytes, ctx: bytes, places: tuple[int, ...], adverts: bytes, signatures: bytes
) -> tuple[bytes, int | None, int | None]:
    """H(U1); the first place whose advert does not verify under its pinned key, and the first whose key another has.

    All of it is public, and shown to all: a process that simulates many parties reads it once.
    """
    seen, width, unsigned, twice = set[bytes](), len(adverts) // len(places), None, None
    for row, place in enumerate(places):
        advert = adverts[row * width : (row + 1) * width]
        key, signature = pinned[row * KEY_BYTES :][:KEY_BYTES], signatures[row * 64 :][:64]
        if unsigned is None and not verify(key, signature, ADVERT, *advert_parts(ctx, place, advert)):
            unsigned = place
        if twice is None and advert[:KEY_BYTES] in seen:
            twice = place
        seen.add(advert[:KEY_BYTES])
    digest = adverts_digest(ctx, np.array(places, dtype=np.uint16), adverts, signatures)
    return digest, unsigned, twice


def _check_signatures(party: Party, session: Session, request: UnmaskRequest) -> None:
    """Raise unless at least t survivors signed this party's own U1, U2 and U3."""
    roster, survivors = party.roster, session.matrix("survivors")
    if not np.isin(request.signers, survivors).all():
        raise InconsistentView("a signer is not among the survivors")
    if len(request.signers) < roster.t:
        missing = (roster.name(index) for index in np.setdiff1d(survivors, request.signers).tolist())
        raise ThresholdNotMet(Stage.UNMASK, len(request.signers), roster.t, missing)
    hashes = session.secret("u1"), session.secret("u2"), session.secret("u3")
    signers, signatures = tuple(request.signers.tolist()), request.signatures.tobytes()
    unsigned = _first_unsigned(party.pinned(request.signers), session.secret("ctx"), signers, hashes, signatures)
    if unsigned is not None:
        raise BadSignature(roster.name(unsigned), "view of the survivors")


@lru_cache(maxsize=2)
def _first_unsigned(
    pinned: bytes, ctx: bytes, signers: tuple[int, ...], hashes: tuple[bytes, bytes, bytes], signatures: bytes
) -> int | None:
    """The first of these whose signature on the three sets does not verify; public too."""
    for row, place in enumerate(signers):
        key, signature = pinned[row * KEY_BYTES :][:KEY_BYTES], signatures[row * 64 :][:64]
        if not verify(key, signature, CONSISTENCY, *consistency_parts(ctx, place, *hashes)):
            return place
    return None


Opened = tuple[np.ndarray, np.ndarray, np.ndarray]
"""By place in U2, with zeros for this party's own seeds: seeds uint8 (|U2|, sums, 32), shares (|U2|, sums, 2, 52) of b
and K; and this party's own b (sums, 52). Of the sums that are left."""


def _opened(party: Party, session: Session, request: MaskedRequest) -> Opened:
    """What the peers of the first sum sealed for this party. Raises BadShare, naming the peer, where it does not open
    or holds no shares."""
    me, rounds = party.me, len(session.terms.rounds)
    keys = session.matrix("keys")[np.searchsorted(session.matrix("advertised"), request.sharers)]
    plain, sealed = list[bytes](), iter(request.ciphertexts)
    for peer, key in zip(request.sharers.tolist(), keys[:, 0], strict=True):
        if peer == me:
            plain.append(session.matrix("own").tobytes())
            continue
        content = unseal(key.tobytes(), next(sealed).tobytes(), peer, me)
        if content is None:
            raise BadShare(party.roster.name(peer), "what it sealed does not open")
        plain.append(content)
    shares = _rows(plain).reshape(len(plain), rounds, KINDS, SHARE_BYTES)
    if not are_shares(shares):
        bad = next(row for row, dealt in enumerate(shares) if not are_shares(dealt))
        raise BadShare(party.roster.name(int(request.sharers[bad])), "what it sealed are no shares")
    return keys[:, 1:], shares, session.matrix("b")


def _remembered(party: Party, session: Session, request: MaskedRequest) -> Opened:
    """The same of a second sum: from the first."""
    rows = np.searchsorted(session.matrix("sharers"), request.sharers)
    return session.matrix("later_seeds")[rows], session.matrix("later_shares")[rows], session.matrix("later_b")


def _checked_votes(votes: np.ndarray, terms: MaskedTerms) -> np.ndarray:
    """The votes as int64 (queries, classes).

    Raises
    ------
    Refused : they are not uint16 of the session's shape with `teachers` in each row; the fault is the party's own.
    """
    if votes.dtype != VOTE_DTYPE or votes.shape != terms.shape:
        raise Refused(Rule.INTERNAL, detail=f"teachers gave {votes.dtype} {votes.shape}, not uint16 {terms.shape}")
    wide = votes.astype(np.int64)
    if (wide.sum(axis=1) != terms.teachers).any():
        raise Refused(Rule.INTERNAL, detail="votes of a query do not sum to teachers")
    return wide


def _noise_share(voter: Voter, terms: MaskedTerms) -> np.ndarray:
    """This party's share of the noise, int64 (queries, classes). Raises Refused where the sampler gives another."""
    share = voter.noise(terms).gaussian(terms.sigma_share, terms.shape)
    if share.dtype != np.int64 or share.shape != terms.shape:
        raise Refused(Rule.INTERNAL, detail=f"noise is {share.dtype} {share.shape}, not int64 {terms.shape}")
    return share


def _mask(
    party: Party, terms: MaskedTerms, values: np.ndarray, b: bytes, sharers: np.ndarray, seeds: np.ndarray
) -> np.ndarray:
    """y in the ring, uint16 or uint32 (queries, classes).

    values: int64, votes and noise. seeds: uint8 (|U2|, 32), of the pairs' masks, in the order of `sharers`.
    """
    y = encode(values, terms.ring(party.roster))
    masks = Masks(y, terms.ctx)
    masks.add(own_seed(b, terms.ctx, party.me))
    for peer, seed in zip(sharers.tolist(), seeds, strict=True):
        if peer != party.me:
            masks.add_pair(seed.tobytes(), party.me, peer)
    return y


def _rows(contents: list[bytes]) -> np.ndarray:
    """Byte strings of one length -> uint8 (n, length)."""
    return np.frombuffer(b"".join(contents), dtype=np.uint8).reshape(len(contents), -1)
