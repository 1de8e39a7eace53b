"""What one threshold check costs in the worst case over all votes and thresholds: a pair of Bernoulli distributions.

The noisy number costs alpha k^2 / (2 sigma^2); the bit alone about .64 of that for much noise and low orders.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from consilium.accounting.checks import check_orders, check_scale, check_votes_moved
from consilium.accounting.curves.gnmax import check_noise
from consilium.accounting.units import Noise
from consilium.accounting.worst.argmax import LEAST_SHIFT, MARGIN, MOST_SHIFT, rare_enough
from consilium.accounting.worst.channel import Reach, check_line, check_tail
from consilium.accounting.worst.lattice import reduce
from consilium.accounting.worst.moments import largest, with_rare

FINE_LINE = 2000.0
"""Parameter of the lattice of one count: a line is so much shorter than a plane that nothing visible is lost."""
MOST_LINE_TILT = 9.0


@lru_cache(maxsize=256)
def _bit(sigma: float, orders: tuple[float, ...], noise: Noise, votes: int) -> np.ndarray:
    alpha = np.array(orders)
    h = votes / sigma
    curve = alpha * h**2 / 2
    near = alpha[(alpha - 1) * h <= MOST_LINE_TILT]
    if near.size == 0 or not LEAST_SHIFT <= h <= MOST_SHIFT or (noise is Noise.DISCRETE and sigma < 0.5):
        return curve
    lattice = reduce(sigma, noise, votes, FINE_LINE)
    step = lattice.shift / lattice.scale
    reach = Reach(rare_enough(h), float(near[-1] - 1) * step)
    half = near * (near - 1) * step**2 / 2
    log_moment = np.maximum(
        largest(check_line(lattice, reach), near), with_rare(0.0, check_tail(lattice, reach), half, near)
    )
    log_moment += lattice.slack * (2 * near - 1)
    curve[: near.size] = np.minimum(curve[: near.size], log_moment * (1 + MARGIN) / (near - 1))
    return curve


def rdp_check(sigma: float, orders: object, noise: Noise | str, votes_moved: int = 1) -> np.ndarray:
    """Worst-case curve of one released bit "is the noisy number at least the threshold": float64 (orders,).

    Parameters
    ----------
    sigma : noise on the number that is compared, in votes. noise : "discrete" or "continuous". Required.
    orders : float64 (orders,), each above 1.
    votes_moved : by how much the number moves at most: moves of one unit, times the ballots that each carries.

    A number that moves by less is covered: the curve is that of the largest move, and the supremum rises with it.

    Raises
    ------
    NoiseError, OrdersError, UnitError.

    >>> (rdp_check(150.0, [2.0, 10.0], "discrete") * 2 * 150**2 / np.array([2.0, 10.0])).round(4).tolist()
    [0.6366, 0.6367]
    """
    alpha, sigma, noise = check_orders(orders), check_scale(sigma, "sigma"), check_noise(noise)
    distinct, where = np.unique(alpha, return_inverse=True)
    return _bit(sigma, tuple(distinct.tolist()), noise, check_votes_moved(votes_moved))[where]
