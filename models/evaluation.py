"""How good a model is on labelled public rows, how far its probabilities are risks, and where it flags a row."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

Z = 1.959963984540054
"""Deviations of a normal number that it exceeds on either side with a chance of 5 %."""


def evaluate(probabilities: np.ndarray, y: np.ndarray, class_names: tuple[str, ...]) -> dict[str, Any]:
    """Accuracy, AUC and recall of each class. `probabilities` float64 (n, classes), `y` int64 (n,). AUC is that of the
    last class where there are two, else the mean of one class against the rest over the classes that occur; None where
    only one class occurs. Recall is None for a class without rows."""
    predicted = probabilities.argmax(axis=1)
    recall = {name: _share(predicted[y == index] == index) for index, name in enumerate(class_names)}
    present = occurring(y)
    columns = [1] if len(class_names) == 2 else present
    areas = [area_under_curve(probabilities[:, index], y == index) for index in columns] if len(present) > 1 else []
    auc = float(np.mean(areas)) if areas else None
    return {"accuracy": float((predicted == y).mean()), "auc": auc, "recall_per_class": recall}


def wilson(right: float, count: float) -> list[float]:
    """95 % interval of a share `right` of `count` rows, at least 1 row (Wilson 1927).

    >>> [round(end, 4) for end in wilson(90, 100)], [round(end, 4) for end in wilson(0, 10)]
    ([0.8256, 0.9448], [0.0, 0.2775])
    """
    share, square = right / count, Z**2 / count
    middle = (share + square / 2) / (1 + square)
    half = Z * math.sqrt(share * (1 - share) / count + square / (4 * count)) / (1 + square)
    return [max(0.0, middle - half), min(1.0, middle + half)]


def occurring(y: np.ndarray) -> np.ndarray:
    """Classes int64 (several,), ascending, that occur in `y` int64 (n,).

    >>> occurring(np.array([2, 0, 2])).tolist()
    [0, 2]
    """
    return np.flatnonzero(np.bincount(y))


def area_under_curve(scores: np.ndarray, positive: np.ndarray) -> float:
    """Area under the ROC curve of scores float (n,) for `positive` bool (n,), both kinds present; ties count half. From
    ranks (Mann, Whitney 1947): the same number as scikit-learn's, in a twentieth of the time, which counts where
    hundreds of teachers are judged."""
    return area_of(outranked(scores, positive), positive)


def area_of(lower: np.ndarray, positive: np.ndarray) -> float:
    """The same of what `outranked` gave for the scores."""
    count = int(positive.sum())
    return float(lower[positive].sum() / (count * (len(positive) - count)))


def outranked(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """How many rows of the other kind score lower than each row, equal ones for a half: float64 (n,). `scores` float
    (n,), `positive` bool (n,). NaN for every row where one score is NaN."""
    if np.isnan(scores).any():
        return np.full(len(scores), np.nan)
    counts = np.empty(len(scores))
    for own in (positive, ~positive):
        others = np.sort(scores[~own])
        counts[own] = sum(np.searchsorted(others, scores[own], side) for side in ("left", "right")) / 2
    return counts


Metric = Literal["auc", "accuracy"]


def leading_metric(y: np.ndarray, classes: int) -> Metric:
    """AUC where there are two classes and the test rows `y` int64 (n,) have both; accuracy else."""
    return "auc" if classes == 2 and len(occurring(y)) == 2 else "accuracy"


def row_scores(probabilities: np.ndarray, y: np.ndarray, metric: Metric) -> np.ndarray:
    """float64 (n,) whose mean is the metric of `probabilities` (n, classes) on `y` int64 (n,).

    Accuracy: whether each row is right. AUC: the metric, plus each row's influence on it, so that a weighted mean is
    the AUC of rows drawn with these weights, to first order (DeLong, DeLong, Clarke-Pearson 1988; the placements from
    ranks as in Sun, Xu 2014).

    >>> risks = np.array([[0.9, 0.1], [0.6, 0.4], [0.65, 0.35], [0.2, 0.8]])
    >>> float(row_scores(risks, np.array([0, 0, 1, 1]), "auc").mean())
    0.75
    """
    if metric == "accuracy":
        return (probabilities.argmax(axis=1) == y).astype(np.float64)
    return one_against_rest(probabilities[:, 1], y == 1)


def one_against_rest(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """The AUC of `scores` float64 (n,) for `positive` bool (n,), plus each row's influence on it."""
    return area_scores(outranked(scores, positive), positive)


def area_scores(lower: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """The same of what `outranked` gave."""
    share = positive.mean()
    placements = np.where(positive, lower / (~positive).sum(), 1 - lower / positive.sum())
    area = placements[positive].mean()
    return area + (placements - area) / np.where(positive, share, 1 - share)


Interval = list[float]
"""Lower and upper end; a list, as JSON gives it back."""


def mean_interval(scores: np.ndarray, extra: float = 0.0, least: float = -math.inf, most: float = math.inf) -> Interval:
    """Of the mean of `scores` float64 (rows,), by its normal law; `extra`: a further independent deviation of it.
    least, most: what the mean can be.

    >>> mean_interval(np.array([1.0, 1.0, 0.0]), most=1.0)
    [0.13323203596052113, 1.0]
    """
    mean, deviation = float(scores.mean()), math.hypot(float(scores.std()) / math.sqrt(len(scores)), extra)
    return [max(least, mean - Z * deviation), min(most, mean + Z * deviation)]


def area_interval(scores: np.ndarray, least: int, extra: float = 0.0) -> Interval:
    """Of an AUC, from row scores float64 (rows,) whose mean it is; `least`: rows of the rarest class. An AUC of 0 or 1
    has no deviation to estimate: then as a share of `least` rows, which is wider than it need be."""
    area, deviation = float(scores.mean()), math.hypot(float(scores.std()) / math.sqrt(len(scores)), extra)
    area = min(1.0, max(0.0, area))
    if area < 1e-9 or area > 1 - 1e-9:
        return wilson(area * least, least)
    from scipy.special import expit, logit  # predictions start sooner without it

    half = Z * deviation / (area * (1 - area))
    return [float(expit(logit(area) - half)), float(expit(logit(area) + half))]


BINS = 15
"""Of the calibration error, with equally many rows each; as in Guo et al. 2017, who take equally wide ones."""


def calibration(probabilities: np.ndarray, y: np.ndarray, class_names: tuple[str, ...]) -> dict[str, Any]:
    """Calibration error, Brier score, and the mean probability of each class beside its rate. `probabilities` float64
    (n, classes), `y` int64 (n,), at least one row. Of two classes, error and score are those of the last one's
    probability; of more, the error is that of the most probable class, and the score the sum over classes (Brier 1950).
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
    """Mean over rows of |mean score - rate| of their bin: scores float (n,), `right` bool (n,), n at least 1. Bins hold
    equally many rows, in the order of their scores. Rows with equal scores count with their common rate, so that the
    order in which rows come makes no difference."""
    _, group = np.unique(scores, return_inverse=True)
    rates = (np.bincount(group, weights=right) / np.bincount(group))[group]
    order = np.argsort(scores, kind="stable")
    parts = np.array_split(order, min(bins, len(scores)))
    return float(sum(abs(scores[part].sum() - rates[part].sum()) for part in parts) / len(scores))


BY_PREVALENCE = "prevalence"
"""How a threshold was chosen, if not as one half."""


def threshold_for(scores: np.ndarray, share: float) -> float:
    """The threshold above which the share of `scores` float64 (n,) in [0, 1] is as close to `share` as ties allow. It
    lies half-way between two scores, so that rounding moves no row across it."""
    values, counts = np.unique(scores, return_counts=True)
    above = len(scores) - np.concatenate([[0], np.cumsum(counts)])  # rows above a threshold just below value i
    at = int(np.argmin(np.abs(above - share * len(scores))))
    bounds = np.concatenate([[0.0], values, [1.0]])
    return float((bounds[at] + bounds[at + 1]) / 2)


def operating_point(
    probabilities: np.ndarray, y: np.ndarray, class_names: tuple[str, ...], threshold: float | None
) -> dict[str, Any] | None:
    """What the threshold does on labelled rows; None where there are not two classes. `probabilities` float64 (n, 2),
    `y` int64 (n,). threshold: the prevalence's, None where none is known. A share of nothing is None."""
    if len(class_names) != 2:
        return None
    positive, used = y == 1, 0.5 if threshold is None else threshold
    flagged = probabilities[:, 1] > used
    return {
        "class": class_names[1],
        "threshold": used,
        "by": "one half" if threshold is None else BY_PREVALENCE,
        "flagged": float(flagged.mean()),
        "recall": _share(flagged[positive]),
        "specificity": _share(~flagged[~positive]),
        "precision": _share(positive[flagged]),
    }


def _share(of: np.ndarray) -> float | None:
    return float(of.mean()) if len(of) else None
