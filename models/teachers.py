"""Teachers of Consilium's own: ridge regression, small networks for rows and for images, and one class for all rows.

Logistic regression is in `models.linear`.

What is kept of a network is its weights as numpy arrays, so a teacher that was trained on a GPU loads where there is
none, and a perceptron votes without torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from consilium.models.base import softmax
from consilium.models.keys import NetworkSpec


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
    inner products (Saunders, Gammerman, Vovk 1998). Same numbers as scikit-learn's Ridge on one-hot targets.
    `classes_` int64 (seen,); `weights` (inputs, seen) and `intercept` (seen,) in the floats of the rows.
    """

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
        """The class with the largest score of each row, int64 (n,)."""
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
    """The same class for every row. `classes_` int64 (seen,), ascending; `place`: of the class among them.

    failed: why no estimator could be fitted, empty where the rows have one class. It may quote a row.
    """

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
        """The class, int64 (n,)."""
        return np.full(len(x), self.classes_[self.place])

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """1 for the class and 0 for others, float64 (n, seen)."""
        probabilities = np.zeros((len(x), len(self.classes_)))
        probabilities[:, self.place] = 1.0
        return probabilities


@dataclass
class NetworkTeacher:
    """One network, of the kind that `spec` says.

    `classes_` int64 (seen,). `weights` float32: of "mlp" `hidden.weight` (hidden, inputs), `hidden.bias`, `out.weight`
    (seen, hidden), `out.bias`; of "cnn" `first.*` and `second.*` of the convolutions besides, and
    `hidden-2.*`, `hidden-3.*` where it has such layers.
    """

    spec: NetworkSpec
    seed: int
    classes_: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    weights: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def fit(self, x: np.ndarray, y: np.ndarray) -> NetworkTeacher:
        """`x` float (n, inputs), `y` int64 (n,). On the CPU the same seed gives the same weights."""
        from consilium.models.network_training import train_network  # torch takes two seconds to import

        self.classes_, self.weights = train_network(self.spec, x, y, self.seed)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The most probable class of each row, int64 (n,)."""
        return self.classes_[self._logits(x).argmax(axis=1)]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Probabilities float64 (n, seen)."""
        return softmax(self._logits(x).astype(np.float64))

    def log_probabilities(self, x: np.ndarray) -> np.ndarray:
        """Logarithms of the probabilities, float64 (n, seen): numbers however sure the network is."""
        logits = self._logits(x).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def _logits(self, x: np.ndarray) -> np.ndarray:
        if self.spec.convolutions:
            from consilium.models.network_training import convolutional_logits

            return convolutional_logits(self.weights, x)
        w = self.weights
        hidden = np.maximum(x.astype(np.float32) @ w["hidden.weight"].T + w["hidden.bias"], 0)
        return hidden @ w["out.weight"].T + w["out.bias"]
