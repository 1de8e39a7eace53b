"""The best of a random number of candidate runs, of which nobody sees any other: private selection.

A fixed number k of runs can cost k times one of them even if the best alone is seen (the best of k bits of randomised
response is 0 only if all are), so events charge their composition, which holds whoever saw them
(`ReleaseEvent.candidates`). Where the number of runs is drawn beforehand and kept secret, each run takes its parameters
by lot, and nobody ever sees another than the best, the cost hardly depends on how many there are. Liu, Talwar (STOC
2019, arXiv 1811.07971, Theorem 3.1) showed it for pure privacy. These are the Renyi curves of Papernot, Steinke (ICLR
2022, arXiv 2110.03620), as dp-accounting has them; tests compare.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from consilium.accounting.checks import check_orders
from consilium.accounting.curves.conversion import conversion_cost
from consilium.accounting.errors import AccountingError, OrdersError

Law = Literal["logarithmic", "geometric", "poisson"]
"""Of the number of runs: truncated negative binomial with shape 0 or 1, or Poisson, which may be none at all."""

LAWS: tuple[Law, ...] = get_args(Law)
_SHAPES = {"logarithmic": 0.0, "geometric": 1.0}
_ROUNDING = 1e-9


def best_of(rdp: object, orders: object, mean: float, law: Law = "geometric") -> np.ndarray:
    """Curve of the best of a random number of runs: float64 (orders,).

    Parameters
    ----------
    rdp : float64 (orders,), a curve that every candidate keeps to. orders : each above 1. mean : of the number of runs,
        above 1 (poisson: at least 1). law : how it is drawn.

    The best is by an order of outputs that looks at them alone, for instance accuracy on public rows. Truncated
    negative binomial of shape eta and gamma, Theorem 2: rdp(a) + (1 + eta) ((1 - 1/b) rdp(b) + log(1/gamma) / b) +
    log(mean) / (a - 1) for every order b. Poisson, Theorem 6: rdp(a) + mean delta + log(mean) / (a - 1), with delta
    that of the run at epsilon log(1 + 1 / (a - 1)), here by the curve itself.

    Raises
    ------
    AccountingError : a mean or law for which there is no bound. OrdersError : no curve at these orders.

    Ten candidates of Gaussian noise with mu = .2, as one of them costs, as all ten do, and as the best of ten does:

    >>> from consilium.accounting.curves.conversion import rdp_to_epsilon
    >>> from consilium.accounting.curves.conversion import DEFAULT_ORDERS as orders
    >>> curves = [n * orders * 0.2**2 / 2 for n in (1, 10)] + [best_of(orders * 0.2**2 / 2, orders, 10)]
    >>> [round(rdp_to_epsilon(curve, orders, 1e-5).epsilon, 3) for curve in curves]
    [0.794, 2.814, 1.718]
    """
    alpha = check_orders(orders)
    curve = np.atleast_1d(np.asarray(rdp, dtype=np.float64))
    if curve.shape != alpha.shape or np.any(np.isnan(curve)) or np.any(curve < 0):
        raise OrdersError(f"a curve must be >= 0 with shape {alpha.shape}. Evaluate it at the orders.")
    if law not in LAWS:
        raise AccountingError(f"law must be one of {', '.join(LAWS)}, got {law!r}. Name one of them.")
    if not math.isfinite(mean) or mean < 1 or (mean == 1 and law != "poisson"):
        raise AccountingError(f"the mean number of runs is {mean!r}, and a random number has one above 1. Give it.")
    more = math.log(mean) / (alpha - 1)
    if law == "poisson":
        found = curve + mean * _delta_at(curve, alpha, np.log1p(1 / (alpha - 1))) + more
    else:
        shape = _SHAPES[law]
        beside = (1 - 1 / alpha) * curve + math.log(1 / _gamma(shape, mean)) / alpha
        found = curve + (1 + shape) * float(beside.min()) + more
    # a Renyi divergence grows with its order, so what holds at a larger one holds here
    by_order = np.argsort(alpha)
    lowest = np.minimum.accumulate(found[by_order][::-1])[::-1]
    monotone = np.empty_like(found)
    monotone[by_order] = lowest
    return monotone * (1 + _ROUNDING)


def _gamma(shape: float, mean: float) -> float:
    """Parameter of the truncated negative binomial law of this shape, 0 or 1, with this mean.

    >>> _gamma(1.0, 4.0), round(_gamma(0.0, 4.0), 4)
    (0.25, 0.0966)
    """
    if shape == 1:
        return 1 / mean
    from scipy.optimize import brentq  # a fifth of a second to import, in each process of a node

    def excess(log_odds: float) -> float:  # of the mean, (1 / gamma - 1) / log(1 / gamma)
        odds = math.exp(log_odds)
        return odds / math.log1p(odds) - mean

    return 1 / (1 + math.exp(float(brentq(excess, -40.0, 100.0, xtol=1e-13))))  # pyright: ignore[reportArgumentType]


def _delta_at(rdp: np.ndarray, alpha: np.ndarray, epsilon: np.ndarray) -> np.ndarray:
    """Least delta at each epsilon of (m,), by the same conversion as `rdp_to_epsilon`: float64 (m,), at most 1."""
    unit = conversion_cost(alpha, math.exp(-1.0))  # log delta = -1 there, and it enters as -log delta / (alpha - 1)
    logs = (alpha - 1)[None, :] * (rdp + unit - epsilon[:, None]) - 1
    return np.exp(np.minimum(logs.min(axis=1), 0.0))
