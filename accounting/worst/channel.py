"""What a release tells about one moved vote: a channel of two or three outcomes, at every place it can stand.

*Argmax.* A vote moves from class a to class b. What is left, if the largest noisy count of all others and its class o
are revealed, has three outcomes, a, b or o. With that count at 0, a's noisy count X has centre U, b's Y has centre V;
the neighbour's have centres U - shift and V + shift. o wins against both at X = 0 or Y = 0, and X = Y goes to a; other
rules for ties are other places, or a and b and the direction of the move exchanged. *Check.* A number with noise is
compared with a threshold.

Probabilities are sums of positive terms, so that small ones keep their digits: with T(U, V) = Pr[X = Y >= 1], Pr[a wins
at (U, V)] - Pr[a wins at (U, V + 1)] = T(U, V), and all of a plane are running sums of T along one axis. *Lattice.*
Where noise is large, it is a mixture of a little less noise around whole centres. Proofs: docs/proofs.md, "The worst
case of what leaves".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from consilium.accounting.units import Noise

TAU = 1.5
"""Standard deviation, in spacings, of the weights of the mixture."""
SLACK = 5 * math.exp(-2 * (math.pi * TAU) ** 2 * 0.99)
"""Bound on |log| of the ratio of a probability to that of the mixture, for one count: 4e-19, by Poisson's sum."""
_MARGIN = 12.5
"""Noise parameters by which sums run beyond the plane: what they leave out is below e^-39 of any of them."""
_ROWS = 64
"""Rows of a plane that are in memory at once: some 70,000 places."""


class Lattice(NamedTuple):
    """Noise on the integers.

    scale : parameter of the discrete Gaussian.
    shift : by how much the centre of a count moves; whole where the mixture was not used.
    slack : ``SLACK``, or 0 where the mixture was not used.
    """

    scale: float
    shift: float
    slack: float


def reduce(sigma: float, noise: Noise, votes: int, fine: float) -> Lattice:
    """The lattice for noise ``sigma`` on a count that moves by ``votes``. fine: the parameter to come near to, at least
    24. Integer noise keeps its own up to 1.4 times that: beyond, the plane would take hundreds of megabytes.

    >>> reduce(40.0, Noise.DISCRETE, 1, 36.0)
    Lattice(scale=40.0, shift=1, slack=0.0)
    """
    if noise is Noise.CONTINUOUS:
        return Lattice(math.sqrt(fine**2 - TAU**2), votes * fine / sigma, SLACK)
    if sigma <= 1.4 * fine:
        return Lattice(sigma, votes, 0.0)
    spacing = max(2, round(sigma / fine))
    return Lattice(math.sqrt((sigma / spacing) ** 2 - TAU**2), votes / spacing, SLACK)


def coarser(sigma: float, fine: float) -> float:
    """The least noise above ``sigma`` from which ``reduce`` takes a larger spacing for integer noise."""
    return 1.4 * fine if sigma <= 1.4 * fine else (max(2, round(sigma / fine)) + 0.5) * fine


def mass(scale: float, step: int = 1, start: int = 0) -> float:
    """Sum of exp(-x^2 / (2 scale^2)) over x in start + step Z."""
    reach = step * (math.ceil(14 * scale / step) + 1)
    x = np.arange(start - reach, start + reach + 1, step, dtype=np.float64)
    return float(np.sum(np.exp(-(x**2) / (2 * scale**2))))


def tail(scale: float, reach: float) -> float:
    """Sum of exp(-x^2 / (2 scale^2)) over x = reach, reach + 1, ..."""
    x = reach + np.arange(math.ceil(14 * scale) + 2, dtype=np.float64)
    return float(np.sum(np.exp(-(x**2) / (2 * scale**2))))


def sums_from(weights: np.ndarray, axis: int = 0) -> np.ndarray:
    """Sums of non-negative weights from each index to the end: nothing cancels, so small sums keep their digits."""
    return np.flip(np.cumsum(np.flip(weights, axis), axis), axis)


@lru_cache(maxsize=32)
def both_tails(scale: float, shift: float, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Pr[c + Z >= 1] and Pr[c + Z <= 0] for centres c = first + shift, ..., last + shift: two float64, read-only. Z is
    a discrete Gaussian around the real centre c: the probability of x is proportional to exp(-(x - c)^2 / 2 s^2)."""
    margin = math.ceil(14 * scale) + 2
    total = mass(scale)
    # c + Z >= 1 is Z' >= 1 - c with Z' on the lattice Z - c; both sides are sums over the same terms
    centres = np.arange(first, last + 1)
    x = np.arange(1 - last - margin, 1 - first + margin + 1) - shift
    weights = np.exp(-(x**2) / (2 * scale**2)) / total
    upper = sums_from(weights)[(1 - centres) - (1 - last - margin)]
    lower = np.cumsum(weights)[(0 - centres) - (1 - last - margin)]
    upper.setflags(write=False)
    lower.setflags(write=False)
    return upper, lower


class Pairs(NamedTuple):
    """Distributions of the outcome at many places, before and after the move: p, q float64 (outcomes, places); of
    little noise some are below the least double, and 0."""

    p: np.ndarray
    q: np.ndarray

    def of(self, places: np.ndarray) -> Pairs:
        return Pairs(self.p[:, places], self.q[:, places])

    def turned(self) -> Pairs:
        return Pairs(self.q, self.p)

    def are_laws(self) -> bool:
        """Whether none is below 0, nor 0 on one side alone: where tangents meet need be no law."""
        return bool(np.all((np.minimum(self.p, self.q) > 0) | (np.maximum(self.p, self.q) == 0)))

    def log_ratio(self) -> np.ndarray:
        """log q / p: float64 (outcomes, places); 0 where both are 0, and infinite where one is."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.p == self.q, 0.0, np.log(self.q / self.p))


class Reach(NamedTuple):
    """How far places are tried: ``far`` noise parameters, and ``tilt`` more where a tilted count could be, (alpha - 1)
    shift / scale at the largest order alpha that is computed."""

    far: float
    tilt: float


def check_line(lattice: Lattice, reach: Reach) -> Pairs:
    """One count against a threshold, at every centre within reach."""
    end = math.ceil((reach.far + reach.tilt) * lattice.scale + lattice.shift) + 1
    p = both_tails(lattice.scale, 0.0, -end, end)
    q = both_tails(lattice.scale, -lattice.shift, -end, end)
    return Pairs(np.stack(p), np.stack(q))


def check_tail(lattice: Lattice, reach: Reach) -> float:
    """Bound on the probability of the rare outcome beyond ``check_line``, under both inputs and tilted."""
    return tail(lattice.scale, reach.far * lattice.scale) / mass(lattice.scale)


def difference(lattice: Lattice, offsets: np.ndarray, moved: float) -> np.ndarray:
    """Probability that X - Y is at ``offsets + moved`` from its centre: float64, shape of offsets. The sum X + Y has
    the same parity, and given that parity it is independent of the difference."""
    scale = lattice.scale
    even, odd = mass(math.sqrt(2) * scale, 2, 0), mass(math.sqrt(2) * scale, 2, 1)
    # a shift that is no whole number comes with a parameter of 15 or more, where the two are equal in every digit
    parity = np.where((offsets + round(moved)) % 2 == 0, even, odd)
    return np.exp(-((offsets + moved) ** 2) / (4 * scale**2)) * parity / mass(scale) ** 2


def duel_line(lattice: Lattice, reach: Reach) -> Pairs:
    """Two counts against each other, no third: at every lead within reach. Both rules for ties are leads 1 apart."""
    wide = math.sqrt(2) * lattice.scale
    end = math.ceil((reach.far + math.sqrt(2) * reach.tilt) * wide + 2 * lattice.shift) + 1
    margin = math.ceil(14 * wide)
    leads = np.arange(-end, end + 1)
    offsets = np.arange(-end - margin, end + margin + 2)

    def sides(moved: float) -> np.ndarray:
        # the centre of the lead moves down, so offsets from it grow
        weights = difference(lattice, offsets, moved)
        wins = sums_from(weights)[(1 - leads) - offsets[0]]
        loses = np.cumsum(weights)[(0 - leads) - offsets[0]]
        return np.stack((wins, loses))

    return Pairs(sides(0.0), sides(2 * lattice.shift))


def duel_tail(lattice: Lattice, reach: Reach) -> float:
    """The same bound as ``check_tail``, beyond ``duel_line``."""
    wide = math.sqrt(2) * lattice.scale
    return tail(wide, reach.far * wide) * mass(wide, 2) / mass(lattice.scale) ** 2


def third_tail(lattice: Lattice, reach: Reach) -> float:
    """Bound on the probability that the third wins where the two centres sum to at least ``far`` sqrt(2) scale: of X +
    Y <= 0 given its parity, under both inputs and tilted, since none of them moves the sum."""
    wide = math.sqrt(2) * lattice.scale
    return tail(wide, math.ceil(reach.far * wide)) / mass(wide, 2, 1)


def planes(lattice: Lattice, reach: Reach) -> Iterator[tuple[np.ndarray, np.ndarray, Pairs]]:
    """The three outcomes at every place of the triangle outside which a line with its tail takes over, ties to a: U, V
    int64 (places,), and the pairs, a strip of the triangle at a time. In the other direction pairs are those of ties
    to b.

    The triangle: U, V >= -(far + tilt) scale - 2 shift, U + V <= sqrt(2) far scale.
    """
    scale, shift = lattice.scale, lattice.shift
    least = -math.ceil((reach.far + reach.tilt) * scale + 2 * shift)
    most_sum = math.ceil(math.sqrt(2) * reach.far * scale)
    # Sums run to the same end on both axes: whoever is to win with probability near 1 needs all of its terms. Axes run
    # downwards from there, so that running sums are sums from a place to the end.
    end = most_sum - least + math.ceil(_MARGIN * scale + 2 * shift)
    centres = end - np.arange(end - least + 1)
    size = centres.size
    equal = sliding_window_view(_equal_and_positive(scale, 2 * end, 2 * size - 1), size)
    leads = np.arange(1 - size, size, dtype=np.float64)

    def strips(moved: float) -> Iterator[tuple[tuple[np.ndarray, np.ndarray], np.ndarray]]:
        closeness = np.exp(-((leads - 2 * moved) ** 2) / (4 * scale**2))
        near = sliding_window_view(closeness, size)[::-1]
        third_u, third_v = (both_tails(scale, sign * moved, least, end)[1][::-1] for sign in (-1, 1))
        row_before = np.zeros(size)
        for start in range(0, size, _ROWS):
            rows = slice(start, start + _ROWS)
            tie = equal[rows] * near[rows]
            first = np.cumsum(tie, axis=1)
            tie[0] += row_before
            # a sum without the tie is that of the row before, so nothing is subtracted
            second = np.vstack((row_before, np.cumsum(tie, axis=0)))
            row_before = second[-1]
            row, column = inside = np.nonzero(centres[rows, None] + centres <= most_sum)
            third = third_u[rows][row] * third_v[column]
            yield (centres[rows][row], centres[column]), np.stack((first[inside], second[inside], third))

    for ((u, v), before), (_, after) in zip(strips(0.0), strips(shift), strict=True):
        if u.size:
            yield u, v, Pairs(before, after)


def _equal_and_positive(scale: float, most: int, size: int) -> np.ndarray:
    """Pr[X = Y >= 1] without its factor exp(-(U - V)^2 / (4 scale^2)): a function of U + V, from ``most`` downwards,
    the sum over x >= 1 of exp(-(x - (U + V) / 2)^2 / scale^2) over the square of the noise's mass."""
    sums = most - np.arange(size)
    by_sum = np.empty(size)
    for odd in (0, 1):
        mine = sums % 2 == odd
        # x - (U + V) / 2 = n - odd / 2 with n whole and at least `first`
        first = 1 - (sums[mine] - odd) // 2
        n = np.arange(first[0], first[-1] + math.ceil(10 * scale) + 3, dtype=np.float64)
        by_sum[mine] = sums_from(np.exp(-((n - odd / 2) ** 2) / scale**2))[first - first[0]]
    return by_sum / mass(scale) ** 2
