"""Intervals of a metric over test rows: how far it may lie from that of all rows like these.

Shares: Wilson (1927), which holds near 0 and 1 and for few rows. AUC: DeLong, DeLong, Clarke-Pearson (1988) on the
logit scale (as Qin, Hotilovac 2008 recommend near 1). Of several classes the AUC is a mean of one class against the
rest, and its deviation is that of the mean of their influences. Balanced accuracy: from the intervals of the recalls
(Zou, Donner 2008). None of them draws anything, so there is no seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit, logit

from consilium.simulations.metrics.row_scores import auc_row_scores

LEVEL = 0.95
"""Probability that an interval of this module covers what it is for."""
_Z = 1.959963984540054

Interval = list[float]
"""Lower and upper end; a list, as JSON gives it back."""


def wilson(right: float, count: float) -> Interval:
    """Of a share `right` of `count` rows, at least 1 row.

    >>> [round(end, 4) for end in wilson(90, 100)], [round(end, 4) for end in wilson(0, 10)]
    ([0.8256, 0.9448], [0.0, 0.2775])
    """
    share, square = right / count, _Z**2 / count
    middle = (share + square / 2) / (1 + square)
    half = _Z * math.sqrt(share * (1 - share) / count + square / (4 * count)) / (1 + square)
    return [max(0.0, middle - half), min(1.0, middle + half)]


def mean_interval(scores: np.ndarray, extra: float = 0.0) -> Interval:
    """Of the mean of `scores` float64 (rows,), by its normal law; `extra`: a further independent deviation of it."""
    half = _Z * math.hypot(float(scores.std()) / math.sqrt(len(scores)), extra)
    return [float(scores.mean()) - half, float(scores.mean()) + half]


def area_interval(scores: np.ndarray, least: int, extra: float = 0.0) -> Interval:
    """Of an AUC, from row scores float64 (rows,) whose mean it is; `least`: rows of the rarest class.

    An AUC of 0 or 1 has no deviation to estimate: then as a share of `least` rows, which is wider than it need be.
    """
    area = min(1.0, max(0.0, float(scores.mean())))
    if area < 1e-9 or area > 1 - 1e-9:
        return wilson(area * least, least)
    deviation = math.hypot(float(scores.std()) / math.sqrt(len(scores)), extra)
    half = _Z * deviation / (area * (1 - area))
    return [float(expit(logit(area) - half)), float(expit(logit(area) + half))]


def balanced_interval(right: np.ndarray, counts: np.ndarray) -> Interval:
    """Of a balanced accuracy, from the rows of each class and those of them that are right, int64 (classes,).

    Zou, Donner 2008: where each share has an interval of its own (`wilson`), that of their mean takes the squares of
    what these add on either side, so that a recall of 0 or 1 is not taken for certain. Classes without rows are left
    out.

    >>> [round(end, 4) for end in balanced_interval(np.array([90, 10]), np.array([100, 10]))]
    [0.8063, 0.9724]
    """
    occur = counts > 0
    shares = right[occur] / counts[occur]
    low, high = np.array([wilson(*pair) for pair in zip(right[occur], counts[occur], strict=True)]).T
    mean, classes = float(shares.mean()), len(shares)
    below, above = (math.sqrt(((end - shares) ** 2).sum()) / classes for end in (low, high))
    return [max(0.0, mean - below), min(1.0, mean + above)]


def ratio_interval(points: np.ndarray, of: np.ndarray) -> Interval | None:
    """Of sum(points) / sum(of) over parties float64 (parties,), where other parties might have been there.

    By the linearised ratio (Cochran 1977, section 6.4); None of one party. `of` is at least 0, and some of it is more.
    """
    parties = len(points)
    if parties < 2:
        return None
    ratio = float(points.sum() / of.sum())
    deviation = math.sqrt(parties / (parties - 1) * float(((points - ratio * of) ** 2).sum())) / float(of.sum())
    return [ratio - _Z * deviation, ratio + _Z * deviation]


def metric_intervals(probabilities: np.ndarray, y: np.ndarray, class_names: Sequence[str]) -> dict[str, Any]:
    """Intervals of what `student.evaluation.evaluate` gives for these: accuracy, auc, recall_per_class, each or None.

    `probabilities` float64 (n, classes), `y` int64 (n,), at least one row.
    """
    predicted = probabilities.argmax(axis=1)
    counts = np.bincount(y, minlength=len(class_names))
    areas = auc_row_scores(probabilities, y)
    return {
        "accuracy": wilson(int((predicted == y).sum()), len(y)),
        "auc": None if areas is None else area_interval(areas, int(counts[counts > 0].min())),
        "recall_per_class": {
            name: wilson(int((predicted[y == index] == index).sum()), int(counts[index])) if counts[index] else None
            for index, name in enumerate(class_names)
        },
    }


def drawn_intervals(
    drawn: Sequence[np.ndarray], y: np.ndarray, class_names: Sequence[str], one: bool = False
) -> dict[str, Any]:
    """Likewise of means over draws of what was learnt; `drawn`: probabilities float64 (n, classes) of each draw.

    `one`: of what one more draw would give, so that the interval covers its luck too, and not of the mean.
    """
    if len(drawn) == 1:
        return metric_intervals(drawn[0], y, class_names)
    right = np.stack([found.argmax(axis=1) == y for found in drawn]).astype(np.float64)
    areas = [each for each in (auc_row_scores(found, y) for found in drawn) if each is not None]
    counts = np.bincount(y, minlength=len(class_names))
    least = int(counts[counts > 0].min())

    def spread(scores: np.ndarray) -> float:
        values = scores.mean(axis=1)
        return float(values.std(ddof=1)) / (1 if one else math.sqrt(len(values)))

    def share(scores: np.ndarray) -> Interval:
        low, high = mean_interval(scores.mean(axis=0), spread(scores))
        return [max(0.0, low), min(1.0, high)]

    return {
        "accuracy": share(right),
        "auc": area_interval(np.mean(areas, axis=0), least, spread(np.stack(areas))) if areas else None,
        "recall_per_class": {
            name: share(right[:, y == index]) if counts[index] else None for index, name in enumerate(class_names)
        },
    }
