"""Where a student is right and wrong, for the report: from its probabilities and the true labels of public test rows.

Nothing else goes in, so the guarantee of the released labels covers all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from consilium.simulations.metrics.intervals import area_interval, wilson
from consilium.simulations.metrics.row_scores import one_against_rest

BINS = 10
"""Of the calibration curve, with equally many rows each."""
_POINTS = 101
"""Of a ROC curve: at false alarms in steps of a hundredth."""


def student_figures(probabilities: np.ndarray, y: np.ndarray, class_names: Sequence[str]) -> dict[str, Any]:
    """confusion, roc and calibration of `probabilities` float64 (n, classes) on `y` int64 (n,), at least one row."""
    return {
        "confusion": confusion(y, probabilities.argmax(axis=1), len(class_names)),
        "roc": roc_curves(probabilities, y, class_names),
        "calibration": calibration_curve(probabilities, y),
    }


def confusion(y: np.ndarray, predicted: np.ndarray, classes: int) -> list[list[int]]:
    """Rows of each true class (first index) that were called each class (second index).

    >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2)
    [[1, 1], [0, 1]]
    """
    counts = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(counts, (y, predicted), 1)
    return counts.tolist()


def roc_curves(probabilities: np.ndarray, y: np.ndarray, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """One curve for the second of two classes; of more, one for each that occurs, against all others.

    name; found: recall at false alarms 0, 0.01, ..., 1, between thresholds by the straight line; auc with its interval.
    """
    curves = []
    for index in [1] if len(class_names) == 2 else range(len(class_names)):
        positive, scores = y == index, probabilities[:, index]
        if positive.all() or not positive.any():
            continue
        areas = one_against_rest(scores, positive)
        order = np.argsort(-scores, kind="stable")
        last = np.r_[np.flatnonzero(np.diff(scores[order])), len(scores) - 1]
        caught = np.r_[0, np.cumsum(positive[order])[last]] / positive.sum()
        alarms = np.r_[0, np.cumsum(~positive[order])[last]] / (~positive).sum()
        curves.append(
            {
                "name": class_names[index],
                "found": _at(alarms, caught).round(4).tolist(),
                "auc": float(areas.mean()),
                "interval": area_interval(areas, int(min(positive.sum(), (~positive).sum()))),
            }
        )
    return curves


def _at(alarms: np.ndarray, caught: np.ndarray) -> np.ndarray:
    """Recall on a grid of false alarms: the highest at each, straight lines between."""
    grid = np.linspace(0, 1, _POINTS)
    found = np.interp(grid, alarms, caught)
    exact = np.searchsorted(alarms, grid, side="right") - 1
    same = np.isclose(alarms[exact], grid)
    return np.where(same, caught[exact], found)


def calibration_curve(probabilities: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    """How often it is so where the student says so: bins of equally many rows by its probability.

    Of two classes the probability is the second's; of more that of the class it calls. mean: of the probabilities;
    rate: of what was so; interval of the rate; rows.
    """
    if probabilities.shape[1] == 2:
        scores, so = probabilities[:, 1], y == 1
    else:
        scores, so = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    parts = np.array_split(np.argsort(scores, kind="stable"), min(BINS, len(scores)))
    return [
        {
            "mean": float(scores[part].mean()),
            "rate": float(so[part].mean()),
            "interval": wilson(int(so[part].sum()), len(part)),
            "rows": len(part),
        }
        for part in parts
    ]
