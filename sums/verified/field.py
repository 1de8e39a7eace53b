"""Integers modulo a prime, an extension of them, and elements from a key.

The prime is 2,097,131 = 2^21 - 21, the largest of 21 bits before which stands a multiple of 7. The extension is modulo
X^7 - 2, which is irreducible since 7 divides p - 1 and 2 is no seventh power modulo p (Lidl and Niederreiter, Finite
Fields, theorem 3.75); it has about 2^147 elements. Challenges come from it, so that a false proof fits them by chance
less than once in 2^120 times; six coefficients would leave 2^126 elements, and 10,000 rows a chance of 2^-119.

Arrays are float64 and reduced late: sums of products are exact below 2^53, and matrix products of floats are what
processors do fastest. "Reduced" is at most `MOST_REDUCED` in size. A proof has at most 8,192 lines and 2,048 points
(`proof.MOST_ROWS`), fewer than may be added up before the next reduction. Axes before those named are of many uploads
at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

PRIME = 2_097_131
DEGREE, CONSTANT = 7, 2
"""X^DEGREE - CONSTANT is irreducible modulo the prime."""
ORDER = PRIME**DEGREE
"""Elements of the extension."""
DTYPE, TOTAL_DTYPE = np.dtype("<u4"), np.dtype("<i8")
"""Of numbers below the prime, in the one form that is kept, sent and hashed; and of sums of them, not reduced."""
MOST_REACH = PRIME // 2
"""Values that a count may have (`terms.reach_of`): half of the prime. What lies beyond is brought back without a jump,
which takes as many. A million votes fit into it, and room for their noise."""
MOST_REDUCED = (PRIME + 1) // 2
EXACT = 2**53
"""Integers up to it are exact in float64."""
MOST_PRODUCTS = (EXACT - PRIME) // MOST_REDUCED**2
"""Products of two reduced numbers that may be added up before the next reduction."""
MOST_UNREDUCED = (EXACT - PRIME) // (MOST_REDUCED * (PRIME - 1))
"""The same of products of a reduced number and one below the prime."""
MOST_FOLDED = MOST_PRODUCTS // (1 + (DEGREE - 1) * CONSTANT)
"""Products of two reduced elements of the extension that may be added up before they are folded without a reduction:
the first coefficient takes 1 + (DEGREE - 1) CONSTANT products of each."""
KEY_BYTES = 32
SPARE = 64


def reduced(values: np.ndarray) -> np.ndarray:
    """Integers up to 2^53 in size -> the same modulo the prime, float64, reduced. The quotient may be off by one where
    the remainder is close to half the prime; both remainders are of the number."""
    quotient = np.multiply(values, 1.0 / PRIME)
    np.rint(quotient, out=quotient)
    np.multiply(quotient, PRIME, out=quotient)
    return np.subtract(values, quotient, out=quotient)


def to_wire(values: np.ndarray) -> np.ndarray:
    """The same as numbers below the prime, `DTYPE`."""
    numbers = reduced(values)
    numbers[numbers < 0] += PRIME
    return numbers.astype(DTYPE)


def from_wire(content: bytes) -> np.ndarray | None:
    """Bytes -> `DTYPE`; None unless all are below the prime: each element has one form only."""
    numbers = np.frombuffer(content, dtype=DTYPE)
    return numbers if not numbers.size or numbers.max() < PRIME else None


def elements(keys: Sequence[bytes], count: int) -> np.ndarray:
    """`DTYPE` (keys, count), each below the prime. keys: of 32 bytes, used for nothing else. Each is the lowest bits,
    as many as the prime has, of one little-endian word of the key's stream, AES-256-CTR; those that are not below the
    prime are replaced, in order, by the words after all of these: there is no bias."""
    streams = [Cipher(AES(key), CTR(bytes(16))).encryptor() for key in keys]
    mask, width = DTYPE.type(2 ** PRIME.bit_length() - 1), DTYPE.itemsize

    def words(at: int, number: int) -> np.ndarray:
        return np.frombuffer(streams[at].update(bytes(number * width)), dtype=DTYPE) & mask

    numbers = np.empty((len(keys), count), dtype=DTYPE)
    for at in range(len(keys)):
        numbers[at] = words(at, count)
    for at in np.flatnonzero((numbers >= PRIME).any(axis=1)).tolist():
        bad = np.flatnonzero(numbers[at] >= PRIME)
        while len(bad):
            spare = words(at, SPARE)
            good = spare[spare < PRIME][: len(bad)]
            numbers[at, bad[: len(good)]], bad = good, bad[len(good) :]
    return numbers


def lagrange_weights(count: int) -> np.ndarray:
    """int64 (count,): 1 / prod over j != i of (i - j), the factor of the value at i in Lagrange's formula that does not
    depend on where the polynomial is read. The points are 0 to count - 1."""
    factorials, last = [1], count - 1
    for number in range(1, count):
        factorials.append(factorials[-1] * number % PRIME)
    products = [factorials[i] * factorials[last - i] * (-1) ** (last - i) for i in range(count)]
    return np.array([pow(product, -1, PRIME) for product in products], dtype=np.int64)


@lru_cache(maxsize=2)
def continuation(points: int) -> np.ndarray:
    """float64 (points, points + 1), reduced: values of a polynomial of degree `points` at 0 to points -> at points + 1
    to 2 points. 2 points is below the prime."""
    known, wanted = np.arange(points + 1), np.arange(points + 1, 2 * points + 1)
    inverse = np.array([0, *(pow(number, -1, PRIME) for number in range(1, 2 * points + 1))], dtype=np.int64)
    whole = np.ones(points, dtype=np.int64)  # prod over j of (a - j)
    for point in known:
        whole = whole * (wanted - point) % PRIME
    factors = inverse[wanted[:, None] - known] * lagrange_weights(points + 1) % PRIME
    return reduced((whole[:, None] * factors % PRIME).astype(np.float64))


_FOLDING = np.zeros((DEGREE, DEGREE, DEGREE))
for _one, _other in np.ndindex(DEGREE, DEGREE):
    _FOLDING[_one, _other, (_one + _other) % DEGREE] = CONSTANT if _one + _other >= DEGREE else 1
"""What the product of each pair of coefficients adds to each one of the product."""


def fold(products: np.ndarray, terms: int = 1) -> np.ndarray:
    """(..., DEGREE, DEGREE), products of all pairs of coefficients, or sums of so many such -> (..., DEGREE), reduced.
    terms: at most `MOST_PRODUCTS`."""
    flat = products.reshape(-1, DEGREE**2)
    if terms > MOST_FOLDED:
        flat = reduced(flat)
    return reduced(flat @ _FOLDING.reshape(-1, DEGREE)).reshape(*products.shape[:-2], DEGREE)


def multiply(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The product of reduced elements (..., DEGREE), reduced; shapes are broadcast."""
    return fold(one[..., :, None] * other[..., None, :])


def product(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The matrix product of reduced numbers (..., m, n) and numbers below the prime (..., n, k), reduced; any n."""
    total = np.zeros((*one.shape[:-1], other.shape[-1]))
    for start in range(0, other.shape[-2], MOST_UNREDUCED):
        rows = slice(start, start + MOST_UNREDUCED)
        total = reduced(total + one[..., rows] @ other[..., rows, :])
    return total


def inner(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Sums over n, at most `MOST_PRODUCTS`, of products of reduced elements: (..., n, DEGREE) and (..., n, k, DEGREE)
    -> (..., k, DEGREE)."""
    *many, n, k, _ = other.shape
    products = one.swapaxes(-1, -2) @ other.reshape(*many, n, k * DEGREE)
    return fold(products.reshape(*products.shape[:-1], k, DEGREE).swapaxes(-3, -2), n)


def square_sums(values: np.ndarray) -> np.ndarray:
    """(..., terms, DEGREE), reduced -> (..., DEGREE): sums of the squares of the terms, at most `MOST_PRODUCTS`."""
    return fold(values.swapaxes(-1, -2) @ values, values.shape[-2])


def lagrange_at(where: np.ndarray, count: int) -> np.ndarray:
    """(count, DEGREE), reduced: factors that read a polynomial, given by its values at 0 to count - 1, at the element
    `where`. Without a division: each is the product of all other differences, from the left and from the right."""
    differences = np.repeat(where[None], count, axis=0)
    differences[:, 0] -= np.arange(count)
    differences = reduced(differences)
    left, right = np.zeros((count, DEGREE)), np.zeros((count, DEGREE))
    left[0, 0] = right[-1, 0] = 1
    for point in range(1, count):
        left[point] = multiply(left[point - 1], differences[point - 1])
        right[-1 - point] = multiply(right[-point], differences[-point])
    return reduced(multiply(left, right) * lagrange_weights(count)[:, None])
