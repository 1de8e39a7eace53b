"""Shamir's secret sharing over p = 2^256 + 297, the smallest prime above 2^256: any 32 bytes are a secret.

A party's share lies at its place in the roster plus one. Plain Python integers: products of a 257-bit number and a
place are cheap, and the sum is reduced only every few steps.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

PRIME = 2**256 + 297
SHARE_BYTES = 33
SECRET_BYTES = 32
LAZY = 24
"""Horner steps between two reductions: a number grows by ten bits a step, so it stays below 512 bits."""


def point(index: int) -> int:
    """Where the share of the party at this place lies; never 0, where the secret is."""
    return index + 1


def share_bytes(value: int) -> bytes:
    """A share, 33 bytes, big-endian."""
    return value.to_bytes(SHARE_BYTES, "big")


def share_value(content: bytes) -> int | None:
    """33 bytes -> a share, or None if they are none."""
    value = int.from_bytes(content, "big")
    return value if len(content) == SHARE_BYTES and value < PRIME else None


def split(secret: bytes, threshold: int, points: Sequence[int]) -> list[int]:
    """Shares of a secret at the given points; any `threshold` rebuild it, fewer tell nothing.

    Parameters
    ----------
    secret : 32 bytes.
    threshold : t, at most the number of points.
    points : distinct, from 1.

    Raises
    ------
    ValueError : the parameters cannot be.
    """
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= len(points) or min(points) < 1:
        raise ValueError("a secret has 32 bytes, a threshold from 1 to the number of points, points from 1")
    coefficients = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    return evaluate([int.from_bytes(secret, "big"), *coefficients], points)


def evaluate(coefficients: Sequence[int], points: Sequence[int]) -> list[int]:
    """Values of the polynomial, constant term first, at the points, modulo p."""
    falling = list(reversed(coefficients))
    blocks = [falling[start : start + LAZY] for start in range(0, len(falling), LAZY)]
    values = []
    for x in points:
        value = 0
        for block in blocks:
            for coefficient in block:
                value = value * x + coefficient
            value %= PRIME
        values.append(value)
    return values


def lagrange(points: Sequence[int]) -> list[int]:
    """Weights w with sum(w_i f(x_i)) = f(0) mod p: one vector serves all secrets that these parties share.

    Raises
    ------
    ValueError : two points are the same.
    """
    if len(set(points)) < len(points):
        raise ValueError("a point is given twice")
    product = 1
    for x in points:
        product = product * x % PRIME
    weights = []
    for x in points:
        below = x
        for other in points:
            if other != x:
                below = below * (other - x) % PRIME
        weights.append(product * pow(below, -1, PRIME) % PRIME)
    return weights


def combine(weights: Sequence[int], shares: Sequence[int]) -> bytes | None:
    """The secret, 32 bytes, or None if what comes out is none (then a share is wrong)."""
    value = sum(weight * share for weight, share in zip(weights, shares, strict=True)) % PRIME
    return value.to_bytes(SECRET_BYTES, "big") if value < 2 ** (8 * SECRET_BYTES) else None
