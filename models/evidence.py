"""What was told of votes, regressed: noisy shares on features of the rows, and all that a mechanism may release as the
softmax of linear scores.

A weight has the prior N(0, scale), and what was told the likelihood of its mechanism: of noisy counts the noise that
they were released with, times a factor of at least 1 for what no weights explain; of labels that of `likelihood`. Scale
and factor are those of the largest marginal likelihood (MacKay, Bayesian interpolation, Neural Computation 1992; Bishop
2006, section 3.5), on a grid: no row is held out for it, no label is needed. Of a softmax it is that of Laplace's
approximation, with Fisher's information as curvature (Rasmussen, Williams 2006, section 3.4).

Features are scaled columns, a kernel around landmarks, or a graph's smoothest functions. Shares saturate where all
teachers agree, and a softmax does too, so that such rows do not bend the weights of the linear student. Shares sum to
1, so of noisy counts classes - 1 contrasts with independent noise say all that they say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import cholesky, helmert, solve_triangular

from consilium.models.base import Shares, Told, principal, softmax
from consilium.models.kernel import kernel, nearest_rows, neighbour_graph, smoothest, usual_gamma
from consilium.models.likelihood import Likelihood, OutcomesLikelihood, SharesLikelihood, likelihood_of
from consilium.models.linear import Linear

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
    `rows` float32 (m, inputs), `root` float64 (m, m): L, the Cholesky root of the landmarks' own kernel."""

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
    """The graph of float32 rows (m, inputs) as features float64 (m, functions): its smoothest functions. Their products
    are the kernel (1 - spread S)^-1 of the normalised graph S, cut to its largest eigenvalues: labels spread over the
    graph (`kernel.spread`) are regressed on it (Zhou et al. 2003)."""
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
    """Shares are features @ `weights` (features, classes) + `offset` (classes,). evidence: log marginal likelihood of
    the contrasts, in units of their noise, at `scale`, the prior variance of a weight, and `excess`, the factor by
    which residuals vary more than the noise."""

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


_MOST_DIRECTIONS = 150
"""Beyond so many, the directions in which the rows vary least are left out."""
POWER = 0.25
"""Of the rows' variance along a direction, in the deviation of its weight."""

# Found on stroke, seeds 0 to 4, with test rows in view: of ten settings it is within .001 of the best by AUC on
# development hospitals of stroke, seeds 0 to 9, and on the pools of Adult and Diabetes.

_DEVIATIONS = np.geomspace(6.4, 0.05, 8)
"""Of a row's scores a priori, in the mean over rows. The widest first: with few directions of little weight an offset
may explain what slopes should."""
_OFFSET = 3.0
"""Deviation of an offset a priori; of three classes one with a thousandth of the votes lies that far below."""
_LEAST_MEAN = 0.01
"""Share of a class where the steps begin."""
_STEEPEST = 1e-3
"""The steps end where no part of the gradient is larger, in deviations that the weights have a posteriori."""
_LEAST_GAIN = 1e-9
"""Or where a step gains less, relative to the loss."""
_STEPS = 60
_TINY = 1e-300
_SWEEPS = 2
_AS_ASSUMED = 0.9
_FAR_BELOW = 3.0
"""Log evidence below the best so far: narrower priors have still less."""
_NUMBERS = 2_000_000
"""Of the informations of rows that are looked at together: 16 MB."""


@dataclass(frozen=True)
class SoftmaxFit:
    """Shares are the softmax of an offset and of features: `weights` (1 + features, classes), the offset first.
    evidence: log marginal likelihood, to be compared with others of the same release."""

    weights: np.ndarray = field(repr=False)
    evidence: float

    def shares(self, features: np.ndarray) -> np.ndarray:
        """Features float64 (n, features) -> shares float64 (n, classes), probabilities."""
        return softmax(self.weights[0] + features @ self.weights[1:])


def fit_scores(features: np.ndarray, told: Told) -> SoftmaxFit:
    """Fit what was `told` of n >= 1 rows on `features` float64 (n, features)."""
    if isinstance(told, Shares):
        return _fit_shares(features, told)
    begin = np.zeros((1 + features.shape[1], told.classes))
    # labels lead to one place; a check alone says that a class has many votes, and not which: it has several
    start = _over_scales(features, OutcomesLikelihood(told, checked=False), begin, _DEVIATIONS[2:3])
    return _over_scales(features, OutcomesLikelihood(told), start.weights)


def _fit_shares(features: np.ndarray, told: Shares) -> SoftmaxFit:
    precision = told.deviation**-2.0
    offset = np.log(np.clip(precision @ told.shares / precision.sum(), _LEAST_MEAN, None))
    offset -= offset.mean()
    start = regress(features, told)
    # where the noise is far larger than the mean share, steps run off to a corner: then what is linear is kept
    slopes = start.weights / np.trace(_by_scores(offset)) * (told.classes - 1)
    best, excess = SoftmaxFit(np.concatenate([offset[None], slopes]), start.evidence), start.excess
    for _ in range(_SWEEPS):
        found = _over_scales(features, SharesLikelihood(told, excess), np.concatenate([offset[None], 0 * slopes]))
        found = replace(found, evidence=found.evidence + _measure(told, excess, found.weights[0]))
        best = max(best, found, key=lambda each: each.evidence)
        # a softmax may explain what a line did not, and what is left is then no more than the noise
        assumed, excess = excess, _excess(told, best.shares(features))
        if excess > _AS_ASSUMED * assumed:
            break
    return best


def _excess(told: Shares, shares: np.ndarray) -> float:
    """Squares of the residuals over those of the noise; 1 at least."""
    squares = 2 * SharesLikelihood(told).loss(shares)[0]
    return max(squares / max((len(told) - 1) * (told.classes - 1), 1), 1.0)


def _by_scores(offset: np.ndarray) -> np.ndarray:
    """Slope of shares by scores, both in contrasts, (contrasts, contrasts) where the scores are `offset`."""
    shares, basis = softmax(offset), contrasts(len(offset))
    return (basis.T * shares) @ basis - np.outer(shares @ basis, shares @ basis)


def _measure(told: Shares, excess: float, offset: np.ndarray) -> float:
    """What makes the evidence of a softmax that of `Regression`: the density of the noise, and of the offset a flat
    prior in units of the mean share in place of a normal one."""
    count = told.classes - 1
    precision = math.log(float((told.deviation**-2.0).sum()))
    flat = np.linalg.slogdet(_by_scores(offset))[1] + count * (precision + math.log(2 * math.pi * _OFFSET**2)) / 2
    return float(flat) - len(told) * count * math.log(2 * math.pi * excess) / 2


def _over_scales(
    features: np.ndarray, likelihood: Likelihood, weights: np.ndarray, deviations: np.ndarray = _DEVIATIONS
) -> SoftmaxFit:
    """The scale of the largest evidence; each begins where the one before ended, and the first at `weights`."""
    centre = features.mean(axis=0)
    least = _ROUNDING * float(((features - centre) ** 2).sum())
    values, turn = principal(features - centre, least, _MOST_DIRECTIONS)
    rows, mean_square = (features - centre) @ turn, float(values.sum()) / len(features)
    found = np.concatenate([weights[:1] + centre @ weights[1:], turn.T @ weights[1:]])
    best, before = SoftmaxFit(found, -math.inf), -math.inf
    for deviation in deviations:
        fit = _Problem(rows, likelihood, deviation / math.sqrt(max(mean_square, _TINY))).fit(found)
        if fit.evidence > best.evidence:
            best = fit
        elif fit.evidence < min(best.evidence - _FAR_BELOW, before):
            break
        found, before = fit.weights, fit.evidence
    slopes = turn @ best.weights[1:]
    return SoftmaxFit(np.concatenate([best.weights[:1] - centre @ slopes, slopes]), best.evidence)


class _Problem:
    """The most probable weights of `SoftmaxFit`, whose prior is normal: of deviation `deviation`, and `_OFFSET`. The
    curvature between classes is left out, and that of each class taken as much more as makes up for it where all
    classes are alike, k / (k - 1) times. That is exact of two classes. Weights sum to 0 over classes, since nothing
    draws them away from it."""

    def __init__(self, features: np.ndarray, likelihood: Likelihood, deviation: float) -> None:
        self._likelihood = likelihood
        self._deviations = np.r_[_OFFSET, np.full(features.shape[1], deviation)]
        self._rows = np.concatenate([np.ones((len(features), 1)), features], axis=1) * self._deviations

    def fit(self, weights: np.ndarray) -> SoftmaxFit:
        """The most probable weights, beginning at `weights`, and the log evidence there in Laplace's approximation. By
        gradients (L-BFGS: Liu, Nocedal 1989), in directions in which the curvature at the start is 1."""
        from scipy.optimize import minimize  # a tenth of a second, which no other student needs to start

        start = weights / self._deviations[:, None]
        inverse = np.linalg.inv(self._roots(start))  # (classes, 1 + features, 1 + features)
        shape = inverse.shape[0], inverse.shape[1], 1

        def turned(flat: np.ndarray) -> np.ndarray:
            return (np.swapaxes(inverse, 1, 2) @ flat.reshape(shape))[:, :, 0].T

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self._loss(start + turned(flat))
            return value, (inverse @ gradient.T[:, :, None]).ravel()

        options = {"maxiter": _STEPS, "gtol": _STEEPEST, "ftol": _LEAST_GAIN}
        reached = minimize(loss, np.zeros(start.size), jac=True, method="L-BFGS-B", options=options)
        found = start + turned(reached.x)
        determinants = 2 * np.log(np.diagonal(self._roots(found), axis1=1, axis2=2)).sum(axis=1)
        part = 1 - 1 / self._likelihood.classes
        return SoftmaxFit(found * self._deviations[:, None], -float(reached.fun + part * determinants.sum() / 2))

    def _loss(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the log posterior, up to constants, and its gradient; weights in deviations of their prior."""
        shares = softmax(self._rows @ weights)
        value, slope = self._likelihood.loss(shares)
        pull = shares * (slope - (shares * slope).sum(axis=1, keepdims=True))
        return value + float((weights**2).sum()) / 2, self._rows.T @ pull + weights

    def _roots(self, weights: np.ndarray) -> np.ndarray:
        """Of each class's curvature, lower triangular: (classes, 1 + features, 1 + features)."""
        shares = softmax(self._rows @ weights)
        known, together = np.empty(shares.shape), max(_NUMBERS // shares.shape[1] ** 2, 1)
        for begin in range(0, len(shares), together):
            rows = slice(begin, begin + together)
            root = self._likelihood.information(shares[rows], rows)
            root = (root - root @ shares[rows, :, None]) * shares[rows, None, :]  # by scores in place of shares
            known[rows] = np.einsum("nsk,nsk->nk", root, root)
        known *= shares.shape[1] / (shares.shape[1] - 1)
        curvature = (self._rows.T * known.T[:, None, :]) @ self._rows
        return np.linalg.cholesky(curvature + np.eye(curvature.shape[1]))


def fit_softmax(x: np.ndarray, told: Told) -> tuple[Linear, float]:
    """Fit `told` of n >= 1 rows on `x` float64 (n, inputs). Returned with its log evidence, see `SoftmaxFit`."""
    centre, columns = x.mean(axis=0), column_scales(x)
    rows = (x - centre) * columns
    values, turn = principal(rows, _ROUNDING * float((rows**2).sum()), _MOST_DIRECTIONS)
    if len(values):  # longer where rows vary more: what sets teachers' votes apart sets rows apart, too
        turn = turn * (values / values.mean()) ** POWER
    turn = columns[:, None] * turn
    found = fit_scores((x - centre) @ turn, told)
    slopes = turn @ found.weights[1:]  # (inputs, classes)
    intercept = found.weights[0] - centre @ slopes
    return Linear(slopes.T.copy(), intercept, np.arange(told.classes), told.classes), found.evidence


def most_probable(features: np.ndarray, told: Told) -> np.ndarray:
    """Shares float64 (n, classes) of all rows, of which the first are `told`, as the softmax of linear scores.
    `features` float64 (n, features): each times the standard deviation that its weights have a priori."""
    start = np.zeros((1 + features.shape[1], told.classes))
    return _Problem(features[: len(told)], likelihood_of(told), 1.0).fit(start).shares(features)
