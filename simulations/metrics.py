"""Metrics on test rows as what they are means of, how far they may lie from the truth, and their means over models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, stdtrit

from consilium.models.evaluation import (
    Interval,
    Z,
    area_interval,
    area_of,
    area_scores,
    mean_interval,
    normal_interval,
    occurring,
    outranked,
    wilson,
)


def auc_row_scores(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """float64 (n,) whose mean is the AUC that `student.evaluation` gives; None where `y` int64 (n,) has one class only.

    Of two classes that of the second; of more the mean over those that occur, each against the rest.
    """
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


def balanced_row_scores(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The balanced accuracy (mean recall of the classes that occur in `y` int64 (n,)) plus each row's influence on it.

    float64 (n,), whose mean it is. Recalls do not depend on how many rows of a class were drawn.
    """
    counts = np.bincount(y, minlength=probabilities.shape[1])
    right = (probabilities.argmax(axis=1) == y).astype(np.float64)
    recall = np.bincount(y, weights=right, minlength=len(counts)) / np.maximum(counts, 1)
    occur = np.count_nonzero(counts)
    return float(recall.sum()) / occur + (right - recall[y]) * len(y) / (occur * counts[y])


def brier_row_scores(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """float64 (n,) whose mean is the Brier score that `student.calibration` gives: of two classes of the second's
    probability, of more the sum over classes."""
    if probabilities.shape[1] == 2:
        return (probabilities[:, 1] - (y == 1)) ** 2
    return ((probabilities - np.eye(probabilities.shape[1])[y]) ** 2).sum(axis=1)


LEVEL = 0.95
"""Probability that an interval of this module covers what it is for."""


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
    return [ratio - Z * deviation, ratio + Z * deviation]


LEAST_OF_A_CLASS = 5
"""Rows of either class that a place has, at least, to be asked how well risks are calibrated there."""
_MOST_ODDS, _NEWTON_STEPS = 12.0, 25


class CalibrationLines(NamedTuple):
    """Of each place that has enough rows, float64 (places,): calibration in the large (log-odds by which risks are too
    low there), slope (of the log-odds of what was so on those that were predicted), and standard errors of both."""

    level: np.ndarray
    level_error: np.ndarray
    slope: np.ndarray
    slope_error: np.ndarray


def calibration_lines(risks: np.ndarray, positive: np.ndarray, place: np.ndarray) -> CalibrationLines:
    """Logistic recalibration at each place (Cox 1958; Van Calster et al. 2019, "Calibration: the Achilles heel").

    risks: float64 (n,) of the class that `positive` bool (n,) is of; place: int64 (n,). The level is for slope 1. Where
    all risks of a place are equal it has a level and no slope (NaN).
    """
    places = int(place.max(initial=-1)) + 1
    counts = np.bincount(place * 2 + positive, minlength=2 * places).reshape(places, 2)
    known = counts.min(axis=1, initial=len(place)) >= LEAST_OF_A_CLASS
    chosen = known[place]
    place, target = (np.cumsum(known) - 1)[place[chosen]], positive[chosen].astype(np.float64)
    odds = logit(np.clip(risks[chosen], 1e-9, 1 - 1e-9)).clip(-_MOST_ODDS, _MOST_ODDS)
    count = int(known.sum())

    def sums(values: np.ndarray) -> np.ndarray:
        return np.bincount(place, weights=values, minlength=count)

    level, both = np.zeros(count), np.stack([np.zeros(count), np.ones(count)])
    centred = odds - (sums(odds) / np.maximum(sums(np.ones(len(odds))), 1))[place]
    information = level_information = np.ones(count)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(_NEWTON_STEPS):
            p = expit(odds + level[place])
            level_information = sums(p * (1 - p))
            level += np.clip(sums(target - p) / level_information, -2, 2)
            p = expit(both[0][place] + both[1][place] * centred)
            weight = p * (1 - p)
            across, cross, along = sums(weight), sums(weight * centred), sums(weight * centred**2)
            information = along - cross**2 / across
            first, second = sums(target - p), sums((target - p) * centred)
            slope_step = (second - cross / across * first) / information
            slope_step = np.where(information > 1e-9, np.clip(slope_step, -2, 2), 0.0)
            both[0] += np.clip((first - cross * slope_step) / across, -2, 2)
            both[1] += slope_step
        flat = information <= 1e-9
        slope, error = np.where(flat, np.nan, both[1]), np.where(flat, np.nan, 1 / np.sqrt(information))
    return CalibrationLines(level, 1 / np.sqrt(level_information), slope, error)


class PooledEffect(NamedTuple):
    """Mean over places, its interval, deviation between places, and the share of their spread that chance does not
    give; of one place no interval of the mean over places, but its own, and 0."""

    mean: float
    interval: Interval
    tau: float
    i2: float


def pooled_effect(values: np.ndarray, errors: np.ndarray) -> PooledEffect | None:
    """Random effects: DerSimonian and Laird 1986, the interval as Hartung and Knapp 2001. float64 (places,) both; those
    that are NaN do not count, and None is left where all are.

    >>> [round(number, 3) for number in pooled_effect(np.array([0.0, 1.0]), np.array([0.1, 0.1]))[2:]]
    [0.7, 0.98]
    """
    known = np.isfinite(values) & np.isfinite(errors)
    values, weights = values[known], 1 / errors[known] ** 2
    if not len(values):
        return None
    if len(values) == 1:
        return PooledEffect(float(values[0]), normal_interval(float(values[0]), float(errors[known][0])), 0.0, 0.0)
    fixed, freedom = float(values @ weights / weights.sum()), len(values) - 1
    q = float(((values - fixed) ** 2) @ weights)
    tau2 = max(0.0, (q - freedom) / float(weights.sum() - (weights**2).sum() / weights.sum()))
    weights = 1 / (1 / weights + tau2)
    mean = float(values @ weights / weights.sum())
    spread = math.sqrt(max(1.0, float(((values - mean) ** 2) @ weights) / freedom) / float(weights.sum()))
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * spread
    return PooledEffect(mean, [mean - half, mean + half], math.sqrt(tau2), max(0.0, 1 - freedom / q) if q > 0 else 0.0)


def net_benefit_scores(risks: np.ndarray, positive: np.ndarray, threshold: float) -> np.ndarray:
    """float64 (n,) whose mean is the net benefit (Vickers, Elkin 2006) of acting where risks float64 (n,) are above the
    threshold: true positives, less false ones at the odds of the threshold; `positive` bool (n,).

    >>> float(net_benefit_scores(np.array([0.9, 0.8, 0.1]), np.array([True, False, False]), 0.5).mean())
    0.0
    """
    return np.where(risks > threshold, np.where(positive, 1.0, -threshold / (1 - threshold)), 0.0)


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
    right = np.stack([output.argmax(axis=1) == y for output in drawn]).astype(np.float64)
    areas = [area for area in (auc_row_scores(output, y) for output in drawn) if area is not None]
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


def holm(values: Sequence[float]) -> list[float]:
    """Holm's corrected p of each (1979, "A simple sequentially rejective multiple test procedure").

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(values, kind="stable")
    corrected = np.empty(len(values))
    corrected[order] = np.maximum.accumulate(np.sort(values) * np.arange(len(values), 0, -1))
    return np.minimum(corrected, 1.0).tolist()


LOW, HIGH = 10, 90
"""Percentiles of the parties that say what one of them has by itself."""


def mean_metrics(tables: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means of what `evaluate` gave for each; None where there is no value for any: no test row has such a class.

    >>> mean_metrics([{"accuracy": 0.5, "auc": None, "recall_per_class": {"ill": share}} for share in (0.25, 0.75)])
    {'accuracy': 0.5, 'auc': None, 'recall_per_class': {'ill': 0.5}}
    """
    recall = {
        name: _mean([item["recall_per_class"][name] for item in tables]) for name in tables[0]["recall_per_class"]
    }
    metrics = {name: _mean([item[name] for item in tables]) for name in ("accuracy", "auc")}
    return {**metrics, "recall_per_class": recall}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


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
