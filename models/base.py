"""The interface of all trainers, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.schema import Schema

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
class Shares:
    """What noisy histograms say of the share of the votes that each class got, with the noise that is known.

    shares: float64 (n, classes), noisy counts over votes; negative ones and ones above 1 among them, and a row need
    not sum to 1. deviation: float64 (n,), standard deviation of the noise of each share of a row.
    """

    shares: np.ndarray = field(repr=False)
    deviation: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.shares)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.shares.shape[1]


@runtime_checkable
class SharesTrainer(Protocol):
    """Trains on noisy shares of votes, and knows how noisy they are."""

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> Model:
        """`x` float64 (n, inputs), `told` of the same n >= 1 rows -> a model of the shares of votes."""
        ...


class SoftTrainer(Protocol):
    """Trains on shares that have no noise left."""

    def fit_soft(self, x: np.ndarray, shares: np.ndarray, seed: int) -> Model:
        """`x` float64 (n, inputs), `shares` float64 (n, classes), probabilities."""
        ...


def choose_nothing(choice: dict[str, Any]) -> None:
    """Forgets what a trainer chose."""


@dataclass(frozen=True)
class Job:
    """Where a student may keep its state while it learns, and whom it tells. No `folder`, no checkpoints.

    chose: is told what a trainer chose by what was released, as JSON; the card of the student repeats it.
    """

    folder: Path | None = None
    progress: Progress = no_progress
    chose: Callable[[dict[str, Any]], None] = choose_nothing

    def clear(self) -> None:
        """Remove all checkpoints: what they were for is done."""
        if self.folder is not None:
            for path in self.folder.glob("checkpoint-*"):
                path.unlink()


SILENT = Job()
"""Keeps and tells nothing."""


@dataclass(frozen=True)
class Aids:
    """What a trainer may use beside the labelled rows.

    unlabelled: float (m, inputs), as the labelled rows are given. represent: the schema's, for a student that takes
        bare features and what the schema makes of them. job: where it keeps its state. schema: of the rows, for a
        student of others that looks columns up by name.
    """

    unlabelled: np.ndarray = field(repr=False)
    represent: Represent = np.asarray
    job: Job = SILENT
    schema: Schema | None = None


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
