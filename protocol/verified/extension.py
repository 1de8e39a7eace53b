"""The field of 65521^8 elements, about 2^128: polynomials modulo X^8 - 17, as float64 arrays whose last axis is 8 long.

X^8 - 17 is irreducible: 17 is no square modulo 65521, and 65521 - 1 is a multiple of 4 (Lidl and Niederreiter, Finite
Fields, theorem 3.75). Challenges come from here, so that a false proof fits them by chance about once in 2^120 times.
"""

from __future__ import annotations

import numpy as np

from consilium.protocol.verified.field import PRIME, lagrange_weights, reduce

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
    for at in range(1, count):
        left[at] = multiply(left[at - 1], differences[at - 1])
        right[-1 - at] = multiply(right[-at], differences[-at])
    return reduce(multiply(left, right) * lagrange_weights(count)[:, None])


def is_base(element: np.ndarray) -> bool:
    """Whether a reduced element (8,) is one of the small field."""
    return not element[1:].any()
