"""What no federation has: one model on the rows of all parties together."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from consilium.protocol.parties.teachers import GradientBoostingSpec, TeacherKind
from consilium.simulations.compare.pooled import pooled_probabilities
from consilium.simulations.study.case import Case
from consilium.simulations.study.ensemble import Ensemble
from consilium.simulations.study.methods.base import Predicted, StudyMethod

BOOSTED = GradientBoostingSpec(trees=100, depth=4)
"""Of one size for all data: chosen on none of them."""


class PooledModel(StudyMethod):
    """One model on all that the parties train on, without any guarantee."""

    title: ClassVar[str] = "pooled"
    private: ClassVar[bool] = False
    needs_ensemble: ClassVar[bool] = False

    name: Literal["pooled"] = "pooled"
    kind: Literal["teacher", "boosted"] = Field(
        default="teacher",
        description="`teacher`: a model of the teachers' kind; `boosted`: gradient boosting, whatever the teachers are,"
        " which says what there is to learn",
    )

    def depends_on(self, case: Case) -> dict[str, Any]:
        """See `StudyMethod.depends_on`."""
        return {}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`."""
        rows = np.concatenate([case.partition.parties[party] for party in case.parties])
        schema, tested = case.config.rows, len(case.test_y)
        judging = schema.inputs(np.concatenate([case.test_x, case.home_x]))
        found = pooled_probabilities(schema, self._model(case), case.dataset.x[rows], case.dataset.y[rows], judging)
        return Predicted(
            test=found[:tested] if tested else None,
            home=found[tested:] if len(case.home_y) else None,
            figures={"rows": float(len(rows))},
        )

    def _model(self, case: Case) -> TeacherKind:
        if self.kind == "boosted":
            return BOOSTED
        return case.scenario.simulation.own_teacher or case.config.teacher
