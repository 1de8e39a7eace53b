"""Gaussian noise scaled to smooth sensitivity: what the release of f + SS * sigma_ss * N(0, 1) costs.

The cost formula published with PATE 2018 (its Theorem 23) is too small where it is used: on the path f = (0, 1, 1 +
e^beta) at order 14, alpha beta = .45, sigma_ss = 8 the true divergence is .8437, the formula says .3565. The sound
cost, proved in docs/proofs.md: two neighbours release Gaussians whose scales differ by a factor e^t with
|t| <= beta, and whose means differ by at most the smaller of the two smooth sensitivities. It is attained on that path,
so no smaller formula is sound.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from consilium.accounting.checks import check_orders, check_scale
from consilium.accounting.curves.near_zero import ROUNDING, log1p_minus
from consilium.accounting.errors import NoiseError


def gnss_room(orders: object, beta: object) -> np.ndarray:
    """c = 1 - alpha (1 - e^(-2 beta)): float64 (orders,). The cost is finite where it is above 0."""
    return 1.0 + check_orders(orders) * np.expm1(-2.0 * np.asarray(beta, dtype=np.float64))


def gnss_cost(orders: object, beta: object, sigma_ss: object) -> np.ndarray:
    """Renyi cost of one release at each order: float64 (orders,), alpha e^(-2 beta) / (2 sigma_ss^2 c) - (alpha beta +
    ln(c) / 2) / (alpha - 1), c from ``gnss_room``; +inf where alpha (1 - e^(-2 beta)) >= 1. beta is that of the
    smooth sensitivity, sigma_ss the noise in units of it (numbers, or one for each order).

    >>> gnss_cost([14.0], 0.45 / 14, 8.0).round(4).tolist()
    [0.8437]
    """
    alpha = check_orders(orders)
    b, s = np.asarray(beta, dtype=np.float64), np.asarray(sigma_ss, dtype=np.float64)
    if not (np.all(np.isfinite(b) & (b > 0)) and np.all(np.isfinite(s) & (s > 0))):
        raise NoiseError(
            "beta and sigma_ss must be finite and above 0. Fix them before the run, without private votes."
        )
    c = gnss_room(alpha, b)
    safe = np.where(c > 0, c, 1.0)
    # With u = 1 - e^(-2 beta): c = 1 - alpha u and alpha beta = -alpha ln(1 - u) / 2, of which the first orders cancel.
    u = np.where(c > 0, -np.expm1(-2 * b), 0.0)
    whole, part = log1p_minus(np.where(c > 0, alpha * u, 0.0)), alpha * log1p_minus(u)
    scales = (whole - part + ROUNDING * whole) / (2 * (alpha - 1))
    return np.where(c > 0, alpha * np.exp(-2 * b) / (2 * s**2 * safe) + scales, math.inf)


def best_sigma_ss(order: float, beta: float, smooth: float) -> float:
    """sigma_ss that minimises cost + 2 standard deviations of the noise, for the smooth sensitivity of PUBLIC votes
    only."""
    check_scale(smooth, "smooth")

    def total(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        return float(gnss_cost([order], beta, sigma)[0]) + 2 * smooth * sigma

    from scipy.optimize import minimize_scalar  # as in `gdp`

    found: Any = minimize_scalar(total, bounds=(-5.0, 15.0), method="bounded", options={"xatol": 1e-10})
    return math.exp(float(found.x))
