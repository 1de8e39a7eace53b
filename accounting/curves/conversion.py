"""Renyi orders, and the way from a curve over them to (epsilon, delta).

A curve may be minimised over any set of orders that was not chosen by looking at private votes; these are fixed.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from consilium.accounting.checks import check_delta, check_orders
from consilium.accounting.errors import OrdersError

Method = Literal["cks", "classic"]


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


REFERENCE_ORDERS: np.ndarray = _frozen(
    np.unique(np.concatenate((np.arange(2, 101, 0.5), np.logspace(2, np.log10(500), 100))))
)
"""float64 (297,): the grid of the published PATE 2018 code, sorted and without its one repeated order (100)."""

DEFAULT_ORDERS: np.ndarray = _frozen(
    np.concatenate((1 + np.logspace(-2, 0, 40, endpoint=False), np.union1d(REFERENCE_ORDERS, np.arange(2.25, 30, 0.5))))
)
"""float64 (393,): 40 orders between 1.01 and 2 (needed once epsilon is above about 20), then ``REFERENCE_ORDERS`` with
quarter steps up to 30, where the CKS conversion has its optimum most often."""


class EpsilonBound(NamedTuple):
    """An epsilon and the Renyi order that gave it (NaN when no order gives a finite one)."""

    epsilon: float
    order: float


def conversion_cost(orders: object, delta: float, method: Method = "cks") -> np.ndarray:
    """What the conversion adds to the Renyi bound at each order: float64 (orders,).

    cks: log(1 - 1/alpha) - (log delta + log alpha) / (alpha - 1), from Canonne, Kamath, Steinke, arXiv 2004.00010,
    Proposition 12 (also Balle et al. 2020, Theorem 21). classic: log(1/delta) / (alpha - 1), from Mironov, arXiv
    1702.07476, Proposition 3; larger at every order, kept only to compare with papers.
    """
    alpha = check_orders(orders)
    log_delta = math.log(check_delta(delta))
    if method == "cks":
        return np.where(alpha > 2, np.log1p(-1 / alpha), np.log((alpha - 1) / alpha)) - (log_delta + np.log(alpha)) / (
            alpha - 1
        )
    if method == "classic":
        return -log_delta / (alpha - 1)
    raise OrdersError(f"conversion method must be 'cks' or 'classic', got {method!r}.")


def rdp_to_epsilon(rdp: object, orders: object, delta: float, method: Method = "cks") -> EpsilonBound:
    """Least epsilon over the orders for which the mechanism is (epsilon, delta)-DP.

    rdp : float64 (orders,), Renyi bounds, each >= 0; +inf where an order gives nothing. 0 at every order says that the
        release does not depend on the data.
    method : "cks" (tighter, default) or "classic" (as in the PATE papers).

    Raises OrdersError: shapes differ, an order at or below 1, a negative or NaN curve. DeltaError: delta outside (0,
    1).

    640 queries of GNMax at sigma 40, first as the papers convert, then with CKS:

    >>> curve = 640 * REFERENCE_ORDERS / 40**2
    >>> [round(rdp_to_epsilon(curve, REFERENCE_ORDERS, 1e-5, how).epsilon, 4) for how in ("classic", "cks")]
    [4.6933, 4.1619]
    """
    alpha = check_orders(orders)
    curve = np.atleast_1d(np.asarray(rdp, dtype=np.float64))
    if curve.shape != alpha.shape:
        raise OrdersError(f"rdp has shape {curve.shape} but orders has {alpha.shape}. Evaluate it at the orders.")
    if np.any(np.isnan(curve)) or np.any(curve < 0):
        raise OrdersError("an rdp curve must be >= 0 and free of NaN. Check how it was summed.")
    epsilons = curve + conversion_cost(alpha, delta, method)
    if not curve.any():
        # Equal distributions: epsilon is 0, which the formulas alone do not reach. A curve says so at every order, as
        # no bound is ever rounded down to 0 (``accounting.curves.near_zero``); zeros among other values prove nothing.
        epsilons = np.minimum(epsilons, 0.0)
    best = int(np.argmin(epsilons))
    if np.isinf(epsilons[best]):
        return EpsilonBound(math.inf, math.nan)
    return EpsilonBound(max(0.0, float(epsilons[best])), float(alpha[best]))
