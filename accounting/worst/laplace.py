"""What one released winner costs in the worst case over all votes where the noise is Laplace noise: Renyi curves.

The noisy counts cost twice the curve of one Laplace variable; for much noise and low orders the winner costs half of
that, which two classes attain. Every step is rounded up. Statement and proof: docs/proofs.md, "The worst case of a
winner under Laplace noise". As in ``worst.channel`` a vote moves from a to b; of the class o with the largest other
count all is revealed but a geometric number T. What is left is a plane of leads, U of a's centre and V of b's over o's
least count; a beats o where X > T. Noise is Pr[z] proportional to r^|z| on the integers, r = e^-g, and a move carries N
of them. The law is affine or quadratic in a power t of a centre: a moment is at most the largest at the corners of
triangles around (t, t^2).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from consilium.accounting.checks import check_noise, check_orders, check_scale, check_votes_moved
from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.curves.near_zero import expm1_minus
from consilium.accounting.units import Noise
from consilium.accounting.worst.channel import Pairs
from consilium.accounting.worst.renyi import MARGIN, along_moves, largest

FINE = 1 / 32
"""Largest g of real noise: nothing visible above no spacing at gamma .05, .5 % at gamma 1."""
LEAST_SHIFT, MOST_SHIFT = 1e-4, 4.0
"""Gamma outside this range: below it the plane would have millions of places, above it little is gained."""
CELLS = {1.0: 4.0, 4.0: 1.0, 60.0: 0.2}
"""For orders up to which tilt 2 (alpha - 1) h how far the ends of an interval of t are apart, as a logarithm. Up to the
second two classes cost most, and a third need not be known closely; beyond the last, counts are charged."""
_LEAST_TILTED = {60.0: 1e-3}
"""Of less h it is of orders of thousands, and would take seconds."""
LEAST_T = 1e-2
"""The last interval of t ends at 0, which is two classes without a third."""
_AT_ONCE = 1 << 15
"""Places that are in memory at once."""


class LaplaceLattice(NamedTuple):
    """Noise Pr[z] proportional to e^(-g |z|) on the integers; a move takes ``shift`` from a centre, to another."""

    g: float
    shift: int

    @property
    def r(self) -> float:
        return math.exp(-self.g)

    @property
    def less(self) -> float:
        return -math.expm1(-self.g)


def reduce(gamma: float, noise: Noise) -> LaplaceLattice:
    """The lattice for noise Lap(1 / gamma) on counts of which one vote moves."""
    if noise is Noise.DISCRETE:
        return LaplaceLattice(gamma, 1)
    halvings = math.ceil(max(0.0, math.log2(gamma / FINE)))
    return LaplaceLattice(gamma / 2**halvings, 2**halvings)


def _power(lattice: LaplaceLattice, exponent: np.ndarray) -> np.ndarray:
    return np.exp(-lattice.g * exponent)


def _behind(lattice: LaplaceLattice, gap: np.ndarray) -> np.ndarray:
    """Pr[Z - Z' >= gap] for whole gaps of at least 0: float64. As in ``curves.discrete``."""
    r, less = lattice.r, lattice.less
    spread = (1 + r * r) / -math.expm1(-2 * lattice.g)
    return (less / (1 + r)) ** 2 * _power(lattice, gap) * ((gap + spread) / less + r / less**2)


def _not_behind(lattice: LaplaceLattice, lead: np.ndarray) -> np.ndarray:
    """Pr[X >= Y] at these leads, centre of X less centre of Y: float64."""
    return np.where(lead <= 0, _behind(lattice, np.maximum(-lead, 0)), 1 - _behind(lattice, np.maximum(lead + 1, 0)))


def _third_beats_one(lattice: LaplaceLattice, v: np.ndarray) -> np.ndarray:
    """Pr[T >= Y] around centres of at least 0: float64."""
    r, less = lattice.r, lattice.less
    return _power(lattice, v) / (1 + r) * (1 + less * v + r * r / (1 + r))


def _over_both(lattice: LaplaceLattice, v: np.ndarray) -> np.ndarray:
    """Pr[1 + T' > T, 1 + T' >= Y] of another T', around centres of at least 0: float64. 1 + T' is an X beyond 0."""
    r, less = lattice.r, lattice.less
    cube = less / -math.expm1(-3 * lattice.g)
    at = np.maximum(v, 1)
    near = _power(lattice, at - 1)
    one = less / (1 + r) * (at - 1) + 1 - r / (1 + r) ** 2
    both = (1 - near) / (1 + r) + near / (1 + r) - near * r * cube / (1 + r)
    least = 1 - r / (1 + r) - (r / (1 + r)) ** 2 + r**3 * cube / (1 + r)
    return np.where(v >= 1, near * (one - r * both), least)


def _low(lattice: LaplaceLattice, u: np.ndarray, v: np.ndarray, first_wins_ties: bool) -> np.ndarray:
    """Probabilities of first, second and third for a first centre u of at most 1, a second of at least 0: (3, ...)."""
    over = _power(lattice, 1 - u) / (1 + lattice.r)
    alone = _third_beats_one(lattice, v)
    weakly = _over_both(lattice, v)
    first = weakly if first_wins_ties else _over_both(lattice, v + 1)
    third = lattice.r * weakly
    second = (1 - over) * (1 - alone) + over * (1 - first - third)
    return np.stack((over * first, second, (1 - over) * alone + over * third))


def _ahead(lattice: LaplaceLattice, lead: np.ndarray, t: np.ndarray, square: np.ndarray) -> np.ndarray:
    """Probabilities of a, b and the third for centres of at least 0, ``lead`` apart, the lesser m: float64 (3, ...),
    affine in t and square, r^m and its square."""
    r = lattice.r
    size = np.abs(lead)
    zero = np.zeros_like(size)
    corner = np.where(lead <= 0, _low(lattice, zero, size, True), _low(lattice, zero, size, False)[[1, 0, 2]])
    # both below a T that is below both centres: two equal geometric numbers
    third = _power(lattice, 1 + size) * (t - square) / (1 + r) ** 2
    return np.stack(
        (
            (1 - t) * _not_behind(lattice, lead) - third / (1 + r) + t * corner[0],
            (1 - t) * _not_behind(lattice, -lead - 1) - r * third / (1 + r) + t * corner[1],
            third + t * corner[2],
        )
    )


def outcomes(lattice: LaplaceLattice, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Probabilities that a, b or the third wins at whole centres, one of at least 1, ties to a: float64 (3, places)."""
    least = np.maximum(np.minimum(u, v), 0)
    ahead = _ahead(lattice, u - v, _power(lattice, least), _power(lattice, 2 * least))
    left = _low(lattice, np.minimum(u, 0), np.maximum(v, 0), True)
    right = _low(lattice, np.minimum(v, 0), np.maximum(u, 0), False)[[1, 0, 2]]
    return np.where(u < 0, left, np.where(v < 0, right, ahead))


def plane(lattice: LaplaceLattice, end: int, cell: float) -> Iterator[tuple[np.ndarray, Pairs]]:
    """Both centres above the third's least count, before and after, ties to the giver: leads, and float64 (3, leads t).
    Every lead from -``end``, some at a time, and all of t in intervals whose ends are a factor e^cell apart; t = 0,
    which is no third, included."""
    step = max(1, math.floor(cell / lattice.g))
    steps = step * np.arange(2 + math.ceil(-math.log(LEAST_T) / (lattice.g * step)))
    t = _power(lattice, steps)
    corners = [(t, t * t), (np.zeros(1), np.zeros(1)), (t[-1:] / 2, np.zeros(1))]
    if step > 1:
        corners.append(((t[1:] + t[:-1]) / 2, t[1:] * t[:-1]))
    t, square = (np.concatenate(parts) for parts in zip(*corners, strict=True))
    leads = np.arange(-end, end + 2 * lattice.shift + 1)
    rows = max(1, _AT_ONCE // t.size)
    for start in range(0, leads.size, rows):
        lead = leads[start : start + rows, None]
        # the least of a's centre is N, of b's 0
        v = np.maximum(lattice.shift - lead, 0)
        u = v + lead
        yield (
            lead[:, 0],
            Pairs(_along(lattice, u, v, t, square), _along(lattice, u - lattice.shift, v + lattice.shift, t, square)),
        )


def _along(lattice: LaplaceLattice, u: np.ndarray, v: np.ndarray, t: np.ndarray, square: np.ndarray) -> np.ndarray:
    """The outcomes where t and its square are these times their values at (u, v): float64 (3, leads t)."""
    first = _power(lattice, np.minimum(u, v))
    return _ahead(lattice, u - v, first * t, first**2 * square).reshape(3, -1)


def edges(lattice: LaplaceLattice, end: int) -> Iterator[Pairs]:
    """Lines where one centre is above the third's least count only before, or only after the move: U in 1..N - 1 and V
    from 1 - N, V in 1 - N..-1 and U from 1, up to ``end``; ties to the giver, some places at a time."""
    shift = lattice.shift
    along = end + shift
    for start in range(0, (shift - 1) * along, _AT_ONCE):
        line, place = np.divmod(np.arange(start, min(start + _AT_ONCE, (shift - 1) * along)), along)
        still, moving = 1 + line, 1 - shift + place
        positive = moving >= 1
        yield _pair(lattice, still, moving)
        yield _pair(lattice, moving[positive], still[positive] - shift)


def _pair(lattice: LaplaceLattice, u: np.ndarray, v: np.ndarray) -> Pairs:
    return Pairs(outcomes(lattice, u, v), outcomes(lattice, u - lattice.shift, v + lattice.shift))


def alone(lattice: LaplaceLattice, end: int) -> Iterator[Pairs]:
    """The one of the two that gets the votes against the third, where the other is far below."""
    low = np.arange(1 - lattice.shift, end + 1)
    yield Pairs(_against_third(lattice, low), _against_third(lattice, low + lattice.shift))


def _against_third(lattice: LaplaceLattice, v: np.ndarray) -> np.ndarray:
    # below 0 it is a power of the centre
    over = np.minimum(_power(lattice, -np.minimum(v, 0)), 1.0) * (1 - _third_beats_one(lattice, np.maximum(v, 0)))
    return np.stack((over, np.where(v < 0, 1 - over, _third_beats_one(lattice, np.maximum(v, 0)))))


def beyond(lattice: LaplaceLattice, end: int) -> float:
    """Bound on the probability, before and after the move, that any other wins than the surest, past ``end``."""
    gap = np.array(max(end - 2 * lattice.shift, 0))
    return float(_behind(lattice, gap) + _third_beats_one(lattice, gap))


def _part(w: np.ndarray, loss: float) -> np.ndarray:
    """e^(w L) - 1 - w (e^L - 1) for L = -loss or loss, whichever is more: what an outcome adds to a moment, at most."""
    return np.maximum(*(expm1_minus(w * x) - w * expm1_minus(np.array(x)) for x in (-loss, loss)))


def rare_moment(rare: float, h: float, orders: np.ndarray) -> np.ndarray:
    """(alpha - 1) D_alpha, at most, where all outcomes but one have at most probability ``rare``, before and after. No
    loss is above 2 h, and the likeliest outcome gains what the others lose: rare (1 - e^(-2 h)) at most."""
    if rare >= 0.5:
        return np.full(orders.size, math.inf)
    change = rare * -math.expm1(-2 * h) / (1 - rare)
    return np.log1p(rare * _part(1 - orders, 2 * h) + _part(1 - orders, -math.log1p(-change)))


@lru_cache(maxsize=256)
def _log_moment(lattice: LaplaceLattice, orders: tuple[float, ...], cell: float) -> np.ndarray:
    """(alpha - 1) D_alpha of one move, the largest over all places: float64 (orders,); orders increase."""
    alpha = np.array(orders)
    found = largest(_some_duels(lattice), alpha)
    end = 2 * lattice.shift
    while np.any(rare_moment(beyond(lattice, end), lattice.g * lattice.shift, alpha) > found):
        end += math.ceil(0.25 / lattice.g)
    # by Taylor's formula with f of _part a moment is at most 1 + f''(x) E L^2 / 2, x = +-2 h: less is no place's
    steepest = alpha * (alpha - 1) * np.exp(2 * lattice.g * lattice.shift * np.maximum(alpha - 1, 1.0))
    little = float((2 * np.expm1(found) / steepest).min()) * (1 - 1e-9)
    for pairs in itertools.chain(alone(lattice, end), edges(lattice, end), (x for _, x in plane(lattice, end, cell))):
        if not pairs.are_laws():
            return np.full(alpha.size, math.inf)
        squared = pairs.log_ratio() ** 2
        pairs = pairs.of(np.maximum((pairs.p * squared).sum(axis=0), (pairs.q * squared).sum(axis=0)) > little)
        found = largest(pairs.turned(), alpha, largest(pairs, alpha, found))
    found.setflags(write=False)
    return found


def _some_duels(lattice: LaplaceLattice) -> Pairs:
    """Some leads of two classes without a third: what is beyond the places that are searched has to cost less."""
    leads = lattice.shift + np.unique(np.round(np.linspace(-30, 30, 241) / lattice.g).astype(np.int64))
    zero = np.zeros(leads.size)
    return Pairs(*(_ahead(lattice, at, zero, zero)[:2] for at in (leads, leads - 2 * lattice.shift)))


def _computed(lattice: LaplaceLattice, orders: np.ndarray) -> np.ndarray:
    """The curve where it is computed, infinite elsewhere: float64 (orders,)."""
    curve, least = np.full(orders.size, math.inf), -math.inf
    tilt = 2 * lattice.g * lattice.shift * (orders - 1)
    for most, cell in CELLS.items():
        near = (tilt > least) & (tilt <= most)
        if near.any() and lattice.g * lattice.shift >= _LEAST_TILTED.get(most, 0.0):
            alpha = orders[near]
            found = _log_moment(lattice, tuple(alpha.tolist()), cell)
            curve[near] = found * (1 + MARGIN) / (alpha - 1)
        least = most
    return curve


def _one_move(gamma: float, orders: np.ndarray, noise: Noise) -> np.ndarray:
    """Curve of one vote that moves. Falls with the noise (step 6 of the proof)."""
    alpha, where = np.unique(orders, return_inverse=True)
    curve = np.minimum(rdp_laplace(gamma, alpha, noise=noise), 2 * gamma)
    if gamma <= MOST_SHIFT:
        lattice = reduce(max(gamma, LEAST_SHIFT), noise)
        curve = np.minimum(curve, _computed(lattice, alpha))
        if noise is Noise.CONTINUOUS and lattice.g > FINE / 2 and lattice.shift * FINE < MOST_SHIFT:
            # with a little less noise the lattice has half the spacing, and the curve may be lower
            curve = np.minimum(curve, _computed(LaplaceLattice(FINE / 2, 2 * lattice.shift), alpha))
    return curve[where]


def rdp_argmax_laplace(gamma: float, orders: object, noise: Noise | str, votes_moved: int = 1) -> np.ndarray:
    """Worst-case curve of one winner under Laplace noise, data-independent: float64 (orders,).

    gamma : inverse scale of the noise on one count, in 1 / votes.
    noise : "discrete" or "continuous". Ties of integer noise may be broken by any order of the classes.
    votes_moved : moves of one unit in one query, each from any class to any class.

    Never above the curve of the noisy counts (``curves.laplace.rdp_laplace``), nor above 2 gamma votes. Raises
    NoiseError, OrdersError, UnitError.
    """
    alpha, gamma, noise = check_orders(orders), check_scale(gamma, "gamma"), check_noise(noise)
    k = check_votes_moved(votes_moved)
    if k == 1:
        return _one_move(gamma, alpha, noise)
    moved = along_moves(lambda orders: _one_move(gamma, orders, noise), alpha, k)
    return np.minimum(np.minimum(moved, rdp_laplace(gamma, alpha, k, noise=noise)), 2 * gamma * k)
