"""What the labels of public rows say by themselves. Nobody votes on them, and they cost no epsilon: a student of votes
is worth its epsilon where it is better than they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from consilium.models.adapted import fit_labels
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
from consilium.models.keys import GraphStudent, LogisticRegressionStudent, TorchStudent, TrainerKind
from consilium.protocol.schema import Schema
from consilium.student.config import StudentSpec
from consilium.student.learn import inputs, train

MOST_VALIDATED = 1000
"""Rows that are cross-validated: they know an AUC to .02."""
FOLDS = 5
WIDE, MOST_WIDE = 1000, 2000
"""Of more inputs than this so many labelled rows are enough, and more would take minutes."""
_KERNEL_ROWS, _OTHER_ROWS = 12_000, 2000
"""Public rows on which a student of these kinds learns within seconds."""
_LOT = 0x706C6C6F74


@dataclass(frozen=True)
class ValidatedLabels:
    """How well labelled rows tell each other's classes, each by a model of the others. metric: AUC where two classes
    occur of two, accuracy else. value; interval: of 95 %, over rows like these. chance: what is reached without looking
    at a row, .5 or the share of the largest class. rows: how many were looked at."""

    metric: Metric
    value: float
    interval: Interval
    chance: float
    rows: int

    @property
    def leaves_chance(self) -> bool:
        return self.interval[0] > self.chance


def cross_validated(x: np.ndarray, y: np.ndarray, classes: int) -> ValidatedLabels:
    """A linear model of labels in five parts, each with its share of every class, and each judged by the model of the
    other four; no random part but fixed lots. x: float (n, inputs), as the schema represents rows. y: int64 (n,), 0 to
    classes - 1; n is at least 1."""
    rows = _lot(len(x), MOST_VALIDATED)
    x, y = x[rows], y[rows]
    fold = np.empty(len(y), dtype=np.int64)
    fold[np.argsort(y, kind="stable")] = np.arange(len(y)) % FOLDS
    scores = np.tile(np.bincount(y, minlength=classes) / len(y), (len(y), 1))
    for part in range(min(FOLDS, len(y))):
        if (fold != part).any():
            scores[fold == part] = fit_labels(x[fold != part], y[fold != part], classes).predict_proba(x[fold == part])
    metric = leading_metric(y, classes)
    right, chance = row_scores(scores, y, metric), 0.5 if metric == "auc" else float(np.bincount(y).max() / len(y))
    return ValidatedLabels(metric, float(right.mean()), _interval(right, y, metric), chance, len(y))


def labels_alone(
    spec: StudentSpec, schema: Schema, pool: np.ndarray, labels: np.ndarray, test: np.ndarray, seed: int
) -> np.ndarray | str:
    """A student of the same kind, of these labels and no votes: probabilities float64 (m, classes) of the test rows, or
    why there are none. Of a linear one the evidence of the labels decides what it decides for votes. pool, test:
    canonical rows (n, features), (m, features). labels: int64 (n,), below 0 where nobody knows it."""
    if reason := takes_long(spec.trainer, len(pool)):
        return reason
    known = np.flatnonzero(labels >= 0)
    if not len(known):
        return "no public row has a label"
    if isinstance(spec.trainer, LogisticRegressionStudent):
        x, judging = schema.inputs(pool[known]), schema.inputs(test)
        rows = _lot(len(x), MOST_WIDE if x.shape[1] > WIDE else len(x))
        return fit_labels(x[rows], labels[known][rows], len(schema.classes)).predict_proba(judging)
    rows = inputs(spec, schema, pool)
    rest = np.delete(rows, known, axis=0)
    model = train(rows[known], labels[known], rest, len(schema.classes), spec, seed, schema=schema)
    return model.predict_proba(inputs(spec, schema, test))


def takes_long(kind: TrainerKind, rows: int) -> str:
    """Why a student is not trained again on the labels of so many public rows; empty where it is. By kind and size
    alone, never by a clock."""
    always = kind.inputs == "features" or isinstance(kind, TorchStudent)
    most = _KERNEL_ROWS if isinstance(kind, GraphStudent) else _OTHER_ROWS
    if always or (rows > most and not isinstance(kind, LogisticRegressionStudent)):
        of_rows = "" if always else f" on {rows} public rows"
        return f"a student of the kind {kind.name}{of_rows} takes too long to be trained again"
    return ""


def labels_before(schema: Schema, pool: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """What is known before anything is asked: `rows` with a label, and `cross_validated` (see there; none without such
    rows). pool: canonical rows (n, features); labels: int64 (n,), below 0 where nobody knows it."""
    known = labels >= 0
    if not known.any():
        return {"rows": 0}
    validated = cross_validated(schema.inputs(pool[known]), labels[known], len(schema.classes))
    return {"rows": int(known.sum()), "cross_validated": asdict(validated)}


def beside_labels(
    spec: StudentSpec,
    schema: Schema,
    pool: np.ndarray,
    labels: np.ndarray,
    test: tuple[np.ndarray, np.ndarray],
    student: np.ndarray,
    seed: int,
) -> dict[str, Any]:
    """What a student is worth beside the labels of public rows; the guarantee of its labels covers it. pool, labels,
    seed: as of `labels_alone`. test: canonical rows (m, features) and classes int64 (m,), m >= 1. student: its
    probabilities of these, float64 (m, classes). Returns what `labels_before` gives. Of labels alone what `evaluate`
    gives, and "intervals" of the leading metric. "student_above", what the student has more, row by row: metric,
    difference, interval (95 %, over test rows). Or "absent": why there is none of these."""
    (judging, y), names, found = test, schema.classes, labels_before(schema, pool, labels)
    alone = labels_alone(spec, schema, pool, labels, judging, seed)
    if isinstance(alone, str):
        return {**found, "absent": alone}
    metric = leading_metric(y, len(names))
    reached = row_scores(alone, y, metric)
    more = row_scores(student, y, metric) - reached
    above = {"metric": metric, "difference": float(more.mean()), "interval": mean_interval(more, 0.0, -1.0, 1.0)}
    intervals = {metric: _interval(reached, y, metric)}
    return {**found, **evaluate(alone, y, names), "intervals": intervals, "student_above": above}


def _interval(right: np.ndarray, y: np.ndarray, metric: Metric) -> Interval:
    """Of the mean of row scores; AUC is of two classes that both occur."""
    return area_interval(right, int(np.bincount(y).min())) if metric == "auc" else wilson(float(right.sum()), len(y))


def _lot(rows: int, most: int) -> np.ndarray:
    return np.random.default_rng(_LOT).permutation(rows)[:most]
