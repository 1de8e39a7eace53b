"""Linear models as arrays, so that no library's object is loaded, and the student that is one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.models.base import softmax
from consilium.models.linear import LogisticTeacher


@dataclass(frozen=True)
class Linear:
    """Scores `coefficients` float64 (seen, inputs) x + `intercept` (seen,), softmax; `classes` in all.

    `seen` int64 (seen,): which classes had a label, ascending; the others get probability 0.
    """

    coefficients: np.ndarray = field(repr=False)
    intercept: np.ndarray = field(repr=False)
    seen: np.ndarray = field(repr=False)
    classes: int

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`."""
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
