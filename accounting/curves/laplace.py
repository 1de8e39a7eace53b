"""LNMax: Laplace noise Lap(1/gamma) on every count. Papernot et al. 2017 (arXiv 1610.05755), Theorems 2 and 3, Lemma 4.

Their moment a(l) is l times the Renyi bound at order l + 1. One moved vote changes two counts, so argmax is (2 gamma,
0)-DP, and (2 gamma k, 0)-DP when k votes move. Theorem 3 needs q < 1 / (e^(2 gamma) + 1); beyond it the formula, which
the published code uses, can be below the truth.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from consilium.accounting import checks
from consilium.accounting.curves import near_zero
from consilium.accounting.curves.discrete import log_pr_loss_table_laplace
from consilium.accounting.curves.gaussian import log_q_from_tails
from consilium.accounting.errors import AccountingError
from consilium.accounting.units import Noise

Baseline = Literal["exact", "paper"]
PAPER_MOMENTS = np.arange(1.0, 9.0)
"""The moments l = 1..8 that the paper searches; too few, see ``rdp_lnmax``."""


def log_tail_by_gap_laplace(gamma: float, max_gap: int, noise: Noise | str) -> np.ndarray:
    """log Pr[a class D votes behind overtakes or ties], float64 (max_gap + 1,). continuous: (2 + gamma D) / (4 e^(gamma
    D)). discrete: exact on the lattice, ties as losses."""
    if checks.check_noise(noise) is Noise.DISCRETE:
        return log_pr_loss_table_laplace(gamma, max_gap)
    x = checks.check_scale(gamma, "gamma") * np.arange(checks.check_gap(max_gap) + 1)
    return np.log((2 + x) / 4) - x


def log_q_lnmax(votes: object, gamma: float, noise: Noise | str) -> np.ndarray:
    """log of an upper bound on Pr[LNMax does not return the plurality]: float64 (queries,), secret. Arguments and
    errors as in ``gaussian.log_q_gnmax``; gamma is the inverse scale of the noise."""
    array, noise = checks.check_votes(votes), checks.check_noise(noise)
    tails = log_tail_by_gap_laplace(checks.check_scale(gamma, "gamma"), int(array.max(initial=0)), noise)
    return log_q_from_tails(array, tails, noise)


def rdp_laplace(
    gamma: float, orders: object, sensitivity_votes: int = 1, *, noise: Noise | str, baseline: Baseline = "exact"
) -> np.ndarray:
    """Data-independent curve of one LNMax release: float64 (orders,).

    exact: two counts move by k each, so twice the Renyi divergence of two Laplace distributions k gamma apart (Mironov,
    arXiv 1702.07476, Proposition 6); for integer noise twice that of randomised response at k gamma, which is exact for
    k = 1. Moving all k votes between the same two classes is the worst case because that divergence is convex in the
    shift. paper: min(2 (k gamma)^2 alpha, 2 k gamma), looser, from pure differential privacy alone.

    >>> rdp_laplace(0.05, [2.0, 50.0], noise="continuous").round(6).tolist()
    [0.004914, 0.072401]
    """
    alpha = checks.check_orders(orders)
    shift = checks.check_scale(gamma, "gamma") * checks.check_votes_moved(sensitivity_votes)
    noise = checks.check_noise(noise)
    if baseline == "paper":
        return np.minimum(2 * shift**2 * alpha, 2 * shift)
    if baseline != "exact":
        raise AccountingError(f"baseline must be 'exact' or 'paper', got {baseline!r}.")
    one = near_zero.rdp_laplace_shift if noise is Noise.CONTINUOUS else near_zero.rdp_randomised_response
    return 2 * one(shift, alpha)


def rdp_lnmax(
    log_q: object,
    gamma: float,
    orders: object,
    sensitivity_votes: int = 1,
    *,
    noise: Noise | str,
    baseline: Baseline = "exact",
) -> np.ndarray:
    """Theorem 3 for each query and order, never above the data-independent curve: float64 (queries, orders), secret.

    At l = alpha - 1: a(l) <= log((1-q) ((1-q) / (1 - q e^(2 gamma k)))^l + q e^(2 gamma k l)), valid if q < 1 / (e^(2
    gamma k) + 1). The paper searches l = 1..8 (orders 2..9); 100 queries of 250 teachers at gamma .05 and delta 1e-5
    cost 1.84 with those and 1.20 on the full grid.

    log_q : float64 (queries,), at the true gamma. noise, baseline : which data-independent curve is the ceiling.
    """
    alpha = checks.check_orders(orders)
    lq = checks.check_log_q(log_q)
    ceiling = rdp_laplace(gamma, alpha, sensitivity_votes, noise=noise, baseline=baseline)
    pure = 2 * gamma * sensitivity_votes
    out = np.empty((lq.size, alpha.size))
    out[:] = ceiling
    out[np.isneginf(lq)] = 0.0
    rows = np.flatnonzero((lq < -np.logaddexp(0.0, pure)) & np.isfinite(lq))
    small = lq[rows][:, None]
    moment = alpha - 1
    # With r = q (e^(2 gamma k) - 1) / (1 - q) the first factor is (1 - r)^-l: the sum minus 1 has two positive parts.
    log_1mq = near_zero.log1mexp(small)
    log_r = small + float(near_zero.log_expm1(np.array(pure))) - log_1mq
    # near r = 1 from 1 - q e^(2 gamma k), with the rounding of its logarithm charged
    edge = np.minimum(small + pure + near_zero.ROUNDING / 100 * (pure - small), -near_zero.LEAST)
    log_1mr = np.where(log_r > -0.7, near_zero.log1mexp(edge) - log_1mq, near_zero.log1mexp(np.minimum(log_r, -0.7)))
    log_likely = log_1mq + near_zero.log_inverse_power_minus_1(log_r, log_1mr, moment)
    log_excess = np.logaddexp(log_likely, small + near_zero.log_expm1(moment * pure)) + near_zero.ROUNDING / 50 * (
        1 - small
    )
    bound = near_zero.rdp_from_moment(np.logaddexp(0.0, log_excess), alpha)
    out[rows] = np.minimum(bound, ceiling)
    return out
