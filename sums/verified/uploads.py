"""The one message of a party: the helper's part, which is signed and travels through the leader, and the leader's own.

    part     CTX (32), place (4), three commitments (32 each), X25519 key (32), sealed seed (32), signature (64)
    leader   blind (16), share of the proof, share of the votes (4 for each number)

The signature covers all of the upload: its part as bytes, the rest by the commitments. Numbers are below the prime and
little-endian, the place is big-endian; all uploads of a session have one length.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.identity import SIGNATURE_BYTES, Identity, SealingKey, verify
from consilium.sums.errors import VoteFault
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.field import DEGREE, DTYPE, KEY_BYTES, elements, from_wire, reduced, to_wire
from consilium.sums.verified.proof import (
    BLIND_BYTES,
    SEED_BYTES,
    SPACE,
    VoteGrid,
    challenge_key,
    challenges,
    commitment,
    prove,
    seed_key,
)
from consilium.sums.verified.sealing import TAG_BYTES, seal_once, unseal_once
from consilium.sums.verified.terms import VerifiedTerms

_BOUND = struct.Struct(">32sI32s32s32s")
_SEAL = struct.Struct(f"32s{SEED_BYTES + TAG_BYTES}s")
_SIGNED = _BOUND.size + _SEAL.size
PART_BYTES = _SIGNED + SIGNATURE_BYTES
"""Of the helper's part."""


@dataclass(frozen=True)
class HelperPart:
    """What the helper gets of an upload; its bytes, `PART_BYTES` of them, are signed.

    place: of the party in the roster. to_leader, to_helper, to_proof: commitments (`proof`).
    """

    content: bytes = field(repr=False)
    ctx: bytes = field(repr=False)
    place: int
    to_leader: bytes = field(repr=False)
    to_helper: bytes = field(repr=False)
    to_proof: bytes = field(repr=False)

    @classmethod
    def read(cls, content: bytes) -> HelperPart:
        """From its bytes."""
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
        """A signed part with the seed sealed for the helper. bound: CTX, place and commitments. key: made for it."""
        head = _BOUND.pack(*bound)
        signed = head + _SEAL.pack(key.public, seal_once(key, helper, seed, head))
        return cls.read(signed + signer.sign(SPACE + "upload", signed))

    @property
    def challenge_key(self) -> bytes:
        """See `proof.challenge_key`."""
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
        seed = unseal_once(key, sender, sealed, self.content[: _BOUND.size])
        if seed is None:
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
        if len(content) != upload_bytes(grid):
            return None
        head = PART_BYTES + BLIND_BYTES
        numbers = from_wire(content[head:])
        if numbers is None:
            return None
        part, blind = HelperPart.read(content[:PART_BYTES]), content[PART_BYTES:head]
        return cls(part, blind, numbers[: grid.proof], numbers[grid.proof :])

    def write(self) -> bytes:
        """To bytes."""
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
    """What a party sends to the leader, once in a session.

    place: of the party in the roster, which has the key of `signer`. helper: the helper's public key of this session,
    which was checked. votes: integers (queries, classes), as many in each row as the party has teachers. entropy: so
    many random bytes; the operating system's but in tests.
    """
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
