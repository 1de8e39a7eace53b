"""What the challenges come from: nobody can choose them, and a proof fits one upload of one party in one session only.

The first challenge (r, u, y) is a hash of the session, the party's place and both shares, by commitments that hide
them: a party knows it before it proves, after it is bound to its votes (as in Prio3, draft-irtf-cfrg-vdaf). The
second, where the polynomials are read, comes from a key that only the two aggregators have, for the whole session.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.secagg.framing import derive, digest
from consilium.protocol.verified.extension import DEGREE, is_base
from consilium.protocol.verified.field import reduce
from consilium.protocol.verified.grid import VoteGrid
from consilium.protocol.verified.streams import elements

VERSION = 2
"""Of sessions, uploads and messages between aggregators. 2: keys of one session."""
SPACE = f"verified/{VERSION}/"
SEED_BYTES = 16
BLIND_BYTES = 16
DIGEST_BYTES = 32
NONCE_BYTES = 16


def place_bytes(place: int) -> bytes:
    """A party's place in the roster, 4 bytes, big-endian."""
    return place.to_bytes(4, "big")


def commit_leader(ctx: bytes, place: int, blind: bytes, share: bytes) -> bytes:
    """Commitment to the leader's share. blind: 16 random bytes, without which the helper could try out votes."""
    return digest(SPACE + "leader", ctx, place_bytes(place), blind, share)


def commit_helper(ctx: bytes, place: int, seed: bytes) -> bytes:
    """Commitment to the helper's share, by its seed."""
    return digest(SPACE + "helper", ctx, place_bytes(place), seed)


def commit_proof(ctx: bytes, place: int, blind: bytes, proof: bytes) -> bytes:
    """Commitment to the leader's share of the proof."""
    return digest(SPACE + "proof", ctx, place_bytes(place), blind, proof)


def commit_total(ctx: bytes, leads: bool, nonce: bytes, total: bytes) -> bytes:
    """Commitment to the total of one aggregator. nonce: 16 random bytes, without which a small total could be tried
    out."""
    return digest(SPACE + ("total-of-leader" if leads else "total-of-helper"), ctx, nonce, total)


def expand_seed(ctx: bytes, place: int, seed: bytes, purpose: str, count: int) -> np.ndarray:
    """uint16 (count,): the helper's share of the votes, or of the proof, by purpose."""
    return elements(derive(seed, SPACE + purpose, ctx, place_bytes(place)), count)


@dataclass(frozen=True)
class Challenge:
    """Elements of the extension, reduced: r (classes, 8), u (points, 8) and y (lines, 8)."""

    r: np.ndarray = field(repr=False)
    u: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)


def challenge_of(grid: VoteGrid, ctx: bytes, place: int, to_leader: bytes, to_helper: bytes) -> Challenge:
    """The first challenge of an upload with these commitments."""
    sizes = grid.classes, grid.points, grid.lines
    key = derive(to_leader + to_helper, SPACE + "challenge", ctx, place_bytes(place))
    drawn = reduce(elements(key, sum(sizes) * DEGREE).astype(np.float64)).reshape(-1, DEGREE)
    r, u, y = np.split(drawn, np.cumsum(sizes[:-1]))
    return Challenge(r, u, y)


def reading_point(secret: bytes, ctx: bytes) -> np.ndarray:
    """The second challenge, (8,), reduced. secret: what only the two aggregators share.

    Never in the small field: at one of the points of a line the polynomials are the votes themselves.
    """
    tried = 0
    while True:
        key = derive(secret, SPACE + "reading-point", ctx, tried.to_bytes(4, "big"))
        point = reduce(elements(key, DEGREE).astype(np.float64))
        if not is_base(point):
            return point
        tried += 1
