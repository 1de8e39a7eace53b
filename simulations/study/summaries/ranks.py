"""Which properties of a division go with what a method reaches: rank correlations over data sets.

Interval: Bonett and Wright (2000, "Sample size requirements for estimating Pearson, Kendall and Spearman
correlations"): Fisher's z with the variance (1 + r^2 / 2) / (n - 3). With a dozen data sets and
many properties it is exploratory.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import norm, rankdata

from consilium.simulations.study.summaries.inference import LEVEL

LEAST = 5
"""Pairs; of fewer no correlation is told."""


class RankCorrelation(NamedTuple):
    """Spearman's, with its interval and the number of pairs."""

    value: float
    low: float
    high: float
    pairs: int


def rank_correlation(x: np.ndarray, y: np.ndarray) -> RankCorrelation | None:
    """Of x and y float64 (pairs,); None with fewer than `LEAST` pairs, or where one of both does not vary.

    >>> found = rank_correlation(np.arange(12.0), np.arange(12.0) ** 2)
    >>> round(found.value, 3), round(found.high, 3), found.pairs
    (1.0, 1.0, 12)
    """
    if len(x) < LEAST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    value = round(float(np.corrcoef(rankdata(x), rankdata(y))[0, 1]), 12)
    # ranks that agree wholly have no spread to estimate: as if two neighbours were exchanged, with the end at 1 or -1
    next_value = 1 - 12 / (len(x) * (len(x) ** 2 - 1))
    inner = max(-next_value, min(next_value, value))
    half = float(norm.ppf((1 + LEVEL) / 2)) * math.sqrt((1 + inner**2 / 2) / (len(x) - 3))
    low, high = math.tanh(math.atanh(inner) - half), math.tanh(math.atanh(inner) + half)
    return RankCorrelation(value, min(low, value), max(high, value), len(x))
