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
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import log_softmax

from consilium.accounting.curves.gdp import sigma_needed
from consilium.accounting.units import Neighbouring, Unit, votes_moved
from consilium.coordinator.privacy import promised
from consilium.models.base import softmax
from consilium.models.evaluation import evaluate
from consilium.protocol.teachers import TeacherKind
from consilium.simulations.divide import Case
from consilium.simulations.methods.base import TEST_DRAWS, Predicted, StatedGuarantee, StudyMethod, needed
from consilium.simulations.metrics import drawn_intervals, leading_metric, mean_metrics, row_scores
from consilium.simulations.teach import NORMS, ClippedSums, linear_scores
from consilium.simulations.vote import Ensemble

_DRAWS = 20
_MOST_CHOOSE = 2000
"""Rows of the pool that choose C, by lot, where there are more."""
_FACTORS = (-10.0, 15.0)
"""Logarithms, between which a factor is sought: it is above 0, so that no decision is turned round."""
_PURPOSE = 0x6E6F697379


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
        return [softmax(rows @ weights) for weights in self.weights]


def noisy_averages(
    sums: ClippedSums, promise: StatedGuarantee, pool_x: np.ndarray, pool_y: np.ndarray, seed: int
) -> NoisyAverages:
    """`_DRAWS` of them, with the norm whose draws are the best in the mean on the public rows `pool_x` float (pool,
    inputs), by their true labels `pool_y` int64 (pool,). At least one party has given its weights.
    """
    scale = sigma_needed(1, promise.epsilon, promise.delta, scalar=True)
    generator = np.random.default_rng([seed, _PURPOSE])
    drawn = [generator.standard_normal(sums.sums[0].shape) for _ in range(_DRAWS)]
    chosen = np.sort(generator.permutation(len(pool_y))[:_MOST_CHOOSE])
    rows, y = _with_intercept(pool_x[chosen]), pool_y[chosen]
    from_noise = [rows @ noise for noise in drawn]
    metric = leading_metric(y, sums.sums[0].shape[1])
    best, most = 0, -math.inf
    for index, total in enumerate(sums.sums):
        scores, deviation = rows @ (total / sums.parties), _deviation(sums, promise, scale, NORMS[index])
        scored = [row_scores(softmax(scores + deviation * noise), y, metric).mean() for noise in from_noise]
        if np.mean(scored) > most:
            best, most = index, float(np.mean(scored))
    deviation = _deviation(sums, promise, scale, NORMS[best])
    averages = [sums.sums[best] / sums.parties + deviation * noise for noise in drawn]
    return NoisyAverages([weights * _factor(rows @ weights, y) for weights in averages], NORMS[best], deviation)


def averages_of(
    case: Case, promise: StatedGuarantee | None, ensemble: Ensemble | None, parties: int
) -> NoisyAverages | str:
    """Those of a case whose `parties` have voted, at the promise; or why there are none."""
    simulation, schema = case.scenario.simulation, case.config.rows
    spec, epsilon = simulation.own_teacher or case.config.teacher, math.inf if promise is None else promise.epsilon
    if reason := why_none(spec, epsilon, mixed=bool(simulation.teachers)):
        return reason
    if ensemble is None or promise is None:
        return "no party has a teacher"
    sums = ensemble.clipped_sums(parties, case.config.teachers_per_party)
    if sums is None:
        return "some party's teachers are not linear"
    return noisy_averages(sums, promise, schema.inputs(case.pool_x), case.pool_y, case.seed)


def judged_noisy_average(
    averages: NoisyAverages, test_x: np.ndarray, test_y: np.ndarray, classes: tuple[str, ...]
) -> dict[str, Any]:
    """Metrics as `evaluate` gives them, means over draws of the noise; with norm, noise_deviation (of a weight), draws,
    intervals (`drawn_intervals`).

    `test_x` float (test, inputs), `test_y` int64 (test,).
    """
    drawn = averages.probabilities(test_x)
    return {
        **mean_metrics([evaluate(draw, test_y, classes) for draw in drawn]),
        "norm": averages.norm,
        "noise_deviation": averages.noise_deviation,
        "draws": len(drawn),
        "intervals": drawn_intervals(drawn, test_y, classes),
    }


def _with_intercept(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def _factor(scores: np.ndarray, y: np.ndarray) -> float:
    """What the scores float64 (rows, classes) are multiplied by, so that their softmax has the least log loss."""

    def loss(exponent: float) -> float:
        return -float(log_softmax(scores * math.exp(exponent), axis=1)[np.arange(len(y)), y].mean())

    from scipy.optimize import minimize_scalar  # as in `accounting.curves.gdp`

    # the loss is convex in the factor, and so has one valley in its logarithm too
    result: Any = minimize_scalar(loss, bounds=_FACTORS, method="bounded", options={"xatol": 1e-3})
    return math.exp(result.x)


def _deviation(sums: ClippedSums, promise: StatedGuarantee, scale: float, norm: float) -> float:
    """Of the noise on a weight of the average; `scale`: on a sum of sensitivity 1."""
    return scale * sensitivity(norm, promise.unit, promise.neighbouring, sums.teachers_per_party) / sums.parties


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


class NoisyAverage(StudyMethod):
    """The average of this module. Its norm is chosen on the pool's true labels, at no charge, which speaks for it.

    Judged on the test rows as the mean over draws of the noise; at home, and as `Predicted.test`, it is the first draw.
    figures: epsilon, delta, norm, noise_deviation (of a weight).
    """

    title: ClassVar[str] = "noisy average of weights"
    private: ClassVar[bool] = True
    needs_ensemble: ClassVar[bool] = True

    name: Literal["noisy_average"] = "noisy_average"
    epsilon: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="what it may cost, in the federation's unit, relation and delta; left out: what the federation"
        " promises",
    )

    def guarantee(self, case: Case) -> StatedGuarantee | None:
        """See `StudyMethod.guarantee`: in the federation's unit, relation and delta."""
        whole = StatedGuarantee.of(promised(case.config))
        if self.epsilon is None:
            return whole
        privacy = case.config.privacy
        return StatedGuarantee(self.epsilon, privacy.delta, privacy.unit, privacy.neighbouring)

    def depends_on(self, case: Case) -> dict[str, Any]:
        """See `StudyMethod.depends_on`."""
        privacy = case.config.privacy
        promise = {"promise": case.config.promise()} if self.epsilon is None else {}
        unit = {"unit": privacy.unit.value, "neighbouring": privacy.neighbouring.value}
        return {**promise, "delta": privacy.delta, **unit}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`. Absent where teachers are not linear, or nothing finite is promised."""
        promise = self.guarantee(case)
        averages = averages_of(case, promise, needed(ensemble, self.name), len(case.parties))
        if isinstance(averages, str) or promise is None:
            return Predicted(absent=str(averages))
        schema, tested = case.config.rows, len(case.test_y)
        drawn = np.stack(averages.probabilities(schema.inputs(case.test_x))) if tested else None
        return Predicted(
            test=None if drawn is None else drawn[0],
            home=averages.probabilities(schema.inputs(case.home_x))[0] if len(case.home_y) else None,
            figures={
                "epsilon": promise.epsilon,
                "delta": promise.delta,
                "norm": averages.norm,
                "noise_deviation": averages.noise_deviation,
            },
            arrays={} if drawn is None else {TEST_DRAWS: drawn.astype(np.float32)},
        )
