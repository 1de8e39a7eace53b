"""The terms of a session, and the one message of a party in it: the helper's part, which is signed and travels through
the leader, and the leader's own.

    part     CTX (32), place (4), three commitments (32 each), X25519 key (32), sealed seed (32), signature (64)
    leader   blind (16), share of the proof, share of the votes (4 for each number)

The signature covers all of the upload: its part as bytes, the rest by the commitments. Numbers are below the prime and
little-endian, the place is big-endian; all uploads of a session have one length.
"""

from __future__ import annotations

import math
import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import model_validator

from consilium.protocol.digests import Hash
from consilium.protocol.identity import SIGNATURE_BYTES, Identity, SealingKey, derive, verify
from consilium.protocol.messages import CollectionMode
from consilium.sums.errors import BadKey, BadSignature, OverflowRisk, VoteFault
from consilium.sums.roster import SumRoster, VerifiedRoster
from consilium.sums.terms import TAIL, SumTerms
from consilium.sums.verified.field import DEGREE, DTYPE, KEY_BYTES, MOST_REACH, elements, from_wire, reduced, to_wire
from consilium.sums.verified.proof import (
    BLIND_BYTES,
    MOST_ROWS,
    SEED_BYTES,
    SPACE,
    VoteGrid,
    challenge_key,
    challenges,
    commitment,
    prove,
    seed_key,
)

MOST_CELLS = 2**28
"""Elements of one share, a gigabyte: a bound of what a message may ask of a node."""


class VerifiedTerms(SumTerms):
    """See `SumTerms`; each of the votes is proved. leader_key: the leader's X25519 key of this session's link to the
    helper, made for it, hex. sigma: standard deviation of the noise that each aggregator adds to one count of its
    total."""

    collection: ClassVar[CollectionMode] = "verified"
    SIGNED_AS: ClassVar[str] = SPACE + "session"

    leader_key: Hash

    @model_validator(mode="after")
    def _is_bounded(self) -> VerifiedTerms:
        rows = self.queries * self.teachers
        if rows > MOST_ROWS or rows * self.classes > MOST_CELLS:
            raise ValueError(f"{rows} votes for {self.classes} classes are more than one session takes")
        return self

    def check(self, roster: SumRoster) -> None:
        """See `SumTerms`. Raises OverflowRisk where sums do not fit into half of the field."""
        super().check(roster)
        reach = reach_of(roster.n, self.teachers, self.sigma)
        if reach > MOST_REACH:
            raise OverflowRisk(reach, MOST_REACH)

    @property
    def noise(self) -> tuple[float, int]:
        return self.sigma, 1

    @cached_property
    def grid(self) -> VoteGrid:
        return VoteGrid(self.queries, self.classes, self.teachers)


def tail_of(sigma: float) -> int:
    """How far both aggregators' noise may carry a count: nine standard deviations."""
    return math.ceil(TAIL * math.sqrt(2) * sigma)


def reach_of(parties: int, teachers: int, sigma: float) -> int:
    """How many different values a count of a sum may have: votes, and noise on both sides. At most half of the field.

    >>> reach_of(1_000, 2, 3.0)
    2078
    """
    return parties * teachers + 2 * tail_of(sigma)


def agreed(key: SealingKey, public: bytes, whose: str) -> bytes:
    """The secret that a key and a public one agree on, 32 bytes. Raises BadKey: `public` is of low order."""
    try:
        return key.agree(public)
    except ValueError:
        raise BadKey(whose, "is of low order") from None


def sign_key(helper: Identity, ctx: bytes, public: bytes) -> bytes:
    """The helper's signature on its key of a session."""
    return helper.sign(SPACE + "session-key", ctx, public)


@lru_cache(maxsize=8)  # of public values alone: many simulated parties are sent the same
def check_key(helper: bytes, ctx: bytes, public: bytes, signature: bytes) -> None:
    """helper: its Ed25519 key. Raises BadSignature unless this is its key of the session."""
    if not verify(helper, signature, SPACE + "session-key", ctx, public):
        raise BadSignature("the second aggregator", "its key of the session")


_BOUND = struct.Struct(">32sI32s32s32s")
_SEAL = struct.Struct(f"32s{SEED_BYTES + 16}s")
_SIGNED = _BOUND.size + _SEAL.size
PART_BYTES = _SIGNED + SIGNATURE_BYTES
"""Of the helper's part."""
_ONCE = bytes(12)
"""The nonce of a key that seals one message."""


def _seal_of(secret: bytes, sender: bytes, helper: bytes, bound: bytes) -> AESGCM:
    """By what a key made for one message agrees with the helper's of the session. bound: what the seal is good for; it
    enters key and associated data."""
    return AESGCM(derive(secret, SPACE + "seal", sender, helper, bound))


@dataclass(frozen=True)
class HelperPart:
    """What the helper gets of an upload; its bytes, `PART_BYTES` of them, are signed. place: of the party in the
    roster. to_leader, to_helper, to_proof: commitments (`proof`)."""

    content: bytes = field(repr=False)
    ctx: bytes = field(repr=False)
    place: int
    to_leader: bytes = field(repr=False)
    to_helper: bytes = field(repr=False)
    to_proof: bytes = field(repr=False)

    @classmethod
    def read(cls, content: bytes) -> HelperPart:
        return cls(content, *_BOUND.unpack_from(content))

    @classmethod
    def make(
        cls,
        bound: tuple[bytes, int, bytes, bytes, bytes],
        seed: bytes,
        key: SealingKey,
        helper: bytes,
        signer: Identity,
    ) -> HelperPart:
        """A signed part with the seed sealed for the helper. bound: CTX, place and commitments. key: made for it.
        Raises BadKey: the helper's key is of low order."""
        head, secret = _BOUND.pack(*bound), agreed(key, helper, "the helper")
        sealed = _seal_of(secret, key.public, helper, head).encrypt(_ONCE, seed, head)
        signed = head + _SEAL.pack(key.public, sealed)
        return cls.read(signed + signer.sign(SPACE + "upload", signed))

    @property
    def challenge_key(self) -> bytes:
        return challenge_key(self.ctx, self.place, self.to_leader, self.to_helper)

    def fault(self, ctx: bytes, roster: VerifiedRoster) -> VoteFault | None:
        """What is wrong with it before anything is opened; None if nothing is."""
        if self.ctx != ctx:
            return VoteFault.OTHER_SESSION
        if self.place >= roster.n:
            return VoteFault.UNKNOWN
        signed, signature = self.content[:_SIGNED], self.content[_SIGNED:]
        return None if verify(roster.key(self.place), signature, SPACE + "upload", signed) else VoteFault.SIGNATURE

    def opened(self, key: SealingKey) -> bytes | VoteFault:
        """The helper's seed, or what is wrong with the seal: it does not open, or holds another seed than the party is
        bound to. key: the helper's of the session."""
        sender, sealed = _SEAL.unpack_from(self.content, _BOUND.size)
        head = self.content[: _BOUND.size]
        try:
            seed = _seal_of(key.agree(sender), sender, key.public, head).decrypt(_ONCE, sealed, head)
        except (ValueError, InvalidTag):  # a key of low order
            return VoteFault.NOT_FOR_US
        return seed if commitment("helper", self.ctx, self.place, seed) == self.to_helper else VoteFault.COMMITMENT


@dataclass(frozen=True)
class Upload:
    """All that a party sends. blind: of the commitments. proof, share: the leader's, numbers below the prime."""

    part: HelperPart
    blind: bytes = field(repr=False)
    proof: np.ndarray = field(repr=False)
    share: np.ndarray = field(repr=False)

    @classmethod
    def read(cls, content: bytes, grid: VoteGrid) -> Upload | None:
        """From bytes; None if they have not the form of an upload of this size."""
        head = PART_BYTES + BLIND_BYTES
        numbers = from_wire(content[head:]) if len(content) == upload_bytes(grid) else None
        if numbers is None:
            return None
        part, blind = HelperPart.read(content[:PART_BYTES]), content[PART_BYTES:head]
        return cls(part, blind, numbers[: grid.proof], numbers[grid.proof :])

    def write(self) -> bytes:
        return b"".join((self.part.content, self.blind, self.proof.tobytes(), self.share.tobytes()))

    def is_bound(self) -> bool:
        """Whether the signed commitments are to this share and this proof."""
        ctx, place, blind = self.part.ctx, self.part.place, self.blind
        to_share = commitment("leader", ctx, place, blind, self.share.tobytes())
        to_proof = commitment("proof", ctx, place, blind, self.proof.tobytes())
        return (self.part.to_leader, self.part.to_proof) == (to_share, to_proof)


def upload_bytes(grid: VoteGrid) -> int:
    """Length of an upload.

    >>> upload_bytes(VoteGrid(10_000, 10, 1))
    408704
    """
    return PART_BYTES + BLIND_BYTES + DTYPE.itemsize * (grid.proof + grid.cells)


def make_upload(
    terms: VerifiedTerms,
    place: int,
    signer: Identity,
    helper: bytes,
    votes: np.ndarray,
    entropy: Callable[[int], bytes] = secrets.token_bytes,
) -> bytes:
    """What a party sends to the leader, once in a session. place: of the party in the roster, which has the key of
    `signer`. helper: the helper's public key of this session, which was checked. votes: integers (queries, classes), as
    many in each row as the party has teachers. entropy: so many random bytes; the operating system's but in tests."""
    grid, ctx = terms.grid, terms.ctx
    picks, seed, blind = grid.picks(votes), entropy(SEED_BYTES), entropy(BLIND_BYTES)
    (other,) = elements([seed_key(ctx, place, seed, "votes")], grid.cells).astype(np.int64)
    other[np.arange(0, grid.cells, grid.classes) + picks] -= 1
    share = to_wire(-other)
    to_leader = commitment("leader", ctx, place, blind, share.tobytes())
    to_helper = commitment("helper", ctx, place, seed)
    challenge = challenges(grid, [challenge_key(ctx, place, to_leader, to_helper)])
    starts = reduced(elements([entropy(KEY_BYTES)], grid.lines * DEGREE)).reshape(grid.lines, DEGREE)
    values = prove(grid, picks, challenge, starts)
    (other,) = elements([seed_key(ctx, place, seed, "proof")], grid.proof)
    proof = to_wire(np.concatenate((starts, values)).ravel() - other)
    bound = ctx, place, to_leader, to_helper, commitment("proof", ctx, place, blind, proof.tobytes())
    part = HelperPart.make(bound, seed, SealingKey(entropy(KEY_BYTES)), helper, signer)
    return Upload(part, blind, proof, share).write()
