"""The ring of integers modulo 2^32, the masks that are added in it, and how sums come out of it."""

from __future__ import annotations

import math

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from consilium.protocol.identity import frame
from consilium.sums.errors import OverflowRisk
from consilium.sums.secure.pairs import NONCE_BYTES, expand
from consilium.sums.terms import TAIL

RING_BITS = 32
RING_DTYPE, SIGNED_DTYPE = np.dtype("<u4"), np.dtype("<i4")
NO_NONCE = bytes(NONCE_BYTES)


def check_ring(largest: int, noise: float) -> None:
    """Raise OverflowRisk unless the ring holds `largest` votes in a cell plus nine times `noise`, with either sign."""
    reach, most = largest + TAIL * noise, 2 ** (RING_BITS - 1)
    if reach >= most:
        raise OverflowRisk(reach, most)


def encode(values: np.ndarray) -> np.ndarray:
    """int64 -> uint32, modulo 2^32."""
    return values.astype(SIGNED_DTYPE, casting="unsafe").view(RING_DTYPE)


def decode(values: np.ndarray) -> np.ndarray:
    """uint32 -> int64 in [-2^31, 2^31)."""
    return values.view(SIGNED_DTYPE).astype(np.int64)


class Masks:
    """Adds and takes off masks in a matrix of the ring, in place, of the sum whose terms have this hash.

    A mask is the keystream of AES-256 in counter mode, by the cipher that makes a new one fastest: AES-GCM's ciphertext
    of zeros is that keystream from its second block on (SP 800-38D), and its tag is left out. The key comes from a
    secret of one sum, b or a pair's seed, and the hash: two that were told other terms have other masks. No key is used
    for two streams, so the nonce is zero.
    """

    def __init__(self, total: np.ndarray, ctx: bytes) -> None:
        self._total, self._info, self._zeros = total.reshape(-1), frame("mask", ctx), bytes(total.nbytes)

    def add(self, seed: bytes) -> None:
        """The mask of b or of a pair's seed."""
        np.add(self._total, self._mask(seed), out=self._total)

    def subtract(self, seed: bytes) -> None:
        """The same with the other sign."""
        np.subtract(self._total, self._mask(seed), out=self._total)

    def add_pair(self, seed: bytes, party: int, peer: int) -> None:
        """What `party` adds for its pair with `peer`: the two signs cancel in the sum."""
        if party < peer:
            self.add(seed)
        else:
            self.subtract(seed)

    def _mask(self, seed: bytes) -> np.ndarray:
        stream = AESGCM(expand(seed, self._info)).encrypt(NO_NONCE, self._zeros, None)
        return np.frombuffer(stream, dtype=self._total.dtype, count=self._total.size)


def clip(sums: np.ndarray, votes: int, deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Cells of a sum within what its votes and their noise can give, and the rows that were not.

    A false vote may put a cell anywhere in the ring, also to its edge, where one honest vote more takes it from the
    highest to the lowest number. So the map is one of the circle: the identity on [-r, votes + r], and nowhere steeper
    than one for one. One vote moved then moves each cell by one at most, which is what the noise is sized for. r is
    nine standard deviations of the noise in the sum, less where the ring is too small for it.

    sums: int64 (queries, classes). votes: of all parties in it on one query. deviation: of all noise in a cell. Returns
    the same, and bool (queries,): rows of which a cell was out of range, or whose total is further from `votes` than
    nine deviations of its noise: honest ones once in 10^18.
    """
    half, reach = 2 ** (RING_BITS - 1), math.ceil(TAIL * deviation)
    out = np.any((sums < -reach) | (sums > votes + reach), axis=1)
    out |= np.abs(sums.sum(axis=1) - votes) > TAIL * deviation * math.sqrt(sums.shape[1])
    room = min(reach, (half - votes) // 2)
    around, width = (sums + room) % (2 * half), votes + 2 * room
    counts = np.where(around < half, np.minimum(around, width), np.maximum(width - (around - half), 0)) - room
    return counts, out
