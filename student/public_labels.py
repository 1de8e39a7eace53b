"""What the labels of public rows say by themselves. Nobody votes on them, and they cost no epsilon: a student of votes
is worth its epsilon where it is better than they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from consilium.models.evaluation import (
    Interval,
    Metric,
    area_interval,
    evaluate,
    leading_metric,
    mean_interval,
    row_scores,
    wilson,
)
from consilium.models.keys import KernelStudent, LogisticRegressionStudent, TorchStudent, TrainerKind
from consilium.models.plain_ridge import left_out_scores, most_plain_rows, train_plain
from consilium.protocol.schema import Schema
from consilium.student.config import StudentSpec
from consilium.student.learn import inputs, train

_LOT = 0x706C6C6F74


@dataclass(frozen=True)
class CrossValidated:
    """How well labelled rows tell each other's classes, each by a model of the others.

    metric: AUC where two classes occur of two, accuracy else. value; interval: of 95 %, over rows like these. chance:
    what is reached without looking at a row, .5 or the share of the largest class. rows: how many were looked at.
    """

    metric: Metric
    value: float
    interval: Interval
    chance: float
    rows: int

    @property
    def leaves_chance(self) -> bool:
        """Whether the whole interval is above chance."""
        return self.interval[0] > self.chance


def cross_validated(x: np.ndarray, y: np.ndarray, classes: int) -> CrossValidated:
    """Leave one out, by the model that `labels_alone` has of a linear student; no random part but a fixed lot of rows
    where all would take minutes.

    Of labels that nothing can tell, about 7 in 100 leave chance (400 tables of 30 to 300 rows): rows share models.

    x : float (n, inputs), as the schema represents rows. y : int64 (n,), 0 to classes - 1; n is at least 1.
    """
    rows = _lot(len(x), most_plain_rows(len(x), x.shape[1]))
    x, y = x[rows], y[rows]
    scores, metric, counts = left_out_scores(x, y, classes), leading_metric(y, classes), np.bincount(y)
    right = row_scores(scores, y, metric)
    if metric == "auc":
        return CrossValidated(metric, float(right.mean()), area_interval(right, int(counts.min())), 0.5, len(y))
    share = counts.max() / len(y)
    return CrossValidated(metric, float(right.mean()), wilson(float(right.sum()), len(y)), float(share), len(y))


def labels_alone(
    spec: StudentSpec, schema: Schema, pool: np.ndarray, labels: np.ndarray, test: np.ndarray, seed: int
) -> np.ndarray | str:
    """A student of the same kind, of these labels and no votes: scores float64 (m, classes) of the test rows, or why
    there are none. A linear one chooses its penalty by leaving rows out (`models.plain_ridge`).

    pool, test: canonical rows (n, features), (m, features). labels: int64 (n,), below 0 where nobody knows it.
    """
    if reason := takes_long(spec.trainer, len(pool)):
        return reason
    known = np.flatnonzero(labels >= 0)
    if not isinstance(spec.trainer, LogisticRegressionStudent):
        x = inputs(spec, schema, pool)
        model = train(x[known], labels[known], x[labels < 0], len(schema.classes), spec, seed, schema=schema)
        return model.predict_proba(inputs(spec, schema, test))
    x = schema.inputs(pool[known])
    chosen = _lot(len(x), most_plain_rows(len(x), x.shape[1]))
    return train_plain(x[chosen], labels[known][chosen], len(schema.classes)).predict_proba(schema.inputs(test))


_KERNEL_ROWS, _OTHER_ROWS = 12_000, 2000
"""Public rows on which a student of these kinds learns within seconds."""


def takes_long(kind: TrainerKind, rows: int) -> str:
    """Why a student is not trained again on the labels of so many public rows; empty where it is. By kind and size
    alone, never by a clock."""
    most = _KERNEL_ROWS if isinstance(kind, KernelStudent) else _OTHER_ROWS
    if kind.inputs == "features" or isinstance(kind, TorchStudent):
        return f"a student of the kind {kind.name} takes too long to be trained again"
    if rows > most and not isinstance(kind, LogisticRegressionStudent):
        return f"a student of the kind {kind.name} on {rows} public rows takes too long to be trained again"
    return ""


def above_labels(student: np.ndarray, alone: np.ndarray, y: np.ndarray, classes: tuple[str, ...]) -> dict[str, Any]:
    """How good labels alone are on test rows, and how much better the student is.

    student, alone: scores float64 (m, classes). y: int64 (m,), m >= 1.

    Returns
    -------
    What `evaluate` gives of `alone`, and "student_above": of the leading metric, `metric`, `difference` (the student's
    less that of the labels) and its `interval` of 95 % over test rows, row by row.
    """
    metric = leading_metric(y, len(classes))
    more = row_scores(student, y, metric) - row_scores(alone, y, metric)
    above = {"metric": metric, "difference": float(more.mean()), "interval": mean_interval(more, 0.0, -1.0, 1.0)}
    return {**evaluate(alone, y, classes), "student_above": above}


def _lot(rows: int, most: int) -> np.ndarray:
    """So many of the rows int64, ascending; always the same."""
    return np.sort(np.random.default_rng(_LOT).permutation(rows)[:most])
