"""What trained teachers give beside votes: probabilities, and the weights and directions of linear ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilium.models.keys import LogisticRegressionSpec, RidgeSpec, TeacherKind


def class_probabilities(model: Any, x: np.ndarray, classes: int) -> np.ndarray:
    """Of a trained classifier with scikit-learn's methods, on `x` float (rows, inputs) -> float64 (rows, classes).

    0 for a class that it has not seen.
    """
    probabilities = np.zeros((len(x), classes))
    if len(x):
        probabilities[:, model.classes_] = model.predict_proba(x)
    return probabilities


class DirectionSum:
    """Sum over the parties of what each gives to a noisy average: never all weights at once.

    total: float64 (inputs, classes), (0, 0) before the first party.
    """

    def __init__(self) -> None:
        self.parties = self.teachers_per_party = 0
        self.total = np.zeros((0, 0))

    def add(self, direction: np.ndarray, teachers: int) -> None:
        """Of one party: the mean of its teachers' `directions`, float64 (inputs, classes), and how many these are."""
        self.total = self.total + direction if self.parties else direction
        self.parties, self.teachers_per_party = self.parties + 1, teachers


def directions(weights: np.ndarray) -> np.ndarray:
    """`weights` (teachers, inputs, classes), each teacher's scaled to Euclidean norm 1; zeros stay zeros.

    >>> directions(np.array([[[3.0], [4.0]], [[0.0], [0.0]]])).ravel().round(6).tolist()
    [0.6, 0.8, 0.0, 0.0]
    """
    largest = np.abs(weights).max(axis=(1, 2), keepdims=True)  # squares of tiny weights are 0
    scaled = weights / np.where(largest > 0, largest, 1.0)
    return scaled / np.maximum(np.sqrt((scaled**2).sum(axis=(1, 2), keepdims=True)), 1.0)


def has_linear_scores(spec: TeacherKind) -> bool:
    """Whether teachers of this kind have weights."""
    return isinstance(spec, LogisticRegressionSpec | RidgeSpec)


def linear_scores(spec: TeacherKind, teacher: Any, inputs: int, classes: int) -> np.ndarray | None:
    """Weights float64 (inputs + 1, classes) of a trained teacher, the intercept last; None for a kind that has none.

    A class that the teacher never saw has zeros, and so has every one of a teacher that saw one class only.
    """
    if not has_linear_scores(spec):
        return None
    every = np.zeros((inputs + 1, classes))
    if len(teacher.classes_) < 2:
        return every
    if isinstance(spec, RidgeSpec):
        weights = np.concatenate([teacher.weights, teacher.intercept[None, :]])
    else:
        weights = np.concatenate([teacher.coef_, teacher.intercept_[:, None]], axis=1).T
        if weights.shape[1] == 1:  # of two classes scikit-learn keeps the second's
            weights = np.concatenate([np.zeros_like(weights), weights], axis=1)
    every[:, teacher.classes_] = weights
    return every - every.mean(axis=1, keepdims=True)  # the same decisions with the least norm
