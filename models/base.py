"""The interface of all trainers, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from consilium.protocol.label_law import LabelLaw
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

LEAST_STEP = 0.2
"""Of a label (`Shares.of_labels`). Below it all votes alike are more than four deviations of the noise: such a label is
nearly the exact winner, and is learned from as a label. Chosen on development hospitals of stroke, seeds 0 to 9, GNMax,
300 labels: at .24 shares are better than labels with the best C (AUC .774, .773), at .14 worse (.779, .782)."""


@dataclass(frozen=True)
class Shares:
    """What noisy histograms, or labels, say of the share of the votes that each class got, and how noisy they are.

    shares: float64 (n, classes), noisy counts over votes; negative ones and ones above 1 among them, and a row need
    not sum to 1. deviation: float64 (n,), standard deviation of the noise of each share of a row; a fit takes it as
    independent between classes. binary: whether they are of labels, see `of_labels`.
    """

    shares: np.ndarray = field(repr=False)
    deviation: np.ndarray = field(repr=False)
    binary: bool = False

    @classmethod
    def of_labels(cls, labels: np.ndarray, drawn: np.ndarray, step: float) -> Shares | None:
        """Labels of two classes as noisy shares: .5 + step for the class that won, .5 - step for the other. None where
        step is below `LEAST_STEP`.

        A label l (1 or -1) is the sign of n_1 - n_0 + E, where n_1 + n_0 = K votes and E is the difference of the
        noise on both counts, with the density f. So E[l] = 2 F(n_1 - n_0) - 1, which is 2 f(0) (n_1 - n_0) up to the
        third order, and with

            step = 1 / (4 f(0) K),     .5 + step l

        has the mean n_1 / K, and the standard deviation `step` where margins are small, since l^2 is 1. Of Gaussian
        noise of sigma on each count f(0) = 1 / (2 sqrt(pi) sigma), and step = sqrt(pi) sigma / (2 K). Both shares vary
        as one, so that their difference has twice the variance of independent ones; where margins are large a label
        has less. Fits multiply the variance by what the residuals say, 1 at least, and `step` is where they begin.

        It holds where a margin is small against its noise: at |n_1 - n_0| = sigma the mean lies 8 % nearer to .5 than
        the share, at 2 sigma a quarter, and outside .5 +- step it cannot lie. The order of shares stays. Where fewer
        than K vote, shares lie nearer to .5 by that factor. Ties go to the first class: a quarter of a vote. Shares
        outside 0 and 1 are right, and not clipped.

        labels: int64 (n,), 0 or 1. drawn: bool (n,), where votes with that noise gave the label; others (the student's
        own, confirmed; none) say nothing of the votes here. step: a share.

        >>> Shares.of_labels(np.array([1, 0]), np.array([True, True]), 0.25).shares.tolist()
        [[0.25, 0.75], [0.75, 0.25]]
        """
        if step < LEAST_STEP:
            return None
        away = np.where(drawn, np.where(labels == 1, step, -step), 0.0)
        deviation = np.where(drawn, step, NOTHING)
        return cls(np.stack([0.5 - away, 0.5 + away], axis=1), deviation, binary=True)

    def of(self, rows: np.ndarray) -> Shares:
        """Those of some rows, int64 or bool."""
        return Shares(self.shares[rows], self.deviation[rows], self.binary)

    def __len__(self) -> int:
        return len(self.shares)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.shares.shape[1]


@dataclass(frozen=True)
class Outcomes:
    """What became of queries, and by which law: an answer, that there was none, or that the student's own label was
    confirmed, each tells something of the votes.

    labels: int64 (n,), NO_LABEL where there is none. outcomes: int64 (n,), of `Outcome`, none of them NOT_ASKED.
    predictions: float64 (n, classes), what the student said when it asked; None where the law does not use it.
    """

    labels: np.ndarray = field(repr=False)
    outcomes: np.ndarray = field(repr=False)
    classes: int
    law: LabelLaw
    predictions: np.ndarray | None = field(default=None, repr=False)

    def of(self, rows: np.ndarray) -> Outcomes:
        """Those of some rows, int64 or bool."""
        predictions = None if self.predictions is None else self.predictions[rows]
        return Outcomes(self.labels[rows], self.outcomes[rows], self.classes, self.law, predictions)

    def __len__(self) -> int:
        return len(self.labels)


@runtime_checkable
class SharesTrainer(Protocol):
    """Trains on noisy shares of votes, and knows how noisy they are."""

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> Model:
        """`x` float64 (n, inputs), `told` of the same n >= 1 rows -> a model of the shares of votes."""
        ...


@dataclass(frozen=True)
class Aids:
    """What a trainer may use beside the labelled rows.

    unlabelled: float (m, inputs), as the labelled rows are given. progress: whom it tells. schema: of the rows, for a
        student that takes bare features and what the schema makes of them, and for one that looks columns up by name.
    """

    unlabelled: np.ndarray = field(repr=False)
    progress: Progress = no_progress
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
