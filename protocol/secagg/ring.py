"""Signed sums in the integers modulo 2^16 or 2^32."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from consilium.protocol.secagg.errors import OverflowRisk

RingBits = Literal[16, 32]
RING_DTYPES = {16: np.dtype("<u2"), 32: np.dtype("<u4")}
SIGNED_DTYPES = {16: np.dtype("<i2"), 32: np.dtype("<i4")}
TAIL = 9.0
"""Standard deviations that must fit: beyond them lies less than 1e-18 of a Gaussian."""


def sigma_total(sigma: float, noise_shares: int, parties: int) -> float:
    """Standard deviation of the sum's noise if no party drops: each adds variance sigma^2 / noise_shares.

    >>> sigma_total(100.0, 25, 100)
    200.0
    """
    return sigma * math.sqrt(parties / noise_shares) if sigma > 0 else 0.0


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
