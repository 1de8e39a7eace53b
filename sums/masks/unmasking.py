"""Masks come off: secrets are rebuilt from shares and compared with their owners' commitments, and the sum is checked
(Bonawitz et al. 2017, figure 4, round 4).

That the shares were good when they were dealt is known by now (`sums.masks.checks`); whoever holds them may still give
others. Shamir's shares are a Reed-Solomon code: with m shares of a polynomial of degree below t, up to (m - t) / 2
wrong ones are found (Gao 2003, "A new algorithm for decoding Reed-Solomon codes"). The commitment allows more where few
sets of t shares exist: each is tried."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from consilium.sums.curve import ORDER
from consilium.sums.errors import BadShare, ThresholdNotMet, named
from consilium.sums.masks.checks import Disputes, mask_key
from consilium.sums.masks.messages import KEY_BYTES, Stage
from consilium.sums.masks.ring import MaskAdder, RingBits, decode, pair_key, self_key
from consilium.sums.masks.shares import combine, evaluate, lagrange, mask_agreement, opens, point, share_bytes
from consilium.sums.masks.terms import MaskedTerms
from consilium.sums.roster import Roster
from consilium.sums.terms import TAIL

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
            wrong = [place for place, (is_, must) in enumerate(zip(shares, there, strict=True)) if is_ != must]
            return value, wrong
    return None


def _subsets(points: Sequence[int], shares: Sequence[int], threshold: int):
    """The polynomial of each set of `threshold` shares; nothing where there are too many sets."""
    if math.comb(len(points), threshold) > MOST_SUBSETS:
        return
    for chosen in itertools.combinations(range(len(points)), threshold):
        yield interpolate([points[place] for place in chosen], [shares[place] for place in chosen])


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
        for power in range(len(points), 0, -1):
            carry = (roots[power] + carry * x) % ORDER
            others[power - 1] = carry
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
    for power, coefficient in enumerate(one):
        for step, factor in enumerate(other):
            product[power + step] = (product[power + step] + coefficient * factor) % ORDER
    return _trim(product)


def _minus(one: Polynomial, other: Polynomial) -> Polynomial:
    return _trim([(a - b) % ORDER for a, b in itertools.zip_longest(one, other, fillvalue=0)])


def _divide(numerator: Polynomial, denominator: Polynomial) -> tuple[Polynomial, Polynomial]:
    rest = list(numerator)
    inverse = pow(denominator[-1], -1, ORDER)
    quotient = [0] * max(len(rest) - len(denominator) + 1, 0)
    for power in range(len(quotient) - 1, -1, -1):
        scale = rest[power + len(denominator) - 1] * inverse % ORDER
        quotient[power] = scale
        for step, coefficient in enumerate(denominator):
            rest[power + step] = (rest[power + step] - scale * coefficient) % ORDER
    return _trim(quotient), _trim(rest)


MASK_POINT, SELF_POINT = 1, 2
"""Which of the four keys of an advert these are."""


class SecretRebuilder:
    """Secrets of all parties from the same t shareholders, with one Lagrange vector. Who complained about most is asked
    last; who complained about an owner is not asked for that owner's secret.

    Who is found to have given a wrong share is not used again; `liars` names their places. At least t are always left:
    a secret is only taken from t shares that fit each other.

    shares : uint8 (|U2|, 32) by shareholder, at least t of them, rows in the order of `sharers`, all below l.
    disputes : places of those that have no good share, by owner.
    """

    def __init__(self, roster: Roster, sharers: list[int], shares: dict[int, np.ndarray], disputes: Disputes) -> None:
        self._roster, self._disputes = roster, disputes
        self._row = {index: row for row, index in enumerate(sharers)}
        self._shares = shares
        complained = Counter(index for against in disputes.values() for index in against)
        self._holders = sorted(shares, key=lambda index: (complained[index], index))
        self._weights: dict[tuple[int, ...], list[int]] = {}
        self.liars: list[int] = []

    def rebuild(self, owner: int, accept: Callable[[int], bool]) -> int:
        """The secret of `owner` that `accept` verifies.

        Raises
        ------
        ThresholdNotMet : fewer than t of those who vouched for the owner's shares are there.
        BadShare : no choice of shares gives it.
        """
        unfit = {*self.liars, *self._disputes.get(owner, ())}
        honest = [holder for holder in self._holders if holder not in unfit]
        if len(honest) < self._roster.t:
            missing = [self._roster.name(index) for index in self._row if index not in {*self._shares, *unfit}]
            raise ThresholdNotMet(Stage.UNMASK, len(honest), self._roster.t, missing)
        chosen = tuple(honest[: self._roster.t])
        if chosen not in self._weights:
            self._weights[chosen] = lagrange([point(holder) for holder in chosen])
        secret = combine(self._weights[chosen], [self._share(holder, owner) for holder in chosen])
        if accept(secret):
            return secret
        correction = correct(
            [point(holder) for holder in honest],
            [self._share(holder, owner) for holder in honest],
            self._roster.t,
            accept,
        )
        if correction is None:
            raise BadShare(
                self._roster.name(owner),
                "no choice of shares gives the secret that it is committed to: too many of these lie:"
                f" {named(self._roster.name(holder) for holder in honest)}",
            )
        secret, wrong = correction
        self.liars += [honest[place] for place in wrong]
        return secret

    def _share(self, holder: int, owner: int) -> int:
        return int.from_bytes(self._shares[holder][self._row[owner]].tobytes(), "little")


def remove_masks(
    total: np.ndarray,
    terms: MaskedTerms,
    adverts: dict[int, np.ndarray],
    survivors: list[int],
    dropped: list[int],
    rebuilder: SecretRebuilder,
) -> np.ndarray:
    """Sum of all y -> sum of votes and noise, int64 (queries, classes).

    All secrets are rebuilt and verified before the first mask comes off.

    Raises
    ------
    BadShare, ThresholdNotMet : see `SecretRebuilder.rebuild`.
    """
    ctx = terms.ctx

    def rebuilt(index: int, column: int) -> int:
        committed = adverts[index][column * KEY_BYTES : (column + 1) * KEY_BYTES].tobytes()
        return rebuilder.rebuild(index, lambda secret: opens(committed, secret))

    self_secrets = {index: rebuilt(index, SELF_POINT) for index in survivors}
    private = {index: rebuilt(index, MASK_POINT) for index in dropped}
    result = total.copy()
    adder = MaskAdder(terms.shape, terms.ring)
    for index, b in self_secrets.items():
        adder.subtract(result, self_key(share_bytes(b), ctx, index))
    publics = {index: mask_key(adverts[index]) for index in survivors} if dropped else {}
    for gone, key in private.items():
        agreement = mask_agreement(key)
        for index, public in publics.items():
            secret = agreement.with_peer(public, str(index))
            adder.remove_pair(result, pair_key(secret, ctx, index, gone), index, gone)
    return decode(result, terms.ring)


def clip(sums: np.ndarray, ring: RingBits, votes: int, deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Cells of a sum within what its votes and their noise can give, and the rows that were not.

    A false vote may put a cell anywhere in the ring, also to its edge, where one honest vote more takes it from the
    highest to the lowest number. So the map is one of the circle: the identity on [-r, votes + r], and nowhere steeper
    than one for one. One vote moved then moves each cell by one at most, which is what the noise is sized for that is
    added afterwards. r is nine standard deviations of the noise in the sum, less where the ring is too small for it.

    Parameters
    ----------
    sums : int64 (queries, classes), as they came out of the ring.
    votes : of all parties in the sum on one query.
    deviation : of the noise in a cell, of all who are summed.

    Returns
    -------
    int64 (queries, classes), and bool (queries,): rows of which a cell was out of range, or whose total is further from
    `votes` than nine standard deviations of its noise. Honest ones are so once in 10^18; both are functions of the sums
    alone.
    """
    half, reach = 2 ** (ring - 1), math.ceil(TAIL * deviation)
    out = np.any((sums < -reach) | (sums > votes + reach), axis=1)
    out |= np.abs(sums.sum(axis=1) - votes) > TAIL * deviation * math.sqrt(sums.shape[1])
    room = min(reach, (half - votes) // 2)
    around, width = (sums + room) % (2 * half), votes + 2 * room
    counts = np.where(around < half, np.minimum(around, width), np.maximum(width - (around - half), 0)) - room
    return counts, out
