"""Exact Renyi cost of the threshold check at the votes at hand: one bit, both directions. Secret.

k moved votes change the number by at most k, so the two laws are those of the number and of another within k. D_alpha
of two Bernoulli laws is quasi-convex in either probability and 0 where they agree: the worst number is k above or k
below, and the larger of the two is charged, in both directions.
"""

from __future__ import annotations

import numpy as np

from consilium.accounting.checks import check_noise, check_orders, check_scale, check_votes_moved, check_weights
from consilium.accounting.curves.gaussian import log_pr_answered, rdp_gaussian
from consilium.accounting.curves.near_zero import LEAST
from consilium.accounting.outcome import divergence
from consilium.accounting.units import Noise


def _moments(
    numbers: np.ndarray, threshold: float, sigma: float, noise: Noise, orders: np.ndarray, most: int
) -> np.ndarray:
    cap = (orders - 1) * rdp_gaussian(sigma, orders, most, scalar=True)
    best = np.full((numbers.size, orders.size), LEAST)
    law = np.stack(log_pr_answered(numbers, threshold, sigma, noise), axis=1)
    for step in (-most, most):
        moved = np.stack(log_pr_answered(numbers + step, threshold, sigma, noise), axis=1)
        # Two logarithms near 0 are equal to many digits: close() takes that outcome's change from the other's.
        change = divergence.outward(law, divergence.close(law, moved - law))
        for power in (1 - orders, orders):
            np.maximum(best, divergence.moments(law, change, power), out=best)
    return np.minimum(best, cap)


def per_query(
    numbers: object, threshold: float, sigma: float, noise: Noise | str, orders: object, *, votes_moved: int = 1
) -> np.ndarray:
    """Cost of the check of each query and order: float64 (queries, orders). Secret.

    numbers : int64 (queries,), what is compared: the top count, or max_j(n_j - M p_j).
    threshold, sigma, noise : as in ``curves.gaussian.log_pr_answered``, and errors. votes_moved : that one unit moves.
    """
    scale, noise, alpha = check_scale(sigma, "sigma"), check_noise(noise), check_orders(orders)
    distinct, which = np.unique(np.asarray(numbers), return_inverse=True)
    most = check_votes_moved(votes_moved)
    return _moments(distinct, threshold, scale, noise, alpha, most)[which.ravel()] / (alpha - 1)


def sum_rdp(
    numbers: object,
    threshold: float,
    sigma: float,
    noise: Noise | str,
    orders: object,
    weights: object = None,
    *,
    votes_moved: int = 1,
) -> np.ndarray:
    """Sum over queries of ``per_query``, each times its weight in [0, 1]: float64 (orders,). Secret."""
    alpha = check_orders(orders)
    array = np.atleast_1d(np.asarray(numbers))
    w = check_weights(weights, array.shape)
    distinct, which = np.unique(array, return_inverse=True)
    weight = np.bincount(which.ravel(), weights=w, minlength=distinct.size)
    return weight @ per_query(distinct, threshold, sigma, noise, alpha, votes_moved=votes_moved)
