"""From counts to a lower bound on epsilon that holds with a stated confidence.

A mechanism is (epsilon, delta)-DP only if Pr[S | D] <= e^epsilon Pr[S | D'] + delta for every set S of outcomes. So any
S gives epsilon >= log((Pr[S | D] - delta) / Pr[S | D']). Each probability is bounded by the exact binomial interval of
Clopper and Pearson 1934; Jagielski, Ullman, Oprea 2020 (arXiv 2006.07709) audit the same way. Bayesian or
log-Katz intervals would be a little tighter, but are not guaranteed to cover.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv


def probability_at_least(hits: np.ndarray, runs: int, alpha: float) -> np.ndarray:
    """One-sided lower bounds: float64, wrong with probability at most alpha each.

    hits : counts among `runs` independent runs.

    >>> probability_at_least(np.array([0, 500, 1000]), 1000, 0.001).round(4).tolist()
    [0.0, 0.4508, 0.9931]
    """
    k = np.asarray(hits, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), runs - k + 1, alpha), 0.0)


def probability_at_most(hits: np.ndarray, runs: int, alpha: float) -> np.ndarray:
    """One-sided upper bounds, likewise.

    >>> probability_at_most(np.array([0, 500, 1000]), 1000, 0.001).round(4).tolist()
    [0.0069, 0.5492, 1.0]
    """
    return 1.0 - probability_at_least(runs - np.asarray(hits), runs, alpha)


def epsilon_at_least(likely: np.ndarray, rare: np.ndarray, delta: np.ndarray | float) -> np.ndarray:
    """Epsilon that no smaller one explains, clipped at 0.

    likely : lower bounds of Pr[S] under one database. rare : upper bounds of Pr[S] under the other.

    >>> epsilon_at_least(np.array([0.6, 0.01]), np.array([0.2, 0.2]), 0.1).round(4).tolist()
    [0.9163, 0.0]
    """
    above = np.maximum(likely - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(above) - np.log(rare), 0.0)
