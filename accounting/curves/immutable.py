"""The immutable noisy argmax of the near-zero-cost paper: what it claims, and what is true.

The mechanism adds a constant c to the largest count and then noise, and returns the largest. Its paper charges it as if
the noise alone protected the votes: (2 gamma, 0)-DP per query, moments 2 gamma^2 l (l + 1), near 0 for small gamma.

That proof needs counts that change by 1 between neighbours. The counts after adding c do not: (126 + c, 125) and
(125, 126 + c) are neighbours, and return different classes unless noise bridges a gap of c + 1. So the true epsilon is
about (c + 1) gamma for Laplace noise, and grows without bound in c.

True part: where the gap exceeds 2, no neighbour changes the answer. But whether it does is itself private;
the stable release tests it privately and is the sound form of the idea.

Stable release: propose-test-release of the exact plurality
-----------------------------------------------------------
The distance dist = max(0, ceil(gap / 2) - 1) counts how many votes can move before a neighbour could have another
plurality: one moved vote changes the gap by at most 2, so dist has sensitivity 1, and dist >= 1 means that every
neighbour has the same plurality. Thakurta, Smith 2013; Bassily, Thakkar, Thakurta 2018 (arXiv 1803.05101).

The release is: noisy dist >= threshold, and if so the plurality itself. Where dist >= 1 the second part is the same for
all neighbours and the cost is that of one noisy number. Where dist = 0 it may differ, and the only protection is that
the test fails: the probability that it passes is paid in delta, for every query that is asked. When k votes move, dist
changes by k, and up to dist = k - 1 a neighbour may differ.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from consilium.accounting.checks import blocks, check_count, check_noise, check_scale, check_votes_moved
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, EpsilonBound, Method, rdp_to_epsilon
from consilium.accounting.curves.discrete import log_tail_table
from consilium.accounting.curves.gaussian import rdp_gaussian
from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.units import Noise


def claimed_epsilon(
    queries: int, gamma: float, delta: float, orders: object = DEFAULT_ORDERS, method: Method = "classic"
) -> EpsilonBound:
    """The epsilon that the near-zero-cost paper states (Theorem 4, moments 2 gamma^2 l (l+1)). NOT a guarantee.

    >>> round(claimed_epsilon(9000, 1e-10, 1e-5).epsilon, 4)
    0.0231
    """
    each = rdp_laplace(gamma, orders, noise=Noise.CONTINUOUS, baseline="paper")
    return rdp_to_epsilon(check_count(queries, "queries") * each, orders, delta, method)


def claimed_epsilon_gaussian(
    queries: int, sigma: float, delta: float, orders: object = DEFAULT_ORDERS, method: Method = "classic"
) -> EpsilonBound:
    """What the same paper states for Gaussian noise, by the curve alpha / sigma^2 of the noise alone. NOT a guarantee.

    >>> round(claimed_epsilon_gaussian(9000, 1e5, 1e-5).epsilon, 4)
    0.0235
    """
    each = rdp_gaussian(sigma, orders)
    return rdp_to_epsilon(check_count(queries, "queries") * each, orders, delta, method)


def distance_to_instability(votes: object, teachers: int | None = None) -> np.ndarray:
    """Votes that can move without a neighbour having another plurality: int64 (queries,), secret.

    >>> distance_to_instability(np.array([[126, 125, 0], [127, 124, 0], [250, 1, 0]])).tolist()
    [0, 1, 124]
    """
    array = np.asarray(votes)
    out = np.zeros(array.shape[0] if array.ndim else 0, dtype=np.int64)
    for part, block in blocks(array, teachers):
        best = np.partition(block, -2, axis=1)[:, -2:]
        gap = best[:, 1] - best[:, 0]
        out[part] = np.maximum(0, (gap + 1) // 2 - 1)
    return out


def log_pr_pass(distance: np.ndarray, threshold: float, sigma: float, noise: Noise | str) -> np.ndarray:
    """log Pr[distance + noise >= threshold]: float64, shape of ``distance``."""
    d = np.asarray(distance, dtype=np.int64)
    if check_noise(noise) is Noise.CONTINUOUS:
        return log_ndtr((d - threshold) / check_scale(sigma, "sigma"))
    need = math.ceil(threshold) - d
    tails = log_tail_table(sigma, int(np.abs(need).max(initial=0)) + 1)
    return np.where(need > 0, tails[np.abs(need)], np.log1p(-np.exp(tails[np.abs(1 - need)])))


def ptr_failure(queries: int, threshold: float, sigma: float, noise: Noise | str, sensitivity_votes: int = 1) -> float:
    """Probability, over all queries, that an unstable plurality is released; it is added to delta.

    queries x Pr[(k - 1) + noise >= threshold].

    >>> round(ptr_failure(640, 84.81833422528733, 15.0, "continuous") / 1e-5, 6)
    0.5
    """
    k = check_votes_moved(sensitivity_votes)
    return check_count(queries, "queries") * float(np.exp(log_pr_pass(np.array([k - 1]), threshold, sigma, noise))[0])
