"""Renyi bounds of Gaussian releases, data-independent and data-dependent.

Source: Papernot et al. 2018 (arXiv 1802.08908), Theorem 6 and Proposition 10 of the final version (Theorem 2, Lemmas 8
and 9 of the first). The discrete Gaussian satisfies the same data-independent curve (Canonne, Kamath, Steinke,
arXiv 2004.00010, Theorem 14); only q differs, see ``accounting.curves.discrete``.

Two kinds of release share the formulas. A *histogram* (GNMax): one moved vote changes two counts by 1, squared L2
sensitivity 2, curve alpha / sigma^2. A *scalar* (threshold check): one number changes by 1, curve alpha / (2 sigma^2),
which is the histogram curve at sigma sqrt(2). With k votes moved, sigma is divided by k in both, but never inside q.

Theorem 6 bounds D(M(D) || M(D')), with the data at hand in first place. It says nothing about the other direction.
"""

from __future__ import annotations

import math

import numpy as np

from consilium.accounting.checks import check_log_q, check_orders, check_scale, check_votes_moved
from consilium.accounting.curves.near_zero import LEAST, ROUNDING, log1mexp, log_expm1
from consilium.accounting.errors import AccountingError

_BLOCK = 128


def _effective_sigma(sigma: float, sensitivity_votes: int, scalar: bool) -> float:
    value = check_scale(sigma, "sigma") / check_votes_moved(sensitivity_votes)
    return value * math.sqrt(2) if scalar else value


def rdp_gaussian(sigma: float, orders: object, sensitivity_votes: int = 1, *, scalar: bool = False) -> np.ndarray:
    """Data-independent curve of one Gaussian release: float64 (orders,).

    alpha k^2 / sigma^2 for a histogram of which k votes move, alpha k^2 / (2 sigma^2) for a scalar.

    Parameters
    ----------
    sigma : standard deviation of the noise on one count (continuous), or its parameter (discrete).
    orders : float64 (orders,), each above 1.
    sensitivity_votes : k, the votes that one unit of privacy moves.
    scalar : True for the noisy threshold check.

    Raises
    ------
    NoiseError, OrdersError, UnitError.

    >>> rdp_gaussian(40.0, [2.0, 20.0]).tolist(), rdp_gaussian(150.0, [2.0], scalar=True).tolist()
    ([0.00125, 0.0125], [4.4444444444444447e-05])
    """
    return check_orders(orders) / _effective_sigma(sigma, sensitivity_votes, scalar) ** 2


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


def _rounding(
    log_q: np.ndarray, log_1mq: np.ndarray, first: np.ndarray, second: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Most by which log(e^first + e^second) can have come out too small; ``share`` is at least the second's part.

    The result may be far smaller than its parts (at sigma 1e12 all of it would be rounding), so what rounding may have
    taken is added: a bound too large by as much, never one too small.
    """
    most = second - (2 * log_q - 1)
    most *= share
    most += first
    most -= 2 * log_1mq
    most *= ROUNDING / 100
    return most


def _theorem6(
    log_q: np.ndarray, top: np.ndarray, parts: tuple[np.ndarray, ...], alpha: np.ndarray, baseline: np.ndarray
) -> np.ndarray:
    """min(Theorem 6, baseline) as (queries, orders); ``top`` is the largest valid order of each query."""
    log_1mq, log_a, log_b = parts
    x = alpha - 1.0
    first = log_1mq[:, None] + log_a[:, None] * x
    second = log_q[:, None] + log_b[:, None] * x
    gap = second - first
    above = gap > 0
    # logaddexp written out: NumPy's own is several times slower, and this form vectorises.
    np.abs(gap, out=gap)
    np.negative(gap, out=gap)
    np.exp(gap, out=gap)
    rounding = _rounding(log_q[:, None], log_1mq[:, None], first, second, np.maximum(gap, above))
    np.maximum(first, second, out=first)
    np.log1p(gap, out=gap)
    first += gap
    first += rounding
    first /= x
    np.maximum(first, LEAST, out=first)
    np.minimum(first, baseline, out=first)
    # top descends within a block of sorted queries, so most columns are valid for every row.
    if top[-1] < alpha[-1]:
        np.copyto(first, np.broadcast_to(baseline, first.shape), where=alpha > top[:, None])
    return first


def theorem6_at(log_q: np.ndarray, parts: tuple[np.ndarray, ...], alpha: np.ndarray, variance: float) -> np.ndarray:
    """The same bound pair by pair: log_q, ``parts`` from ``ingredients`` and alpha have one shape; alpha is not
    checked.

    variance : (sigma / k)^2 for a histogram, twice that for a scalar.
    """
    top, log_1mq, log_a, log_b = parts
    x = alpha - 1.0
    first = log_1mq + log_a * x
    second = log_q + log_b * x
    shared = np.exp(-np.abs(second - first))
    value = np.maximum(first, second) + np.log1p(shared)
    value += _rounding(log_q, log_1mq, first, second, np.where(second > first, 1.0, shared))
    baseline = alpha / variance
    return np.where(alpha <= top, np.minimum(np.maximum(value / x, LEAST), baseline), baseline)


def rdp_data_dependent(
    log_q: object, sigma: float, orders: object, sensitivity_votes: int = 1, *, scalar: bool = False
) -> np.ndarray:
    """Theorem 6 for each query and order, never above the data-independent curve: float64 (queries, orders).

    ``log_q`` is computed at the true sigma; ``sigma`` is divided by k here. The result is secret.

    Parameters
    ----------
    log_q : float64 (queries,), log of an upper bound on the probability of the unlikely outcome; -inf costs nothing.
    sigma, orders, sensitivity_votes, scalar : as in ``rdp_gaussian``.

    Raises
    ------
    AccountingError : NaN or a logarithm above 0. NoiseError, OrdersError, UnitError as in ``rdp_gaussian``.

    Two queries at sigma 40, one disputed and one nearly unanimous:

    >>> rdp_data_dependent([-1.7, -10.02], 40.0, [2.0, 20.0]).round(7).tolist()
    [[0.00125, 0.0125], [1.53e-05, 5.32e-05]]
    """
    alpha = check_orders(orders)
    lq = check_log_q(log_q)
    variance = _effective_sigma(sigma, sensitivity_votes, scalar) ** 2
    baseline = alpha / variance
    mu1, *parts = ingredients(lq, variance)
    out = np.empty((lq.size, alpha.size))
    out[:] = baseline
    out[np.isneginf(lq)] = 0.0
    rank = np.argsort(alpha, kind="stable")
    rows = np.argsort(-mu1, kind="stable")[: int(np.count_nonzero(mu1 > alpha[rank[0]]))]
    for start in range(0, rows.size, _BLOCK):
        block = rows[start : start + _BLOCK]
        columns = rank[: int(np.searchsorted(alpha[rank], mu1[block[0]], side="right"))]
        values = tuple(part[block] for part in parts)
        out[np.ix_(block, columns)] = _theorem6(lq[block], mu1[block], values, alpha[columns], baseline[columns])
    return out


def sum_rdp_data_dependent(
    log_q: object,
    sigma: float,
    orders: object,
    sensitivity_votes: int = 1,
    *,
    scalar: bool = False,
    weights: object = None,
) -> np.ndarray:
    """Sum over queries of ``rdp_data_dependent``: float64 (orders,), in memory that does not grow with queries.

    Queries with the same log q are evaluated once. ``weights`` (queries,), each in [0, 1], multiply queries: the
    realised answered mask, or the probability of being answered when an expectation is wanted.

    >>> sum_rdp_data_dependent([-1.7, -10.02], 40.0, [2.0, 20.0]).round(7).tolist()
    [0.0012653, 0.0125532]
    """
    alpha = check_orders(orders)
    lq = check_log_q(log_q)
    variance = _effective_sigma(sigma, sensitivity_votes, scalar) ** 2
    w = np.ones(lq.size) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != lq.shape or np.any(np.isnan(w)) or np.any((w < 0) | (w > 1)):
        raise AccountingError(f"weights must lie in [0, 1] and have shape {lq.shape}. Pass a mask or probabilities.")
    keep = np.isfinite(lq) & (w > 0)
    lq, inverse = np.unique(lq[keep], return_inverse=True)
    w = np.bincount(inverse, weights=w[keep], minlength=lq.size)
    rank = np.argsort(alpha, kind="stable")
    ordered = alpha[rank]
    baseline = ordered / variance
    mu1, *parts = ingredients(lq, variance)
    total = np.zeros(alpha.size)
    # Ascending log q is descending mu1, and the usable queries come first.
    usable = int(np.count_nonzero(mu1 > ordered[0]))
    for start in range(0, usable, _BLOCK):
        block = slice(start, min(start + _BLOCK, usable))
        last = int(np.searchsorted(ordered, mu1[block.start], side="right"))
        values = tuple(part[block] for part in parts)
        terms = _theorem6(lq[block], mu1[block], values, ordered[:last], baseline[:last])
        total[:last] += w[block] @ terms
        total[last:] += w[block].sum() * baseline[last:]
    total += w[usable:].sum() * baseline
    out = np.empty(alpha.size)
    out[rank] = total
    return out
