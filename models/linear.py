"""Teachers of Consilium's own: logistic regression, ridge regression, and one class for all rows; and linear models as
arrays. Networks are in `models.torch_classifier`. Of two classes and few inputs Newton's steps reach the same minimum,
to more digits, in a tenth of the time. `tests/models/test_linear.py` holds them against scikit-learn."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from consilium.models.base import softmax

LEAST_GAIN = 64 * np.finfo(np.float64).eps
"""The solver stops where a step gains less, relative to the loss."""
LINE_SEARCH = 50
"""Most evaluations in one step."""
FEW_INPUTS = 64
"""Up to so many, a step of Newton's takes less time than it saves."""


class Teacher(Protocol):
    """What is trained and kept. An estimator of scikit-learn is one."""

    classes_: np.ndarray
    """int64 (seen,): those in its rows, ascending."""

    def predict(self, x: np.ndarray, /) -> np.ndarray:
        """Rows float (n, inputs) -> the class of each, int64 (n,)."""
        ...

    def predict_proba(self, x: np.ndarray, /) -> np.ndarray:
        """Rows float (n, inputs) -> probabilities (n, seen)."""
        ...


@dataclass
class LogisticTeacher:
    """Logistic regression, multinomial for more than two classes; the intercept is not penalised. C: inverse of the
    penalty |coef_|^2 / 2. balanced: the classes weigh equally. iterations: most steps of the solver. `classes_` int64
    (seen,). `coef_` (1, inputs) and `intercept_` (1,), of the second of two classes; of more, (seen, inputs) and
    (seen,); in the floats of the rows, named as scikit-learn names them."""

    C: float = 1.0
    balanced: bool = False
    iterations: int = 200
    classes_: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    coef_: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    intercept_: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)

    def fit(self, x: np.ndarray, y: np.ndarray) -> LogisticTeacher:
        """`x` float (n, inputs), finite; `y` int64 (n,), of two classes or more."""
        self.classes_, positions, counts = np.unique(y, return_inverse=True, return_counts=True)
        if len(counts) > 2 or x.shape[1] >= FEW_INPUTS:
            from sklearn.linear_model import LogisticRegression  # a second, which few inputs need not wait for

            weight = "balanced" if self.balanced else None
            fitted: Any = LogisticRegression(C=self.C, class_weight=weight, max_iter=self.iterations)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The number of unique classes")  # few rows of many classes are usual
                fitted.fit(x.astype(np.float64), y)
            self.coef_, self.intercept_ = fitted.coef_.astype(x.dtype), fitted.intercept_.astype(x.dtype)
            return self
        weights = 1 / (len(counts) * counts[positions]) if self.balanced else np.full(len(y), 1 / len(y))
        rows = np.column_stack((x, np.ones(len(y))))
        penalty = np.full(rows.shape[1], 1 / (self.C * len(y)))
        penalty[-1] = 0.0
        found = self._newton(rows * np.where(positions == 1, -1.0, 1.0)[:, None], weights, penalty)[None, :]
        self.coef_, self.intercept_ = found[:, :-1].astype(x.dtype), found[:, -1].astype(x.dtype)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        scores = self._scores(x)
        return self.classes_[(scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Probabilities (n, seen), in the floats of the rows."""
        scores = self._scores(x)
        return softmax(scores if scores.shape[1] > 1 else np.pad(scores, ((0, 0), (1, 0))))

    def _scores(self, x: np.ndarray) -> np.ndarray:
        return x @ self.coef_.T + self.intercept_

    def _newton(self, against: np.ndarray, weights: np.ndarray, penalty: np.ndarray) -> np.ndarray:
        """Where the mean of log(1 + exp(margin)) and the penalty are least, from zeros; margins are `against` @ point.
        A step that gains nothing is halved."""
        from scipy.linalg.lapack import dposv  # pyright: ignore[reportAttributeAccessIssue]  # as in `base.principal`
        from scipy.special import expit

        point, margins = np.zeros(len(penalty)), np.zeros(len(against))
        value = np.log(2.0)
        for _ in range(self.iterations):
            wrong = expit(margins)
            gradient = (weights * wrong) @ against + penalty * point
            curvature = (against.T * (weights * wrong * (1 - wrong))) @ against
            np.einsum("ii->i", curvature)[:] += penalty + LEAST_GAIN
            scale = 1 / np.sqrt(curvature.diagonal())  # inputs may be of very different sizes
            _, step, failed = dposv(scale[:, None] * curvature * scale, scale * gradient)
            if failed:
                break
            step *= scale
            for _ in range(LINE_SEARCH):
                further = point - step
                margins = against @ further
                reached = weights @ np.logaddexp(0.0, margins) + 0.5 * (penalty * further) @ further
                if reached <= value:
                    break
                step /= 2
            else:
                return point  # rounding is all that is left
            gained, point, value = value - reached, further, reached
            if gained <= LEAST_GAIN * value:
                return point
        warnings.warn("logistic regression: ITERATIONS of Newton's method end early", stacklevel=3)
        return point


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


@dataclass(frozen=True)
class Linear:
    """Scores `coefficients` float64 (seen, inputs) x + `intercept` (seen,), softmax; `classes` in all. `seen` int64
    (seen,): which classes had a label, ascending; the others get probability 0."""

    coefficients: np.ndarray = field(repr=False)
    intercept: np.ndarray = field(repr=False)
    seen: np.ndarray = field(repr=False)
    classes: int

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return among(softmax(x @ self.coefficients.T + self.intercept), self.seen, self.classes)


def among(probabilities: np.ndarray, seen: np.ndarray, classes: int) -> np.ndarray:
    """Probabilities (n, seen) of the classes `seen` as float64 (n, classes), 0 for the others."""
    every = np.zeros((len(probabilities), classes))
    every[:, seen] = probabilities
    return every
