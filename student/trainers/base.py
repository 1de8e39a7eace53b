"""The interface of all trainers, and what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Model(Protocol):
    """A trained student."""

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Standardised rows float64 (n, features) -> probabilities float64 (n, classes)."""
        ...


class Trainer(Protocol):
    """Trains on released labels."""

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """`x` float64 (n, features) standardised, `y` int64 (n,) in 0..classes-1; at least one row."""
        ...


@dataclass(frozen=True)
class Constant:
    """What can be learned from labels of one class only, or from none."""

    probabilities: tuple[float, ...]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`."""
        return np.tile(np.array(self.probabilities), (len(x), 1))


def constant(y: np.ndarray, classes: int) -> Constant:
    """The class frequencies of `y`; uniform where there are no labels."""
    counts = np.bincount(y, minlength=classes).astype(float)
    return Constant(tuple(float(p) for p in (counts / counts.sum() if len(y) else np.full(classes, 1 / classes))))
