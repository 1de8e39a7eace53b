"""Students that learn from noisy histograms: the noise is known, so nothing about it must be guessed.

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

import numpy as np

from consilium.models.base import Model, Shares, SharesTrainer, Trainer, softmax
from consilium.models.evidence import Landmarks, fit_softmax, gammas, graph_functions, regress
from consilium.models.kernel import KernelModel, kernel_ridge
from consilium.models.keys import GraphStudent
from consilium.models.own_model import OwnTrainer

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


def fit_kernel(x: np.ndarray, told: Shares, widths: tuple[float, ...], seed: int) -> tuple[KernelModel, float]:
    """Fit `told` of n >= 1 rows on `x` float (n, inputs); of `widths` and the usual ones the most evident is taken.
    Returned with its log evidence (`Regression.evidence`).

    A width is the kernel's gamma. The penalty follows from the noise and the evidence.
    """
    rows = x.astype(np.float32)
    fits = [_around(rows, told, gamma, seed) for gamma in (*gammas(rows), *widths)]
    return max(fits, key=lambda fit: fit[1])


def _around(rows: np.ndarray, told: Shares, gamma: float, seed: int) -> tuple[KernelModel, float]:
    around = Landmarks.among(rows, gamma, seed)
    found = regress(around.features(rows), told)
    weights = around.weights(found.weights).astype(np.float32)
    return KernelModel(around.rows, weights, gamma, found.offset), found.evidence


@dataclass(frozen=True)
class GraphShares:
    """The student `graph` of noisy shares; `unlabelled` float (m, inputs).

    The graph gives shares of all rows. Kernel ridge regression on them, with the penalty of `spec`, judges new rows.
    """

    spec: GraphStudent
    unlabelled: np.ndarray = field(repr=False)

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> KernelModel:
        """See `SharesTrainer.fit_shares`."""
        spec, rows = self.spec, np.concatenate([x, self.unlabelled]).astype(np.float32)
        widths = () if spec.gamma is None else (spec.gamma,)
        if len(rows) < _LEAST_ROWS:
            return fit_kernel(x, told, widths, seed)[0]
        functions = graph_functions(rows, spec.neighbours, spec.spread)
        shares = regress(functions[: len(x)], told).shares(functions)
        shares = even(shares) if spec.even else shares
        some = np.random.default_rng([seed, len(rows)]).permutation(len(rows))[:_SAMPLE]
        nearly = Shares(shares[some], np.full(len(some), _LITTLE_NOISE))
        gamma = fit_kernel(rows[some], nearly, widths, seed)[0].gamma
        return kernel_ridge(rows, shares.astype(np.float32), gamma, spec.alpha)


def denoise(x: np.ndarray, told: Shares, rows: np.ndarray, seed: int) -> np.ndarray:
    """Shares float64 (m, classes) of `rows` (m, inputs), probabilities, from `told` of the rows `x` (n, inputs).

    They are those of the linear student or of the one with a kernel, whichever has more evidence.
    """
    model, _ = max([fit_softmax(x, told), fit_kernel(x, told, (), seed)], key=lambda fit: fit[1])
    return model.predict_proba(rows)


@dataclass(frozen=True)
class OnDenoised:
    """An estimator of others, given the denoised shares of the rows that were asked and of `unlabelled` (m, inputs)."""

    trainer: OwnTrainer
    unlabelled: np.ndarray = field(repr=False)

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> Model:
        """See `SharesTrainer.fit_shares`."""
        rows = np.concatenate([x, self.unlabelled])
        return self.trainer.fit_soft(rows, denoise(x, told, rows, seed), seed)


@dataclass(frozen=True)
class WithShares:
    """`labels` where a federation releases labels, `shares` where it releases noisy histograms."""

    labels: Trainer
    shares: SharesTrainer

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`."""
        return self.labels.fit(x, y, classes, seed)

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> Model:
        """See `SharesTrainer.fit_shares`."""
        return self.shares.fit_shares(x, told, seed)
