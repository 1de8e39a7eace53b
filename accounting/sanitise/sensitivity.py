"""Local sensitivity of the data-dependent cost, as a function of log q.

Source: Papernot et al. 2018 (arXiv 1802.08908), appendix on smooth sensitivity: Algorithm 3 and conditions C5, C6.

Write b(q) for the cost of one query (Theorem 6 or the data-independent curve, whichever is less), q0 for the largest q
at which Theorem 6 is the lesser, and B_U(q), B_L(q) for the largest and smallest q that one moved vote can lead to.
With the number of votes, q is known to change by at most 1/sigma in the argument of erfc, for each rival; because
erfc(erfc^-1(u) - c) is concave in u, moving all rivals together is the worst case:

    B_U(q) = (m-1)/2 erfc(erfc^-1(2q/(m-1)) - 1/sigma), and B_L with a plus.

C5: b does not decrease on (0, q0). C6: b(B_U(q)) - b(q) does not decrease on (0, q1), q1 = B_L(q0). Then the local
sensitivity is at most b(B_U(q)) - b(q) below q1, its value at q1 between q1 and q0 (the plateau), and alpha/sigma^2 -
b(B_L(q)) above q0. Where C6 fails the true local sensitivity has been seen up to 1.8 times above that, so these
parameters are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from consilium.accounting.checks import check_orders, check_scale, check_votes_moved
from consilium.accounting.curves.gaussian import ingredients, theorem6_at
from consilium.accounting.errors import ConditionError

_GRID = 600
_ROUNDING = 1e-9


def log_q_shifted(log_q: np.ndarray, sigma: float, classes: int, sign: int) -> np.ndarray:
    """log B_U(q) for sign +1, log B_L(q) for sign -1, without the cap at 1: float64, shape of log_q."""
    spread = math.log(classes - 1)
    z = ndtri_exp(np.minimum(log_q - spread, -1e-300))
    return spread + log_ndtr(z + sign * math.sqrt(2) / sigma)


def _cost(log_q: np.ndarray, variance: float, alpha: np.ndarray) -> np.ndarray:
    """b(q), elementwise over arrays that broadcast; log_q above 0 counts as 0."""
    log_q, alpha = np.broadcast_arrays(np.minimum(log_q, 0.0), alpha)
    flat = log_q.ravel()
    return theorem6_at(flat, ingredients(flat, variance), alpha.ravel(), variance).reshape(log_q.shape)


@dataclass(frozen=True, slots=True)
class SensitivityCurve:
    """Where the three regimes of the local sensitivity lie, for each order: arrays of shape (orders,).

    sigma : noise on one count. k : votes that one unit moves (cost is at sigma / k; one *vote* is one step of
        distance).
    """

    sigma: float
    k: int
    classes: int
    orders: np.ndarray
    log_q0: np.ndarray
    log_q1: np.ndarray
    plateau: np.ndarray

    @property
    def variance(self) -> float:
        """(sigma / k)^2, the variance at which Theorem 6 is evaluated."""
        return (self.sigma / self.k) ** 2


def _largest_useful(variance: float, alpha: np.ndarray) -> np.ndarray:
    """log q0: the largest log q at which Theorem 6 holds and is below the data-independent curve, by bisection."""
    low, high = np.full(alpha.shape, -4.0), np.zeros(alpha.shape)
    base = alpha / variance
    while True:
        useless = _cost(low, variance, alpha) >= base
        if not useless.any():
            break
        low = np.where(useless, 2 * low, low)
    for _ in range(110):
        middle = (low + high) / 2
        useful = _cost(middle, variance, alpha) < base
        low, high = np.where(useful, middle, low), np.where(useful, high, middle)
    return low


def _make(sigma: float, classes: int, orders: tuple[float, ...], k: int) -> SensitivityCurve:
    alpha = check_orders(orders)
    variance = (check_scale(sigma, "sigma") / check_votes_moved(k)) ** 2
    log_q0 = _largest_useful(variance, alpha)
    log_q1 = log_q_shifted(log_q0, sigma, classes, -1)
    plateau = alpha / variance - _cost(log_q1, variance, alpha)
    for array in (alpha, log_q0, log_q1, plateau):
        array.setflags(write=False)
    return SensitivityCurve(sigma, k, classes, alpha, log_q0, log_q1, plateau)


_cached = lru_cache(maxsize=32)(_make)


def sensitivity_curve(sigma: float, classes: int, orders: object, k: int = 1) -> SensitivityCurve:
    """Regimes of the local sensitivity at these public parameters (cached).

    >>> curve = sensitivity_curve(40.0, 10, [20.0])
    >>> float(curve.log_q0[0].round(6)), float(curve.log_q1[0].round(6)), float(curve.plateau[0].round(9))
    (-3.156873, -3.260313, 0.000818199)
    """
    return _cached(float(sigma), classes, tuple(check_orders(orders).tolist()), k)


def conditions(curve: SensitivityCurve, least_log_q: float) -> tuple[np.ndarray, np.ndarray]:
    """Whether C5 and C6 hold for each order: two bool (orders,), checked on a grid from ``least_log_q`` up.

    The grid has 600 points, even in the argument of erfc. ``least_log_q`` is the smallest q that the number of teachers
    allows (a unanimous query); below it nothing is ever evaluated.
    """
    spread = math.log(curve.classes - 1)
    share = np.linspace(0.0, 1.0, _GRID)[:, None]

    def grid(upper: np.ndarray) -> np.ndarray:
        last = ndtri_exp(upper - spread)
        first = np.minimum(ndtri_exp(np.minimum(least_log_q, upper) - spread), last - 1e-6)
        return spread + log_ndtr(first + (last - first) * share)

    def rises(values: np.ndarray) -> np.ndarray:
        return np.all(np.diff(values, axis=0) >= -_ROUNDING * np.abs(values[1:]), axis=0)

    below_q0 = grid(curve.log_q0)
    below_q1 = grid(curve.log_q1)
    alpha = curve.orders[None, :]
    c5 = rises(_cost(below_q0, curve.variance, alpha))
    lifted = log_q_shifted(below_q1, curve.sigma, curve.classes, +1)
    # B_U(q1) = q0 up to rounding, which must not fall on the far side of a jump of b at q0.
    lifted = np.minimum(lifted, curve.log_q0)
    c6 = rises(_cost(lifted, curve.variance, alpha) - _cost(below_q1, curve.variance, alpha))
    return c5, c6


def require_conditions(curve: SensitivityCurve, least_log_q: float) -> None:
    """Refuse parameters for which the bound on local sensitivity is not proved.

    Raises
    ------
    ConditionError : C5 or C6 fails at an order; the message names it and what to change. Depends on public numbers
        only.
    """
    c5, c6 = conditions(curve, least_log_q)
    for name, holds in (("C5", c5), ("C6", c6)):
        if not holds.all():
            order = float(curve.orders[~holds][0])
            raise ConditionError(
                f"condition {name} fails at order {order:g}, sigma {curve.sigma:g}, {curve.classes} classes, "
                f"{curve.k} vote(s) moved: the bound on local sensitivity is not proved there. Take a smaller order, a "
                "larger sigma, or publish the worst case."
            )


def local_sensitivity(log_q: np.ndarray, curve: SensitivityCurve) -> np.ndarray:
    """Bound on how much one moved vote changes the cost, at each log q and order: float64 (queries, orders). Secret.

    Holds for the histograms with that q; see the module's text for the three regimes.
    """
    lq = np.asarray(log_q, dtype=np.float64)[:, None]
    alpha = curve.orders[None, :]
    base = alpha / curve.variance
    up = _cost(log_q_shifted(lq, curve.sigma, curve.classes, +1), curve.variance, alpha)
    down = _cost(log_q_shifted(lq, curve.sigma, curve.classes, -1), curve.variance, alpha)
    below = up - _cost(lq, curve.variance, alpha)
    out = np.where(lq < curve.log_q1, below, base - down)
    inside = (lq >= curve.log_q1) & (lq <= curve.log_q0)
    return np.where(inside, curve.plateau, np.maximum(out, 0.0))
