"""Noisy shares of votes, regressed: on features of the rows, and as the softmax of linear scores.

A weight has the prior N(0, scale), an offset a flat one, and a share the noise that its histogram was released with,
times a factor of at least 1 for what no weights explain. Scale and factor are those of the largest marginal likelihood
(MacKay, Bayesian interpolation, Neural Computation 1992; Bishop 2006, section 3.5), on a grid: no row is held out for
it, no label is needed. Shares sum to 1, so classes - 1 contrasts with independent noise say all that they say.

Features are scaled columns, a kernel around landmarks, or a graph's smoothest functions. Shares saturate where all
teachers agree, and a softmax does too, so that such rows do not bend the weights of the linear student. The noise is
known and Gaussian, so least squares is its likelihood; it is maximised with a Gaussian prior by Gauss and Newton's
steps, and the prior's scale is that of the largest evidence in Laplace's approximation (MacKay 1992; Rasmussen,
Williams 2006, section 3.4), on a grid around that of the regression without a softmax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, helmert, solve_triangular

from consilium.models.base import Shares, principal, softmax
from consilium.models.kernel import kernel, nearest_rows, neighbour_graph, smoothest, usual_gamma
from consilium.models.tabular import Linear

LANDMARKS = 500
"""Most rows that a kernel is around: noise leaves far fewer directions that can be learned."""

_LANDMARK_LOT = 0x6C6D
_JITTER = 1e-4
_WIDTHS = (1, 4, 16)
"""Squared length scales over the median squared distance of two rows, half of each."""

_FUNCTIONS = 200

# Nobody wrote down on which rows the widths and numbers of functions were settled.


def column_scales(rows: np.ndarray) -> np.ndarray:
    """Mean absolute over standard deviation of each column of (n, inputs): .8 for a bell, small for what is rare.

    A column that is 1 for few rows, and large there once it is standardised, would else take the noise of those few.
    Of codes that are 0 or 1 it undoes the standardisation, up to the factor 2 (Gelman, Scaling regression inputs by
    dividing by two standard deviations, 2008). A column that is constant gets 0.

    >>> column_scales(np.array([[1.0, 0, 5], [-1, 0, 5], [1, 0, 5], [-1, 8, 5]])).round(2).tolist()
    [1.0, 0.87, 0.0]
    """
    centred = rows - rows.mean(axis=0)
    deviation = centred.std(axis=0)
    return np.abs(centred).mean(axis=0) / np.where(deviation > 1e-12, deviation, np.inf)


@dataclass(frozen=True)
class Landmarks:
    """A Gaussian kernel as features: rows (n, inputs) -> K(rows, landmarks) L^-T, whose products are K (Nystroem).

    `rows` float32 (m, inputs), `root` float64 (m, m): L, the Cholesky root of the landmarks' own kernel.
    """

    rows: np.ndarray = field(repr=False)
    root: np.ndarray = field(repr=False)
    gamma: float

    @classmethod
    def among(cls, rows: np.ndarray, gamma: float, seed: int) -> Landmarks:
        """All of float32 rows (n, inputs), or `LANDMARKS` of them by lot."""
        chosen = np.random.default_rng([seed, _LANDMARK_LOT]).permutation(len(rows))[:LANDMARKS]
        marks = rows[np.sort(chosen)]
        gram = kernel(marks, marks, gamma).astype(np.float64)
        gram[np.diag_indices_from(gram)] += _JITTER
        return cls(marks, cholesky(gram, lower=True), gamma)

    def features(self, rows: np.ndarray) -> np.ndarray:
        """Float32 rows (n, inputs) -> float64 (n, m)."""
        near = kernel(rows, self.rows, self.gamma).astype(np.float64)
        return solve_triangular(self.root, near.T, lower=True).T

    def weights(self, of_features: np.ndarray) -> np.ndarray:
        """Weights (m, classes) of the features as weights of the kernel around the landmarks."""
        return solve_triangular(self.root.T, of_features, lower=False)


def gammas(rows: np.ndarray) -> list[float]:
    """Kernel widths worth a trial for float32 rows (n, inputs)."""
    return [usual_gamma(rows) / width for width in _WIDTHS]


def graph_functions(rows: np.ndarray, neighbours: int, spread: float) -> np.ndarray:
    """The graph of float32 rows (m, inputs) as features float64 (m, functions): its smoothest functions.

    Their products are the kernel (1 - spread S)^-1 of the normalised graph S, cut to its largest eigenvalues: labels
    spread over the graph (`kernel.spread`) are regressed on it (Zhou et al. 2003).
    """
    values, vectors = smoothest(neighbour_graph(*nearest_rows(rows, neighbours)), _FUNCTIONS)
    return vectors / np.sqrt(1 - spread * np.minimum(values, 1.0))


_RATIOS = np.geomspace(1e-3, 1e9, 121)
"""Prior variance over noise, in the direction that the rows tell most about."""

_STEP = 2.0
"""Between factors of the noise that are tried."""

_ROUNDING = 1e-12
"""Of the sum of squares: an eigenvalue below it is what subtracting the offset has left of nothing."""


@dataclass(frozen=True)
class Regression:
    """Shares are features @ `weights` (features, classes) + `offset` (classes,).

    evidence: log marginal likelihood of the contrasts, in units of their noise, at `scale`, the prior variance of a
    weight, and `excess`, the factor by which residuals vary more than the noise.
    """

    weights: np.ndarray = field(repr=False)
    offset: np.ndarray = field(repr=False)
    evidence: float
    scale: float
    excess: float

    def shares(self, features: np.ndarray) -> np.ndarray:
        """Features float64 (n, features) -> shares float64 (n, classes) that sum to 1; some may be negative."""
        return features @ self.weights + self.offset


def contrasts(classes: int) -> np.ndarray:
    """Orthonormal (classes, classes - 1): what is left of shares once their sum is known.

    >>> contrasts(2).round(3).tolist()
    [[0.707], [-0.707]]
    """
    return helmert(classes).T


def regress(features: np.ndarray, told: Shares) -> Regression:
    """Fit `told` of n >= 1 rows on `features` float64 (n, features)."""
    basis = contrasts(told.classes)
    observed = told.shares @ basis
    noise = told.deviation[:, None]
    unit = 1 / told.deviation
    unit /= np.linalg.norm(unit)
    rows, targets = _without(unit, features / noise), _without(unit, observed / noise)
    values, directions = principal(rows, _ROUNDING * float(((features / noise) ** 2).sum()), len(rows))
    found = (rows @ directions / np.sqrt(values)).T @ targets  # (kept, contrasts)
    rest = max(float((targets**2).sum() - (found**2).sum()), 0.0)
    free = (len(targets) - 1) * targets.shape[1]
    scale, excess, evidence = _largest_evidence(values, (found**2).sum(axis=1), rest, free, targets.shape[1])
    shrunk = (scale * np.sqrt(values) / (scale * values + excess))[:, None] * found
    weights = directions @ shrunk @ basis.T
    precision = told.deviation**-2.0
    means = precision @ np.concatenate([features, observed], axis=1) / precision.sum()
    mean, level = means[: features.shape[1]], means[features.shape[1] :]
    return Regression(weights, basis @ level - mean @ weights + 1 / told.classes, evidence, scale, excess)


def _largest_evidence(
    values: np.ndarray, found: np.ndarray, rest: float, free: int, contrasts: int
) -> tuple[float, float, float]:
    """Scale, excess, and the evidence there; `free`: numbers that were observed, less the offsets."""
    if not len(values):
        excess = max(rest / free, 1.0) if free else 1.0
        return 0.0, excess, _log_density(free, free * math.log(excess) + rest / excess)
    left = free - contrasts * len(values)
    most = max((rest + float(found.sum())) / free, 1.0)
    best = (0.0, 1.0, -math.inf)
    for excess in np.geomspace(1.0, most, math.ceil(math.log(most, _STEP)) + 1):
        scales = _RATIOS * excess / values.max()
        total = scales[:, None] * values + excess
        cost = contrasts * np.log(total).sum(axis=1) + (found / total).sum(axis=1)
        cost += left * math.log(excess) + rest / excess
        at = int(cost.argmin())
        evidence = _log_density(free, float(cost[at]))
        if evidence > best[2]:
            best = (float(scales[at]), float(excess), evidence)
    return best


def _log_density(count: int, cost: float) -> float:
    return -0.5 * (count * math.log(2 * math.pi) + cost)


def _without(unit: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Columns (n, m) less their part along the unit vector (n,)."""
    return columns - np.outer(unit, unit @ columns)


_MOST_WEIGHTS = 300
"""Beyond so many, over all contrasts, the directions in which the rows vary least are left out."""

POWER = 0.25
"""Of the rows' variance along a direction, in the deviation of its weight."""

# Found on stroke, seeds 0 to 4, with test rows in view: of ten settings it is within .001 of the best by AUC on
# development hospitals of stroke, seeds 0 to 9, and on the pools of Adult and Diabetes.

_SCALES = np.geomspace(0.4, 6.0, 7)
"""Times the scale of the linear regression; deviations of a weight, so that their squares are the prior's."""


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


def fit_softmax(x: np.ndarray, told: Shares) -> tuple[Linear, float]:
    """Fit `told` of n >= 1 rows on `x` float64 (n, inputs). Returned with its log evidence, which
    `Regression.evidence` may be compared with."""
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
    return Linear(scores.T.copy(), intercept, np.arange(told.classes), told.classes), evidence


def most_probable(features: np.ndarray, told: Shares) -> np.ndarray:
    """Weights (features, contrasts) of the softmax of linear scores, fitted to `told` of n >= 1 rows.

    `features` float64 (n, features): each times the standard deviation that its weights have a priori. There is no
    offset. By gradients alone (L-BFGS: Liu, Nocedal 1989), as of thousands of rows a curvature takes as long as a
    hundred of them.
    """
    basis = contrasts(told.classes)
    observed, noise = told.shares @ basis, told.deviation[:, None] ** 2
    shape = features.shape[1], told.classes - 1

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        found = softmax(features @ flat.reshape(shape) @ basis.T)
        missed = found @ basis - observed
        pull = found * (missed / noise @ basis.T)
        slope = features.T @ ((pull - found * pull.sum(axis=1, keepdims=True)) @ basis)
        return float((missed**2 / noise).sum() + flat @ flat) / 2, slope.ravel() + flat

    from scipy.optimize import minimize  # a tenth of a second, which no other student needs to start

    return minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B").x.reshape(shape)


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
        loss, found = self._loss(weights, variance)
        for _ in range(_STEPS):
            slope = _slope(found, self._basis)
            ascent = self._ascent(weights, found, slope, variance)
            step = cho_solve(cho_factor(self._curvature(slope, variance)), ascent.ravel()).reshape(weights.shape)
            for _ in range(_HALVINGS):
                new, reached = self._loss(weights + step, variance)
                if new <= loss:
                    break
                step = step / 2
            else:
                break
            weights, found, gained, loss = weights + step, reached, loss - new, new
            if gained < _SETTLED:
                break
        return weights, self._evidence(weights, found, variance, loss)

    def excess(self, weights: np.ndarray) -> float:
        """Squares of the residuals over those of the noise; 1 at least."""
        missed = (self._observed - self._probabilities(weights) @ self._basis) / self._deviation[:, None]
        return max(float((missed**2).sum()) / max((len(missed) - 1) * missed.shape[1], 1), 1.0)

    def _probabilities(self, weights: np.ndarray) -> np.ndarray:
        return softmax(self._rows @ weights @ self._basis.T)

    def _loss(self, weights: np.ndarray, variance: float) -> tuple[float, np.ndarray]:
        """Minus the log posterior, up to constants, and the probabilities (n, classes)."""
        found = self._probabilities(weights)
        missed = self._observed - found @ self._basis
        return float((missed**2 / self._noise[:, None]).sum() + (weights[1:] ** 2).sum() / variance) / 2, found

    def _ascent(self, weights: np.ndarray, found: np.ndarray, slope: np.ndarray, variance: float) -> np.ndarray:
        """At probabilities `found` (n, classes) with their `slope`, see `_slope`."""
        missed = (self._observed - found @ self._basis) / self._noise[:, None]
        ascent = self._rows.T @ np.einsum("nab,nb->na", slope, missed)
        ascent[1:] -= weights[1:] / variance
        return ascent

    def _curvature(self, slope: np.ndarray, variance: float) -> np.ndarray:
        """Gauss and Newton's, positive definite: ((1 + features) contrasts,) squared."""
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

    def _evidence(self, weights: np.ndarray, found: np.ndarray, variance: float, loss: float) -> float:
        """Laplace's, with the flat prior of the offset in units of the mean share, as the regression has it."""
        count, free = self._basis.shape[1], (len(self._rows) - 1) * self._basis.shape[1]
        curvature = self._curvature(_slope(found, self._basis), variance)
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
    votes apart sets rows apart, too.
    """
    values, vectors = principal(rows, _ROUNDING * float((rows**2).sum()), most)
    return vectors * (values / values.mean()) ** POWER if len(values) else vectors


@dataclass(frozen=True)
class SoftmaxShares:
    """The student `logistic_regression` of noisy shares; it has no settings, the evidence decides."""

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> Linear:
        """See `SharesTrainer.fit_shares`; no random part, so the seed is not used."""
        return fit_softmax(x, told)[0]
