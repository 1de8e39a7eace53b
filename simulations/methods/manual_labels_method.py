"""Manual labels as a method of a study. What is learnt from them is in `methods.manual_labels`, for runs too, whose
workers import nothing of divisions for it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from consilium.simulations.divide import Case
from consilium.simulations.methods.base import TEST_DRAWS, Predicted, StudyMethod
from consilium.simulations.methods.manual_labels import by_lot, learnt_from_labels, most_draws
from consilium.simulations.vote import Ensemble
from consilium.student.learn import inputs


class LabelledByHand(StudyMethod):
    """The student's own trainer on so many true labels of the pool, drawn by lot. No private row is in it.

    Judged on the test rows as the mean over draws of the labels, fewer where the trainer takes long (`most_draws`);
    at home, and as `Predicted.test`, it is the first draw. figures: labels, draws.
    """

    private: ClassVar[bool] = False
    needs_ensemble: ClassVar[bool] = False

    name: Literal["manual_labels"] = "manual_labels"
    labels: int = Field(default=100, ge=1, le=1_000_000, description="rows of the pool that somebody labels")
    draws: int = Field(default=5, ge=1, le=20, description="times that they are drawn, at most")

    def depends_on(self, case: Case) -> dict[str, Any]:
        """See `StudyMethod.depends_on`."""
        return {"student": case.scenario.student.model_dump(mode="json")}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`. Absent where the pool has fewer rows."""
        schema, spec, y = case.config.rows, case.scenario.student, case.pool_y
        if len(y) < self.labels:
            return Predicted(absent=f"the pool has {len(y)} rows, and {self.labels} were to be labelled")
        rows = inputs(spec, schema, case.pool_x)
        draws, tested = min(self.draws, most_draws(spec.trainer, rows.shape, len(case.classes))), len(case.test_y)
        judging = inputs(spec, schema, np.concatenate([case.test_x, case.home_x]))
        drawn = []
        for draw in range(draws):
            chosen = by_lot(case.seed, draw, len(y))[: self.labels]
            drawn.append(learnt_from_labels(schema, spec, rows, y, chosen, case.seed + draw).predict_proba(judging))
        stacked = np.stack(drawn)
        return Predicted(
            test=stacked[0, :tested] if tested else None,
            home=stacked[0, tested:] if len(case.home_y) else None,
            figures={"labels": float(self.labels), "draws": float(draws)},
            arrays={TEST_DRAWS: stacked[:, :tested].astype(np.float32)} if tested else {},
        )
