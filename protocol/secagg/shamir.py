"""Shamir's secret sharing modulo l, the order of the base point, so that a share can be checked against commitments
that are points (`protocol.secagg.commitments`).

A party's share lies at its place in the roster plus one. Plain Python integers: products of a 253-bit number and a
place are cheap, and the sum is reduced only every few steps.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from consilium.protocol.secagg.curve import ORDER

SHARE_BYTES = 32
LAZY = 24
"""Horner steps between two reductions: a number grows by ten bits a step, so it stays below 512 bits."""


def random_scalar() -> int:
    """Uniform modulo l, from the system's entropy."""
    return secrets.randbelow(ORDER)


def point(index: int) -> int:
    """Where the share of the party at this place lies; never 0, where the secret is."""
    return index + 1


def share_bytes(value: int) -> bytes:
    """A share or a secret, 32 bytes, little-endian as in RFC 8032."""
    return value.to_bytes(SHARE_BYTES, "little")


def share_value(content: bytes) -> int | None:
    """32 bytes -> a share, or None if they are none."""
    value = int.from_bytes(content, "little")
    return value if len(content) == SHARE_BYTES and value < ORDER else None


def split(secret: int, threshold: int, points: Sequence[int]) -> list[int]:
    """Shares of a secret at the given points; any `threshold` rebuild it, fewer tell nothing.

    Parameters
    ----------
    secret : below l.
    threshold : t, at most the number of points.
    points : distinct, from 1.

    Raises
    ------
    ValueError : the parameters cannot be.
    """
    if not 0 <= secret < ORDER or not 1 <= threshold <= len(points) or min(points) < 1:
        raise ValueError("a secret is below l, a threshold from 1 to the number of points, points from 1")
    return evaluate([secret, *(random_scalar() for _ in range(threshold - 1))], points)


def evaluate(coefficients: Sequence[int], points: Sequence[int]) -> list[int]:
    """Values of the polynomial, constant term first, at the points, modulo l."""
    falling = list(reversed(coefficients))
    blocks = [falling[start : start + LAZY] for start in range(0, len(falling), LAZY)]
    values = []
    for x in points:
        value = 0
        for block in blocks:
            for coefficient in block:
                value = value * x + coefficient
            value %= ORDER
        values.append(value)
    return values


def lagrange(points: Sequence[int]) -> list[int]:
    """Weights w with sum(w_i f(x_i)) = f(0) mod l: one vector serves all secrets that these parties share.

    Raises
    ------
    ValueError : two points are the same.
    """
    if len(set(points)) < len(points):
        raise ValueError("a point is given twice")
    product = 1
    for x in points:
        product = product * x % ORDER
    weights = []
    for x in points:
        below = x
        for other in points:
            if other != x:
                below = below * (other - x) % ORDER
        weights.append(product * pow(below, -1, ORDER) % ORDER)
    return weights


def combine(weights: Sequence[int], shares: Sequence[int]) -> int:
    """The secret, or with other weights another sum, modulo l."""
    return sum(weight * share for weight, share in zip(weights, shares, strict=True)) % ORDER


def dual_weights(points: Sequence[int], weights: Sequence[int], threshold: int) -> list[int]:
    """Random weights under which the shares of any polynomial of degree below `threshold` sum to zero, and other values
    but once in l: a word of the code that is dual to Shamir's (Cascudo and David 2017, SCRAPE, section 2.1).

    points, weights : all points, at least `threshold`, and `lagrange` of them.
    """
    check = [random_scalar() for _ in range(len(points) - threshold)]
    return [
        weight * x * value % ORDER for weight, x, value in zip(weights, points, evaluate(check, points), strict=True)
    ]
