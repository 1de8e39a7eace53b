"""The rival without votes: one noisy average of the parties' linear models."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from consilium.coordinator.ledger.privacy import promised
from consilium.simulations.compare.noisy_average import noisy_averages, why_none
from consilium.simulations.compare.stated_guarantee import StatedGuarantee
from consilium.simulations.study.case import Case
from consilium.simulations.study.ensemble import Ensemble
from consilium.simulations.study.methods.base import TEST_DRAWS, Predicted, StudyMethod, needed


class NoisyAverage(StudyMethod):
    """See `compare.noisy_average`. Its norm is chosen on the pool's true labels, at no charge, which speaks for it.

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
        config, simulation, promise = case.config, case.scenario.simulation, self.guarantee(case)
        teacher = simulation.own_teacher or config.teacher
        if reason := why_none(
            teacher, math.inf if promise is None else promise.epsilon, mixed=bool(simulation.teachers)
        ):
            return Predicted(absent=reason)
        given = needed(ensemble, self.name).clipped_sums(len(case.parties), config.teachers_per_party)
        if given is None or promise is None:
            return Predicted(absent="some party's teachers are not linear")
        schema, tested = config.rows, len(case.test_y)
        made = noisy_averages(given, promise, schema.inputs(case.pool_x), case.pool_y, case.seed)
        drawn = np.stack(made.probabilities(schema.inputs(case.test_x))) if tested else None
        return Predicted(
            test=None if drawn is None else drawn[0],
            home=made.probabilities(schema.inputs(case.home_x))[0] if len(case.home_y) else None,
            figures={
                "epsilon": promise.epsilon,
                "delta": promise.delta,
                "norm": made.norm,
                "noise_deviation": made.noise_deviation,
            },
            arrays={} if drawn is None else {TEST_DRAWS: drawn.astype(np.float32)},
        )
