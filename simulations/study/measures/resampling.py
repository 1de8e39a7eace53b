"""Intervals over parties: parties are drawn anew with replacement, with a fixed lot (Efron 1979, percentile method).

They say how a figure would vary with other parties like these. With few parties they are too narrow, and with one there
is none.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

REPLICATES = 1000
LEVEL = 0.95
LEAST_FOR_RANKS = 5
"""Parties below which no rank correlation is given: with four, one order of 24 is a perfect one."""
_FEWEST_REPLICATES = 0.9
"""Share of replicates in which a correlation must exist: in one where all parties are the same it has none."""

Estimate = tuple[float, float | None, float | None]
"""Value, low and high."""


def ends(drawn: np.ndarray) -> tuple[float, float]:
    """Low and high end of the interval that replicates float64 (n,) give."""
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def ratio(points: np.ndarray, of: np.ndarray, generator: np.random.Generator) -> Estimate:
    """sum points / sum of, each float64 (parties,), `of` positive; with `of` all 1 it is the mean over parties.

    >>> ratio(np.array([1.0, 1.0]), np.array([2.0, 2.0]), np.random.default_rng(0))
    (0.5, 0.5, 0.5)
    """
    value, parties = float(points.sum() / of.sum()), len(points)
    if parties < 2:
        return value, None, None
    times = generator.multinomial(parties, np.full(parties, 1 / parties), size=REPLICATES)
    return value, *ends((times @ points) / (times @ of))


def rank_correlation(x: np.ndarray, y: np.ndarray, generator: np.random.Generator) -> Estimate | None:
    """Spearman's, of float (parties,); None with fewer than `LEAST_FOR_RANKS`, or where all are equal."""
    if len(x) < LEAST_FOR_RANKS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    picked = generator.integers(len(x), size=(REPLICATES, len(x)))
    drawn = _correlations(rankdata(x[picked], axis=1), rankdata(y[picked], axis=1))
    drawn = drawn[np.isfinite(drawn)]
    value = float(_correlations(rankdata(x)[None], rankdata(y)[None])[0])
    if len(drawn) < _FEWEST_REPLICATES * REPLICATES:
        return value, None, None
    return value, *ends(drawn)


def pair_correlation(x: np.ndarray, y: np.ndarray, generator: np.random.Generator) -> Estimate | None:
    """Spearman's over the pairs of two different parties, of float (parties, parties); the diagonals do not count.

    Pairs that share a party are not independent, so parties are drawn anew and not pairs: a pair counts as often as
    both of its parties were drawn, with the rank that it has among all pairs (Snijders, Borgatti 1999).
    """
    parties = len(x)
    apart = ~np.eye(parties, dtype=bool)
    if parties < LEAST_FOR_RANKS or np.ptp(x[apart]) == 0 or np.ptp(y[apart]) == 0:
        return None
    ranks = []
    for values in (x, y):
        rank = np.zeros((parties, parties))
        rank[apart] = rankdata(values[apart])
        ranks.append((rank - rank[apart].mean()) * apart)
    times = generator.multinomial(parties, np.full(parties, 1 / parties), size=REPLICATES).astype(np.float64)

    def sums(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return ((weights @ values) * weights).sum(axis=1)

    def correlations(weights: np.ndarray) -> np.ndarray:
        count = sums(apart.astype(np.float64), weights)
        means = [sums(rank, weights) / count for rank in ranks]
        spread = [sums(rank**2, weights) / count - mean**2 for rank, mean in zip(ranks, means, strict=True)]
        common = sums(ranks[0] * ranks[1], weights) / count - means[0] * means[1]
        return common / np.sqrt(spread[0] * spread[1])

    with np.errstate(divide="ignore", invalid="ignore"):  # where all pairs of a draw are equal, or it has one party
        drawn = correlations(times)
    drawn = drawn[np.isfinite(drawn)]
    value = float(correlations(np.ones((1, parties)))[0])
    if len(drawn) < _FEWEST_REPLICATES * REPLICATES:
        return value, None, None
    return value, *ends(drawn)


def _correlations(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Pearson's of each row of float64 (n, values); NaN where one of them is constant."""
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (x * y).sum(axis=1) / np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
