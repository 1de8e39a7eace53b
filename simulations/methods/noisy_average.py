"""The rival that needs no votes: the average of the directions of all parties' linear teachers, once, with noise.

A linear teacher's scores are x W + b, W (inputs, classes) centred over the classes, which softmax does not see. Each
teacher gives W / |W|; a party gives the mean of its teachers'; the sum over the parties gets Gaussian noise for the
same epsilon, delta, unit and relation that the run promised, exactly accounted (`accounting.curves.gdp`), and is
divided by their number (Chaudhuri et al. 2011, output perturbation; Jayaraman et al. 2018 for the average). On every
development set a norm of 1 did as well as or better than clipping.

What follows is free, as it takes what was released and public rows alone. Along directions in which public rows vary
little, noise is all there is: the average is shrunk along the principal directions of the public rows by v / (v + s), v
the variance in units of the mean variance, s the best of a few. Each average gets a factor and an intercept, which no
noise was spent on. All three are chosen on the true labels of the pool, at no charge, which speaks for the rival; the
pool is not what it is judged on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from consilium.accounting.curves.gdp import sigma_needed
from consilium.accounting.units import Neighbouring, Unit, votes_moved
from consilium.models.base import softmax
from consilium.models.evaluation import leading_metric, row_scores
from consilium.models.linear import LogisticTeacher
from consilium.simulations.divide import Case
from consilium.simulations.methods.base import Predicted, PromisedMethod, StatedGuarantee, linear_probabilities, needed
from consilium.simulations.said import LINEAR
from consilium.simulations.vote import Ensemble

SHRINKAGES = (0.0, 0.1, 0.3, 1.0, 3.0)  # what s may be
_DRAWS = 20
_MOST_CHOOSE = 2000  # rows of the pool that choose, by lot, where there are more
_FACTORS = (1e-4, 1e4)
"""Between which a factor is sought, of scores of deviation 1: it is above 0, so that no order is turned round."""
_MOST_INTERCEPT = 30.0
_HARDLY_PENALISED = 1e6  # so that there is a factor where scores tell all rows apart
_PURPOSE = 0x6E6F697379


@dataclass(frozen=True)
class LinearDraws:
    """Linear models, one for each draw of noise: weights float64 (inputs + 1, classes), the intercept last."""

    weights: list[np.ndarray] = field(repr=False)
    figures: dict[str, float]

    def probabilities(self, x: np.ndarray) -> list[np.ndarray]:
        """Of `x` float (rows, inputs), by each draw: float64 (rows, classes)."""
        return [linear_probabilities(x, weights) for weights in self.weights]

    def predicted(self, case: Case) -> Predicted:
        """Judged on the test rows as the mean over draws; at home, and as `Predicted.test`, it is the first draw."""
        inputs = case.config.rows.inputs
        drawn = self.probabilities(inputs(case.test_x)) if len(case.test_y) else []
        return Predicted(
            test=drawn[0] if drawn else None,
            home=linear_probabilities(inputs(case.home_x), self.weights[0]) if len(case.home_y) else None,
            figures=self.figures,
            drawn=np.stack(drawn).astype(np.float32) if drawn else None,
        )


def noisy_averages(
    given: Sequence[np.ndarray],
    teachers: int,
    promise: StatedGuarantee,
    pool_x: np.ndarray,
    pool_y: np.ndarray,
    seed: int,
) -> LinearDraws:
    """`_DRAWS` of them, with the shrinkage whose draws are the best in the mean on the public rows `pool_x` float
    (pool, inputs), by their true labels `pool_y` int64 (pool,). given: by at least one party, the mean of its so many
    teachers' `directions`, float64 (inputs, classes)."""
    scale = sigma_needed(1, promise.epsilon, promise.delta, scalar=True)
    moved = sensitivity(promise.unit, promise.neighbouring, teachers)
    generator, deviation = np.random.default_rng([seed, _PURPOSE]), scale * moved / len(given)
    noise = generator.standard_normal((_DRAWS, *given[0].shape))
    drawn = sum(given[1:], start=given[0]) / len(given) + deviation * noise
    chosen = np.sort(generator.permutation(len(pool_y))[:_MOST_CHOOSE])
    x, y = pool_x[chosen], pool_y[chosen]
    metric = leading_metric(y, given[0].shape[1])
    # in other directions than the principal ones public rows do not vary
    _, lengths, directions = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    total = float((lengths**2).sum())
    variances = lengths**2 * x.shape[1] / total if total else np.zeros_like(lengths)  # in units of their mean

    def shrunk(weights: np.ndarray, shrinkage: float) -> np.ndarray:
        if not shrinkage:
            return weights
        return directions.T @ ((variances / (variances + shrinkage))[:, None] * (directions @ weights))

    terms = {"epsilon": promise.epsilon, "delta": promise.delta}
    tried = []
    for shrinkage in SHRINKAGES:
        weights = [calibrated(shrunk(average, shrinkage), x, y) for average in drawn]
        tried.append(LinearDraws(weights, {**terms, "shrinkage": shrinkage, "noise_deviation": deviation}))
    reached = [np.mean([row_scores(one, y, metric).mean() for one in each.probabilities(x)]) for each in tried]
    return tried[int(np.argmax(reached))]


def calibrated(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of weights (inputs, classes) those that are used: with the factor and the intercept of least log loss. The loss
    is convex in both. A class that no row has gets the least intercept there is."""
    scores, classes = x @ weights, weights.shape[1]
    deviation = float(scores.std()) or 1.0
    scores, wanted = scores / deviation, np.eye(classes)[y]
    if classes == 2 and 0 < y.sum() < len(y):  # a logistic regression in one input, which Newton's steps find at once
        line = LogisticTeacher(C=_HARDLY_PENALISED).fit(np.diff(scores, axis=1), y)
        if _FACTORS[0] <= line.coef_[0, 0] <= _FACTORS[1]:
            return np.concatenate([weights * (line.coef_[0, 0] / deviation), [[0.0, line.intercept_[0]]]])
    from scipy.optimize import minimize  # a tenth of a second to import

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        shares = softmax(scores * parameters[0] + parameters[1:])
        error = (shares - wanted) / len(y)
        gradient = np.concatenate([[(error * scores).sum()], error.sum(axis=0)])
        return -float(np.log(np.maximum(shares[np.arange(len(y)), y], 1e-300)).mean()), gradient

    bounds = [_FACTORS, *[(-_MOST_INTERCEPT, _MOST_INTERCEPT)] * classes]
    start = np.concatenate([[1.0], np.log(np.maximum(wanted.mean(axis=0), 1e-6))])
    result: Any = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B")
    return np.concatenate([weights * (result.x[0] / deviation), result.x[None, 1:]])


def averages_of(case: Case, promise: StatedGuarantee | None, given: Sequence[np.ndarray | None]) -> LinearDraws | str:
    """Those of a case, at the promise; or why there are none. given: by each party, None where it is not linear."""
    simulation, schema = case.scenario.simulation, case.config.rows
    spec = simulation.own_teacher or case.config.teacher
    if not isinstance(spec, LINEAR):
        return f"teachers of kind {spec.title} are not linear"
    if promise is None or math.isinf(promise.epsilon):
        return "the run promises no epsilon"
    if promise.epsilon <= 0:
        return "the run may spend nothing"
    if not given:
        return "no party has a teacher"
    known = [each for each in given if each is not None]
    if len(known) < len(given):
        return "some party's teachers are not linear"
    teachers, x = case.config.teachers_per_party, schema.inputs(case.pool_x)
    return noisy_averages(known, teachers, promise, x, case.pool_y, case.seed)


def sensitivity(unit: Unit, neighbouring: Neighbouring, teachers_per_party: int) -> float:
    """Largest Euclidean change of the sum over the parties, each the mean of k teachers' directions.

    A direction has norm 1, or 0 where a teacher has none, so that the mean of k has 1 at most. A party that is
    replaced moves its mean from one to another such, by 2 at most; one that comes or goes, from or to 0, by 1. A record
    or a patient changes one teacher, or two where it is replaced by one of another shard (`votes_moved`): a teacher is
    trained anew, so its direction may turn round, and the mean moves by 2 / k for each.

    >>> [sensitivity(unit, Neighbouring.REPLACE, 4) for unit in (Unit.PARTY, Unit.RECORD)]
    [2.0, 1.0]
    >>> [sensitivity(unit, Neighbouring.ADD_OR_REMOVE, 4) for unit in (Unit.PARTY, Unit.RECORD)]
    [1.0, 0.5]
    """
    if unit is Unit.PARTY:
        return 2.0 if neighbouring is Neighbouring.REPLACE else 1.0
    return 2 * votes_moved(unit, teachers_per_party, neighbouring) / teachers_per_party


class NoisyAverage(PromisedMethod):
    """The average of this module. What is chosen on the pool's true labels, at no charge, speaks for it. figures:
    epsilon, delta, shrinkage, noise_deviation (of a weight)."""

    needs_ensemble: ClassVar[bool] = True

    name: Literal["noisy_average"] = "noisy_average"

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """Absent where teachers are not linear, or nothing finite is promised."""
        averages = averages_of(case, self.guarantee(case), needed(ensemble, self.name).directions)
        return Predicted(absent=averages) if isinstance(averages, str) else averages.predicted(case)
