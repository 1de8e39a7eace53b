"""Students of noisy shares that are smooth functions of rows: a kernel's, and a graph's over all public rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.student.trainers.base import Shares
from consilium.student.trainers.counts.even import even, even_model
from consilium.student.trainers.counts.features import Landmarks, gammas, graph_functions
from consilium.student.trainers.counts.regression import regress
from consilium.student.trainers.kernel import KernelModel, kernel_ridge
from consilium.student.trainers.settings import EvenStudent, SpreadingStudent

_LEAST_ROWS = 4
"""Of a graph."""

_SAMPLE = 500
_LITTLE_NOISE = 0.01


@dataclass(frozen=True)
class SmoothFit:
    """`model`, and the log `evidence` of what it was made from (`Regression.evidence`)."""

    model: KernelModel = field(repr=False)
    evidence: float


def fit_kernel(x: np.ndarray, told: Shares, widths: tuple[float, ...], seed: int) -> SmoothFit:
    """Fit `told` of n >= 1 rows on `x` float (n, inputs); of `widths` and the usual ones the most evident is taken.

    A width is the kernel's gamma. The penalty follows from the noise and the evidence.
    """
    rows = x.astype(np.float32)
    fits = [_around(rows, told, gamma, seed) for gamma in (*gammas(rows), *widths)]
    return max(fits, key=lambda fit: fit.evidence)


def fit_graph(x: np.ndarray, told: Shares, unlabelled: np.ndarray, spec: SpreadingStudent, seed: int) -> SmoothFit:
    """Fit `told` of n >= 1 rows `x` on the graph of these and of `unlabelled` (m, inputs).

    That gives shares of all rows. Kernel ridge regression on them, with the penalty of `spec`, judges new rows.
    """
    rows = np.concatenate([x, unlabelled]).astype(np.float32)
    if len(rows) < _LEAST_ROWS:
        return fit_kernel(x, told, (spec.gamma,), seed)
    functions = graph_functions(rows, spec.neighbours, spec.spread)
    found = regress(functions[: len(x)], told)
    shares = found.shares(functions)
    shares = even(shares) if spec.even else shares
    some = np.random.default_rng([seed, len(rows)]).permutation(len(rows))[:_SAMPLE]
    nearly = Shares(shares[some], np.full(len(some), _LITTLE_NOISE))
    gamma = fit_kernel(rows[some], nearly, (spec.gamma,), seed).model.gamma
    return SmoothFit(kernel_ridge(rows, shares.astype(np.float32), gamma, spec.alpha), found.evidence)


def _around(rows: np.ndarray, told: Shares, gamma: float, seed: int) -> SmoothFit:
    around = Landmarks.among(rows, gamma, seed)
    found = regress(around.features(rows), told)
    weights = around.weights(found.weights).astype(np.float32)
    return SmoothFit(KernelModel(around.rows, weights, gamma, found.offset), found.evidence)


@dataclass(frozen=True)
class KernelShares:
    """The student `kernel_ridge` of noisy shares; `unlabelled` float (m, inputs), where classes are made even.

    Of its settings only `even` and the width are used, the width beside the usual ones. Where classes are made even it
    is the only one: the evidence is of shares as they are, and speaks for narrower ones than tell even classes apart.
    """

    spec: EvenStudent
    unlabelled: np.ndarray = field(repr=False)

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> KernelModel:
        """See `SharesTrainer.fit_shares`."""
        if self.spec.even:
            model = _around(x.astype(np.float32), told, self.spec.gamma, seed).model
            return even_model(model, np.concatenate([x, self.unlabelled]))
        return fit_kernel(x, told, (self.spec.gamma,), seed).model


@dataclass(frozen=True)
class GraphShares:
    """The student `graph` of noisy shares; `unlabelled` float (m, inputs)."""

    spec: SpreadingStudent
    unlabelled: np.ndarray = field(repr=False)

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> KernelModel:
        """See `SharesTrainer.fit_shares`."""
        return fit_graph(x, told, self.unlabelled, self.spec, seed).model
