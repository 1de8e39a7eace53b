"""The learning curve: the student after the first so many of its answers. It takes what was released and public rows
with their true labels, so the guarantee covers it."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilium.models.evaluation import Metric, area_interval, leading_metric, mean_interval, row_scores
from consilium.models.published.prevalence import PrevalenceShift
from consilium.protocol.label_source import NO_LABEL, Progress, no_progress
from consilium.report.progress import CURVES, stage
from consilium.simulations.methods.manual_labels import MOST_DRAWS, PublicTruth, most_draws
from consilium.student.ask import Asked
from consilium.student.config import StudentSpec
from consilium.student.learn import inputs, train_told

PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Of the answers."""


class CurveLearner:
    """A run's own trainer on answers, judged on the public test rows by the leading metric."""

    def __init__(self, public: PublicTruth, spec: StudentSpec, seed: int) -> None:
        self._spec, self._seed, self._schema = spec, seed, public.schema
        self._rows, self._test = (inputs(spec, public.schema, rows) for rows in (public.queries, public.test_x))
        self._y = public.test_y
        self.metric: Metric = leading_metric(public.test_y, len(public.schema.classes))

    def scores(self, record: Asked) -> np.ndarray:
        """Row scores float64 (test,) of a student of this record."""
        model = train_told(self._rows, *record.told(), self._spec, self._schema, self._seed)
        probabilities = model.predict_proba(self._test)
        if self._spec.prevalence and self.metric == "accuracy":  # ranks of two classes stay
            shift = PrevalenceShift.onto(self._spec.prevalence, model.predict_proba(self._rows))
            probabilities = shift.applied(probabilities)
        return row_scores(probabilities, self._y, self.metric)

    def point(self, record: Asked) -> dict[str, Any]:
        """The student's value, with its interval over test rows."""
        rows = self.scores(record)
        least = int(np.bincount(self._y)[np.unique(self._y)].min())
        interval = area_interval(rows, least) if self.metric == "auc" else mean_interval(rows, 0.0, 0.0, 1.0)
        return {"value": float(rows.mean()), "interval": interval}


def learning_curve(
    public: PublicTruth, spec: StudentSpec, seed: int, record: Asked, progress: Progress = no_progress
) -> dict[str, Any]:
    """metric, and points: labels, value, interval; the last is that of all that was asked. {"absent": why} where the
    trainer takes long."""
    with stage(progress, CURVES):
        shape = len(public.queries), inputs(spec, public.schema, public.queries[:1]).shape[1]
        if most_draws(spec.trainer, shape, len(public.schema.classes)) < MOST_DRAWS:
            return {"absent": "a student of this kind takes long to train again"}
        learner, total = CurveLearner(public, spec, seed), sum(label != NO_LABEL for label in record.labels)
        counts = sorted({max(1, round(part * total)) for part in PARTS}) if total else []
        points = [{"labels": count, **learner.point(record.first(count))} for count in counts]
        return {"metric": learner.metric, "points": points}
