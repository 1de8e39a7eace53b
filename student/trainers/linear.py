"""Logistic regression as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import softmax


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
        return among(softmax(x @ self.coefficients.T + self.intercept, axis=1), self.seen, self.classes)


def among(probabilities: np.ndarray, seen: np.ndarray, classes: int) -> np.ndarray:
    """Probabilities (n, seen) of the classes `seen` as float64 (n, classes), 0 for the others."""
    every = np.zeros((len(probabilities), classes))
    every[:, seen] = probabilities
    return every
