"""A shared secret from shares of which some are wrong, and which those are.

Shamir's shares are a Reed-Solomon code: with m shares of a polynomial of degree below t, up to (m - t) / 2 wrong ones
are found (Gao 2003, "A new algorithm for decoding Reed-Solomon codes"). The commitment allows more where few sets of
t shares exist: each is tried.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from consilium.protocol.secagg.curve import ORDER
from consilium.protocol.secagg.shamir import evaluate

MOST_SUBSETS = 2000

Polynomial = list[int]
"""Coefficients modulo l, constant term first, no leading zeros; [] is zero."""


def correct(
    points: Sequence[int], shares: Sequence[int], threshold: int, accept: Callable[[int], bool]
) -> tuple[int, list[int]] | None:
    """The secret that `accept` verifies, and where the shares are that do not belong to it; None if none is found.

    Parameters
    ----------
    points, shares : m of each, m >= threshold.
    accept : whether a secret is the one that was committed to.
    """
    for polynomial in itertools.chain(_decoded(points, shares, threshold), _subsets(points, shares, threshold)):
        value = polynomial[0] if polynomial else 0
        if accept(value):
            there = evaluate(polynomial, points)
            wrong = [at for at, (is_, must) in enumerate(zip(shares, there, strict=True)) if is_ != must]
            return value, wrong
    return None


def _subsets(points: Sequence[int], shares: Sequence[int], threshold: int):
    """The polynomial of each set of `threshold` shares; nothing where there are too many sets."""
    if math.comb(len(points), threshold) > MOST_SUBSETS:
        return
    for chosen in itertools.combinations(range(len(points)), threshold):
        yield interpolate([points[at] for at in chosen], [shares[at] for at in chosen])


def _decoded(points: Sequence[int], shares: Sequence[int], threshold: int):
    """The one polynomial of degree below `threshold` with at most (m - threshold) / 2 errors, if there is one."""
    older, newer = _product_of_roots(points), interpolate(points, shares)
    factor_older: Polynomial = []
    factor: Polynomial = [1]
    while 2 * (len(newer) - 1) >= len(points) + threshold:
        quotient, rest = _divide(older, newer)
        older, newer = newer, rest
        factor_older, factor = factor, _minus(factor_older, _times(quotient, factor))
    polynomial, rest = _divide(newer, factor)
    if not rest and len(polynomial) <= threshold:
        yield polynomial


def interpolate(points: Sequence[int], values: Sequence[int]) -> Polynomial:
    """The polynomial of degree below len(points) through all (point, value)."""
    roots = _product_of_roots(points)
    total = [0] * len(points)
    for x, value in zip(points, values, strict=True):
        others = [0] * len(points)  # roots / (X - x), by synthetic division
        carry = 0
        for at in range(len(points), 0, -1):
            carry = (roots[at] + carry * x) % ORDER
            others[at - 1] = carry
        scale = value * pow(evaluate(others, [x])[0], -1, ORDER) % ORDER
        total = [(sum_ + scale * other) % ORDER for sum_, other in zip(total, others, strict=True)]
    return _trim(total)


def _product_of_roots(points: Sequence[int]) -> Polynomial:
    product = [1]
    for x in points:
        product = [(low - x * high) % ORDER for low, high in zip([0, *product], [*product, 0], strict=True)]
    return product


def _trim(polynomial: Polynomial) -> Polynomial:
    while polynomial and polynomial[-1] == 0:
        polynomial.pop()
    return polynomial


def _times(one: Polynomial, other: Polynomial) -> Polynomial:
    product = [0] * max(len(one) + len(other) - 1, 0)
    for at, coefficient in enumerate(one):
        for step, factor in enumerate(other):
            product[at + step] = (product[at + step] + coefficient * factor) % ORDER
    return _trim(product)


def _minus(one: Polynomial, other: Polynomial) -> Polynomial:
    return _trim([(a - b) % ORDER for a, b in itertools.zip_longest(one, other, fillvalue=0)])


def _divide(numerator: Polynomial, denominator: Polynomial) -> tuple[Polynomial, Polynomial]:
    rest = list(numerator)
    inverse = pow(denominator[-1], -1, ORDER)
    quotient = [0] * max(len(rest) - len(denominator) + 1, 0)
    for at in range(len(quotient) - 1, -1, -1):
        scale = rest[at + len(denominator) - 1] * inverse % ORDER
        quotient[at] = scale
        for step, coefficient in enumerate(denominator):
            rest[at + step] = (rest[at + step] - scale * coefficient) % ORDER
    return _trim(quotient), _trim(rest)
