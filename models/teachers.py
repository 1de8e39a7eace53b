"""Teachers of Consilium's own: ridge regression, and one class for all rows.

Logistic regression is in `models.linear`, networks in `models.torch_classifier`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np


class Teacher(Protocol):
    """What is trained and kept. An estimator of scikit-learn is one."""

    @property
    def classes_(self) -> np.ndarray:
        """The classes int64 (seen,) in its rows, ascending."""
        ...

    def predict(self, x: np.ndarray, /) -> np.ndarray:
        """Rows float (n, inputs) -> the class of each, int64 (n,)."""
        ...

    def predict_proba(self, x: np.ndarray, /) -> np.ndarray:
        """Rows float (n, inputs) -> probabilities (n, seen)."""
        ...


@dataclass
class RidgeTeacher:
    """Linear scores by least squares, minimising |1 b + x w - t|^2 + alpha |w|^2; the intercept b is not penalised.
    Where there are fewer rows than inputs it is solved in the dual: (K + alpha 1) a = t, w = x' a, K the centred rows'
    inner products (Saunders, Gammerman, Vovk 1998). Same numbers as scikit-learn's Ridge on one-hot targets. `classes_`
    int64 (seen,); `weights` (inputs, seen) and `intercept` (seen,) in the floats of the rows."""

    alpha: float
    balanced: bool = False
    classes_: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    weights: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    intercept: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)

    def fit(self, x: np.ndarray, y: np.ndarray) -> RidgeTeacher:
        """`x` float (n, inputs), `y` int64 (n,). `balanced` weighs the classes in the sum of squares equally."""
        self.classes_, positions, counts = np.unique(y, return_inverse=True, return_counts=True)
        targets = np.eye(len(self.classes_), dtype=x.dtype)[positions]
        weights = np.ones(len(y), dtype=x.dtype)
        if self.balanced:
            weights = (len(y) / (len(counts) * counts[positions])).astype(x.dtype)
        mean = np.average(x, axis=0, weights=weights)
        target_mean = np.average(targets, axis=0, weights=weights)
        root = np.sqrt(weights)[:, None]
        rows, targets = (x - mean) * root, (targets - target_mean) * root
        if len(x) <= x.shape[1]:
            self.weights = rows.T @ self._solve(rows @ rows.T, targets)
        else:
            self.weights = self._solve(rows.T @ rows, rows.T @ targets)
        self.intercept = target_mean - mean @ self.weights
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.classes_[self.scores(x).argmax(axis=1)]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Scores without their negative part, scaled to sum 1, (n, seen); one is positive, as they sum to 1."""
        scores = np.maximum(self.scores(x), 0)
        return scores / scores.sum(axis=1, keepdims=True)

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Linear scores (n, seen); those of a row sum to 1, and some may be negative."""
        return x @ self.weights + self.intercept

    def _solve(self, gram: np.ndarray, targets: np.ndarray) -> np.ndarray:
        from scipy.linalg import solve  # as in `base.principal`

        gram[np.diag_indices_from(gram)] += self.alpha
        return solve(gram, targets, assume_a="pos", overwrite_a=True)


@dataclass
class ConstantTeacher:
    """The same class for every row. `classes_` int64 (seen,), ascending; `place`: of the class among them. failed: why
    no estimator could be fitted, empty where the rows have one class. It may quote a row."""

    classes_: np.ndarray = field(repr=False)
    place: int = field(repr=False)
    failed: str = field(default="", repr=False)

    @classmethod
    def most_frequent(cls, y: np.ndarray, failed: str = "") -> ConstantTeacher:
        """The most frequent class of `y` int64 (n,), n >= 1; the first of several.

        >>> ConstantTeacher.most_frequent(np.array([4, 2, 2, 4])).predict(np.zeros((3, 1))).tolist()
        [2, 2, 2]
        """
        classes, counts = np.unique(y, return_counts=True)
        return cls(classes, int(counts.argmax()), failed)

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), self.classes_[self.place])

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """1 for the class and 0 for others, float64 (n, seen)."""
        probabilities = np.zeros((len(x), len(self.classes_)))
        probabilities[:, self.place] = 1.0
        return probabilities
