"""Renyi divergences between an outcome's law and that after a moved vote, both ways, rounded up.

With L = log P'/P the moment of order alpha is log(1 + S), where

    S = sum over outcomes of P f(L), f(L) = e^(w L) - 1 - w (e^L - 1),

w = alpha for D_alpha(P' || P) and w = 1 - alpha for D_alpha(P || P'), and D_alpha = log(1 + S) / (alpha - 1). The terms
that are taken off sum to 0 over all outcomes; without them each f is at least 0 and falls towards L = 0. So S neither
cancels nor can it come out too small if every L is first moved away from 0 by what it may be wrong.
"""

from __future__ import annotations

import numpy as np

from consilium.accounting.outcome.quadrature import ERROR

_SLACK = 2 * ERROR + 1e-14
_ROUNDING = 4e-15
_MOST = 600.0
_CHORD = 0.45


def outward(log_p: np.ndarray, change: np.ndarray, direction: float | np.ndarray | None = None) -> np.ndarray:
    """Changes moved away from 0 by their error: that of two probabilities, and of logarithms as long as log_p.

    The change of an outcome with more than half of the probability is known from the others' (``winners.close``), so
    its error is theirs times their share.
    """
    share = np.where(log_p > -0.69, 2 * -np.expm1(np.minimum(log_p, 0.0)), 1.0)
    error = (_SLACK + 2e-15 * np.abs(log_p)) * share + 2e-16 * np.abs(change)
    return change + (np.sign(change) if direction is None else direction) * error


def powers(orders: np.ndarray, both: bool) -> tuple[np.ndarray, ...]:
    """w of each direction that is charged: one or two float64 (orders,)."""
    return (1 - orders, orders) if both else (1 - orders,)


def _usual(log_p: np.ndarray, change: np.ndarray, power: np.ndarray) -> bool:
    """Whether nothing underflows or overflows."""
    return (
        log_p.min(initial=0.0) > -_MOST and np.abs(change).max(initial=0.0) * np.abs(power).max(initial=0.0) < _MOST
    )


def excess(log_p: np.ndarray, change: np.ndarray, power: np.ndarray) -> np.ndarray:
    """P f(L) of each outcome: float64 (rows, outcomes, powers), inf where it cannot be held.

    log_p, change : float64 (rows, outcomes). power : float64 (powers,).
    """
    p, x = np.exp(log_p), change[..., None] * power
    if _usual(log_p, change, power):
        moved = p * np.expm1(change)
        out = np.expm1(x, out=x)
        out *= p[..., None]
    else:
        moved = np.where(change > _MOST, np.exp(np.minimum(log_p + change, 0.0)), p * np.expm1(np.minimum(change, _MOST)))
        with np.errstate(over="ignore"):
            large = np.exp(log_p[..., None] + x)
        out = np.where(x > 1, large - p[..., None], p[..., None] * np.expm1(np.minimum(x, 1.0)))
    out -= moved[..., None] * power
    out += (_ROUNDING * np.abs(moved))[..., None] * np.abs(power)
    return np.maximum(out, 0.0, out=out)


def total_excess(log_p: np.ndarray, change: np.ndarray, power: np.ndarray) -> np.ndarray:
    """S of each row: float64 (rows, powers), inf where it cannot be held, and rounded up."""
    x = change[..., None] * power
    if _usual(log_p, change, power):
        p = np.exp(log_p)
        moved = p * np.expm1(change)
        np.expm1(x, out=x)
        total = np.matmul(p[:, None, :], x)[:, 0]
        total -= moved.sum(axis=1)[:, None] * power
        total += _ROUNDING * np.abs(moved).sum(axis=1)[:, None] * np.abs(power)
    else:
        total = excess(log_p, change, power).sum(axis=1)
    return np.maximum(total, 0.0) * (1 + _SLACK + 1e-13)


def chord(orders: np.ndarray, known: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Moments at all orders from those at a few, rounded up: float64 (rows, orders).

    (alpha - 1) D_alpha is convex in alpha, so between two orders it lies below the straight line.

    known : int64 (few,), places in the sorted ``orders``, with both ends. moments : float64 (rows, few).
    """
    right = np.clip(np.searchsorted(known, np.arange(orders.size)), 1, max(1, known.size - 1))
    if known.size == 1:
        return moments
    left, right = known[right - 1], known[right]
    share = (orders - orders[left]) / (orders[right] - orders[left])
    at = {place: i for i, place in enumerate(known.tolist())}
    lower, upper = (moments[:, [at[i] for i in side.tolist()]] for side in (left, right))
    return np.where(share == 0, lower, np.where(share == 1, upper, (1 - share) * lower + share * upper))


def few_orders(orders: np.ndarray) -> np.ndarray:
    """Places of so many of the sorted orders that a chord between them is about 5 % above: int64 (few,)."""
    few = [0]
    for i in range(1, orders.size):
        at = orders[few[-1]]
        if orders[i] - at > _CHORD * np.sqrt(at * (at - 1)) and i - 1 > few[-1]:
            few.append(i - 1)
    if orders.size > 1 and few[-1] != orders.size - 1:
        few.append(orders.size - 1)
    return np.array(few)
