"""The immutable noisy argmax of the near-zero-cost paper: what it claims, and what is true.

The mechanism adds a constant c to the largest count and then noise, and returns the largest. Its paper charges it as if
the noise alone protected the votes: (2 gamma, 0)-DP per query, moments 2 gamma^2 l (l + 1), near 0 for small gamma.

That proof needs counts that change by 1 between neighbours. The counts after adding c do not: (126, 125) becomes
(126 + c, 125) and its neighbour (125, 126) becomes (125, 126 + c). The first returns class 0, the second class 1,
except with the probability that noise bridges a gap of c + 1. The true epsilon is at least log of that ratio, about (c
+ 1) gamma for Laplace noise: it grows without bound in c, and a small gamma with c much above 1/gamma, as recommended,
is the noiseless plurality. There is no finite worst-case guarantee that does not grow with c.

Its constants "for a failure probability at most tau" (section 4.2) are here under names of their own. They bound how
often one of L noises is as large as c. No epsilon follows, and even the label turns more often than that.

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
from scipy.special import log_ndtr, ndtri

from consilium.accounting.checks import blocks, check_count, check_delta, check_noise, check_scale, check_votes_moved
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, EpsilonBound, Method, rdp_to_epsilon
from consilium.accounting.curves.discrete import log_pr_loss_laplace, log_tail_table
from consilium.accounting.curves.gaussian import rdp_gaussian
from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.errors import NoiseError
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


def constant_for_laplace(classes: int, gamma: float, tau: float) -> float:
    """c = ln(L / tau) / gamma, the near-zero-cost paper's constant for Laplace noise (section 4.2 and Lemma 1).

    What it bounds: Pr[one of the L noises is at least c in size] <= L e^(-gamma c) = tau, by a union bound. What it
    does not bound: the label. Two noises that are each just below c can bridge a gap of 2 c, so from a tie before c was
    added the label turns with probability up to (L - 1) (2 + ln(L / tau)) / (4 L) times tau: 3.4 times for ten classes
    and tau 1e-5. And no epsilon follows, at no c: a larger one makes the label more certain on both sides of a tie, so
    ``actual_epsilon`` grows with it.

    Parameters
    ----------
    classes : L. gamma : inverse scale of the noise. tau : in (0, 1).

    >>> round(constant_for_laplace(10, 0.05, 1e-5), 2)
    276.31
    >>> round(actual_epsilon(277, 0.05, "laplace", "continuous"), 2)
    12.52
    """
    check_scale(gamma, "gamma")
    return math.log(check_count(classes, "classes", 2) / check_delta(tau)) / gamma


def constant_for_gaussian(classes: int, sigma: float, tau: float) -> float:
    """c = sqrt(2 sigma^2 ln(2 L / tau)), the same for Gaussian noise.

    What it bounds: Pr[one of the L noises is at least c in size] <= 2 L e^(-c^2 / (2 sigma^2)) = tau. What it does not:
    the difference of two noises has standard deviation sigma sqrt 2, so from a tie the label turns with probability up
    to (L - 1) / 2 erfc(c / (2 sigma)), near the root of tau: 6.3e-4 for ten classes and tau 1e-5. No epsilon follows.

    >>> round(constant_for_gaussian(10, 40.0, 1e-5), 2)
    215.47
    >>> round(9 * math.exp(log_pr_flip(215, 40.0, "gaussian", "continuous")), 5)
    0.0006
    """
    check_scale(sigma, "sigma")
    return sigma * math.sqrt(2 * math.log(2 * check_count(classes, "classes", 2) / check_delta(tau)))


def log_pr_flip(constant: int, scale: float, mechanism: str, noise: Noise | str) -> float:
    """log Pr[noise bridges the gap c + 1 between the two counts of the counterexample], ties included.

    scale : gamma (inverse scale) for "laplace", sigma for "gaussian".
    """
    gap = float(check_count(constant, "constant") + 1)
    lattice = check_noise(noise) is Noise.DISCRETE
    check_scale(scale, "scale")
    if mechanism == "laplace":
        x = scale * gap
        return float(log_pr_loss_laplace(scale, np.array(gap))) if lattice else math.log((2 + x) / 4) - x
    if mechanism == "gaussian":
        # On the lattice an erfc-shaped upper bound, by the midpoint rule: more flips, so a smaller true epsilon.
        lead = (gap - 0.5 if lattice else gap) / (math.sqrt(2) * scale)
        return float(log_ndtr(-lead)) + (math.log1p(3 * math.exp(-((math.pi * scale) ** 2))) if lattice else 0.0)
    raise NoiseError(f"mechanism must be 'laplace' or 'gaussian', got {mechanism!r}.")


def actual_epsilon(constant: int, scale: float, mechanism: str, noise: Noise | str, delta: float = 0.0) -> float:
    """Lower bound on the true epsilon of ONE query, from the votes (126, 125) against (125, 126).

    Any epsilon below it is violated by the event "class 0 is returned": Pr under D is 1 - t, under D' at most t, so
    epsilon >= log((1 - t - delta) / t). More queries and classes only make it worse.

    Parameters
    ----------
    constant : c, added to the top count. scale : gamma or sigma, see ``log_pr_flip``. delta : at this delta (0 for
        pure).

    >>> [round(actual_epsilon(c, 0.05, "laplace", "continuous"), 2) for c in (0, 100, 1000, 10000)]
    [0.05, 4.47, 47.48, 495.22]
    """
    if delta:
        check_delta(delta)
    log_t = log_pr_flip(constant, scale, mechanism, noise)
    t = math.exp(log_t)
    if 1 - t - delta <= 0:
        return 0.0
    return max(0.0, float(np.log1p(-(t + delta))) - log_t)


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
