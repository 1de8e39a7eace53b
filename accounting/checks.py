"""Validation that every bound shares, so that one mistake has one message."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np

from consilium.accounting.errors import AccountingError, DeltaError, EventError, NoiseError, OrdersError, UnitError

LEAST_SCALE, MOST_SCALE = 1e-100, 1e100


def check_orders(orders: object) -> np.ndarray:
    """Renyi orders as float64 (orders,); all finite and above 1.

    Raises
    ------
    OrdersError : empty, more than one dimension, NaN, infinite, or an order at or below 1.
    """
    array = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    if array.ndim != 1 or array.size == 0:
        raise OrdersError(f"orders must be a non-empty vector, got shape {array.shape}. Pass DEFAULT_ORDERS.")
    if not np.all(np.isfinite(array)) or np.any(array <= 1.0):
        bad = array[~(np.isfinite(array) & (array > 1.0))][0]
        raise OrdersError(f"a Renyi order must be finite and above 1, got {bad}. Drop it from the grid.")
    return array


def check_scale(value: object, name: str) -> float:
    """A noise scale: a finite real number above 0, whose square is neither 0 nor infinite in doubles.

    Raises
    ------
    NoiseError : not a number, NaN, infinite, zero or negative, or outside ``LEAST_SCALE`` to ``MOST_SCALE``.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value <= 0:
        raise NoiseError(f"{name} must be a finite number above 0, got {value!r}. Without noise there is no guarantee.")
    if not LEAST_SCALE <= float(value) <= MOST_SCALE:
        raise NoiseError(
            f"{name} {float(value):g} is outside {LEAST_SCALE:g} to {MOST_SCALE:g}: its square is lost in doubles."
            " Choose a scale that can be computed with."
        )
    return float(value)


def check_delta(value: object, name: str = "delta") -> float:
    """A probability strictly between 0 and 1.

    Raises
    ------
    DeltaError : not a number, NaN, or outside (0, 1).
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise DeltaError(f"{name} must lie strictly between 0 and 1, got {value!r}. Take one well below 1 / records.")
    return float(value)


def check_count(value: object, name: str, least: int = 0, error: type[AccountingError] = EventError) -> int:
    """A whole number of at least ``least``.

    Raises
    ------
    error : not an integer, or below ``least``.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise error(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def check_votes_moved(value: object) -> int:
    """How many votes one unit moves: a whole number of at least 1.

    Raises
    ------
    UnitError : anything else.
    """
    return check_count(value, "sensitivity_votes (votes that one unit moves)", 1, UnitError)


def check_log_q(log_q: object) -> np.ndarray:
    """Logarithms of probabilities as float64 (queries,). -inf (q = 0) and 0 (q = 1) are allowed.

    Raises
    ------
    AccountingError : NaN, or a logarithm above 0.
    """
    array = np.atleast_1d(np.asarray(log_q, dtype=np.float64))
    if array.ndim != 1:
        raise AccountingError(f"log_q must be a vector over queries, got {array.ndim} dimensions. Flatten it first.")
    if np.any(np.isnan(array)) or np.any(array > 0.0):
        raise AccountingError("log_q holds NaN or a value above 0, so q is no probability. Recompute it.")
    return array
