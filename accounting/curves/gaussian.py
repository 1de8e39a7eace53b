"""Gaussian noise on votes: Renyi bounds of a histogram and of a number, data-independent and data-dependent.

Source: Papernot et al. 2018 (arXiv 1802.08908), Theorem 6 and Proposition 10 of the final version (Theorem 2, Lemmas 8
and 9 of the first). The discrete Gaussian satisfies the same data-independent curve (Canonne, Kamath, Steinke, arXiv
2004.00010, Theorem 14); only q differs, see ``curves.discrete``.

A *histogram* (GNMax): one moved vote changes two counts by 1, curve alpha / sigma^2. A *scalar* (the check of Confident
and Interactive): one number changes by 1, curve alpha / (2 sigma^2). With k votes moved, sigma is divided by k in both,
but never inside q, the probability that noise overturns the plurality or the less likely side of the check. Theorem 6
bounds D(M(D) || M(D')), with the data at hand in first place, and not the other direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real

import numpy as np

from consilium.accounting import checks
from consilium.accounting.curves.discrete import log_pr_loss_table, log_tail_table
from consilium.accounting.curves.near_zero import LEAST, ROUNDING, log1mexp, log_expm1
from consilium.accounting.errors import ThresholdError, VotesError
from consilium.accounting.units import Noise

_BLOCK = 128
_MOST_DISTINCT = 1 << 16
"""Values of log q that are evaluated, a second's work."""
_SMALLEST = 1e-280
"""Below this a sum of tails is taken in logarithms; above it doubles lose nothing."""


def _effective_sigma(sigma: float, sensitivity_votes: int, scalar: bool) -> float:
    value = checks.check_scale(sigma, "sigma") / checks.check_votes_moved(sensitivity_votes)
    return value * math.sqrt(2) if scalar else value


def rdp_gaussian(sigma: float, orders: object, sensitivity_votes: int = 1, *, scalar: bool = False) -> np.ndarray:
    """Data-independent curve of one Gaussian release: float64 (orders,), alpha k^2 / sigma^2 for a histogram of which k
    = ``sensitivity_votes`` votes move, alpha k^2 / (2 sigma^2) for a scalar, the noisy threshold check.

    sigma : standard deviation of the noise on one count (continuous), or its parameter (discrete).

    Raises NoiseError, OrdersError, UnitError.

    >>> rdp_gaussian(40.0, [2.0, 20.0]).tolist(), rdp_gaussian(150.0, [2.0], scalar=True).tolist()
    ([0.00125, 0.0125], [4.4444444444444447e-05])
    """
    return checks.check_orders(orders) / _effective_sigma(sigma, sensitivity_votes, scalar) ** 2


def ingredients(log_q: np.ndarray, variance: float) -> tuple[np.ndarray, ...]:
    """Per query: largest order at which Theorem 6 holds (0 where nowhere), log(1-q), log A, log B."""
    finite = np.isfinite(log_q)
    lq = np.where(finite, log_q, -1.0)
    mu2 = np.sqrt(variance * -lq)
    usable = finite & (mu2 > 1.0)
    mu2 = np.where(usable, mu2, 2.0)
    mu1 = mu2 + 1.0
    e1, e2 = mu1 / variance, mu2 / variance
    # q small enough that the bound is increasing in q, so that an upper bound on q may stand for q ...
    limit = (mu2 - 1.0) * e2 - mu2 * (np.log1p(1.0 / (mu1 - 1.0)) + np.log1p(1.0 / (mu2 - 1.0)))
    exponent = (lq + e2) * (1.0 - 1.0 / mu2)
    # ... and that A's denominator is positive.
    usable &= (lq <= limit) & (exponent < 0.0)
    lq = np.where(usable, lq, -1.0)
    exponent = np.where(usable, exponent, -1.0)
    log_1mq = log1mexp(lq)
    # A = 1 / (1 - r) with r = (Q - q) / (1 - q), where Q = (q e^e2)^(1 - 1/mu2) is above q: nothing cancels
    log_r = lq + log_expm1(e2 - (lq + e2) / mu2) - log_1mq + ROUNDING / 50 * (1 - lq)
    edge = np.minimum(exponent + ROUNDING / 100 * (e2 - lq), -LEAST)
    log_a = np.where(log_r > -0.7, log_1mq - log1mexp(edge), -log1mexp(np.minimum(log_r, -0.7)))
    log_b = e1 - lq / (mu1 - 1.0)
    return np.where(usable, mu1, 0.0), log_1mq, log_a, log_b


def rdp_data_dependent(
    log_q: object, sigma: float, orders: object, sensitivity_votes: int = 1, *, scalar: bool = False
) -> np.ndarray:
    """Theorem 6 for each query and order, never above the data-independent curve: float64 (queries, orders). Secret.

    log_q : float64 (queries,), log of an upper bound, at the true sigma, on the probability of the unlikely outcome;
        -inf costs nothing.

    Raises AccountingError: NaN or a logarithm above 0; others as ``rdp_gaussian``. Two queries at sigma 40, one
    disputed and one nearly unanimous:

    >>> rdp_data_dependent([-1.7, -10.02], 40.0, [2.0, 20.0]).round(7).tolist()
    [[0.00125, 0.0125], [1.53e-05, 5.32e-05]]
    """
    alpha = checks.check_orders(orders)
    lq = checks.check_log_q(log_q)
    variance = _effective_sigma(sigma, sensitivity_votes, scalar) ** 2
    baseline = alpha / variance
    top, log_1mq, log_a, log_b = (part[:, None] for part in ingredients(lq, variance))
    out = np.where(np.isneginf(lq)[:, None], 0.0, baseline)
    rows, x = np.flatnonzero(top > alpha.min()), alpha - 1.0
    lq, top, log_1mq, log_a, log_b = (part[rows] for part in (lq[:, None], top, log_1mq, log_a, log_b))
    first, second = log_1mq + log_a * x, lq + log_b * x
    # logaddexp written out: NumPy's own is several times slower
    lesser = np.exp(-np.abs(second - first))
    moment = np.maximum(first, second) + np.log1p(lesser)
    # The result may be far smaller than its parts (at sigma 1e12 all of it would be rounding), so what rounding may
    # have taken is added: a bound too large by as much, never one too small.
    share = np.where(second > first, 1.0, lesser)
    moment += ROUNDING / 100 * (share * (second - 2 * lq + 1) + first - 2 * log_1mq)
    bound = np.minimum(np.maximum(moment / x, LEAST), baseline)
    out[rows] = np.where(alpha <= top, bound, baseline)
    return out


def sum_over_queries(curve: Callable[[np.ndarray], np.ndarray], log_q: object, weights: object = None) -> np.ndarray:
    """Sum of ``curve`` float64 (queries, orders), each query times its weight in [0, 1]: float64 (orders,), in memory
    that does not grow with queries; equal log q are evaluated once. Where too many differ, some in a row are charged at
    the largest of them: any upper bound of q gives a bound."""
    lq = checks.check_log_q(log_q)
    distinct, inverse = np.unique(lq, return_inverse=True)
    together = max(1, -(-distinct.size // _MOST_DISTINCT))
    distinct, inverse = np.append(distinct[together - 1 : -1 : together], distinct[-1:]), inverse // together
    paid = np.bincount(inverse, weights=checks.check_weights(weights, lq.shape), minlength=distinct.size)
    blocks = (slice(start, start + _BLOCK) for start in range(0, max(1, distinct.size), _BLOCK))
    return np.add.reduce([paid[part] @ curve(distinct[part]) for part in blocks])


def log_tail_by_gap(sigma: float, max_gap: int, noise: Noise | str) -> np.ndarray:
    """log of the probability that a class D votes behind overtakes (or, on the lattice, ties): float64 (max_gap + 1,).
    continuous: 1/2 erfc(D / (2 sigma)). discrete: the exact table of ``curves.discrete``."""
    noise = checks.check_noise(noise)
    if noise is Noise.DISCRETE:
        return log_pr_loss_table(sigma, max_gap)
    from scipy.special import log_ndtr  # as in `gdp`

    return log_ndtr(-np.arange(checks.check_gap(max_gap) + 1) / (np.sqrt(2) * checks.check_scale(sigma, "sigma")))


def log_q_from_tails(votes: np.ndarray, log_tails: np.ndarray, noise: Noise) -> np.ndarray:
    """log of the union bound over all classes but the plurality: float64 (queries,), from int64 (queries, classes) and
    (largest gap + 1,), by gap. It is at most the largest q that can occur: 1 - 1/m of continuous noise, since by
    symmetry no class is returned more often than the plurality; 1 of discrete, whose ties may favour a rival.
    Theorem 6 does not apply near either."""
    most = float(np.log1p(-1.0 / votes.shape[1])) if noise is Noise.CONTINUOUS else 0.0
    queries = np.arange(len(votes))
    top = np.argmax(votes, axis=1)
    gaps = votes[queries, top][:, None] - votes
    # The plurality must not count as its own rival: send it to an extra entry of probability 0.
    gaps[queries, top] = log_tails.size
    q = np.append(np.exp(log_tails), 0.0)[gaps].sum(axis=1)
    tiny = q < _SMALLEST
    log_q = np.log(np.where(tiny, 1.0, q))
    if tiny.any():
        logs = np.append(log_tails, -np.inf)[gaps[tiny]]
        peak = logs.max(axis=1)
        log_q[tiny] = peak + np.log(np.exp(logs - peak[:, None]).sum(axis=1))
    return np.minimum(log_q, most)


def log_q_gnmax(votes: object, sigma: float, noise: Noise | str) -> np.ndarray:
    """log of an upper bound on Pr[GNMax does not return the plurality], for each query: float64 (queries,), secret.

    q = sum over j other than the top of Pr[noise lifts j to the top's height], at most the largest that can occur.
    Papernot et al. 2018, Proposition 7 (Lemma 3 of the first version); on the lattice with ties as losses. Raises
    VotesError, NoiseError.
    """
    array, noise = checks.check_votes(votes), checks.check_noise(noise)
    tails = log_tail_by_gap(checks.check_scale(sigma, "sigma"), int(array.max(initial=0)), noise)
    return log_q_from_tails(array, tails, noise)


def check_threshold(threshold: object) -> float:
    """A finite number of votes, at least 0, else ThresholdError. Above the number of teachers it answers rarely,
    exactly."""
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not math.isfinite(threshold) or threshold < 0:
        raise ThresholdError(f"threshold must be a finite number of votes, at least 0, got {threshold!r}.")
    return float(threshold)


def public_offsets(probabilities: object, teachers: int) -> np.ndarray:
    """M p_j of the Interactive aggregator, rounded half up to whole votes: int64 (queries, classes), from the student's
    public class probabilities float64 (queries, classes). The public number is rounded before any vote is
    subtracted: rounding the difference can turn one moved vote into a change of 2, when float spacing changes
    between the two."""
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or not np.all((p >= 0) & (p <= 1)):
        raise ThresholdError("student probabilities must be a (queries, classes) matrix within [0, 1]. Normalise them.")
    return np.floor(teachers * p + 0.5).astype(np.int64)


def log_pr_answered(
    top_votes: object, threshold: float, sigma1: float, noise: Noise | str
) -> tuple[np.ndarray, np.ndarray]:
    """log Pr[top + noise >= threshold] and log of its complement: two float64 (queries,), secret. Both are computed on
    their own, so that neither loses digits when the other is near 1.

    top_votes : int64 (queries,), largest count of each query (or max_j(n_j - M p_j), which may be negative).
    threshold : votes; for discrete noise a fraction is rounded up, which changes no outcome.

    Raises ThresholdError, NoiseError, VotesError.
    """
    limit, sigma1, noise = check_threshold(threshold), checks.check_scale(sigma1, "sigma1"), checks.check_noise(noise)
    top = np.atleast_1d(np.asarray(top_votes))
    if top.ndim != 1 or (top.size and not np.issubdtype(top.dtype, np.signedinteger)):
        raise VotesError(f"top votes must be a vector of signed integers, got {top.dtype} in {top.ndim} dimension(s).")
    if noise is Noise.CONTINUOUS:
        from scipy.special import log_ndtr  # as in `gdp`

        z = (top - limit) / sigma1
        return log_ndtr(z), log_ndtr(-z)
    need = math.ceil(limit) - top.astype(np.int64)
    reach = int(np.abs(need).max(initial=0)) + 1
    tails = log_tail_table(sigma1, reach)
    # Pr[Z >= t] for t <= 0 is 1 - Pr[Z >= 1 - t], by symmetry.
    with np.errstate(divide="ignore"):  # of the side that is not taken, under little noise
        upper = np.where(need > 0, tails[np.abs(need)], np.log1p(-np.exp(tails[np.abs(1 - need)])))
        lower = np.where(need > 0, np.log1p(-np.exp(tails[np.abs(need)])), tails[np.abs(1 - need)])
    return upper, lower
