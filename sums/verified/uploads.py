"""The one message of a party: the helper's part, which is signed and travels through the leader, and the leader's own.

    part     CTX (32), place (4), three commitments (32 each), X25519 key (32), sealed seed (32), signature (64)
    leader   blind (16), share of the proof, share of the votes (3 for each number)

The signature covers all of the upload: its part as bytes, the rest by the commitments, which are to numbers of 4
bytes. Numbers are below the prime and little-endian, the place is big-endian; all uploads of a session have one length.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.identity import SIGNATURE_BYTES, Identity, verify
from consilium.sums.agreement import TAG_BYTES, public_of
from consilium.sums.errors import NotVotes, RosterMismatch, VoteFault
from consilium.sums.field import FIELD, KEY_BYTES, from_wire
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.proof import (
    BLIND_BYTES,
    SEED_BYTES,
    SPACE,
    Prover,
    VoteGrid,
    challenge_of,
    commit_helper,
    commit_leader,
    commit_proof,
    expand_seed,
    proof_elements,
)
from consilium.sums.verified.sealing import check_key, seal_once, unseal_once
from consilium.sums.verified.terms import VerifiedTerms

_BOUND = struct.Struct(">32sI32s32s32s")
_SEAL = struct.Struct(f"32s{SEED_BYTES + TAG_BYTES}s")
_SIGNED = _BOUND.size + _SEAL.size
PART_BYTES = _SIGNED + SIGNATURE_BYTES
"""Of the helper's part."""


@dataclass(frozen=True)
class HelperPart:
    """What the helper gets of an upload; its bytes are signed.

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
        """From PART_BYTES bytes."""
        return cls(content, *_BOUND.unpack_from(content))

    @classmethod
    def make(
        cls,
        ctx: bytes,
        place: int,
        commitments: tuple[bytes, bytes, bytes],
        seed: bytes,
        helper_key: bytes,
        identity: Identity,
        entropy: Callable[[int], bytes],
    ) -> HelperPart:
        """A signed part with the seed sealed for the helper. commitments: to_leader, to_helper, to_proof."""
        bound = _BOUND.pack(ctx, place, *commitments)
        private = entropy(32)
        signed = bound + _SEAL.pack(public_of(private), seal_once(private, helper_key, seed, bound))
        return cls.read(signed + identity.sign(SPACE + "upload", signed))

    def fault(self, ctx: bytes, roster: VerifiedRoster) -> VoteFault | None:
        """What is wrong with it before anything is opened; None if nothing is."""
        if self.ctx != ctx:
            return VoteFault.OTHER_SESSION
        if self.place >= roster.n:
            return VoteFault.UNKNOWN
        signed, signature = self.content[:_SIGNED], self.content[_SIGNED:]
        return None if verify(roster.key(self.place), signature, SPACE + "upload", signed) else VoteFault.SIGNATURE

    def opened(self, private: bytes) -> bytes | VoteFault:
        """The helper's seed, or what is wrong with the seal: it does not open, or holds another seed than the party is
        bound to. private: the helper's key of the session."""
        sender, sealed = _SEAL.unpack_from(self.content, _BOUND.size)
        seed = unseal_once(private, sender, sealed, self.content[: _BOUND.size])
        if seed is None:
            return VoteFault.NOT_FOR_US
        return seed if commit_helper(self.ctx, self.place, seed) == self.to_helper else VoteFault.COMMITMENT


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
        part, count, blind = HelperPart.read(content[:PART_BYTES]), proof_elements(grid), PART_BYTES + BLIND_BYTES
        numbers = FIELD.read(content[blind:])
        return None if numbers is None else cls(part, content[PART_BYTES:blind], numbers[:count], numbers[count:])

    def write(self) -> bytes:
        """To bytes."""
        numbers = map(FIELD.write, (self.proof, self.share))
        return b"".join((self.part.content, self.blind, *numbers))

    def is_bound(self) -> bool:
        """Whether the signed commitments are to this share and this proof."""
        part = self.part
        return part.to_leader == commit_leader(part.ctx, part.place, self.blind, self.share.tobytes()) and (
            part.to_proof == commit_proof(part.ctx, part.place, self.blind, self.proof.tobytes())
        )


def upload_bytes(grid: VoteGrid) -> int:
    """Length of an upload.

    >>> upload_bytes(VoteGrid(10_000, 10, 1))
    306597
    """
    return PART_BYTES + BLIND_BYTES + FIELD.wire_bytes * (proof_elements(grid) + grid.cells)


class VoteClient:
    """One party in one session.

    Parameters
    ----------
    terms : of the session that the party has accepted (`VerifiedTerms.open`).
    roster : the party's own copy.
    name, identity : of the party.
    helper_key, signature : the second aggregator's key of this session, which it has signed.
    entropy : so many random bytes; the operating system's but in tests.
    prover : one that several parties of one process use in turn.

    Raises
    ------
    RosterMismatch : the party is not in the roster with this key, or the session is of another roster.
    BadSignature : the second aggregator has not signed that key for this session.
    """

    def __init__(
        self,
        terms: VerifiedTerms,
        roster: VerifiedRoster,
        name: str,
        identity: Identity,
        helper_key: bytes,
        signature: bytes,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
        prover: Prover | None = None,
    ) -> None:
        terms.check(roster)
        self._place = roster.place(name)
        if roster.key(self._place) != identity.public:
            raise RosterMismatch(f"the roster has another key for {name} than this node")
        check_key(bytes.fromhex(roster.helper.ed25519_pk), terms.ctx, helper_key, signature)
        self._session, self._roster, self._identity, self._entropy = terms, roster, identity, entropy
        self._helper_key = helper_key
        self._prove = prover or Prover(terms.grid)

    def upload(self, votes: np.ndarray) -> bytes:
        """What the leader is sent. Call it once in a session and keep the bytes: a second upload is refused.

        votes: integers (queries, classes), as many in each row as the party has teachers.

        Raises
        ------
        NotVotes : they are none.
        """
        grid = self._session.grid
        _check(votes, (grid.queries, grid.classes), grid.teachers)
        return self._upload(grid.picks(votes))

    def _upload(self, picks: np.ndarray) -> bytes:
        grid, ctx, place = self._session.grid, self._session.ctx, self._place
        prime = FIELD.prime
        seed, blind = self._entropy(SEED_BYTES), self._entropy(BLIND_BYTES)
        share = prime - expand_seed(ctx, place, seed, "votes", grid.cells)
        where = np.arange(0, grid.cells, grid.classes) + picks
        share[share == prime] = 0
        share[where] += 1
        share[share == prime] = 0
        to_leader, to_helper = commit_leader(ctx, place, blind, share.tobytes()), commit_helper(ctx, place, seed)
        challenge = challenge_of(grid, ctx, place, to_leader, to_helper)
        drawn = FIELD.elements(self._entropy(KEY_BYTES), grid.lines * FIELD.degree)
        starts = FIELD.reduce(from_wire(drawn)).reshape(grid.lines, -1)
        values = self._prove(picks, challenge, starts)
        helper_proof = expand_seed(ctx, place, seed, "proof", proof_elements(grid))
        proof = FIELD.to_wire(np.concatenate((starts, values)).ravel() - helper_proof)
        commitments = to_leader, to_helper, commit_proof(ctx, place, blind, proof.tobytes())
        part = HelperPart.make(ctx, place, commitments, seed, self._helper_key, self._identity, self._entropy)
        return Upload(part, blind, proof, share).write()


def _check(votes: np.ndarray, shape: tuple[int, int], teachers: int) -> None:
    if votes.shape != shape or votes.dtype.kind not in "iu":
        raise NotVotes(f"must be integers {shape}")
    if (votes < 0).any() or (votes > teachers).any() or (votes.sum(axis=1) != teachers).any():
        raise NotVotes(f"must be {teachers} for each query")
