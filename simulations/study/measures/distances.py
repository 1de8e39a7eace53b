"""Distances between distributions of labels: Hellinger, Jensen-Shannon, total variation. All are from 0 to 1."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.special import rel_entr


def shares(counts: np.ndarray) -> np.ndarray:
    """Counts (..., classes) -> shares float64; all 0 where nothing was counted."""
    return counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)


def hellinger(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """sqrt(1/2 sum (sqrt p - sqrt q)^2), of distributions float64 (..., classes).

    >>> float(hellinger(np.array([1.0, 0.0]), np.array([0.0, 1.0])))
    1.0
    """
    return np.sqrt(((np.sqrt(p) - np.sqrt(q)) ** 2).sum(axis=-1) / 2)


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Jensen-Shannon *distance*: the square root of the divergence in bits (Endres, Schindelin 2003), a metric.

    >>> float(jensen_shannon(np.array([1.0, 0.0]), np.array([0.0, 1.0])))
    1.0
    """
    middle = (p + q) / 2
    bits = (rel_entr(p, middle) + rel_entr(q, middle)).sum(axis=-1) / (2 * np.log(2))
    return np.sqrt(np.maximum(bits, 0))


def total_variation(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """1/2 sum |p - q|: the largest difference in the probability of any event.

    >>> float(total_variation(np.array([0.5, 0.5]), np.array([0.75, 0.25])))
    0.25
    """
    return np.abs(p - q).sum(axis=-1) / 2


DISTANCES = {"hellinger": hellinger, "js": jensen_shannon, "tv": total_variation}
"""By the name of the metric in the results."""


def pairwise_hellinger(p: np.ndarray) -> np.ndarray:
    """Distributions float64 (parties, classes) -> distances float64 (parties, parties)."""
    return squareform(pdist(np.sqrt(p))) / np.sqrt(2)
