"""The interface of all trainers, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from consilium.protocol.label_source import LabelLaw

Represent = Callable[[np.ndarray], np.ndarray]
"""Features as they travel (n, features) -> what the schema makes of them (n, inputs): `Schema.inputs`."""


def softmax(scores: np.ndarray) -> np.ndarray:
    """exp(`scores`) as shares, along the last axis of float (..., classes): scipy's to the last digit.

    Of some hundred rows it takes a quarter of the time, since scipy's asks first whose arrays they are.

    >>> softmax(np.log([1.0, 3.0])).round(6).tolist()
    [0.25, 0.75]
    """
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def principal(rows: np.ndarray, least: float, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The `most` directions in which rows (n, inputs) vary most around 0, orthonormal (inputs, kept), and their sums of
    squares (kept,), ascending; none whose sum is no larger than `least`."""
    from scipy.linalg import eigh  # only to train: who answers with a trained model need not wait for it

    wide = rows.shape[1] > len(rows)
    gram = rows @ rows.T if wide else rows.T @ rows
    values, vectors = eigh(gram, subset_by_index=[max(len(gram) - most, 0), len(gram) - 1])
    kept = values > least
    values, vectors = values[kept], vectors[:, kept]
    return values, rows.T @ vectors / np.sqrt(values) if wide else vectors


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


NOTHING = 1e9
"""Deviation of a share that says nothing, and that trainers can square and add up."""


@dataclass(frozen=True)
class Shares:
    """What noisy histograms say of the share of the votes that each class got, and how noisy they are. shares: float64
    (n, classes), noisy counts over votes; negative ones and ones above 1 among them, and a row need not sum to 1.
    deviation: float64 (n,), standard, of the noise of each share of a row, independent between classes to a fit."""

    shares: np.ndarray = field(repr=False)
    deviation: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.shares)

    @property
    def classes(self) -> int:
        return self.shares.shape[1]


@dataclass(frozen=True)
class Outcomes:
    """What became of queries, and by which law: an answer, that there was none, or that the student's own label was
    confirmed, each tells something of the votes. labels: int64 (n,), NO_LABEL where there is none. outcomes: int64
    (n,), of `Outcome`, none of them NOT_ASKED. predictions: float64 (n, classes), what the student said when it asked;
    None where the law does not use it."""

    labels: np.ndarray = field(repr=False)
    outcomes: np.ndarray = field(repr=False)
    classes: int
    law: LabelLaw
    predictions: np.ndarray | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.labels)


Told = Shares | Outcomes
"""What a student was told of the votes, with the law by which that follows from them."""


class EvidenceTrainer(Trainer, Protocol):
    """Also trains on noisy shares of votes, or on what became of queries, by the law of their noise."""

    def fit_told(self, x: np.ndarray, told: Told, seed: int) -> Model:
        """`x` float64 (n, inputs), `told` of the same n >= 1 rows -> a model of the shares of votes."""
        ...


@dataclass(frozen=True)
class Constant:
    """What can be learned from labels of one class only, or from none."""

    probabilities: tuple[float, ...]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.tile(np.array(self.probabilities), (len(x), 1))


def constant(y: np.ndarray, classes: int) -> Constant:
    """The class frequencies of `y`; uniform where there are no labels."""
    counts = np.bincount(y, minlength=classes).astype(float)
    return Constant(tuple(float(p) for p in (counts / counts.sum() if len(y) else np.full(classes, 1 / classes))))
