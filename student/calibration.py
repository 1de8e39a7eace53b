"""How far probabilities may be read as risks, on labelled public rows."""

from __future__ import annotations

from typing import Any

import numpy as np

BINS = 15
"""Of the calibration error, with equally many rows each; as in Guo et al. 2017, who take equally wide ones."""


def calibration(probabilities: np.ndarray, y: np.ndarray, class_names: tuple[str, ...]) -> dict[str, Any]:
    """Calibration error, Brier score, and the mean probability of each class beside its rate.

    `probabilities` float64 (n, classes), `y` int64 (n,), at least one row. Of two classes, error and score are those of
    the last one's probability; of more, the error is that of the most probable class, and the score the sum over
    classes (Brier 1950).
    """
    if len(class_names) == 2:
        scores, right = probabilities[:, 1], y == 1
        brier = float(((scores - right) ** 2).mean())
    else:
        scores, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
        brier = float(((probabilities - np.eye(len(class_names))[y]) ** 2).sum(axis=1).mean())
    rates = np.bincount(y, minlength=len(class_names)) / len(y)
    means = probabilities.mean(axis=0)
    return {
        "calibration_error": calibration_error(scores, right),
        "brier": brier,
        "mean_predicted": {name: float(mean) for name, mean in zip(class_names, means, strict=True)},
        "rate": {name: float(rate) for name, rate in zip(class_names, rates, strict=True)},
    }


def calibration_error(scores: np.ndarray, right: np.ndarray, bins: int = BINS) -> float:
    """Mean over rows of |mean score - rate| of their bin: scores float (n,), `right` bool (n,), n at least 1.

    Bins hold equally many rows, in the order of their scores. Rows with equal scores count with their common rate, so
    that the order in which rows come makes no difference.

    >>> round(calibration_error(np.array([0.1, 0.2, 0.9, 0.8]), np.array([False, False, True, False]), 2), 3)
    0.25
    """
    _, group = np.unique(scores, return_inverse=True)
    rates = (np.bincount(group, weights=right) / np.bincount(group))[group]
    order = np.argsort(scores, kind="stable")
    parts = np.array_split(order, min(bins, len(scores)))
    return float(sum(abs(scores[part].sum() - rates[part].sum()) for part in parts) / len(scores))
