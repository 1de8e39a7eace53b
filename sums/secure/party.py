"""A party's five answers. Each is checked, computed, made durable and only then returned.

The coordinator is not trusted: it may repeat, reorder, alter or withhold any message and show different parties
different sets. A check that fails leaves the session as it was and gives nothing. A second, different request for a
stage that is done comes from a coordinator that tells two stories: secrets are erased (Bonawitz et al. 2017, section
6.2 and figure 4).

For each sum a party shares b, of its own mask, and K, which opens the list of its pairs' mask seeds; later it gives one
of the two for each peer, never both. y = votes + noise share + mask(b) + sum over peers of +-mask(pair), in the ring.
Votes are charged in the transaction that keeps y: whatever has left was paid for, and what never left was not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.protocol.databases import Database
from consilium.protocol.messages import VOTE_DTYPE, WireModel
from consilium.protocol.queries import query_set_hash
from consilium.protocol.refusals import Refused, Rule
from consilium.sums import errors
from consilium.sums.packing import message_digest, pack, pack_message, unpack, unpack_message
from consilium.sums.roster import Roster
from consilium.sums.secure import messages, pairs
from consilium.sums.secure.masks import Masks, encode
from consilium.sums.secure.messages import KINDS, STAGES, PartyReply, Stage
from consilium.sums.secure.pairs import KEY_BYTES
from consilium.sums.secure.shamir import SHARE_BYTES, are_shares, new_seeds, split
from consilium.sums.secure.terms import KeyTerms, MaskedTerms
from consilium.sums.terms import LIFETIME
from consilium.sums.voter import QuerySet, Voter

Memory = dict[str, Any]
"""Bytes and arrays; secret."""
Answered = tuple[dict[str, Any], Memory]
"""Fields of a reply, and what is remembered after it."""

TABLES = (
    "secure_sessions (sid BLOB PRIMARY KEY, federation TEXT NOT NULL, started REAL NOT NULL, terms BLOB NOT NULL,"
    " done INTEGER NOT NULL, memory BLOB)",
    "secure_replies (sid BLOB, step INTEGER, request BLOB NOT NULL, reply BLOB, PRIMARY KEY (sid, step))",
)
"""done: the last step that was answered, see `Session.step`. request: digest of it."""
FIRST_SUM, SECOND_SUM = STAGES.index(Stage.MASKED), len(STAGES)
"""The steps in which masked votes are asked."""
ENDED = 99
"""As `done`: nothing secret is left."""


@dataclass(frozen=True)
class Session:
    """What is known of one session."""

    sid: bytes
    started: float
    terms: KeyTerms
    done: int
    memory: Memory = field(repr=False)

    @classmethod
    def find(cls, store: Database, sid: bytes) -> Session | None:
        """None if it was never begun here."""
        row = store.one("SELECT started, terms, done, memory FROM secure_sessions WHERE sid = ?", sid)
        if row is None:
            return None
        started, terms, done, memory = row
        return cls(sid, started, KeyTerms.parse(terms), done, dict(unpack(memory)) if memory else {})

    def step(self, stage: Stage, round_: int | None) -> int:
        """Keys, shares, then three steps for each sum. Raises StageOrder where the session has no such sum."""
        if round_ is None:
            return STAGES.index(stage)
        if round_ not in self.terms.rounds:
            raise errors.StageOrder(f"session {self.terms.sid} has no sum of round {round_}")
        return STAGES.index(stage) + (SECOND_SUM - FIRST_SUM) * self.terms.rounds.index(round_)

    def is_due(self, step: int) -> bool:
        """The next one; or a second sum, from when the first masked votes were given: this party may be needed for no
        more in the first."""
        return step == self.done + 1 or (step == SECOND_SUM and FIRST_SUM <= self.done < step)


def erase(store: Database, sid: bytes) -> None:
    """Overwrite a session's secrets and replies: it is over."""
    store.execute("UPDATE secure_sessions SET memory = NULL, done = ? WHERE sid = ?", ENDED, sid)
    store.execute("UPDATE secure_replies SET reply = NULL WHERE sid = ?", sid)


def _rows(contents: list[bytes]) -> np.ndarray:
    """Byte strings of one length -> uint8 (n, length)."""
    return np.frombuffer(b"".join(contents), dtype=np.uint8).reshape(len(contents), -1)


class MaskingParty:
    """Who answers. Raises as `Voter`, and RosterMismatch unless the roster lists this party with its key."""

    def __init__(self, voter: Voter) -> None:
        self.voter, self.store, self.roster, self.identity = voter, voter.store, voter.roster(Roster), voter.identity
        self.me = self.roster.place(voter.name)
        if self.roster.key(self.me) != self.identity.public:
            raise errors.RosterMismatch(f"the roster lists {voter.name} with another key than this party has")

    def answer(self, request: Any) -> PartyReply:
        """The reply to a repeated request, or a new one: one transaction.

        Raises as `SessionTerms.open` and the stage; Replay for a session that is known with other terms, StageOrder
        where the stage is not due or the session is over, InconsistentView for another request than before.
        """
        (stage, compute), store, digest = STEPS[type(request)], self.store, message_digest(request)
        terms = SIGNED[stage].open(request.terms, request.signature, self.roster) if stage in SIGNED else None
        begun = terms if isinstance(terms, KeyTerms) else None
        sid = begun.sid_bytes if begun else request.sid
        with store.transaction():
            session = Session.find(store, sid)
            if session is None and begun is None:
                raise errors.StageOrder(f"session {sid.hex()} was never begun here")
            if session is not None and begun not in (None, session.terms):
                raise errors.Replay(f"session {sid.hex()} is known here with other terms")
            session = session or Session(sid, time.time(), begun, -1, {})  # pyright: ignore[reportArgumentType]
            step = session.step(stage, getattr(terms or request, "round", None))
            kept = "SELECT request, reply FROM secure_replies WHERE sid = ? AND step = ?"
            asked, given = store.one(kept, sid, step) or (None, None)
            error: errors.SecAggError | None = None
            if time.time() - session.started > LIFETIME:
                error = errors.StageOrder(f"session {sid.hex()} is over: its lifetime has passed")
            elif asked not in (None, digest):
                error = errors.InconsistentView(f"stage {stage} of session {sid.hex()} was done with another request")
            elif asked is not None and given is None:
                error = errors.StageOrder(f"session {sid.hex()} is over, its replies are erased")
            if error is not None:
                erase(store, sid)
                store.commit()  # for good, before the error that ends this transaction
                raise error
            if given is not None:
                return unpack_message(given, messages.REPLIES[stage])
            if not session.is_due(step):
                raise errors.StageOrder(f"stage {stage} is not due in session {sid.hex()}")
            fields, memory = compute(self, session, terms or session.terms, request)
            reply = messages.REPLIES[stage](sid=sid, party=self.me, **fields)
            packed = pack(memory) if memory else None
            values = sid, session.terms.federation, session.started, session.terms.canonical(), step, packed
            store.execute("INSERT OR REPLACE INTO secure_sessions VALUES (?, ?, ?, ?, ?, ?)", *values)
            store.execute("INSERT INTO secure_replies VALUES (?, ?, ?, ?)", sid, step, digest, pack_message(reply))
            return reply

    def check_subset(self, small: str, inner: np.ndarray, large: str, outer: np.ndarray) -> None:
        """Raise InconsistentView unless `inner` is within `outer`, holds this party, and has enough parties."""
        if not np.isin(inner, outer).all():
            raise errors.InconsistentView(f"{small} names parties that are not in {large}")
        if self.me not in inner:
            raise errors.InconsistentView(f"{small} lacks the party that is asked")
        if len(inner) < self.roster.least:
            raise errors.InconsistentView(f"{small} has {len(inner)} parties, {self.roster.least} are needed")

    def check_signed(
        self, stage: Stage, ctx: bytes, signers: np.ndarray, statements: bytes, signatures: np.ndarray
    ) -> None:
        """Raise ThresholdNotMet for fewer than t signers, BadSignature for one whose signature does not verify under
        the pinned key. statements: of each, one behind the other."""
        if len(signers) < self.roster.t:
            missing = (self.roster.name(place) for place in range(self.roster.n) if place not in signers)
            raise errors.ThresholdNotMet(stage, len(signers), self.roster.t, missing)
        places = tuple(signers.tolist())
        pinned = b"".join(map(self.roster.key, places))
        unsigned = messages.first_unsigned(stage, ctx, pinned, places, statements, signatures.tobytes())
        if unsigned is not None:
            raise errors.BadSignature(self.roster.name(unsigned), f"message of stage {stage}")

    def advertise(self, session: Session, terms: KeyTerms, request: messages.AdvertiseRequest) -> Answered:
        """Stage 0: an X25519 key and the commitments to b and K of each sum, signed, if the terms are acceptable.

        Earlier sessions of the same federation, and those whose lifetime is over, end: what they hold is erased.
        """
        self.voter.check(terms)
        old = "SELECT sid FROM secure_sessions WHERE done != ? AND (federation = ? OR started < ?)"
        for (other,) in self.store.execute(old, ENDED, terms.federation, session.started - LIFETIME):
            erase(self.store, other)
        private, seeds = pairs.new_private(), new_seeds(len(terms.rounds) * KINDS)
        advert = pairs.public_of(private)
        for round_, (b, k) in zip(terms.rounds, seeds.reshape(-1, KINDS, SHARE_BYTES), strict=True):
            advert += messages.commitment(terms.ctx, self.me, b.tobytes(), round_, "b")
            advert += messages.commitment(terms.ctx, self.me, k.tobytes(), round_, "K")
        signature = messages.sign(self.identity, Stage.ADVERTISE, terms.ctx, self.me, advert)
        memory = {"private": private, "seeds": seeds, "advert": advert}
        return {"advert": _rows([advert]), "signature": signature}, memory

    def share(self, session: Session, terms: KeyTerms, request: messages.ShareRequest) -> Answered:
        """Stage 1: shares of each b and K, sealed for each peer in U1, and the lists of pairs' mask seeds, sealed by K.
        Raises as `check_signed`; BadKey, InconsistentView."""
        ctx, rounds, me, name = terms.ctx, terms.rounds, self.me, self.roster.name
        places, adverts = request.advertised.tolist(), [advert.tobytes() for advert in request.adverts]
        if places and places[-1] >= self.roster.n:
            raise errors.InconsistentView("U1 names a place that the roster does not have")
        if me not in places or adverts[places.index(me)] != session.memory["advert"]:
            raise errors.InconsistentView("this party's own advert is missing from U1, or altered")
        self.check_signed(Stage.ADVERTISE, ctx, request.advertised, b"".join(adverts), request.signatures)
        u1 = messages.adverts_digest(ctx, request.advertised, request.adverts, request.signatures)
        seeds, row, seen = session.memory["seeds"], places.index(me), set[bytes]()
        agreement = pairs.Agreement(session.memory["private"], ctx, me, rounds)
        dealt, sealed, keys = split(seeds, self.roster.t, places), list[bytes](), list[bytes]()
        for peer, advert, shares in zip(places, adverts, dealt, strict=True):
            public = advert[:KEY_BYTES]
            if public in seen:
                raise errors.BadKey(name(peer), "is used twice")
            seen.add(public)
            if peer == me:
                continue
            try:
                pair = agreement.keys(peer, public)
            except ValueError:
                raise errors.BadKey(name(peer), "is of low order") from None
            sealed.append(pairs.seal(pair[0], shares.tobytes(), pairs.between(me, peer)))
            keys += pair
        of_peers = _rows(keys).reshape(len(sealed), -1, KEY_BYTES)
        seeds, lists = seeds.reshape(-1, KINDS, SHARE_BYTES), list[bytes]()
        for at, round_ in enumerate(rounds):
            key = pairs.list_key(seeds[at, 1].tobytes(), ctx, me, round_)
            lists.append(pairs.seal(key, of_peers[:, at + 1].tobytes(), u1))
        memory = {"u1": u1, "advertised": request.advertised, "keys": np.insert(of_peers, row, 0, axis=0)}
        memory |= {"own": dealt[row], "b": seeds[:, 0]}
        return {"ciphertexts": _rows(sealed), "lists": _rows(lists)}, memory

    def masked(self, session: Session, terms: MaskedTerms, request: messages.MaskedRequest) -> Answered:
        """Stage 2: the masked votes y, once for each sum. They are charged first; what is refused costs nothing. Raises
        as `check_subset`, `opened` and `values`; InconsistentView for terms or queries of another sum."""
        memory, first, sharers = session.memory, session.terms.rounds[0] == terms.round, request.sharers
        if (terms.sid, terms.federation) != (session.terms.sid, session.terms.federation):
            raise errors.InconsistentView("the terms of the sum are of another session")
        if query_set_hash(request.queries) != terms.query_set or len(request.queries) != terms.queries:
            raise errors.InconsistentView("the queries are not those of the sum's terms")
        name, outer = ("U1", memory["advertised"]) if first else ("the U2 of the first sum", memory["sharers"])
        self.check_subset("U2", sharers, name, outer)
        if len(request.ciphertexts) != (len(sharers) - 1 if first else 0):
            raise errors.InconsistentView("there is not one sealed row for each peer, in the session's first sum")
        rows = np.searchsorted(outer, sharers)
        if first:
            keys = memory["keys"][rows]
            seeds, shares, b = keys[:, 1:], self.opened(memory, request, keys[:, 0]), memory["b"]
        else:
            seeds, shares, b = memory["later_seeds"][rows], memory["later_shares"][rows], memory["later_b"]
        query_set = QuerySet(request.queries, terms.query_set, request.places, request.proof)
        y = encode(self.values(terms, query_set))
        masks = Masks(y, terms.ctx)
        masks.add(b[0].tobytes())
        for peer, seed in zip(sharers.tolist(), seeds[:, 0], strict=True):
            if peer != self.me:
                masks.add_pair(seed.tobytes(), self.me, peer)
        u1, u2 = memory["u1"], messages.set_digest("U2", terms.ctx, sharers)
        statement = messages.masked_statement(u1, u2, y)
        signature = messages.sign(self.identity, Stage.MASKED, terms.ctx, self.me, statement)
        later = {"later_seeds": seeds[:, 1:], "later_shares": shares[:, 1:], "later_b": b[1:]}
        memory = {"u1": u1, "u2": u2, "ctx": terms.ctx, "sharers": sharers, **later}
        memory |= {"seeds": seeds[:, 0], "shares": shares[:, 0]}
        return {"y": y, "signature": signature}, memory

    def consistency(self, session: Session, terms: KeyTerms, request: messages.ConsistencyRequest) -> Answered:
        """Stage 3: a signature on the one U3 that this party will help to unmask. Shares of the other kind are erased.
        Raises as `check_subset`."""
        memory, survivors = session.memory, request.survivors
        self.check_subset("U3", survivors, "U2", memory["sharers"])
        alive, shares = np.isin(memory["sharers"], survivors), memory["shares"]
        view = memory["u1"] + memory["u2"] + messages.set_digest("U3", memory["ctx"], survivors)
        signature = messages.sign(self.identity, Stage.CONSISTENCY, memory["ctx"], self.me, view)
        memory |= {"view": view, "survivors": survivors, "seeds": memory["seeds"][~alive]}
        memory |= {"shares": np.where(alive[:, None], shares[:, 0], shares[:, 1])}
        return {"signature": signature}, memory

    def unmask(self, session: Session, terms: KeyTerms, request: messages.UnmaskRequest) -> Answered:
        """Stage 4: for each of U3 its share of b; for each of U2 without U3 its share of K, and the seed of the mask
        with it. Raises as `check_signed`; InconsistentView for other sets than were signed."""
        memory, survivors, signers = session.memory, session.memory["survivors"], request.signers
        gone = np.setdiff1d(memory["sharers"], survivors, assume_unique=True)
        if not (np.array_equal(request.survivors, survivors) and np.array_equal(request.dropped, gone)):
            raise errors.InconsistentView("shares are asked for other sets than this party signed")
        if not np.isin(signers, survivors).all():
            raise errors.InconsistentView("a signer is not among the survivors")
        views = memory["view"] * len(signers)
        self.check_signed(Stage.CONSISTENCY, memory["ctx"], signers, views, request.signatures)
        later = {name: memory[name] for name in ("u1", "sharers", "later_seeds", "later_shares", "later_b")}
        reply = {"shares": memory["shares"], "seeds": memory["seeds"]}
        return reply, later if len(later["later_b"]) else {}

    def opened(self, memory: Memory, request: messages.MaskedRequest, keys: np.ndarray) -> np.ndarray:
        """What the peers in U2 sealed for this party, and its own: shares uint8 (|U2|, sums, 2, 52) of b and K. keys:
        uint8 (|U2|, 32). Raises BadShare, naming the peer, where it does not open or holds no shares."""
        dealt, sealed = list[bytes](), iter(request.ciphertexts)
        for peer, key in zip(request.sharers.tolist(), keys, strict=True):
            if peer == self.me:
                dealt.append(memory["own"].tobytes())
                continue
            content = pairs.unseal(key.tobytes(), next(sealed).tobytes(), pairs.between(peer, self.me))
            if content is None:
                raise errors.BadShare(self.roster.name(peer), "what it sealed does not open")
            dealt.append(content)
        shares = _rows(dealt).reshape(len(dealt), -1, KINDS, SHARE_BYTES)
        if not are_shares(shares):
            bad = next(row for row, of_peer in enumerate(shares) if not are_shares(of_peer))
            raise errors.BadShare(self.roster.name(int(request.sharers[bad])), "what it sealed are no shares")
        return shares

    def values(self, terms: MaskedTerms, query_set: QuerySet) -> np.ndarray:
        """Votes, which are charged first, and this party's share of the noise: int64 (queries, classes). Raises as
        `Voter`, and Refused where the teachers' votes have another form than the terms say."""
        votes = self.voter.votes(terms, query_set, again=True)
        if votes.dtype != VOTE_DTYPE or votes.shape != terms.shape:
            raise Refused(Rule.INTERNAL, detail=f"teachers gave {votes.dtype} {votes.shape}, not uint16 {terms.shape}")
        if (votes.sum(axis=1, dtype=np.int64) != terms.teachers).any():
            raise Refused(Rule.INTERNAL, detail="votes of a query do not sum to teachers")
        return votes.astype(np.int64) + self.voter.noise(terms).gaussian(terms.deviation(1), terms.shape)


STEPS: Mapping[type[WireModel], tuple[Stage, Callable[..., Answered]]] = {
    messages.AdvertiseRequest: (Stage.ADVERTISE, MaskingParty.advertise),
    messages.ShareRequest: (Stage.SHARE, MaskingParty.share),
    messages.MaskedRequest: (Stage.MASKED, MaskingParty.masked),
    messages.ConsistencyRequest: (Stage.CONSISTENCY, MaskingParty.consistency),
    messages.UnmaskRequest: (Stage.UNMASK, MaskingParty.unmask),
}
SIGNED: Mapping[Stage, type[KeyTerms] | type[MaskedTerms]] = {Stage.ADVERTISE: KeyTerms, Stage.MASKED: MaskedTerms}
"""Stages whose requests bring terms."""


ANSWERS: Mapping[type[WireModel], Callable[[Voter, Any], WireModel]] = dict.fromkeys(
    STEPS, lambda voter, request: MaskingParty(voter).answer(request)
)
