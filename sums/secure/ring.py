"""The ring of integers modulo 2^16 or 2^32, and the masks that are added in it."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from consilium.protocol.identity import derive, index_bytes
from consilium.sums.errors import OverflowRisk
from consilium.sums.terms import TAIL

RingBits = Literal[16, 32]
RING_DTYPES = {16: np.dtype("<u2"), 32: np.dtype("<u4")}
SIGNED_DTYPES = {16: np.dtype("<i2"), 32: np.dtype("<i4")}


def sigma_total(sigma: float, noise_shares: int, parties: int) -> float:
    """Standard deviation of the sum's noise if no party drops: each adds variance sigma^2 / noise_shares.

    >>> sigma_total(100.0, 25, 100)
    200.0
    """
    return sigma * math.sqrt(parties / noise_shares)


def choose_ring(largest: int, noise: float) -> RingBits:
    """The smaller ring that holds `largest` votes in a cell plus nine times `noise`, with either sign.

    >>> choose_ring(250, 150.0), choose_ring(40_000, 0.0)
    (16, 32)

    Raises
    ------
    OverflowRisk : not even 32 bits do.
    """
    reach = largest + TAIL * noise
    if reach < 2**15:
        return 16
    if reach < 2**31:
        return 32
    raise OverflowRisk(reach, 2**31)


def encode(values: np.ndarray, bits: RingBits) -> np.ndarray:
    """int64, any shape -> uint16 or uint32 of the same shape, modulo 2^bits."""
    return values.astype(SIGNED_DTYPES[bits], casting="unsafe").view(RING_DTYPES[bits])


def decode(values: np.ndarray, bits: RingBits) -> np.ndarray:
    """uint16 or uint32 -> int64 in [-2^(bits-1), 2^(bits-1))."""
    return values.view(SIGNED_DTYPES[bits]).astype(np.int64)


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
