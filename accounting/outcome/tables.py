"""Logarithms of what one noisy count does, over all integer gaps: a histogram then costs gathers and sums only.

Everything is a function of y, how far the winner lies above a class's count:

log_density   log of the density (or probability) that the class's own noise is y
log_below     log F(y), the class stays below (integer noise: at or below)
losing        F(y + 1) / F(y) - 1, what one vote less does to that; at least 0 and falling in y
gaining       F(y - 1) / F(y) - 1, what one vote more does; at most 0 and rising in y, since F is log-concave
kept          F(y - 1) / F(y) itself, which does not cancel near 0
own_losing    density(y + 1) / density(y), for the class that wins
own_gaining   density(y - 1) / density(y) - 1
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr

from consilium.accounting.curves.discrete import log_tail_table
from consilium.accounting.outcome.quadrature import NodeRule, reach
from consilium.accounting.units import Noise

MOST_EXPONENT = 690.0
"""Largest logarithm of a factor that is formed; ``fits`` says which histograms stay below it."""


def fits(scale: float, gaps: np.ndarray, kind: str) -> np.ndarray:
    """Queries whose factors fit into doubles, and whose tables into memory: bool (queries,); gaps int64 (queries,).

    Gaussian: one vote changes the chance of staying below by e^(gap / 2s^2). The rest is charged the worst case.
    """
    if kind == "laplace":
        return np.full(gaps.shape, 1e-4 <= scale <= 20.0)
    if scale > 2e4:
        return np.zeros(gaps.shape, dtype=bool)
    return (gaps / 2 + 6.5 * scale + 5) / scale**2 < MOST_EXPONENT


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Seven float64 vectors over y = first, first + offset, ..., by integer and then by offset; read-only."""

    first: int
    rule: NodeRule
    strict: int
    log_density: np.ndarray
    log_below: np.ndarray
    losing: np.ndarray
    gaining: np.ndarray
    kept: np.ndarray
    own_losing: np.ndarray
    own_gaining: np.ndarray

    def window(self, table: np.ndarray, gaps: np.ndarray, low: int, nodes: int) -> np.ndarray:
        """Values at the nodes for classes that trail by ``gaps``: float64 (*gaps.shape, nodes), a copy."""
        rule = self.rule
        starts = (gaps + (low - self.first)) * len(rule.offsets)
        views = np.lib.stride_tricks.sliding_window_view(table, (nodes - 1) * rule.stride + 1)[:, :: rule.stride]
        return views[starts]


def _log_difference(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """log(e^upper - e^lower) for upper >= lower; equal ones give -inf."""
    with np.errstate(divide="ignore"):
        return upper + np.log(-np.expm1(np.minimum(lower - upper, 0.0)))


def _log_rest(log_tail: np.ndarray) -> np.ndarray:
    """log(1 - tail), of tails below .7; 0 for others, which the caller does not use."""
    return np.log1p(-np.exp(np.where(log_tail < -0.36, log_tail, -np.inf)))


def _gaussian(scale: float, y: np.ndarray, noise: Noise) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log density, log Pr[<= y], log Pr[> y]."""
    if noise is Noise.CONTINUOUS:
        density = -(y**2) / (2 * scale**2) - np.log(scale * np.sqrt(2 * np.pi))
        return density, log_ndtr(y / scale), log_ndtr(-y / scale)
    whole = np.rint(y).astype(np.int64)
    tails = log_tail_table(scale, int(np.abs(whole).max(initial=0)) + 2)
    above = np.where(whole >= 0, tails[np.abs(whole + 1)], 0.0)
    below = np.where(whole <= 0, tails[np.abs(whole)], 0.0)
    below = np.where(whole > 0, _log_rest(above), below)
    above = np.where(whole < 0, _log_rest(below), above)
    span = np.arange(np.ceil(13 * scale) + 3)
    total = 2 * np.exp(-(span**2) / (2 * scale**2)).sum() - 1
    return -(y**2) / (2 * scale**2) - np.log(total), below, above


def _laplace(gamma: float, y: np.ndarray, noise: Noise) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if noise is Noise.CONTINUOUS:
        tail = -gamma * np.abs(y) - np.log(2)
        rest = np.log1p(-np.exp(tail))
        return tail + np.log(gamma), np.where(y > 0, rest, tail), np.where(y > 0, tail, rest)
    # Pr[Z = z] = (1 - p) / (1 + p) p^|z| with p = e^-gamma
    unit = np.log(-np.expm1(-gamma)) - np.log1p(np.exp(-gamma))
    density = unit - gamma * np.abs(y)
    closed = np.log1p(np.exp(-gamma))
    above = -gamma * (np.maximum(y, -1) + 1) - closed
    below = -gamma * np.maximum(-y, 0) - closed
    below = np.where(y >= 0, _log_rest(above), below)
    above = np.where(y < 0, _log_rest(below), above)
    return density, below, above


@lru_cache(maxsize=32)
def tables(kind: str, scale: float, noise: Noise, rule: NodeRule, most_gap: int) -> Tables:
    """Tables for histograms whose counts differ by at most ``most_gap``; kept for the next batch."""
    low, high = reach(kind, scale, most_gap)
    first, last = low - 2, high + most_gap + rule.stride + 2
    per = len(rule.offsets)
    # one unit more at either end, for the votes that move
    y = (np.arange(first - 1, last + 2)[:, None] + np.array(rule.offsets)[None, :]).ravel()
    density, below, above = (_gaussian if kind == "gaussian" else _laplace)(scale, y, noise)
    mid, up, down = slice(per, -per), slice(2 * per, None), slice(0, -2 * per)
    # F(y+1) - F(y) from whichever tail is the smaller; for integer noise it is the probability of y + 1
    if noise is Noise.DISCRETE:
        gained, lost = density[up], density[mid]
    else:
        step = np.where(
            y[per:] - 0.5 <= 0, _log_difference(below[per:], below[:-per]), _log_difference(above[:-per], above[per:])
        )
        gained, lost = step[per:], step[:-per]

    def clipped(log_value: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(log_value, MOST_EXPONENT + 15))

    found = Tables(
        first=first,
        rule=rule,
        strict=int(noise is Noise.DISCRETE),
        log_density=density[mid],
        log_below=below[mid],
        losing=clipped(gained - below[mid]),
        gaining=-np.exp(lost - below[mid]),
        kept=np.exp(below[down] - below[mid]),
        own_losing=clipped(density[up] - density[mid]),
        own_gaining=np.expm1(np.minimum(density[down] - density[mid], MOST_EXPONENT + 15)),
    )
    for name in ("log_density", "log_below", "losing", "gaining", "kept", "own_losing", "own_gaining"):
        getattr(found, name).setflags(write=False)
    return found
