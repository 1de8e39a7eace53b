"""Students that learn from what a mechanism released: its noise is known, so nothing about it must be guessed.

There are smooth functions of rows (a kernel's, a graph's), many classes that are named unequally often and made
comparable (`even`), and shares of all public rows for trainers that need labels. All of it is post-processing of what
was released: it costs no privacy.

Of many classes some get votes on nearly all rows: teachers that do not know a row's class name one that they do know.
If noise is much larger than a share, regression shrinks all classes alike towards their means, and the largest
share is that of a class that is named often anywhere. What tells a row's class is how far its share is above what is
usual for that class; and a class that would be found on more rows than others is held back (Sinkhorn's iteration, as
Asano, Rupprecht, Vedaldi, Self-labelling, ICLR 2020, assign images to as many clusters of one size). This supposes that
classes are about as frequent as each other; where they are not, `even` finds rare ones too often.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatch

import numpy as np

from consilium.models.base import EvidenceTrainer, Model, Outcomes, Shares, Told, Trainer, constant, softmax
from consilium.models.evidence import (
    Landmarks,
    Regression,
    SoftmaxFit,
    fit_scores,
    fit_softmax,
    gammas,
    graph_functions,
    regress,
)
from consilium.models.kernel import GraphTrainer, KernelModel, kernel_ridge
from consilium.models.keys import GraphStudent
from consilium.models.own_model import OwnTrainer
from consilium.protocol.label_source import NO_LABEL

_NO_SPREAD = 1e-9
"""Of a class's share: it says nothing then."""

_SHARPNESS = 2.0
"""A row is of a class with a probability that is e^2 times as large for each deviation that its share is above the
mean."""

# The best of 1, 2 and 4 on font families that are private with seed 0.

_NEVER = 1e-300
_ROUNDS = 100
_SETTLED = 1e-3


def even(shares: np.ndarray) -> np.ndarray:
    """Shares float64 (n, classes), each class with the spread that they have in the mean, and found on as many rows.

    >>> even(np.array([[0.7, 0.3], [0.9, 0.1]])).round(2).tolist()
    [[0.4, 0.6], [0.6, 0.4]]
    """
    mean, spread = shares.mean(axis=0), shares.std(axis=0)
    usual = spread.mean()
    if usual <= _NO_SPREAD:
        return np.full(shares.shape, 1 / len(mean))
    factor = np.divide(usual, spread, out=np.zeros_like(spread), where=spread > _NO_SPREAD)
    apart = (shares - mean) * factor / usual
    return 1 / len(mean) + usual * (apart + _held_back(apart))


def _held_back(apart: np.ndarray) -> np.ndarray:
    """What is added to each class of `apart` (n, classes), in deviations, so that all are found as often; mean 0."""
    added = np.zeros(apart.shape[1])
    for _ in range(_ROUNDS):
        found = softmax(_SHARPNESS * (apart + added)).mean(axis=0) * len(added)
        added -= np.log(np.maximum(found, _NEVER)) / _SHARPNESS
        if np.abs(found - 1).max() < _SETTLED:
            break
    return added - added.mean()


_LEAST_ROWS = 4
"""Of a graph."""

_SAMPLE = 500
_LITTLE_NOISE = 0.01


def fit_kernel(x: np.ndarray, told: Shares, widths: tuple[float, ...], seed: int) -> KernelModel:
    """Fit `told` of n >= 1 rows on `x` float (n, inputs); of `widths` and the usual ones the most evident is taken.

    A width is the kernel's gamma. The penalty follows from the noise and the evidence.
    """
    rows = x.astype(np.float32)
    around = [Landmarks.among(rows, gamma, seed) for gamma in (*gammas(rows), *widths)]
    fits = [(marks, regress(marks.features(rows), told)) for marks in around]
    marks, found = max(fits, key=lambda fit: fit[1].evidence)
    return KernelModel(marks.rows, marks.weights(found.weights).astype(np.float32), marks.gamma, found.offset)


@singledispatch
def smooth(told: Told, features: np.ndarray) -> Regression | SoftmaxFit:
    """What was `told` of n >= 1 rows, as smooth `features` float64 (n, features) have it: softmax of a sum of them."""
    return fit_scores(told, features)


@smooth.register
def _(told: Shares, features: np.ndarray) -> Regression | SoftmaxFit:
    """As a sum of them: of noisy counts that has a closed form."""
    return regress(features, told)


@dataclass(frozen=True)
class GraphTold:
    """The student `graph` of what was told; `unlabelled` float (m, inputs).

    The graph gives shares of all rows. Kernel ridge regression on them, with the penalty of `spec`, judges new rows.
    """

    spec: GraphStudent
    unlabelled: np.ndarray = field(repr=False)

    def fit_told(self, x: np.ndarray, told: Told, seed: int) -> Model:
        """See `EvidenceTrainer.fit_told`."""
        return _over_graph(told, x, self, seed)


@singledispatch
def _over_graph(told: Told, x: np.ndarray, student: GraphTold, seed: int) -> Model:
    raise TypeError(f"{type(told).__name__} was not released; give Shares or Outcomes")


@_over_graph.register
def _(told: Shares, x: np.ndarray, student: GraphTold, seed: int) -> Model:
    spec, rows = student.spec, np.concatenate([x, student.unlabelled]).astype(np.float32)
    widths = () if spec.gamma is None else (spec.gamma,)
    if len(rows) < _LEAST_ROWS:
        return fit_kernel(x, told, widths, seed)
    functions = graph_functions(rows, spec.neighbours, spec.spread)
    shares = regress(functions[: len(x)], told).shares(functions)
    shares = even(shares) if spec.even else shares
    some = np.random.default_rng([seed, len(rows)]).permutation(len(rows))[:_SAMPLE]
    nearly = Shares(shares[some], np.full(len(some), _LITTLE_NOISE))
    gamma = fit_kernel(rows[some], nearly, widths, seed).gamma
    return kernel_ridge(rows, shares.astype(np.float32), gamma, spec.alpha)


# Labels are spread whatever their law. On digits of development writers, seeds 100 to 104, that was right on .907 of
# the other rows with 30 labels and sigma 110, and on .973 with 150; the softmax of a graph's smooth functions, by
# the law's likelihood, on .716 and .906.
@_over_graph.register
def _(told: Outcomes, x: np.ndarray, student: GraphTold, seed: int) -> Model:
    has = told.labels != NO_LABEL
    if not has.any():
        return constant(told.labels[has], told.classes)
    unlabelled = np.concatenate([x[~has], student.unlabelled])
    return GraphTrainer(student.spec, unlabelled).fit(x[has], told.labels[has], told.classes, seed)


def denoise(x: np.ndarray, told: Told, rows: np.ndarray, seed: int) -> np.ndarray:
    """Shares float64 (m, classes) of `rows` (m, inputs), probabilities, from what was `told` of `x` (n, inputs).

    They are those of the linear student or of one with a kernel, whichever has more evidence.
    """
    linear, evidence = fit_softmax(x, told)
    near = x.astype(np.float32)
    around = [Landmarks.among(near, gamma, seed) for gamma in gammas(near)]
    marks, found = max(
        ((marks, smooth(told, marks.features(near))) for marks in around), key=lambda fit: fit[1].evidence
    )
    if evidence >= found.evidence:
        return linear.predict_proba(rows)
    shares = np.maximum(found.shares(marks.features(rows.astype(np.float32))), _NEVER)
    return shares / shares.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class OnDenoised:
    """An estimator of others, given the denoised shares of the rows that were asked and of `unlabelled` (m, inputs)."""

    trainer: OwnTrainer
    unlabelled: np.ndarray = field(repr=False)

    def fit_told(self, x: np.ndarray, told: Told, seed: int) -> Model:
        """See `EvidenceTrainer.fit_told`."""
        rows = np.concatenate([x, self.unlabelled])
        return self.trainer.fit_soft(rows, denoise(x, told, rows, seed), seed)


@dataclass(frozen=True)
class WithTold:
    """`labels` of labels whose law nobody knows, as manual ones; `told` of what a mechanism released."""

    labels: Trainer
    told: EvidenceTrainer

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`."""
        return self.labels.fit(x, y, classes, seed)

    def fit_told(self, x: np.ndarray, told: Told, seed: int) -> Model:
        """See `EvidenceTrainer.fit_told`."""
        return self.told.fit_told(x, told, seed)
