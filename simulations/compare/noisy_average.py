"""The rival that needs no votes: the average of all parties' linear teachers, once, with noise.

Each teacher's weights, with its intercept, are clipped to norm C; a party gives the mean of its teachers'; the sum over
the parties gets Gaussian noise for the same epsilon, delta, unit and relation that the run promised, exactly accounted
(`accounting.curves.gdp`), and is divided by their number (Chaudhuri et al. 2011, output perturbation; Jayaraman et al.
2018 for the average). C is the best of a few on the pool's true labels, at no charge, which speaks for the rival; the
pool is not what it is judged on. Clipped weights are too small to say how sure they are: by the same labels each
average gets a factor, which changes neither its decisions nor its AUC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from consilium.accounting.curves.gdp import sigma_needed
from consilium.accounting.units import Neighbouring, Unit, votes_moved
from consilium.protocol.parties.teachers import LogisticRegressionSpec, RidgeSpec, TeacherKind
from consilium.simulations.compare.means import mean_metrics
from consilium.simulations.compare.stated_guarantee import StatedGuarantee
from consilium.simulations.metrics.intervals import drawn_intervals
from consilium.simulations.metrics.row_scores import leading_metric, row_scores
from consilium.student.evaluation import evaluate

NORMS = (0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
"""What C may be. Where it is below every teacher's norm only directions count, and a smaller one changes nothing."""
_DRAWS = 20
_MOST_CHOOSE = 2000
"""Rows of the pool that choose C, by lot, where there are more."""
_FACTORS = (-10.0, 15.0)
"""Logarithms, between which a factor is sought: it is above 0, so that no decision is turned round."""
_PURPOSE = 0x6E6F697379


class ClippedSums:
    """Sums over the parties of what each gives, one for each norm of `NORMS`: never all weights at once."""

    def __init__(self) -> None:
        self.parties = self.teachers_per_party = 0
        self.sums: list[np.ndarray] = []

    def add(self, weights: np.ndarray) -> None:
        """One party's teachers, float64 (teachers, inputs + 1, classes) as `linear_scores` gives them."""
        given = [clipped(weights, norm).mean(axis=0) for norm in NORMS]
        self.sums = given if not self.sums else [before + more for before, more in zip(self.sums, given, strict=True)]
        self.parties, self.teachers_per_party = self.parties + 1, len(weights)


@dataclass(frozen=True)
class NoisyAverages:
    """The average with noise, once for each draw of it: weights float64 (inputs + 1, classes), the intercept last,
    times a factor that makes probabilities of them.

    norm: C. noise_deviation: of the noise on a weight.
    """

    weights: list[np.ndarray] = field(repr=False)
    norm: float
    noise_deviation: float

    def probabilities(self, x: np.ndarray) -> list[np.ndarray]:
        """Of `x` float (rows, inputs), by each draw: float64 (rows, classes)."""
        rows = _with_intercept(x)
        return [softmax(rows @ weights, axis=1) for weights in self.weights]


def noisy_averages(
    given: ClippedSums, promise: StatedGuarantee, pool_x: np.ndarray, pool_y: np.ndarray, seed: int
) -> NoisyAverages:
    """`_DRAWS` of them, with the norm whose draws are the best in the mean on the public rows `pool_x` float (pool,
    inputs), by their true labels `pool_y` int64 (pool,). At least one party has given its weights.
    """
    noise = sigma_needed(1, promise.epsilon, promise.delta, scalar=True)
    generator = np.random.default_rng([seed, _PURPOSE])
    drawn = [generator.standard_normal(given.sums[0].shape) for _ in range(_DRAWS)]
    chosen = np.sort(generator.permutation(len(pool_y))[:_MOST_CHOOSE])
    rows, y = _with_intercept(pool_x[chosen]), pool_y[chosen]
    from_noise = [rows @ each for each in drawn]
    metric = leading_metric(y, given.sums[0].shape[1])
    best, most = 0, -math.inf
    for index, total in enumerate(given.sums):
        scores, deviation = rows @ (total / given.parties), _deviation(given, promise, noise, NORMS[index])
        found = [row_scores(softmax(scores + deviation * each, axis=1), y, metric).mean() for each in from_noise]
        if np.mean(found) > most:
            best, most = index, float(np.mean(found))
    deviation = _deviation(given, promise, noise, NORMS[best])
    made = [given.sums[best] / given.parties + deviation * each for each in drawn]
    return NoisyAverages([each * _factor(rows @ each, y) for each in made], NORMS[best], deviation)


def judged_noisy_average(
    averages: NoisyAverages, test_x: np.ndarray, test_y: np.ndarray, classes: tuple[str, ...]
) -> dict[str, Any]:
    """Metrics as `evaluate` gives them, means over draws of the noise; with norm, noise_deviation (of a weight), draws,
    intervals (`drawn_intervals`).

    `test_x` float (test, inputs), `test_y` int64 (test,).
    """
    found = averages.probabilities(test_x)
    return {
        **mean_metrics([evaluate(each, test_y, classes) for each in found]),
        "norm": averages.norm,
        "noise_deviation": averages.noise_deviation,
        "draws": len(found),
        "intervals": drawn_intervals(found, test_y, classes),
    }


def _with_intercept(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def _factor(scores: np.ndarray, y: np.ndarray) -> float:
    """What the scores float64 (rows, classes) are multiplied by, so that their softmax has the least log loss."""

    def loss(exponent: float) -> float:
        return -float(log_softmax(scores * math.exp(exponent), axis=1)[np.arange(len(y)), y].mean())

    # the loss is convex in the factor, and so has one valley in its logarithm too
    found: Any = minimize_scalar(loss, bounds=_FACTORS, method="bounded", options={"xatol": 1e-3})
    return math.exp(found.x)


def _deviation(given: ClippedSums, promise: StatedGuarantee, noise: float, norm: float) -> float:
    """Of the noise on a weight of the average; `noise`: on a sum of sensitivity 1."""
    return noise * sensitivity(norm, promise.unit, promise.neighbouring, given.teachers_per_party) / given.parties


def clipped(weights: np.ndarray, norm: float) -> np.ndarray:
    """`weights` (teachers, inputs + 1, classes), each teacher's scaled to Euclidean norm `norm` at most.

    >>> clipped(np.array([[[3.0], [4.0]], [[0.3], [0.4]]]), 1.0).ravel().round(6).tolist()
    [0.6, 0.8, 0.3, 0.4]
    """
    lengths = np.sqrt((weights**2).sum(axis=(1, 2), keepdims=True))
    return weights * np.minimum(1.0, norm / np.maximum(lengths, 1e-300))


def sensitivity(norm: float, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int) -> float:
    """Largest Euclidean change of the sum over the parties, each the mean of k teachers' weights of norm C at most.

    A party that is replaced moves its mean by 2 C, one that comes or goes by C. A record or a patient changes one
    teacher, or two where it is replaced by one of another shard, each by 2 C / k: a teacher is trained anew, and not
    left out.

    >>> [sensitivity(1.0, unit, Neighbouring.REPLACE, 4) for unit in (Unit.PARTY, Unit.RECORD)]
    [2.0, 1.0]
    >>> [sensitivity(1.0, unit, Neighbouring.ADD_OR_REMOVE, 4) for unit in (Unit.PARTY, Unit.RECORD)]
    [1.0, 0.5]
    """
    if unit is Unit.PARTY:
        return norm * (2 if neighbouring is Neighbouring.REPLACE else 1)
    return 2 * norm * votes_moved(unit, teachers_per_party, neighbouring) / teachers_per_party


@singledispatch
def linear_scores(spec: TeacherKind, teacher: Any, inputs: int, classes: int) -> np.ndarray | None:
    """Weights float64 (inputs + 1, classes) of a trained teacher, the intercept last; None for a kind that has none.

    A class that the teacher never saw has zeros, and so has every one of a teacher that saw one class only.
    """
    return None


@linear_scores.register
def _(spec: LogisticRegressionSpec, teacher: Any, inputs: int, classes: int) -> np.ndarray:
    if len(teacher.classes_) < 2:
        return np.zeros((inputs + 1, classes))
    weights = np.concatenate([teacher.coef_, teacher.intercept_[:, None]], axis=1).T
    if weights.shape[1] == 1:  # of two classes scikit-learn keeps the second's
        weights = np.concatenate([np.zeros_like(weights), weights], axis=1)
    return _among(weights, teacher.classes_, classes)


@linear_scores.register
def _(spec: RidgeSpec, teacher: Any, inputs: int, classes: int) -> np.ndarray:
    if len(teacher.classes_) < 2:
        return np.zeros((inputs + 1, classes))
    return _among(np.concatenate([teacher.weights, teacher.intercept[None, :]]), teacher.classes_, classes)


def _among(weights: np.ndarray, seen: np.ndarray, classes: int) -> np.ndarray:
    every = np.zeros((len(weights), classes))
    every[:, seen] = weights
    return every - every.mean(axis=1, keepdims=True)  # the same decisions with the least norm


def why_none(spec: TeacherKind, epsilon: float, mixed: bool) -> str:
    """Why no average of the teachers' weights is made, or empty."""
    if mixed:
        return "the parties train teachers of different kinds"
    if linear_scores.dispatch(type(spec)) is linear_scores.dispatch(TeacherKind):
        return f"teachers of kind {spec.title} are not linear"
    if math.isinf(epsilon):
        return "the run promises no epsilon"
    if epsilon <= 0:
        return "the run may spend nothing"
    return ""
