"""Releasing the exact plurality when it is stable: propose-test-release and the sparse-vector form.

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
from scipy.special import log_ndtr, ndtri

from consilium.accounting.checks import (
    blocks,
    check_count,
    check_delta,
    check_noise,
    check_orders,
    check_scale,
    check_votes_moved,
)
from consilium.accounting.curves.discrete import log_tail_table
from consilium.accounting.curves.near_zero import rdp_randomised_response
from consilium.accounting.errors import DeltaError
from consilium.accounting.units import Noise


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


def ptr_threshold(queries: int, sigma: float, failure: float, noise: Noise | str, sensitivity_votes: int = 1) -> float:
    """Least threshold (votes) at which ``queries`` tests fail with probability at most ``failure``.

    Raises
    ------
    DeltaError : failure outside (0, 1).

    >>> round(ptr_threshold(640, 15.0, 5e-6, "continuous"), 4), ptr_threshold(640, 15.0, 5e-6, "discrete")
    (84.8183, 86.0)
    """
    k, n = check_votes_moved(sensitivity_votes), check_count(queries, "queries", 1)
    each = check_delta(failure, "failure") / n
    threshold = float(k - 1 - check_scale(sigma, "sigma") * ndtri(each))
    if check_noise(noise) is Noise.DISCRETE:
        threshold = float(math.ceil(threshold))
        while ptr_failure(n, threshold, sigma, noise, k) > failure:
            threshold += 1.0
    return threshold


def svt_scale(unstable_cap: int, epsilon: float, delta: float) -> float:
    """Noise lambda of Bassily, Thakkar, Thakurta 2018, Algorithm 1: sqrt(32 T log(2/delta)) / epsilon.

    >>> round(svt_scale(20, 1.0, 1e-5), 4)
    88.3849
    """
    cap = check_count(unstable_cap, "unstable_cap", 1)
    return math.sqrt(32 * cap * math.log(2 / check_delta(delta))) / check_scale(epsilon, "epsilon")


def svt_threshold(scale: float, queries: int, delta: float) -> float:
    """Their threshold on dist: 2 lambda log(2 m / delta).

    >>> round(svt_threshold(svt_scale(20, 1.0, 1e-5), 640, 1e-5), 2)
    3299.86
    """
    n = check_count(queries, "queries", 1)
    return 2 * check_scale(scale, "scale") * math.log(2 * n / check_delta(delta))


def rdp_sparse_vector(scale: float, unstable_cap: int, orders: object, sensitivity_votes: int = 1) -> np.ndarray:
    """Curve of the tests alone, until ``unstable_cap`` of them have failed: float64 (orders,).

    AboveThreshold with Lap(scale) on the threshold and Lap(2 scale) on each distance is (2 k / scale, 0)-DP until its
    first rare answer (Dwork, Roth 2014, Theorem 3.23), here a failed test; it restarts at most ``unstable_cap`` times.
    A pure epsilon-DP step costs at most what randomised response at epsilon costs, at every order.

    >>> rdp_sparse_vector(88.3849, 20, [2.0]).round(6).tolist()
    [0.010239]
    """
    alpha = check_orders(orders)
    pure = 2 * check_votes_moved(sensitivity_votes) / check_scale(scale, "scale")
    return check_count(unstable_cap, "unstable_cap", 1) * rdp_randomised_response(pure, alpha)


def svt_failure(queries: int, threshold: float, scale: float, noise: Noise | str, sensitivity_votes: int = 1) -> float:
    """Probability, over all queries, that an unstable plurality is released; it is added to delta.

    queries x Pr[(k - 1) + Lap(2 scale) - Lap(scale) >= threshold]. Continuous noise in closed form: the difference of
    Laplace variables of scales a = 2 s and b = s exceeds t > 0 with probability (a^2 e^(-t/a) - b^2 e^(-t/b)) /
    (2 (a^2 - b^2)). Integer noise by summing over the noise of the threshold, plus all that the sum leaves out.

    Raises
    ------
    DeltaError : the threshold is so low that unstable queries would pass as a matter of course.
    """
    k, n, s = check_votes_moved(sensitivity_votes), check_count(queries, "queries"), check_scale(scale, "scale")
    t = threshold - (k - 1)
    if not t > 0:
        raise DeltaError(f"threshold {threshold:g} does not exceed {k - 1}, so unstable queries pass. Raise it.")
    if check_noise(noise) is Noise.CONTINUOUS:
        return n * (4 * math.exp(-t / (2 * s)) - math.exp(-t / s)) / 6
    reach = math.ceil(t + 60 * s)
    b = np.arange(-reach, reach + 1, dtype=np.float64)
    p_b = np.tanh(1 / (2 * s)) * np.exp(-np.abs(b) / s)
    need = math.ceil(t) + b
    far = np.exp(-np.maximum(need, 1 - need) / (2 * s)) / (1 + math.exp(-1 / (2 * s)))
    left_out = 2 * math.exp(-(reach + 1) / s)
    return n * (float(p_b @ np.where(need > 0, far, 1 - far)) + left_out)
