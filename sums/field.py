"""Integers modulo a prime, an extension of them, and elements from a key: of verified votes, and of shared seeds.

The prime is 2,097,131 = 2^21 - 21, the largest of 21 bits before which stands a multiple of 7. The extension is modulo
X^7 - 2, which is irreducible since 7 divides p - 1 and 2 is no seventh power modulo p (Lidl and Niederreiter, Finite
Fields, theorem 3.75); it has about 2^147 elements. Challenges come from it, so that a false proof fits them by chance
less than once in 2^120 times; six coefficients would leave 2^126 elements, and 10,000 rows a chance of 2^-119.

Arrays are float64 and reduced late: sums of products are exact below 2^53, and matrix products of floats are what
processors do fastest. A reduced number is at most 1,048,566 in size, so that 8,192 products of two can be added
before the next reduction, or 4,096 where one of the two is below the prime and not reduced. A proof has at most 8,192
lines and 2,048 points (`proof.MOST_ROWS`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

EXACT = 2**53
"""Integers up to it are exact in float64."""
KEY_BYTES = 32
SPARE = 64


@dataclass(frozen=True)
class Field:
    """One prime field, its extension and the bytes of its elements.

    prime, degree, constant: X^degree - constant is irreducible modulo the prime. dtype: of numbers below the prime,
    little-endian, as they are kept, hashed and taken from a key. total_dtype: of sums of them that are not reduced.
    wire_bytes: of a number in a message.
    """

    prime: int
    degree: int
    constant: int
    dtype: np.dtype
    total_dtype: np.dtype
    wire_bytes: int

    @property
    def most_reach(self) -> int:
        """Values that a count may have (`terms.reach_of`): half of the prime. What lies beyond is brought back without
        a jump, which takes as many."""
        return self.prime // 2

    @property
    def order(self) -> int:
        """Elements of the extension."""
        return self.prime**self.degree

    @property
    def most_reduced(self) -> int:
        """Size of the largest reduced number."""
        return (self.prime + 1) // 2

    @cached_property
    def most_products(self) -> int:
        """Products of two reduced numbers that may be added up before the next reduction."""
        return (EXACT - self.prime) // self.most_reduced**2

    @cached_property
    def most_unreduced(self) -> int:
        """The same of products of a reduced number and one below the prime."""
        return (EXACT - self.prime) // (self.most_reduced * (self.prime - 1))

    @cached_property
    def most_folded(self) -> int:
        """Products of two reduced elements of the extension that may be added up before they are folded without a
        reduction: the first coefficient takes 1 + (degree - 1) constant products of each."""
        return self.most_products // (1 + (self.degree - 1) * self.constant)

    def reduce(self, values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The same modulo the prime, float64 of the same shape, at most `most_reduced` in size. values: integers, at
        most 2^53 in size.

        out: another array of the same shape to write to; fresh memory takes longer to get than to fill.

        The quotient may be off by one where the remainder is close to half the prime; both remainders are of the
        number.
        """
        quotient = np.multiply(values, 1.0 / self.prime, out=out)
        np.rint(quotient, out=quotient)
        np.multiply(quotient, self.prime, out=quotient)
        return np.subtract(values, quotient, out=quotient)

    def to_wire(self, values: np.ndarray) -> np.ndarray:
        """Any integers up to 2^53 -> numbers below the prime, `dtype`: the one form that is kept and sent."""
        reduced = self.reduce(values)
        reduced[reduced < 0] += self.prime
        return reduced.astype(self.dtype)

    def is_canonical(self, values: np.ndarray) -> bool:
        """Whether all of these unsigned numbers are below the prime: each element has one form only."""
        return not values.size or int(values.max()) < self.prime

    def write(self, values: np.ndarray) -> bytes:
        """Numbers below the prime, any shape, -> the bytes of a message: `wire_bytes` each, little-endian.

        >>> FIELD.write(np.array([1, 2_097_130], dtype=np.uint32)).hex()
        '010000eaff1f'
        """
        flat = np.ascontiguousarray(values, dtype=self.dtype).reshape(-1, 1)
        return flat.view(np.uint8)[:, : self.wire_bytes].tobytes()

    def read(self, content: bytes) -> np.ndarray | None:
        """The inverse of `write`, `dtype` (n,); None where a number is not below the prime. content: a whole number of
        elements."""
        octets = np.frombuffer(content, dtype=np.uint8).reshape(-1, self.wire_bytes)
        if self.wire_bytes < self.dtype.itemsize:
            whole = np.zeros((len(octets), self.dtype.itemsize), dtype=np.uint8)
            whole[:, : self.wire_bytes] = octets
            octets = whole
        values = octets.view(self.dtype).ravel()
        return values if self.is_canonical(values) else None

    def elements(self, key: bytes, count: int) -> np.ndarray:
        """`dtype` (count,), each below the prime. key: 32 bytes, used for nothing else.

        Each is the lowest bits, as many as the prime has, of one little-endian word of the key's stream, AES-256-CTR;
        those that are not below the prime are replaced, in order, by the words after all of these: there is no bias.
        """
        cipher, width = Cipher(AES(key), CTR(bytes(16))).encryptor(), self.dtype.itemsize
        mask = self.dtype.type(2 ** self.prime.bit_length() - 1)
        numbers = np.frombuffer(bytearray(cipher.update(bytes(count * width))), dtype=self.dtype)
        np.bitwise_and(numbers, mask, out=numbers)
        bad = np.flatnonzero(numbers >= self.prime)
        while len(bad):
            spare = np.frombuffer(cipher.update(bytes(SPARE * width)), dtype=self.dtype) & mask
            good = spare[spare < self.prime][: len(bad)]
            numbers[bad[: len(good)]] = good
            bad = bad[len(good) :]
        return numbers

    def inverses(self, count: int) -> np.ndarray:
        """int64 (count + 1,): 0, then the inverses of 1 to `count`, which is below the prime.

        >>> (FIELD.inverses(3)[1:] * [1, 2, 3] % FIELD.prime).tolist()
        [1, 1, 1]
        """
        return np.array([0, *(pow(number, -1, self.prime) for number in range(1, count + 1))], dtype=np.int64)

    def lagrange_weights(self, count: int) -> np.ndarray:
        """int64 (count,): 1 / prod over j != i of (i - j), for the points 0 to count - 1.

        The i-th is the factor of the i-th value in Lagrange's formula that does not depend on where the polynomial is
        read.
        """
        factorials = [1]
        for number in range(1, count):
            factorials.append(factorials[-1] * number % self.prime)
        last = count - 1
        products = [factorials[i] * factorials[last - i] * (-1) ** (last - i) for i in range(count)]
        return np.array([pow(product, -1, self.prime) for product in products], dtype=np.int64)

    def continuation(self, points: int) -> np.ndarray:
        """float64 (points, points + 1), reduced: values of a polynomial of degree `points` at 0 to points -> at
        points + 1 to 2 points. 2 points is below the prime."""
        known, wanted = np.arange(points + 1), np.arange(points + 1, 2 * points + 1)
        inverse = self.inverses(2 * points)
        whole = np.ones(points, dtype=np.int64)  # prod over j of (a - j)
        for point in known:
            whole = whole * (wanted - point) % self.prime
        factors = inverse[wanted[:, None] - known] * self.lagrange_weights(points + 1) % self.prime
        return self.reduce((whole[:, None] * factors % self.prime).astype(np.float64))

    @cached_property
    def _fold(self) -> np.ndarray:
        """(degree^2, degree): what the product of each pair of coefficients adds to each one of the product."""
        degree = self.degree
        matrix = np.zeros((degree, degree, degree))
        for one in range(degree):
            for other in range(degree):
                power = one + other
                matrix[one, other, power % degree] = self.constant if power >= degree else 1
        return matrix.reshape(degree * degree, degree)

    def fold(self, products: np.ndarray, terms: int = 1) -> np.ndarray:
        """(..., degree, degree), products of all pairs of coefficients, or sums of so many such -> (..., degree),
        reduced. terms: at most `most_products`."""
        flat = products.reshape(-1, self.degree**2)
        if terms > self.most_folded:
            flat = self.reduce(flat)
        return self.reduce(flat @ self._fold).reshape(*products.shape[:-2], self.degree)

    def multiply(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The product of reduced elements (..., degree), reduced; shapes are broadcast."""
        return self.fold(one[..., :, None] * other[..., None, :])

    def multiply_all(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """All products of reduced elements: (n, degree) and (m, degree) -> (n, m, degree), reduced."""
        degree = self.degree
        matrices = self.reduce(other @ self._fold.reshape(degree, -1))  # what each of `other` does to coefficients
        matrices = matrices.reshape(-1, degree, degree).transpose(1, 0, 2).reshape(degree, -1)
        return self.reduce(one @ matrices).reshape(len(one), len(other), degree)

    def product(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The matrix product of reduced numbers (m, n) and numbers below the prime (n, k), reduced; any n."""
        total = np.zeros((len(one), other.shape[1]))
        for start in range(0, len(other), self.most_unreduced):
            rows = slice(start, start + self.most_unreduced)
            total = self.reduce(total + one[:, rows] @ other[rows])
        return total

    def inner(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The sum over the first axis of products of reduced elements: (n, degree) and (n, ..., degree) ->
        (..., degree), n at most `most_products`."""
        products = one.T @ other.reshape(len(other), -1)  # (degree, rest * degree)
        return self.fold(np.moveaxis(products.reshape(self.degree, *other.shape[1:]), 0, -2), len(one))

    def square_sums(self, values: np.ndarray) -> np.ndarray:
        """(n, terms, degree), reduced -> (n, degree): sums of the squares of the terms, at most `most_products`."""
        return self.fold(np.matmul(values.transpose(0, 2, 1), values), values.shape[1])

    def lagrange_at(self, where: np.ndarray, count: int) -> np.ndarray:
        """(count, degree), reduced: factors that read a polynomial, given by its values at 0 to count - 1, at the
        element `where`.

        Without a division: each is the product of all other differences, from the left and from the right.
        """
        differences = np.repeat(where[None], count, axis=0)
        differences[:, 0] -= np.arange(count)
        differences = self.reduce(differences)
        left, right = np.zeros((count, self.degree)), np.zeros((count, self.degree))
        left[0, 0] = right[-1, 0] = 1
        for point in range(1, count):
            left[point] = self.multiply(left[point - 1], differences[point - 1])
            right[-1 - point] = self.multiply(right[-point], differences[-point])
        return self.reduce(self.multiply(left, right) * self.lagrange_weights(count)[:, None])


def from_wire(values: np.ndarray) -> np.ndarray:
    """Numbers below a prime -> float64 of the same shape, as they are."""
    return values.astype(np.float64)


def is_base(element: np.ndarray) -> bool:
    """Whether a reduced element (degree,) of the extension is one of the prime field."""
    return not element[1:].any()


FIELD = Field(2_097_131, 7, 2, np.dtype("<u4"), np.dtype("<i8"), 3)
"""A million votes fit into half of it, and room for their noise."""
