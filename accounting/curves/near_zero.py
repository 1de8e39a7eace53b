"""Bounds of very weak releases: sums near 1 taken so that what is left of them is never lost.

A Renyi bound is log(1 + x) / (alpha - 1). Where the noise is large or q small, x is far below the spacing of doubles at
1. Here it is a sum of positive terms; rounding is charged (``ROUNDING``), and what no double can hold becomes
``LEAST``: 0 would say that the release is independent of the data.
"""

from __future__ import annotations

import numpy as np

LEAST = float(np.finfo(np.float64).tiny)
"""The least bound that is ever stated for a release that depends on the data at all."""

ROUNDING = 1e-13
"""Relative; some hundred roundings of doubles, which no formula here exceeds."""

_SERIES = 0.05
_TERMS = 12
_LARGEST = 30.0
_UNDERFLOW = -600.0


def expm1_minus(x: np.ndarray) -> np.ndarray:
    """e^x - 1 - x, at least 0, to rounding: float64, shape of x."""
    x = np.asarray(x, dtype=np.float64)
    small = np.where(np.abs(x) < _SERIES, x, 0.0)
    series = np.ones_like(small)
    for n in range(_TERMS, 2, -1):
        series = 1 + small / n * series
    return np.where(np.abs(x) < _SERIES, small * small / 2 * series, np.expm1(x) - x)


def log1p_minus(x: np.ndarray) -> np.ndarray:
    """-log(1 - x) - x for 0 <= x < 1, at least 0, to rounding: float64, shape of x."""
    x = np.asarray(x, dtype=np.float64)
    small = np.where(x < _SERIES, x, 0.0)
    series = np.full_like(small, 1 / _TERMS)
    for n in range(_TERMS - 1, 1, -1):
        series = 1 / n + small * series
    return np.where(x < _SERIES, small * small * series, -np.log1p(-x) - x)


def rdp_from_moment(moment: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """moment / (alpha - 1), rounded up and above 0."""
    return np.maximum(moment * (1 + ROUNDING) / (alpha - 1), LEAST)


def rdp_randomised_response(pure: float, alpha: np.ndarray) -> np.ndarray:
    """Exact curve of randomised response that is (``pure``, 0)-DP: float64 (orders,), the largest of any such step.
    With p = 1 / (1 + e^-pure) and t = (alpha - 1) pure the moment is log(p e^t + (1 - p) e^-t)."""
    t = (alpha - 1) * pure
    near = np.minimum(t, _LARGEST)
    p, other = 1 / (1 + np.exp(-pure)), np.exp(-pure) / (1 + np.exp(-pure))
    # (2 p - 1) t is what is left of the first order
    excess = p * expm1_minus(near) + other * expm1_minus(-near) + np.tanh(pure / 2) * near
    log_p = -np.logaddexp(0.0, -pure)
    far = np.logaddexp(log_p + t, log_p - pure - t)
    return rdp_from_moment(np.where(t > _LARGEST, far, np.log1p(excess)), alpha)


def rdp_laplace_shift(shift: float, alpha: np.ndarray) -> np.ndarray:
    """Exact curve between two Laplace distributions of scale 1, ``shift`` apart (Mironov, arXiv 1702.07476, Prop. 6).

    The moment is log(alpha / (2 alpha - 1) e^((alpha-1) s) + (alpha - 1) / (2 alpha - 1) e^(-alpha s)).
    """
    t = (alpha - 1) * shift
    near = np.minimum(t, _LARGEST)
    # the first orders, alpha (alpha - 1) s and -(alpha - 1) alpha s, cancel exactly
    excess = (alpha * expm1_minus(near) + (alpha - 1) * expm1_minus(-alpha * shift)) / (2 * alpha - 1)
    far = np.logaddexp(np.log(alpha / (2 * alpha - 1)) + t, np.log((alpha - 1) / (2 * alpha - 1)) - alpha * shift)
    return rdp_from_moment(np.where(t > _LARGEST, far, np.log1p(excess)), alpha)


def log1mexp(x: np.ndarray) -> np.ndarray:
    """log(1 - e^x) for x < 0, exact to rounding at both ends."""
    half = -0.6931471805599453
    return np.where(x > half, np.log(-np.expm1(x)), np.log1p(-np.exp(np.minimum(x, half))))


def log_expm1(x: np.ndarray) -> np.ndarray:
    """log(e^x - 1) for x > 0, without overflow: float64, shape of x."""
    return np.where(x < 1, np.log(np.expm1(np.minimum(x, 1.0))), x + np.log1p(-np.exp(-np.maximum(x, 1.0))))


def log_inverse_power_minus_1(log_r: np.ndarray, log_1mr: np.ndarray, power: np.ndarray) -> np.ndarray:
    """log((1 - r)^-power - 1) for 0 < r < 1 and power > 0, also where r itself underflows: float64, broadcast."""
    exponent = np.maximum(-power * log_1mr, LEAST)
    return np.where(log_r < _UNDERFLOW, np.log(power) + log_r, log_expm1(exponent))
