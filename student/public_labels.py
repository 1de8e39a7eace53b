"""What a model learns from the true labels of public rows alone, without votes. They cost no epsilon: a student of
votes is worth its epsilon where it is better."""

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
"""Most rows that are cross-validated: enough for an AUC to within .02."""
FOLDS = 5
WIDE, MOST_WIDE = 1000, 2000
"""With more inputs than the first, as many labelled rows as the second are used: more would take minutes."""
_KERNEL_ROWS, _OTHER_ROWS = 12_000, 2000
"""Most public rows on which a graph student, and one of another kind, learns within seconds."""
_SEED = 0x706C6C6F74


@dataclass(frozen=True)
class ValidatedLabels:
    """How well a model of some labelled rows tells the classes of the others. metric: AUC of two classes that both
    occur, else accuracy. value: of that metric, with a 95 % interval over rows like these. chance: what is reached
    without looking at a row, .5 or the share of the largest class. rows: how many were used."""

    metric: Metric
    value: float
    interval: Interval
    chance: float
    rows: int

    @property
    def leaves_chance(self) -> bool:
        return self.interval[0] > self.chance


def cross_validated(x: np.ndarray, y: np.ndarray, classes: int) -> ValidatedLabels:
    """A linear model, cross-validated in five parts, each with its share of every class; the same rows give the same
    result. x: float (n, inputs), as the schema represents rows. y: int64 (n,), 0 to classes - 1; n is at least 1."""
    rows = _some(len(x), MOST_VALIDATED)
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
    """Probabilities float64 (m, classes) of the test rows by a student of the same kind that learns from these labels
    and no votes, or why there are none. A linear one chooses its regularisation by evidence, as from votes. pool, test:
    canonical rows (n, features), (m, features). labels: int64 (n,), below 0 where nobody knows it."""
    if reason := takes_long(spec.trainer, len(pool)):
        return reason
    known = np.flatnonzero(labels >= 0)
    if not len(known):
        return "no public row has a label"
    if isinstance(spec.trainer, LogisticRegressionStudent):
        x, judging = schema.inputs(pool[known]), schema.inputs(test)
        rows = _some(len(x), MOST_WIDE if x.shape[1] > WIDE else len(x))
        return fit_labels(x[rows], labels[known][rows], len(schema.classes)).predict_proba(judging)
    rows = inputs(spec, schema, pool)
    rest = np.delete(rows, known, axis=0)
    model = train(rows[known], labels[known], rest, len(schema.classes), spec, seed, schema=schema)
    return model.predict_proba(inputs(spec, schema, test))


def takes_long(kind: TrainerKind, rows: int) -> str:
    """Why a student is not trained again on the labels of so many public rows; empty where it is. This follows from
    kind and size, never from a clock."""
    always = kind.inputs == "features" or isinstance(kind, TorchStudent)
    most = _KERNEL_ROWS if isinstance(kind, GraphStudent) else _OTHER_ROWS
    if always or (rows > most and not isinstance(kind, LogisticRegressionStudent)):
        of_rows = "" if always else f" on {rows} public rows"
        return f"a student of the kind {kind.name}{of_rows} takes too long to be trained again"
    return ""


def labels_before(schema: Schema, pool: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """What labels tell before anything is asked: `rows`, how many have one, and `cross_validated`, if any has one.
    pool: canonical rows (n, features); labels: int64 (n,), below 0 where nobody knows it."""
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
    """The student compared with one of the labels of public rows alone; the guarantee of its own labels covers this.
    pool, labels, seed: as of `labels_alone`. test: canonical rows (m, features) and classes int64 (m,), m >= 1.
    student: its probabilities of these, float64 (m, classes). Returns what `labels_before` gives; of labels alone what
    `evaluate` gives, and "intervals" of the leading metric; and "student_above", by how much the student is better, row
    by row: metric, difference, interval (95 %, over test rows). Or "absent": why all but the first is missing."""
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
    """The 95 % interval of the mean of row scores; AUC is of two classes that both occur."""
    return area_interval(right, int(np.bincount(y).min())) if metric == "auc" else wilson(float(right.sum()), len(y))


def _some(rows: int, most: int) -> np.ndarray:
    """At most so many of the rows, at random with a fixed seed."""
    return np.random.default_rng(_SEED).permutation(rows)[:most]
