"""Logistic regression as scikit-learn fits it, without the checks around it, which cost more than a small party's fit;
and linear models as arrays.

Loss and penalty are those of scikit-learn 1.9, and so is the solver (scipy's L-BFGS) with where it stops. Of two
classes and few inputs Newton's steps reach the same minimum, to more digits, in a tenth of the time.
`tests/models/test_linear.py` holds both against the version that is installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from consilium.models.base import softmax

STEEPEST = 1e-4
"""The solver stops where no part of the gradient is larger; scikit-learn's `tol`."""
LEAST_GAIN = 64 * np.finfo(np.float64).eps
"""Or where a step gains less, relative to the loss."""
LINE_SEARCH = 50
"""Most evaluations in one step."""
FEW_INPUTS = 64
"""Up to so many, a step of Newton's takes less time than it saves."""

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Coefficients float64 (several,) -> loss, and a gradient that is a new array."""


class NotConverged(UserWarning):
    """The solver stopped before the gradient was small; the coefficients are the last that it reached."""


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
        weights = 1 / (len(counts) * counts[positions]) if self.balanced else np.full(len(y), 1 / len(y))
        rows = np.column_stack((x, np.ones(len(y))))
        penalty = np.full(rows.shape[1], 1 / (self.C * len(y)))
        penalty[-1] = 0.0
        if len(counts) == 2 and len(penalty) <= FEW_INPUTS:
            found = self._newton(rows * np.where(positions == 1, -1.0, 1.0)[:, None], weights, penalty)[None, :]
        elif len(counts) == 2:
            found = self._least(_of_two(rows, positions, weights, penalty), rows.shape[1])[None, :]
        else:
            size = rows.shape[1] * len(counts)
            found = self._least(_of_many(rows, positions, weights, penalty), size).reshape(-1, len(counts)).T
        self.coef_, self.intercept_ = found[:, :-1].astype(x.dtype), found[:, -1].astype(x.dtype)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The most probable class of each row, int64 (n,)."""
        scores = self._scores(x)
        return self.classes_[(scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Probabilities (n, seen), in the floats of the rows."""
        scores = self._scores(x)
        return softmax(scores if scores.shape[1] > 1 else np.pad(scores, ((0, 0), (1, 0))))

    def _scores(self, x: np.ndarray) -> np.ndarray:
        return x @ self.coef_.T + self.intercept_

    def _newton(self, against: np.ndarray, weights: np.ndarray, penalty: np.ndarray) -> np.ndarray:
        """Where the loss of `_of_two` is least, from zeros: `against` as there. A step that gains nothing is halved."""
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
        warnings.warn("logistic regression: ITERATIONS of Newton's method end early", NotConverged, stacklevel=3)
        return point

    def _least(self, objective: Objective, size: int) -> np.ndarray:
        """Coefficients float64 (size,) where the objective is least, from zeros."""
        from scipy.optimize import minimize  # a tenth of a second, which few inputs need not wait for

        gradient = np.zeros(size)

        def loss(point: np.ndarray) -> float:
            nonlocal gradient
            value, gradient = objective(point)
            return value

        reached = minimize(
            loss,
            np.zeros(size),
            jac=lambda _: gradient,  # the solver wants it where it has just had the loss
            method="L-BFGS-B",
            options={"maxiter": self.iterations, "maxls": LINE_SEARCH, "gtol": STEEPEST, "ftol": LEAST_GAIN},
        )
        if not reached.success:
            warnings.warn(f"logistic regression: {reached.message}", NotConverged, stacklevel=2)
        return reached.x


def _of_two(rows: np.ndarray, positions: np.ndarray, weights: np.ndarray, penalty: np.ndarray) -> Objective:
    """Mean of log(1 + exp(-margin)); `rows` float64 (n, inputs + 1), the last column ones, `weights` (n,) of sum 1."""
    from scipy.special import expit

    against = rows * np.where(positions == 1, -1.0, 1.0)[:, None]

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        margins, penalised = against @ point, penalty * point
        value = weights @ np.logaddexp(0.0, margins) + 0.5 * (penalised @ point)
        return float(value), (weights * expit(margins)) @ against + penalised

    return objective


def _of_many(rows: np.ndarray, positions: np.ndarray, weights: np.ndarray, penalty: np.ndarray) -> Objective:
    """Mean cross-entropy; coefficients are (inputs + 1, classes) in a row, other arguments as of `_of_two`."""
    each = np.arange(len(rows))

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        coefficients = point.reshape(rows.shape[1], -1)
        scores = rows @ coefficients
        scores -= scores.max(axis=1, keepdims=True)
        truth = scores[each, positions]
        np.exp(scores, out=scores)
        sums = scores.sum(axis=1, keepdims=True)
        penalised = penalty[:, None] * coefficients
        value = weights @ (np.log(sums[:, 0]) - truth) + 0.5 * np.vdot(penalised, coefficients)
        scores /= sums
        scores[each, positions] -= 1
        return float(value), (rows.T @ (scores * weights[:, None]) + penalised).ravel()

    return objective


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


def linear_arrays(fitted: LogisticTeacher, classes: int) -> Linear:
    """The same probabilities; of two classes the first one's scores are 0."""
    weights, intercept = np.asarray(fitted.coef_, np.float64), np.asarray(fitted.intercept_, np.float64)
    if len(fitted.classes_) == 2:
        weights, intercept = np.concatenate([np.zeros_like(weights), weights]), np.append(0.0, intercept)
    return Linear(weights, intercept, np.asarray(fitted.classes_, dtype=np.int64), classes)
