"""A party's five replies in a session under masks. Each is checked, computed, made durable and only then returned.

The coordinator is not trusted: it may repeat, reorder, alter or withhold any message and show different parties
different sets. A check that fails leaves the session as it was and gives nothing. A second, different request for a
stage that is done comes from a coordinator that lies to somebody: secrets are erased (Bonawitz et al. 2017, section
6.2 and figure 4).

A party shares b, of its own mask, and K, which opens the list of its pairs' mask seeds; later it gives one of the two
for each peer, never both. y = votes + noise share + mask(b) + sum over peers of +-mask(pair), in the ring. Votes are
charged in the transaction that keeps y: whatever has left was paid for, and what never left was not."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from consilium.protocol.databases import Database
from consilium.protocol.errors import MalformedMessage
from consilium.protocol.messages import VOTE_DTYPE, WireModel
from consilium.protocol.queries import query_set_hash
from consilium.protocol.refusals import Refused, Rule
from consilium.sums import errors
from consilium.sums.roster import Roster
from consilium.sums.secure import masks, messages
from consilium.sums.secure.masks import KEY_BYTES, SHARE_BYTES, Masks, are_shares, encode, new_seeds, split
from consilium.sums.secure.messages import KINDS, STAGES, MaskedTerms, PartyReply, Stage, rows_of
from consilium.sums.terms import LIFETIME, QuerySet, Voter

Memory = dict[str, Any]
"""What a session keeps between two stages, by name: bytes and arrays; secret."""
Answered = tuple[dict[str, Any], Memory]
"""Fields of a reply, and what is remembered after it."""

TABLES = (
    "secure_sessions (sid BLOB PRIMARY KEY, federation TEXT NOT NULL, started REAL NOT NULL, terms BLOB NOT NULL,"
    " done INTEGER NOT NULL, memory BLOB)",
    "secure_replies (sid BLOB, stage INTEGER, request BLOB NOT NULL, reply BLOB, PRIMARY KEY (sid, stage))",
)
"""done: how many stages were answered. request: digest of it."""
ENDED = 99
"""The value of `done` once a session's secrets are erased."""


def pack(fields: Iterable[tuple[str, Any]]) -> bytes:
    """Numbers, bytes and arrays by name -> bytes; equal fields give equal bytes."""
    plain = {name: np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value for name, value in fields}
    return save({name: np.array(value, order="C") for name, value in plain.items()})


def unpack(content: bytes) -> dict[str, Any]:
    """The inverse of `pack`; uint8 arrays of one dimension become bytes. Raises MalformedMessage."""
    try:
        fields: dict[str, Any] = load(content)
    except SafetensorError:
        raise MalformedMessage("saved state is damaged or of another version") from None
    for name, array in fields.items():
        if array.ndim == 0:
            fields[name] = array.item()
        elif array.ndim == 1 and array.dtype == np.uint8:
            fields[name] = array.tobytes()
    return fields


@dataclass(frozen=True)
class Session:
    """What a party has stored of one session. done: how many stages it answered."""

    sid: bytes
    started: float
    terms: MaskedTerms
    done: int = 0
    memory: Memory = field(repr=False, default_factory=dict)

    @classmethod
    def find(cls, store: Database, sid: bytes) -> Session | None:
        row = store.one("SELECT started, terms, done, memory FROM secure_sessions WHERE sid = ?", sid)
        if row is None:
            return None
        started, terms, done, memory = row
        return cls(sid, started, MaskedTerms.parse(terms), done, unpack(memory) if memory else {})


def erase(store: Database, sid: bytes) -> None:
    """Overwrite a session's secrets and replies: it is over."""
    store.execute("UPDATE secure_sessions SET memory = NULL, done = ? WHERE sid = ?", ENDED, sid)
    store.execute("UPDATE secure_replies SET reply = NULL WHERE sid = ?", sid)


class MaskingParty:
    """A party as it answers. Raises as `Voter`, and RosterMismatch unless the roster lists this party with its key."""

    def __init__(self, voter: Voter) -> None:
        self.voter, self.store, self.roster, self.identity = voter, voter.store, voter.roster(Roster), voter.identity
        self.me = self.roster.place(voter.name)
        if self.roster.key(self.me) != self.identity.public:
            raise errors.RosterMismatch(f"the roster lists {voter.name} with another key than this party has")

    def answer(self, request: Any) -> PartyReply:
        """The stored reply to a repeated request, else a new one, in one transaction. Raises as `SumTerms.open` and the
        stage; Replay for a session that is known with other terms, StageOrder where the stage is not due or the session
        is over, InconsistentView for another request than before."""
        (stage, compute), store = STEPS[type(request)], self.store
        place, reply_model, asked = STAGES.index(stage), messages.REPLIES[stage], hashlib.sha256(pack(request)).digest()
        terms = MaskedTerms.open(request.terms, request.signature, self.roster) if stage is Stage.ADVERTISE else None
        sid = terms.sid_bytes if terms else request.sid
        with store.transaction():
            session = Session.find(store, sid)
            if session is None:
                if terms is None:
                    raise errors.StageOrder(f"session {sid.hex()} was never begun here")
                session = Session(sid, time.time(), terms)
            elif terms not in (None, session.terms):
                raise errors.Replay(f"session {sid.hex()} is known here with other terms")
            kept = "SELECT request, reply FROM secure_replies WHERE sid = ? AND stage = ?"
            before, given = store.one(kept, sid, place) or (None, None)
            error: errors.SecAggError | None = None
            if time.time() - session.started > LIFETIME:
                error = errors.StageOrder(f"session {sid.hex()} is over: its lifetime has passed")
            elif before not in (None, asked):
                error = errors.InconsistentView(f"stage {stage} of session {sid.hex()} was done with another request")
            elif before is not None and given is None:
                error = errors.StageOrder(f"session {sid.hex()} is over, its replies are erased")
            if error is not None:
                erase(store, sid)
                store.commit()  # for good, before the error that ends this transaction
                raise error
            if given is not None:
                return reply_model.model_validate(unpack(given))
            if place != session.done:
                raise errors.StageOrder(f"stage {stage} is not due in session {sid.hex()}")
            fields, memory = compute(self, session, request)
            reply = reply_model(sid=sid, party=self.me, **fields)
            packed = pack(memory.items()) if memory else None
            values = sid, session.terms.federation, session.started, session.terms.canonical(), place + 1, packed
            store.execute("INSERT OR REPLACE INTO secure_sessions VALUES (?, ?, ?, ?, ?, ?)", *values)
            store.execute("INSERT INTO secure_replies VALUES (?, ?, ?, ?)", sid, place, asked, pack(reply))
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
        the pinned key. statements: what each signed, one after the other."""
        if len(signers) < self.roster.t:
            missing = (self.roster.name(place) for place in range(self.roster.n) if place not in signers)
            raise errors.ThresholdNotMet(stage, len(signers), self.roster.t, missing)
        places = tuple(signers.tolist())
        pinned = b"".join(map(self.roster.key, places))
        unsigned = messages.first_unsigned(stage, ctx, pinned, places, statements, signatures.tobytes())
        if unsigned is not None:
            raise errors.BadSignature(self.roster.name(unsigned), f"message of stage {stage}")

    def advertise(self, session: Session, request: messages.AdvertiseRequest) -> Answered:
        """Stage 0: an X25519 key and the commitments to b and K, signed, if the terms are acceptable. Earlier sessions
        of the same federation, and those whose lifetime is over, end: what they hold is erased."""
        terms = session.terms
        self.voter.check(terms)
        old = "SELECT sid FROM secure_sessions WHERE done != ? AND (federation = ? OR started < ?)"
        for (other,) in self.store.execute(old, ENDED, terms.federation, session.started - LIFETIME):
            erase(self.store, other)
        private, seeds = secrets.token_bytes(KEY_BYTES), new_seeds(KINDS)
        advert = masks.Agreement(private, terms.ctx, self.me).public
        for secret, kind in zip(seeds, ("b", "K"), strict=True):
            advert += messages.commitment(terms.ctx, self.me, secret.tobytes(), kind)
        signature = messages.sign(self.identity, Stage.ADVERTISE, terms.ctx, self.me, advert)
        return {"advert": advert, "signature": signature}, {"private": private, "seeds": seeds, "advert": advert}

    def share(self, session: Session, request: messages.ShareRequest) -> Answered:
        """Stage 1: shares of b and K, sealed for each peer in U1, and the list of pairs' mask seeds, sealed by K.
        Raises as `check_signed`; BadKey, InconsistentView."""
        ctx, me, name, memory = session.terms.ctx, self.me, self.roster.name, session.memory
        places, adverts = request.advertised.tolist(), [advert.tobytes() for advert in request.adverts]
        if places and places[-1] >= self.roster.n:
            raise errors.InconsistentView("U1 names a place that the roster does not have")
        if me not in places or adverts[places.index(me)] != memory["advert"]:
            raise errors.InconsistentView("this party's own advert is missing from U1, or altered")
        self.check_signed(Stage.ADVERTISE, ctx, request.advertised, b"".join(adverts), request.signatures)
        u1 = messages.adverts_digest(ctx, request.advertised, request.adverts, request.signatures)
        agreement, seen = masks.Agreement(memory["private"], ctx, me), set[bytes]()
        dealt, sealed, keys = split(memory["seeds"], self.roster.t, places), list[bytes](), list[bytes]()
        for peer, advert, shares in zip(places, adverts, dealt, strict=True):
            public = advert[:KEY_BYTES]
            if public in seen:
                raise errors.BadKey(name(peer), "is used twice")
            seen.add(public)
            if peer == me:
                continue
            try:
                key, seed = agreement.keys(peer, public)
            except ValueError:
                raise errors.BadKey(name(peer), "is of low order") from None
            sealed.append(masks.seal(key, shares.tobytes(), masks.between(me, peer)))
            keys.append(key + seed)
        of_peers, row = rows_of(keys).reshape(len(keys), 2, KEY_BYTES), places.index(me)
        b, k = memory["seeds"]
        seeds = masks.seal(masks.list_key(k.tobytes(), ctx, me), of_peers[:, 1].tobytes(), u1)
        memory = {"u1": u1, "advertised": request.advertised, "keys": np.insert(of_peers, row, 0, axis=0)}
        return {"ciphertexts": rows_of(sealed), "seeds": seeds}, memory | {"own": dealt[row], "b": b.tobytes()}

    def masked(self, session: Session, request: messages.MaskedRequest) -> Answered:
        """Stage 2: the masked votes y. They are charged first; what is refused costs nothing. Raises as `check_subset`,
        `opened` and `values`; InconsistentView for other queries than the terms say."""
        memory, terms, sharers = session.memory, session.terms, request.sharers
        if query_set_hash(request.queries) != terms.query_set or len(request.queries) != terms.queries:
            raise errors.InconsistentView("the queries are not those of the sum's terms")
        self.check_subset("U2", sharers, "U1", memory["advertised"])
        if len(request.ciphertexts) != len(sharers) - 1:
            raise errors.InconsistentView("there is not one sealed row for each peer")
        keys = memory["keys"][np.searchsorted(memory["advertised"], sharers)]
        shares, seeds = self.opened(memory, request, keys[:, 0]), keys[:, 1]
        y = encode(self.values(terms, QuerySet(request.queries, terms.query_set, request.places, request.proof)))
        added = Masks(y, terms.ctx)
        added.add(memory["b"])
        for peer, seed in zip(sharers.tolist(), seeds, strict=True):
            if peer != self.me:
                added.add_pair(seed.tobytes(), self.me, peer)
        u1, u2 = memory["u1"], messages.set_digest("U2", terms.ctx, sharers)
        statement = messages.masked_statement(u1, u2, y)
        signature = messages.sign(self.identity, Stage.MASKED, terms.ctx, self.me, statement)
        return {"y": y, "signature": signature}, {"view": u1 + u2, "sharers": sharers, "seeds": seeds, "shares": shares}

    def consistency(self, session: Session, request: messages.ConsistencyRequest) -> Answered:
        """Stage 3: a signature on the one U3 that this party will help to unmask. Shares of the other kind are erased.
        Raises as `check_subset`."""
        memory, survivors, ctx = session.memory, request.survivors, session.terms.ctx
        self.check_subset("U3", survivors, "U2", memory["sharers"])
        alive, shares = np.isin(memory["sharers"], survivors), memory["shares"]
        view = memory["view"] + messages.set_digest("U3", ctx, survivors)
        signature = messages.sign(self.identity, Stage.CONSISTENCY, ctx, self.me, view)
        memory = {"view": view, "survivors": survivors, "seeds": memory["seeds"][~alive]}
        return {"signature": signature}, memory | {"shares": np.where(alive[:, None], shares[:, 0], shares[:, 1])}

    def unmask(self, session: Session, request: messages.UnmaskRequest) -> Answered:
        """Stage 4: for each of U3 its share of b; for each of U2 without U3 its share of K, and the seed of the mask
        with it. Raises as `check_signed`, of another U3 than this party signed too; InconsistentView."""
        memory, signers = session.memory, request.signers
        if not np.isin(signers, memory["survivors"]).all():
            raise errors.InconsistentView("a signer is not among the survivors")
        views = memory["view"] * len(signers)
        self.check_signed(Stage.CONSISTENCY, session.terms.ctx, signers, views, request.signatures)
        return {"shares": memory["shares"], "seeds": memory["seeds"]}, {}

    def opened(self, memory: Memory, request: messages.MaskedRequest, keys: np.ndarray) -> np.ndarray:
        """What the peers in U2 sealed for this party, and its own: shares uint8 (|U2|, 2, 52) of b and K. keys: uint8
        (|U2|, 32). Raises BadShare, naming the peer, where it does not open or holds no shares."""
        dealt, sealed = list[bytes](), iter(request.ciphertexts)
        for peer, key in zip(request.sharers.tolist(), keys, strict=True):
            if peer == self.me:
                dealt.append(memory["own"].tobytes())
                continue
            content = masks.unseal(key.tobytes(), next(sealed).tobytes(), masks.between(peer, self.me))
            if content is None:
                raise errors.BadShare(self.roster.name(peer), "what it sealed does not open")
            if not are_shares(rows_of([content])):
                raise errors.BadShare(self.roster.name(peer), "what it sealed are no shares")
            dealt.append(content)
        return rows_of(dealt).reshape(len(dealt), KINDS, SHARE_BYTES)

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
ANSWERS: Mapping[type[WireModel], Callable[[Voter, Any], WireModel]] = dict.fromkeys(
    STEPS, lambda voter, request: MaskingParty(voter).answer(request)
)
