"""Metrics on test rows as what they are means of, how far they may lie from the truth, and their means over models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from consilium.models.evaluation import (
    Interval,
    Z,
    area_interval,
    area_of,
    area_scores,
    mean_interval,
    occurring,
    outranked,
    wilson,
)


def auc_row_scores(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """float64 (n,) whose mean is the AUC that `evaluate` gives: of two classes that of the second, of more the mean
    over those that occur, each against the rest; None where `y` int64 (n,) has one class only."""
    judged = judged_area(probabilities, y)
    return None if judged is None else judged[1]


def judged_area(probabilities: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray] | None:
    """That AUC, and these row scores."""
    present = occurring(y)
    if len(present) < 2:
        return None
    areas, scores = [], []
    for index in [1] if probabilities.shape[1] == 2 else present:
        positive = y == index
        lower = outranked(probabilities[:, index], positive)
        areas.append(area_of(lower, positive))
        scores.append(area_scores(lower, positive))
    return float(np.mean(areas)), np.mean(scores, axis=0)


def brier_row_scores(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """float64 (n,) whose mean is the Brier score: of two classes of the second's probability, of more the sum over
    classes."""
    if probabilities.shape[1] == 2:
        return (probabilities[:, 1] - (y == 1)) ** 2
    return ((probabilities - np.eye(probabilities.shape[1])[y]) ** 2).sum(axis=1)


def ratio_interval(points: np.ndarray, of: np.ndarray) -> Interval | None:
    """Of sum(points) / sum(of) over parties float64 (parties,), where other parties might have been there, by the
    linearised ratio (Cochran 1977, section 6.4); None of one party. `of` is at least 0, and some of it is more."""
    parties = len(points)
    if parties < 2:
        return None
    ratio = float(points.sum() / of.sum())
    deviation = math.sqrt(parties / (parties - 1) * float(((points - ratio * of) ** 2).sum())) / float(of.sum())
    return [ratio - Z * deviation, ratio + Z * deviation]


def metric_intervals(probabilities: np.ndarray, y: np.ndarray, class_names: Sequence[str]) -> dict[str, Any]:
    """Intervals of what `evaluate` gives for these: accuracy, auc, recall_per_class, each or None. `probabilities`
    float64 (n, classes), `y` int64 (n,), at least one row."""
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
    """Accuracy's and auc's of means over draws of what was learnt; `drawn`: probabilities float64 (n, classes) of each.
    `one`: of what one more draw would give, so that the interval covers its luck too, and not of the mean."""
    if len(drawn) == 1:
        return metric_intervals(drawn[0], y, class_names)
    right = np.stack([output.argmax(axis=1) == y for output in drawn]).astype(np.float64)
    areas = [area for area in (auc_row_scores(output, y) for output in drawn) if area is not None]
    counts = np.bincount(y)

    def spread(scores: np.ndarray) -> float:
        values = scores.mean(axis=1)
        return float(values.std(ddof=1)) / (1 if one else math.sqrt(len(values)))

    least = int(counts[counts > 0].min())
    return {
        "accuracy": mean_interval(right.mean(axis=0), spread(right), 0.0, 1.0),
        "auc": area_interval(np.mean(areas, axis=0), least, spread(np.stack(areas))) if areas else None,
    }


def holm(values: Sequence[float]) -> list[float]:
    """Holm's corrected p of each (1979, "A simple sequentially rejective multiple test procedure").

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(values, kind="stable")
    corrected = np.empty(len(values))
    corrected[order] = np.maximum.accumulate(np.sort(values) * np.arange(len(values), 0, -1))
    return np.minimum(corrected, 1.0).tolist()


LOW, HIGH = 10, 90  # percentiles of the parties that say what one of them has by itself


def mean_metrics(tables: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means of what `evaluate` gave for each; None where there is no value for any."""
    return {metric: mean_of([item[metric] for item in tables]) for metric in ("accuracy", "auc")}


def mean_of(values: Sequence[float | None]) -> float | None:
    """Of those that are known; None of none."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def shares(counts: np.ndarray) -> np.ndarray:
    """Counts (..., classes) -> shares float64; all 0 where nothing was counted.

    >>> shares(np.array([[3, 1], [0, 0]])).tolist()
    [[0.75, 0.25], [0.0, 0.0]]
    """
    return counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)


def over_parties(metric: str, values: Sequence[float]) -> dict[str, float | None]:
    """Mean and percentiles of a metric over the parties, under names of their own; None where no party has it.

    >>> over_parties("auc", [0.0, 0.5, 1.0])
    {'auc': 0.5, 'auc_p10': 0.1, 'auc_p90': 0.9}
    """
    names = (metric, f"{metric}_p{LOW}", f"{metric}_p{HIGH}")
    if not values:
        return dict.fromkeys(names)
    low, high = np.percentile(values, (LOW, HIGH))
    return dict(zip(names, (float(np.mean(values)), float(low), float(high)), strict=True))
