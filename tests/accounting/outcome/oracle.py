"""The law of a noisy argmax by plain summation in extended precision, and the worst neighbour by trying them all.

But for `per_query`, nothing is shared with the package: each probability is a sum of products, ties are decided class
by class, every move of one vote is tried in both directions. Continuous Gaussian noise: the trapezoidal rule with steps
four times finer than the package's, and the normal distribution from mpmath.
Divergences below 1e-30 are beyond its digits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import cached_property

import mpmath
import numpy as np

from consilium.accounting.outcome import argmax
from consilium.accounting.units import Noise

LONG = np.longdouble


class Oracle:
    """One noise. Tables over y, how far the winner lies above a count, for counts up to ``span`` apart."""

    def __init__(self, kind: str, scale: float, noise: str, span: int) -> None:
        self.kind, self.scale, self.discrete, self.span = kind, scale, noise == "discrete", span
        reach = 11 * scale if kind == "gaussian" else 45 / scale
        self.reach = int(np.ceil(reach)) + 2
        # counts move by one vote, so nodes reach one further and tables another
        self.low, self.high = -self.span - self.reach, self.reach
        units = np.arange(self.low - 2, self.high + self.span + 3)
        if noise == "continuous" and kind == "laplace":
            x, w = np.polynomial.legendre.leggauss(24)
            self.offsets, self.weights = (x + 1) / 2, w / 2
        elif noise == "continuous":
            parts = max(1, int(np.ceil(16 / scale)))
            self.offsets, self.weights = np.arange(parts) / parts, np.full(parts, 1 / parts)
        else:
            self.offsets, self.weights = np.zeros(1), np.ones(1)
        stride = max(1, int(scale / 16)) if noise == "continuous" and kind == "gaussian" else 1
        self.nodes = np.arange(self.low, self.high + 1, stride)
        self.weights = self.weights * stride
        self.units = units
        self.y = units.astype(LONG)[:, None] + self.offsets.astype(LONG)

    @cached_property
    def density(self) -> np.ndarray:
        y, s = self.y, LONG(self.scale)
        if self.kind == "gaussian":
            raw = np.exp(-(y**2) / (2 * s**2))
            span = np.arange(-15 * int(np.ceil(s)) - 15, 15 * int(np.ceil(s)) + 16).astype(LONG)
            whole = np.exp(-(span**2) / (2 * s**2)).sum() if self.discrete else s * np.sqrt(8 * np.arctan(LONG(1)))
            return raw / whole
        raw = np.exp(-s * np.abs(y))
        return raw * np.tanh(s / 2) if self.discrete else raw * s / 2

    @cached_property
    def below(self) -> np.ndarray:
        y, s = self.y, LONG(self.scale)
        if self.kind == "laplace" and not self.discrete:
            tail = np.exp(-s * np.abs(y)) / 2
            return np.where(y < 0, tail, 1 - tail)
        if not self.discrete:
            with mpmath.workdps(25):
                values = [mpmath.nstr(mpmath.ncdf(mpmath.mpf(str(v)) / self.scale), 22) for v in y.ravel()]
            return np.array(values, dtype=LONG).reshape(y.shape)
        # what lies below the first unit of the table
        more = np.arange(1, 15 * int(np.ceil(s if self.kind == "gaussian" else 4 / s)) + 15).astype(LONG)
        first = y[0, 0]
        rest = np.exp(-((first - more) ** 2) / (2 * s**2)) if self.kind == "gaussian" else np.exp(-s * (more - first))
        share = self.density[0, 0] / np.exp(-(first**2) / (2 * s**2) if self.kind == "gaussian" else s * first)
        return (rest.sum() * share + np.cumsum(self.density[:, 0]))[:, None]

    def _at(self, table: np.ndarray, gap: int) -> np.ndarray:
        return table[self.nodes + gap - self.units[0]]

    def law(self, votes: Iterable[int], top: int, ties: bool = True) -> np.ndarray:
        """Pr[j wins]; nodes stand around ``top``, the same for two neighbours."""
        counts = list(votes)
        out = []
        for j, mine in enumerate(counts):
            product = self._at(self.density, top - mine) * self.weights
            for i, other in enumerate(counts):
                if i != j:
                    product = product * self._at(self.below, top - other - int(self.discrete and ties and i < j))
            out.append(product.sum())
        return np.array(out)

    def worst(self, votes: Iterable[int], orders: Iterable[float], votes_moved: int = 1) -> np.ndarray:
        """Largest D_alpha over all histograms that so many moved votes lead to, and both directions."""
        counts = list(votes)
        top = max(counts)
        before = self.law(counts, top)
        powers = np.array(list(orders), dtype=LONG)
        best = np.zeros(powers.size, dtype=LONG)
        for moved in within(counts, votes_moved):
            change = np.log(self.law(moved, top) / before)[:, None]
            for w in (1 - powers, powers):
                terms = before[:, None] * (np.expm1(w * change) - w * np.expm1(change))
                best = np.maximum(best, np.log1p(terms.sum(axis=0)) / (powers - 1))
        return best


def within(counts: list[int], votes_moved: int) -> set[tuple[int, ...]]:
    """Other histograms to which at most so many votes lead, one after the other."""
    found = {tuple(counts)}
    for _ in range(votes_moved):
        for some in list(found):
            for a, b in itertools.permutations(range(len(some)), 2):
                if some[a]:
                    found.add(tuple(n - (i == a) + (i == b) for i, n in enumerate(some)))
    return found - {tuple(counts)}


def per_query(votes, scale, noise, kind, orders, votes_moved=1):
    """What is charged for each query: float64 (queries, orders)."""
    alpha = np.array(orders, dtype=np.float64)
    return argmax._moments(np.asarray(votes), kind, scale, Noise(noise), alpha, votes_moved) / (alpha - 1)
