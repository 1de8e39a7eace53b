"""Students of a plan: ridge regression in closed form, on released labels or on noisy shares of the votes.

They stand for the students that are trained in a run, thousands of times in seconds: linear ones for logistic
regression, those on a kernel's features for kernel ridge regression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.coordinator.planning.features import FeatureMap

_SCALES = np.geomspace(1e-6, 10.0, 15)
"""Prior variances of a weight, times the number of weights; the evidence of what was released chooses among them."""
_MISFITS = (0.0, 0.01, 0.05)
"""Variances of a share that the features do not explain, chosen in the same way."""


@dataclass(frozen=True)
class Learner:
    """A kind of student. trainer: its name in `[student.trainer]`. features: what it sees of rows.

    penalties: tried for students of labels, for all tasks alike, since they are written down before a run.
    settings: keys of `[student.trainer]` for a penalty.
    """

    trainer: str
    features: Callable[[FeatureMap, np.ndarray], np.ndarray]
    penalties: tuple[float, ...]
    settings: Callable[[FeatureMap, float], dict[str, Any]]

    def table(self, features: FeatureMap, penalty: float | None) -> dict[str, Any]:
        """The table `[student.trainer]`; None: the noise that is known says how much to trust."""
        return {"name": self.trainer, **({} if penalty is None else self.settings(features, penalty))}


LEARNERS = (
    Learner(
        "logistic_regression",
        FeatureMap.linear,
        (10.0, 40.0, 130.0, 400.0, 1300.0, 4000.0),
        # the curvature of the logistic loss is a quarter of the squared one's
        lambda _, penalty: {"C": round(4 / penalty, 4)},
    ),
    Learner(
        "kernel_ridge",
        FeatureMap.kernel,
        (0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
        lambda features, penalty: {"gamma": float(f"{features.gamma:.3g}"), "alpha": penalty},
    ),
)


@dataclass(frozen=True)
class Fitted:
    """The rows that are asked, as a singular value decomposition, and the judged rows in its terms.

    left: (n, p). values: (p,), above 0. judged: (m, p); prediction is `judged @ coefficients`.
    """

    left: np.ndarray = field(repr=False)
    values: np.ndarray = field(repr=False)
    judged: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, asked: np.ndarray, judged: np.ndarray) -> Fitted:
        """Of features (n, p) and (m, p)."""
        left, values, right = np.linalg.svd(asked, full_matrices=False)
        keep = values > 1e-9 * max(float(values.max(initial=0.0)), 1.0)
        return cls(left[:, keep], values[keep], judged @ right[keep].T)

    def from_labels(self, labels: np.ndarray, classes: int, penalties: Sequence[float]) -> Iterator[np.ndarray]:
        """Scores (m, classes) of the judged rows for each penalty, from labels int64 (n,), -1 where there is none."""
        known = labels >= 0
        if not known.any():
            yield from (np.zeros((len(self.judged), classes)) for _ in penalties)
            return
        targets = np.eye(classes)[labels[known]]
        mean = targets.mean(axis=0)
        if known.all():
            values, judged, projected = (
                self.values**2,
                self.judged,
                self.values[:, None] * (self.left.T @ (targets - mean)),
            )
        else:
            design = self.left[known] * self.values
            values, turn = np.linalg.eigh(design.T @ design)
            judged, projected = self.judged @ turn, turn.T @ (design.T @ (targets - mean))
        for penalty in penalties:
            yield mean + judged @ (projected / (values + penalty)[:, None])

    def from_shares(self, shares: np.ndarray, deviation: float) -> np.ndarray:
        """Scores (m, classes) of the judged rows, from noisy shares (n, classes) with this noise on each: the mean of
        the Gaussian posterior whose prior scale has the largest evidence.

        Without noise the shares of a row sum to 1; what they sum to beyond is noise, and taken out first.
        """
        classes = shares.shape[1]
        shares = shares - (shares.sum(axis=1, keepdims=True) - 1) / classes
        deviation *= np.sqrt((classes - 1) / classes)
        mean = shares.mean(axis=0)
        targets = shares - mean
        projected = self.left.T @ targets
        unexplained = float((targets**2).sum() - (projected**2).sum())
        free = (len(shares) - len(self.values)) * shares.shape[1]
        best, chosen = -np.inf, np.zeros(len(self.values))
        for misfit in _MISFITS:
            noise = max(deviation**2 + misfit, 1e-9)
            outside = -0.5 * (free * np.log(noise) + unexplained / noise)
            for scale in _SCALES:
                signal = self.values**2 * scale / len(self.values)
                total = signal + noise
                evidence = outside - 0.5 * float(
                    (shares.shape[1] * np.log(total) + (projected**2).sum(axis=1) / total).sum()
                )
                if evidence > best:
                    best, chosen = evidence, signal / total
        return mean + self.judged @ ((chosen / self.values)[:, None] * projected)


def auc(scores: np.ndarray, truth: np.ndarray) -> float:
    """Area under the curve of scores float64 (n,) for truth bool (n,); .5 where one class is missing.

    >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    positives = int(truth.sum())
    if positives in (0, len(truth)):
        return 0.5
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return float((ranks[truth].sum() - positives * (positives + 1) / 2) / (positives * (len(truth) - positives)))
