"""What one released winner costs in the worst case over all votes, any number of classes: Renyi curves.

The histogram from which it is drawn costs alpha / sigma^2; the winner alone about .64 of that for much noise and low
orders, all of it for little noise or high orders. Statement and proof: docs/accounting.md, "The worst case of what
leaves". It holds towards whoever sees winners only. Every step is rounded up.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from consilium.accounting.checks import check_count, check_orders, check_scale, check_votes_moved
from consilium.accounting.curves.gnmax import check_noise
from consilium.accounting.errors import UnitError
from consilium.accounting.units import Noise
from consilium.accounting.worst.channel import (
    Reach,
    check_line,
    check_tail,
    duel_line,
    duel_tail,
    planes,
    third_tail,
)
from consilium.accounting.worst.lattice import reduce
from consilium.accounting.worst.moments import largest, with_rare

FINE = 36.0
"""Parameter of the lattice of two counts: a plane of half a million places, and .2 % more than with no spacing."""
MOST_TILT = 6.0
"""Largest (alpha - 1) h that is computed. A conversion has its optimum below 6 for any delta above 1e-9."""
LEAST_SHIFT, MOST_SHIFT = 1e-5, 4.0
"""h = votes / sigma outside this range is charged as the histogram: below it rounding would show, above it little is
gained."""
MARGIN = 1e-6
"""Relative, upward. Sums of 2,000 positive terms are wrong by 2e-13 at most, log ratios by twice that, and they are as
small as h: 8e-8 of a moment at the least h."""


def rare_enough(shift: float) -> float:
    """Noise parameters beyond which outcomes are rarer than a ten millionth of the least moment, which is about h^2."""
    return float(-ndtri(1e-7 * min(shift, 1.0) ** 2))


@lru_cache(maxsize=256)
def _one_move(sigma: float, orders: tuple[float, ...], noise: Noise, together: int) -> np.ndarray:
    """Curve of one move of ``together`` votes; ``orders`` are increasing."""
    alpha = np.array(orders)
    h = together / sigma
    curve = alpha * h**2
    near = alpha[(alpha - 1) * h <= MOST_TILT]
    if near.size == 0 or not LEAST_SHIFT <= h <= MOST_SHIFT or (noise is Noise.DISCRETE and sigma < 0.5):
        return curve
    lattice = reduce(sigma, noise, together, FINE)
    # the mixture has taken a little of the noise, so the shift weighs a little more
    step = lattice.shift / lattice.scale
    reach = Reach(rare_enough(h), float(near[-1] - 1) * step)
    whole, half = near * (near - 1) * step**2, near * (near - 1) * step**2 / 2
    rare = check_tail(lattice, reach)
    check = np.maximum(largest(check_line(lattice, reach), near), with_rare(0.0, rare, half, near))
    rare_duel = duel_tail(lattice, reach)
    duel = np.maximum(largest(duel_line(lattice, reach), near), with_rare(0.0, rare_duel, whole, near))
    log_moment = np.maximum(
        with_rare(check, rare, whole, near), with_rare(duel, third_tail(lattice, reach), whole, near)
    )
    for plane in planes(lattice, reach):
        log_moment = np.maximum(log_moment, largest(plane, near))
    log_moment += 2 * lattice.slack * (2 * near - 1)
    curve[: near.size] = np.minimum(curve[: near.size], log_moment * (1 + MARGIN) / (near - 1))
    curve.setflags(write=False)
    return curve


def _curve(sigma: float, orders: np.ndarray, noise: Noise, together: int) -> np.ndarray:
    distinct, where = np.unique(orders, return_inverse=True)
    return _one_move(sigma, tuple(distinct.tolist()), noise, together)[where]


def rdp_argmax(
    sigma: float, orders: object, noise: Noise | str, votes_moved: int = 1, *, together: int = 1
) -> np.ndarray:
    """Worst-case curve of one released winner, data-independent: float64 (orders,).

    Parameters
    ----------
    sigma : standard deviation of the Gaussian noise on one count, in votes (discrete: its parameter).
    orders : float64 (orders,), each above 1.
    noise : "discrete" or "continuous". Required. Ties of integer noise may be broken by any order of the classes.
    votes_moved : moves of one unit in one query, each from any class to any class.
    together : identical ballots that each move carries from one class to one class (the weight of a vote).

    k moves are k neighbours in a row: D_alpha <= k alpha sum_{i < k} D^1_(k alpha - i) / (k alpha - i), by the weak
    triangle inequality (Mironov, arXiv 1702.07476, Proposition 11), at the exponents at which it is exact for the
    histogram's curve. So k moves of the same noise cost k^2 times as much, here as there.

    Raises
    ------
    NoiseError, OrdersError, UnitError.

    >>> (rdp_argmax(40.0, [2.0, 10.0], "discrete") * 40**2 / np.array([2.0, 10.0])).round(3).tolist()
    [0.64, 0.641]
    """
    alpha, sigma, noise = check_orders(orders), check_scale(sigma, "sigma"), check_noise(noise)
    k = check_votes_moved(votes_moved)
    weight = check_count(together, "together (identical ballots of one move)", 1, UnitError)
    if k == 1:
        return _curve(sigma, alpha, noise, weight)
    least, most = k * alpha - (k - 1), k * alpha
    curve = _curve(sigma, np.concatenate((least, most)), noise, weight)
    at_least, at_most = (least - 1) * curve[: alpha.size], (most - 1) * curve[alpha.size :]
    total = np.zeros_like(alpha)
    for i in range(k):
        # (order - 1) D is convex in the order: between the two that are computed a chord is above it
        order = most - i
        total += ((i * at_least + (k - 1 - i) * at_most) / (k - 1)) / ((order - 1) * order)
    return np.minimum(most * total, alpha * (k * weight / sigma) ** 2)
