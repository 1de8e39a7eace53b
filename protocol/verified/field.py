"""The integers modulo 65521, the largest prime of 16 bits, as float64 arrays that are reduced late.

Sums of products of float64 are exact below 2^53, and matrix products of floats are what processors do fastest. A
reduced number is in [-32761, 32761]: the product of two is at most 2^30, so 2^23 of them can be added before the next
reduction.
"""

from __future__ import annotations

import numpy as np

PRIME = 65521
WIRE_DTYPE = np.dtype("<u2")
MOST_EXACT = 2**53
"""Integers up to here are exact in float64, and `reduce` takes them."""

_INVERSE = 1.0 / PRIME


def reduce(values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """The same modulo the prime, float64 of the same shape in [-32761, 32761]. values: integers, at most 2^53 in size.

    out: another array of the same shape to write to; fresh memory takes longer to get than to fill.

    The quotient may be off by one where the remainder is close to half the prime; both remainders are of the number.
    """
    quotient = np.multiply(values, _INVERSE, out=out)
    np.rint(quotient, out=quotient)
    np.multiply(quotient, PRIME, out=quotient)
    return np.subtract(values, quotient, out=quotient)


def to_wire(values: np.ndarray) -> np.ndarray:
    """Any integers up to 2^53 -> uint16 below the prime, the one form that travels."""
    reduced = reduce(values)
    reduced[reduced < 0] += PRIME
    return reduced.astype(WIRE_DTYPE)


def from_wire(values: np.ndarray) -> np.ndarray:
    """uint16 below the prime -> float64 of the same shape, as it is."""
    return values.astype(np.float64)


def is_canonical(values: np.ndarray) -> bool:
    """Whether all of the uint16 are below the prime: each element has one form only."""
    return not len(values) or int(values.max()) < PRIME


def inverses(count: int) -> np.ndarray:
    """int64 (count + 1,): 0, then the inverses of 1 to `count`, which is below the prime.

    >>> (inverses(3)[1:] * [1, 2, 3] % PRIME).tolist()
    [1, 1, 1]
    """
    return np.array([0, *(pow(number, -1, PRIME) for number in range(1, count + 1))], dtype=np.int64)


def lagrange_weights(count: int) -> np.ndarray:
    """int64 (count,): 1 / prod over j != i of (i - j), for the points 0 to count - 1.

    The i-th is the factor of the i-th value in Lagrange's formula that does not depend on where the polynomial is read.
    """
    factorials = [1]
    for number in range(1, count):
        factorials.append(factorials[-1] * number % PRIME)
    last = count - 1
    products = [factorials[i] * factorials[last - i] * (-1) ** (last - i) for i in range(count)]
    return np.array([pow(product, -1, PRIME) for product in products], dtype=np.int64)


def continuation(points: int) -> np.ndarray:
    """float64 (points, points + 1), reduced: values of a polynomial of degree `points` at 0 to points -> at points + 1
    to 2 points. 2 points is below the prime."""
    known, wanted = np.arange(points + 1), np.arange(points + 1, 2 * points + 1)
    inverse = inverses(2 * points)
    whole = np.ones(points, dtype=np.int64)  # prod over j of (a - j)
    for point in known:
        whole = whole * (wanted - point) % PRIME
    factors = inverse[wanted[:, None] - known] * lagrange_weights(points + 1) % PRIME
    return reduce((whole[:, None] * factors % PRIME).astype(np.float64))
