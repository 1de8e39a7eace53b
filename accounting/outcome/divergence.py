"""Renyi divergences between an outcome's law and that after a moved vote, both ways, rounded up.

With L = log P'/P the moment of order alpha is log(1 + S), where

    S = sum over outcomes of P f(L), f(L) = e^(w L) - 1 - w (e^L - 1),

w = alpha for D_alpha(P' || P) and w = 1 - alpha for D_alpha(P || P'), and D_alpha = log(1 + S) / (alpha - 1). The terms
that are taken off sum to 0 over all outcomes; without them each f is at least 0 and falls towards L = 0. So S neither
cancels nor can it come out too small if every L is first moved away from 0 by what it may be wrong.
"""

from __future__ import annotations

import math

import numpy as np

from consilium.accounting.outcome.winners import ERROR

LIKELY = -0.69
"""log of a probability above which an outcome counts as the likely one; just above one half."""
_RELATIVE = 1e-12
_SLACK = 2 * ERROR + 1e-14
_ROUNDING = 4e-15
UP = 1 + _SLACK + 1e-13
"""What a sum of excesses is multiplied with, for errors of P and of the sum."""
_MOST = 600.0
_FAINT = -640.0


def close(log_p: np.ndarray, change: np.ndarray) -> np.ndarray:
    """The change of an outcome with more than half of the probability, from what the others gain or lose. Probabilities
    sum to 1 before and after, so it is known to the digits of the others'; its own sum would be known to the digits
    of 1. Both float64 (rows, outcomes); in place."""
    top = np.argmax(log_p, axis=1)[:, None]
    flow = mass_moved(log_p, change)
    np.put_along_axis(flow, top, 0.0, axis=1)
    largest, mine = (np.take_along_axis(values, top, axis=1) for values in (log_p, change))
    by_others = -flow.sum(axis=1, keepdims=True) * np.exp(-np.maximum(largest, -1.0))
    usable = (largest > LIKELY) & (by_others > -0.9)
    np.put_along_axis(change, top, np.where(usable, np.log1p(np.maximum(by_others, -0.9)), mine), axis=1)
    return change


def mass_moved(log_p: np.ndarray, change: np.ndarray) -> np.ndarray:
    """P'(j) - P(j) = P(j) (e^change - 1), also where P(j) underflows or the factor overflows."""
    grown = np.exp(np.minimum(log_p + change, 0.0))
    usual = np.exp(log_p) * np.expm1(np.minimum(change, _MOST))
    return np.where(change > _MOST, grown, usual)


def outward(log_p: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Changes moved away from 0 by their error: that of two probabilities, and of logarithms as long as log_p. That of
    an outcome with more than half of the probability is known from the others' (``close``), so its error is theirs
    times what they have before and after."""
    others = np.minimum(1.0, -2 * np.expm1(np.minimum(log_p, 0.0)) + np.abs(change))
    share = np.where(log_p > LIKELY, others, 1.0)
    error = (_SLACK + 2e-15 * np.abs(log_p)) * share + _RELATIVE * np.abs(change)
    return change + np.sign(change) * error


@np.errstate(over="ignore")
def _by_outcome(log_p: np.ndarray, change: np.ndarray, power: np.ndarray) -> np.ndarray:
    """S of each row, inf where it cannot be held, with each P f(L) taken by itself: float64 (rows, powers)."""
    p, x = np.exp(log_p)[..., None], change[..., None] * power
    whole = np.exp(log_p[..., None] + x) - p
    moved = mass_moved(log_p, change)[..., None]
    terms = np.where(x > 1, whole, p * np.expm1(np.minimum(x, 1.0)))
    terms += _ROUNDING * np.abs(moved * power) - moved * power
    return np.maximum(terms, 0.0).sum(axis=1)


@np.errstate(over="ignore")  # what no double holds is taken in logarithms
def moments(log_p: np.ndarray, change: np.ndarray, power: np.ndarray) -> np.ndarray:
    """log(1 + S) of each row, rounded up: float64 (rows, powers)."""
    size = np.abs(power)
    most = float(size.max())
    # of these P f(L) is below (1 + |w|) e^-640, which is charged
    faint = log_p + max(most, 1.0) * np.abs(change) < _FAINT
    dropped = np.count_nonzero(faint, axis=1)[:, None] * ((1 + size) * math.exp(_FAINT))
    p_kept, kept = np.where(faint, -1.0, log_p), np.where(faint, 0.0, change)
    # nothing underflows or overflows
    small = (p_kept.min(axis=1) > -_MOST) & (np.abs(kept).max(axis=1) * most < _MOST)
    total = np.empty((log_p.shape[0], power.size))
    p, x = np.exp(p_kept[small]), kept[small, :, None] * power
    moved = p * np.expm1(kept[small])
    found = np.matmul(p[:, None, :], np.expm1(x, out=x))[:, 0]
    found -= moved.sum(axis=1)[:, None] * power
    found += _ROUNDING * np.abs(moved).sum(axis=1)[:, None] * size
    total[small] = np.maximum(found, 0.0)
    total[~small] = _by_outcome(p_kept[~small], kept[~small], power)
    out = np.log1p((total + dropped) * UP)
    row, column = np.nonzero(~np.isfinite(out))
    if row.size:
        terms = log_p[row] + change[row] * power[column][:, None]
        peak = terms.max(axis=1, keepdims=True)
        out[row, column] = (peak[:, 0] + np.log(np.exp(terms - peak).sum(axis=1))) * UP
    return out
