"""A metric as a mean over test rows, so that test rows can be drawn anew without computing it again."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.stats import rankdata

Metric = Literal["auc", "accuracy"]


def leading_metric(y: np.ndarray, classes: int) -> Metric:
    """AUC where there are two classes and the test rows `y` int64 (n,) have both; accuracy else."""
    return "auc" if classes == 2 and len(np.unique(y)) == 2 else "accuracy"


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


def auc_row_scores(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """float64 (n,) whose mean is the AUC that `student.evaluation` gives; None where `y` int64 (n,) has one class only.

    Of two classes that of the second; of more the mean over those that occur, each against the rest.
    """
    present = np.unique(y)
    if len(present) < 2:
        return None
    classes = [1] if probabilities.shape[1] == 2 else present
    return np.mean([one_against_rest(probabilities[:, index], y == index) for index in classes], axis=0)


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


def one_against_rest(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """The AUC of `scores` float64 (n,) for `positive` bool (n,), plus each row's influence on it."""
    ranks, share = rankdata(scores), positive.mean()
    placements = np.empty(len(scores))
    placements[positive] = (ranks[positive] - rankdata(scores[positive])) / (~positive).sum()
    placements[~positive] = 1 - (ranks[~positive] - rankdata(scores[~positive])) / positive.sum()
    area = placements[positive].mean()
    return area + (placements - area) / np.where(positive, share, 1 - share)
