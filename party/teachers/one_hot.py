"""A teacher of an estimator that names a class and has no probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class OneHotTeacher:
    """Wraps `estimator`: what it predicts has probability 1. `classes_` int64 (seen,)."""

    estimator: Any = field(repr=False)

    @property
    def classes_(self) -> np.ndarray:
        """The classes in the rows that it was trained on."""
        return self.estimator.classes_

    def fit(self, x: np.ndarray, y: np.ndarray) -> OneHotTeacher:
        """`x` float (n, inputs), `y` int64 (n,)."""
        self.estimator.fit(x, y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Classes, int64 (n,)."""
        return self.estimator.predict(x)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Float64 (n, seen): 1 for the class that is predicted, 0 for the others."""
        return (self.predict(x)[:, None] == self.classes_).astype(np.float64)
