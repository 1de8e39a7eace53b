"""Who wins a noisy argmax, where the winner lies, and what one moved vote does to both.

Ties of integer noise go to the lowest index, as `numpy.argmax` does: class i stays below winner j if its noisy count is
at most that of j where i > j, and less where i < j.

Nodes
-----
At these the position of the winning noisy count is summed. The probability that class j wins is a sum (integer noise)
or an integral over x, the height of the winner: the density of count j at x times, for each other class, the
probability of staying below. Three rules:

discrete Laplace    every integer: nothing is approximated.
Gaussian            the trapezoidal rule. For z = x + iy both |density(z)| <= e^(y^2/2s^2) density(x) and
                    |Phi(z)| <= e^(y^2/2s^2) Phi(x) hold (the second from Phi(z) = integral over t >= 0 of
                    density(z - t)), for integer noise as well, whose tail is the same with a sum over t. So with m
                    classes, in the strip |y| <= d, the integrand grows by at most e^(m d^2/2s^2), and the
                    trapezoidal error is at most 2 / (e^(2 pi d/h) - 1) times that, relative to the probability itself
                    (Trefethen and Weideman, SIAM Review 2014, Theorem 5.1). A sum over every h-th integer is compared
                    with the sum over all through the same integral.
continuous Laplace  Gauss-Legendre within each unit, as densities have kinks at integers only. A factor grows by at
                    most e^(gamma R) within distance R, so all m by e^(m gamma R): the error follows from the largest
                    value in a Bernstein ellipse (Trefethen, SIAM Review 2008, Theorem 4.5).

``ERROR`` bounds all of them, and the tails that are cut off, relative to each probability.

Tables
------
They hold what one noisy count does, over all integer gaps. Everything is a function of y, how far the winner lies above
a class's count:

log_density   log of the density (or probability) that the class's own noise is y
log_below     log F(y), the class stays below (integer noise: at or below)
losing        F(y + 1) / F(y) - 1, what one vote less does to that; at least 0 and falling in y
gaining       F(y - 1) / F(y) - 1, what one vote more does; at most 0 and rising in y, since F is log-concave
kept          F(y - 1) / F(y) itself, which does not cancel near 0
own_losing    density(y + 1) / density(y), for the class that wins
own_gaining   density(y - 1) / density(y) - 1
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from consilium.accounting.curves.discrete import log_tail_table
from consilium.accounting.units import Noise

ERROR = 2e-11
"""Relative error of each probability, of the rule and of the tails cut off together."""

_RULE = 1e-11
_LOW, _HIGH = 6.5, 8.0
_LAPLACE_LOW, _LAPLACE_HIGH = 16.0, 30.0
MOST_EXPONENT = 690.0
"""Largest logarithm of a factor that is formed; ``fits`` says which histograms stay below it."""
MOST_CELLS = 1 << 23
"""Nodes times classes, squared, of one histogram: some hundred megabytes while it is computed."""


class NodeRule(NamedTuple):
    """Nodes around an integer lattice: ``stride`` integers apart, or, at a stride of 1, several ``offsets`` after each
    integer with their weights."""

    stride: int
    offsets: tuple[float, ...]
    weights: tuple[float, ...]


def reach(kind: str, scale: float, gap: int) -> tuple[int, int]:
    """Integers below and above the largest count between which the winner lies, for every class within ``gap`` of it.

    Outside lies less than 1e-12 of each class's probability of winning. Gaussian: a class D behind that wins does so
    around D/2, with deviations that fall at least like two squared Gaussians. Laplace: below the class's own count both
    it and the plurality decay.
    """
    if kind == "laplace":
        return -math.ceil(gap + _LAPLACE_LOW / scale) - 2, math.ceil(_LAPLACE_HIGH / scale) + 2
    return -math.ceil(gap / 2 + _LOW * scale) - 2, math.ceil(_HIGH * scale) + 2


@lru_cache(maxsize=4096)
def largest_step(classes: int) -> float:
    """Largest step in units of s whose trapezoidal error is below 1e-11: the least over strips of half-width d s."""
    d = np.geomspace(0.02, 8.0, 400)
    # two sums are compared with one integral, hence 4 rather than 2
    return float(np.max(2 * math.pi * d / np.logaddexp(0.0, classes * d**2 / 2 + math.log(4 / _RULE))))


@lru_cache(maxsize=256)
def _gauss_legendre(growth: float) -> NodeRule:
    """Fewest nodes in a unit for an integrand that grows by e^(growth R) within distance R."""
    rho = np.geomspace(1.5, 400.0, 300)
    log_most = growth * ((rho + 1 / rho) / 4 + 0.5) + math.log(64 / 15) - np.log1p(-(rho**-2))
    nodes = 2
    while np.min(log_most - 2 * nodes * np.log(rho)) > math.log(_RULE):
        nodes += 1
    x, w = np.polynomial.legendre.leggauss(nodes)
    return NodeRule(1, tuple((x + 1) / 2), tuple(w / 2))


def rule(kind: str, scale: float, noise: Noise, classes: int) -> NodeRule:
    """The coarsest rule that keeps the stated error."""
    if kind == "laplace":
        return NodeRule(1, (0.0,), (1.0,)) if noise is Noise.DISCRETE else _gauss_legendre(scale * classes)
    step = scale * largest_step(classes)
    if step >= 1 or noise is Noise.DISCRETE:
        stride = max(1, math.floor(step))
        return NodeRule(stride, (0.0,), (float(stride),))
    parts = math.ceil(1 / step)
    return NodeRule(1, tuple(i / parts for i in range(parts)), (1 / parts,) * parts)


def fits(scale: float, gaps: np.ndarray, kind: str, noise: Noise, classes: int) -> np.ndarray:
    """Queries whose factors fit into doubles, and whose tables into memory: bool (queries,); gaps int64 (queries,).
    Gaussian: one vote changes the chance of staying below by e^(gap / 2s^2)."""
    if not (1e-4 <= scale <= 20.0 if kind == "laplace" else scale <= 2e4):
        return np.zeros(gaps.shape, dtype=bool)
    small = (gaps / 2 + 6.5 * scale + 5) / scale**2 < MOST_EXPONENT if kind == "gaussian" else True
    return (cells(scale, gaps, kind, noise, classes) < MOST_CELLS) & small


def cells(scale: float, gaps: np.ndarray, kind: str, noise: Noise, classes: int) -> np.ndarray:
    """Nodes times classes, squared, of each histogram: float64 (queries,); arguments as of ``fits``."""
    nodes = rule(kind, scale, noise, classes)
    low, high = (
        (-np.floor(gaps + _LAPLACE_LOW / scale), _LAPLACE_HIGH / scale)
        if kind == "laplace"
        else (-np.floor(gaps / 2 + _LOW * scale), _HIGH * scale)
    )
    return (high - low) / nodes.stride * len(nodes.offsets) * classes**2


class Tables(NamedTuple):
    """Seven float64 vectors over y = first, first + offset, ..., by integer and then by offset."""

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


def law(kind: str, scale: float, y: np.ndarray, noise: Noise) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log density (or probability) of one count's noise at y, log Pr[<= y], log Pr[> y]: three float64, shape of y."""
    return (_gaussian if kind == "gaussian" else _laplace)(scale, y, noise)


@lru_cache(maxsize=32)
def tables(kind: str, scale: float, noise: Noise, rule: NodeRule, most_gap: int) -> Tables:
    """Tables for histograms whose counts differ by at most ``most_gap``; kept for the next batch."""
    low, high = reach(kind, scale, most_gap)
    first, last = low - 2, high + most_gap + rule.stride + 2
    per = len(rule.offsets)
    # one unit more at either end, for the votes that move
    y = (np.arange(first - 1, last + 2)[:, None] + np.array(rule.offsets)[None, :]).ravel()
    density, below, above = law(kind, scale, y, noise)
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

    return Tables(
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


class Winners(NamedTuple):
    """A block of histograms with the law of the winner. Secret. votes, gaps (to the largest count): int64 (queries,
    classes). log_p: float64 (queries, classes), log Pr[j wins]. at: float64 (queries, classes, nodes), where the
    winner lies if it is j; sums to 1."""

    tables: Tables
    votes: np.ndarray
    gaps: np.ndarray
    low: int
    log_p: np.ndarray
    at: np.ndarray

    def window(self, table: np.ndarray, gaps: np.ndarray) -> np.ndarray:
        return self.tables.window(table, gaps, self.low, self.at.shape[2])

    def first(self) -> np.ndarray:
        """Whether class i has a lower index than class j, so that it wins their ties: (classes, classes)."""
        return np.triu(np.ones((self.votes.shape[1],) * 2, dtype=bool), 1)


def winners(tables: Tables, votes: np.ndarray, low: int, high: int) -> Winners:
    """The law of the winner for int64 (queries, classes); ``low`` and ``high`` as from ``quadrature.reach``."""
    rule = tables.rule
    nodes = -(-(high - low) // rule.stride) + 1 if len(rule.offsets) == 1 else (high - low + 1) * len(rule.offsets)
    gaps = votes.max(axis=1, keepdims=True) - votes
    weights = np.log(np.resize(np.array(rule.weights), nodes))
    # exclusive sums over the classes before (which must stay strictly below) and after
    weak = tables.window(tables.log_below, gaps, low, nodes)
    strict = tables.window(tables.log_below, gaps - 1, low, nodes) if tables.strict else weak
    log_at = tables.window(tables.log_density, gaps, low, nodes)
    log_at += weights
    if strict is weak:
        log_at += weak.sum(axis=1, keepdims=True) - weak
    else:
        log_at[:, 1:] += np.cumsum(strict[:, :-1], axis=1)
        log_at[:, :-1] += np.cumsum(weak[:, :0:-1], axis=1)[:, ::-1]
    peak = log_at.max(axis=2, keepdims=True)
    log_at -= peak
    at = np.exp(log_at, out=log_at)
    total = at.sum(axis=2, keepdims=True)
    at /= total
    return Winners(tables, votes, gaps, low, (peak + np.log(total))[..., 0], at)


def log1p_or(small: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """log(1 + small), from ``whole`` = 1 + small where that has not cancelled."""
    near = small < -0.5
    out = np.log1p(np.where(near, 0.0, small))
    if near.any():
        with np.errstate(divide="ignore"):
            np.copyto(out, np.log(whole), where=near)
    return out


def remove(state: Winners) -> tuple[np.ndarray, np.ndarray]:
    """One vote less for each class a: float64 (queries, a, classes), log of the factor on Pr[j wins], and (queries, a,
    classes, nodes), where the winner j then lies. Sums of at and factor - 1, so that small changes keep their digits.
    """
    tables, gaps = state.tables, state.gaps
    weak = state.window(tables.losing, gaps)
    factor = np.repeat(weak[:, :, None], gaps.shape[1], axis=2)
    if tables.strict:
        strict = state.window(tables.losing, gaps - 1)
        factor = np.where(state.first()[..., None], strict[:, :, None], factor)
    own, each = state.window(tables.own_losing, gaps), np.arange(gaps.shape[1])
    factor[:, each, each] = own - 1
    change = np.einsum("qamk,qmk->qam", factor, state.at)
    factor += 1
    factor[:, each, each] = own
    factor *= state.at[:, None]
    whole = factor.sum(axis=3)
    factor /= whole[..., None]
    return log1p_or(change, whole), factor


def move(state: Winners) -> np.ndarray:
    """log of the factor on Pr[j wins] of moving a vote from a to b: float64 (queries, a, b, classes)."""
    tables, gaps = state.tables, state.gaps
    change, at = remove(state)
    queries, rows, classes, nodes = at.shape
    flat = at.reshape(queries, rows * classes, nodes)

    def against(table: np.ndarray) -> np.ndarray:
        """What one vote more for b does to its staying below the winner j, as if b = j did not win by it."""
        found = (flat @ state.window(table, gaps).transpose(0, 2, 1)).reshape((*at.shape[:3], -1))
        if tables.strict:
            strict = flat @ state.window(table, gaps - 1).transpose(0, 2, 1)
            found = np.where(state.first().T, strict.reshape(found.shape), found)
        return found.transpose(0, 1, 3, 2)

    small = against(tables.gaining)
    factor = log1p_or(small, against(tables.kept) if small.min(initial=0.0) < -0.5 else small)
    # The winner b itself: its own density moves instead of its chance of staying below. A vote more never makes it less
    # likely, whatever rounding says.
    own, each = np.einsum("qabk,qbk->qab", at, state.window(tables.own_gaining, gaps)), np.arange(classes)
    factor[:, :, each, each] = np.log1p(np.maximum(own, 0.0))
    return change[:, :, None, :] + factor
