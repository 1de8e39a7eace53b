"""What models and votes say of each class, in the order of all classes."""

from __future__ import annotations

from typing import Any

import numpy as np


def class_probabilities(model: Any, x: np.ndarray, classes: int) -> np.ndarray:
    """Of a trained classifier with scikit-learn's methods, on `x` float (rows, inputs) -> float64 (rows, classes).

    0 for a class that it has not seen.
    """
    probabilities = np.zeros((len(x), classes))
    if len(x):
        probabilities[:, model.classes_] = model.predict_proba(x)
    return probabilities


def vote_shares(votes: np.ndarray) -> np.ndarray:
    """Of votes (rows, classes) the share that each class got: float64 (rows, classes).

    >>> vote_shares(np.array([[3, 1], [0, 0]])).tolist()
    [[0.75, 0.25], [0.0, 0.0]]
    """
    return votes / np.maximum(votes.sum(axis=1, keepdims=True), 1)
