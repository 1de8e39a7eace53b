"""Masks: an AES-256-CTR keystream per secret, added into a matrix of the ring.

Each key is derived for one session and one pair (or one party), and makes one keystream from counter zero.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from consilium.protocol.secagg.framing import derive, index_bytes
from consilium.protocol.secagg.ring import RING_DTYPES, RingBits

COUNTER_ZERO = bytes(16)
BLOCK = 16


def self_key(b: bytes, ctx: bytes, party: int) -> bytes:
    """Key of a party's own mask, from its secret b."""
    return derive(b, "self-mask", ctx, index_bytes(party))


def pair_key(secret: bytes, ctx: bytes, one: int, other: int) -> bytes:
    """Key of a pair's mask, from their X25519 secret; the same for both."""
    return derive(secret, "pair-mask", ctx, index_bytes(min(one, other)), index_bytes(max(one, other)))


class MaskAdder:
    """Adds keystreams into matrices of one shape; its two buffers are reused for each.

    shape: (queries, classes). bits: of the ring.
    """

    def __init__(self, shape: tuple[int, int], bits: RingBits) -> None:
        size = shape[0] * shape[1] * RING_DTYPES[bits].itemsize
        self._zeros = bytes(size)
        self._buffer = bytearray(size + BLOCK)
        self._mask = np.frombuffer(self._buffer, dtype=RING_DTYPES[bits], count=shape[0] * shape[1]).reshape(shape)

    def add(self, total: np.ndarray, key: bytes) -> None:
        """total += keystream, in place."""
        np.add(total, self._expand(key), out=total)

    def subtract(self, total: np.ndarray, key: bytes) -> None:
        """total -= keystream, in place."""
        np.subtract(total, self._expand(key), out=total)

    def add_pair(self, total: np.ndarray, key: bytes, party: int, peer: int) -> None:
        """What `party` adds for its pair with `peer`: the two signs cancel in the sum."""
        if party < peer:
            self.add(total, key)
        else:
            self.subtract(total, key)

    def remove_pair(self, total: np.ndarray, key: bytes, party: int, peer: int) -> None:
        """Undo what `party` added for its pair with `peer`."""
        self.add_pair(total, key, peer, party)

    def _expand(self, key: bytes) -> np.ndarray:
        Cipher(AES(key), CTR(COUNTER_ZERO)).encryptor().update_into(self._zeros, self._buffer)
        return self._mask
