"""The integers modulo 65521, the largest prime of 16 bits, their extension of degree 8, and elements from a key.

Arrays are float64 and reduced late: sums of products are exact below 2^53, and matrix products of floats are what
processors do fastest. A reduced number is in [-32761, 32761]: the product of two is at most 2^30, so 2^23 of them can
be added before the next reduction.

The extension has 65521^8 elements, about 2^128: polynomials modulo X^8 - 17, arrays whose last axis is 8 long. X^8 - 17
is irreducible: 17 is no square modulo 65521, and 65521 - 1 is a multiple of 4 (Lidl and Niederreiter, Finite Fields,
theorem 3.75). Challenges come from here, so that a false proof fits them by chance about once in 2^120 times."""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

PRIME = 65521
WIRE_DTYPE = np.dtype("<u2")

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


DEGREE = 8
NON_SQUARE = 17
ORDER = PRIME**DEGREE
MOST_TERMS = 2**15
"""Products of reduced elements that may be added up before they are folded: 2^30 each, times at most 120 by the
fold."""


def _fold_matrix() -> np.ndarray:
    matrix = np.zeros((DEGREE, DEGREE, DEGREE))
    for one in range(DEGREE):
        for other in range(DEGREE):
            power = one + other
            matrix[one, other, power % DEGREE] = NON_SQUARE if power >= DEGREE else 1
    return matrix.reshape(DEGREE * DEGREE, DEGREE)


_FOLD = _fold_matrix()


def fold(products: np.ndarray) -> np.ndarray:
    """(..., 8, 8), products of all pairs of coefficients, or sums of at most 2^15 such -> (..., 8), reduced."""
    flat = products.reshape(-1, DEGREE * DEGREE)
    return reduce(flat @ _FOLD).reshape(*products.shape[:-2], DEGREE)


def multiply(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The product of reduced elements (..., 8), reduced; shapes are broadcast."""
    return fold(one[..., :, None] * other[..., None, :])


def multiply_all(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """All products of reduced elements: (n, 8) and (m, 8) -> (n, m, 8), reduced."""
    matrices = reduce(other @ _FOLD.reshape(DEGREE, DEGREE * DEGREE))  # what each of `other` does to coefficients
    matrices = matrices.reshape(-1, DEGREE, DEGREE).transpose(1, 0, 2).reshape(DEGREE, -1)
    return reduce(one @ matrices).reshape(len(one), len(other), DEGREE)


def inner(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The sum over the first axis of products of reduced elements: (n, 8) and (n, ..., 8) -> (..., 8), n <= 2^15."""
    flat = other.reshape(len(other), -1)
    products = one.T @ flat  # (8, rest * 8)
    return fold(np.moveaxis(products.reshape(DEGREE, *other.shape[1:]), 0, -2))


def square_sums(values: np.ndarray) -> np.ndarray:
    """(n, terms, 8), reduced -> (n, 8): sums of the squares of the terms, at most 2^15 of them."""
    return fold(np.matmul(values.transpose(0, 2, 1), values))


def lagrange_at(where: np.ndarray, count: int) -> np.ndarray:
    """(count, 8), reduced: factors that read a polynomial, given by its values at 0 to count - 1, at the element
    `where`.

    Without a division: each is the product of all other differences, from the left and from the right.
    """
    differences = np.repeat(where[None], count, axis=0)
    differences[:, 0] -= np.arange(count)
    differences = reduce(differences)
    left, right = np.zeros((count, DEGREE)), np.zeros((count, DEGREE))
    left[0, 0] = right[-1, 0] = 1
    for point in range(1, count):
        left[point] = multiply(left[point - 1], differences[point - 1])
        right[-1 - point] = multiply(right[-point], differences[-point])
    return reduce(multiply(left, right) * lagrange_weights(count)[:, None])


def is_base(element: np.ndarray) -> bool:
    """Whether a reduced element (8,) is one of the small field."""
    return not element[1:].any()


KEY_BYTES = 32
SPARE = 64
_BITS = WIRE_DTYPE.itemsize


def elements(key: bytes, count: int) -> np.ndarray:
    """uint16 (count,), each below the prime. key: 32 bytes, used for nothing else."""
    cipher = Cipher(AES(key), CTR(bytes(16))).encryptor()
    numbers = np.frombuffer(bytearray(cipher.update(bytes(count * _BITS))), dtype=WIRE_DTYPE)
    bad = np.flatnonzero(numbers >= PRIME)
    while len(bad):
        spare = np.frombuffer(cipher.update(bytes(SPARE * _BITS)), dtype=WIRE_DTYPE)
        good = spare[spare < PRIME][: len(bad)]
        numbers[bad[: len(good)]] = good
        bad = bad[len(good) :]
    return numbers
