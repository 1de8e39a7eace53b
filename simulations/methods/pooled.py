"""The baseline that exists in simulations only: one model on the rows of all parties together."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.linalg import solve

from consilium.data.private_rows import Rows
from consilium.models.keys import GradientBoostingSpec, NetworkSpec, OwnCode, RandomForestSpec, RidgeSpec, TeacherKind
from consilium.models.linear import LogisticTeacher, RidgeTeacher
from consilium.models.table import fit_teacher
from consilium.protocol.schema import Schema
from consilium.simulations.divide import Case
from consilium.simulations.linear_teachers import class_probabilities
from consilium.simulations.methods.base import Predicted, StudyMethod
from consilium.simulations.vote import Ensemble

_BLOCK = 2000
_ROWS_SEEN = 200_000
"""Of a network, over all epochs: on many rows a few epochs are enough, and minutes are not worth the last promille."""


def pooled_probabilities(
    schema: Schema, teacher: TeacherKind, x: np.ndarray, y: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Trained on bare rows `x` (n, features) with `y` int64 (n,) -> probabilities (m, classes) of the inputs `test`. A
    model of the teachers' kind. Networks see `_ROWS_SEEN` rows at most, in whole epochs. Gradient boosting is
    scikit-learn's histogram one, which is faster on many rows."""
    if (y == y[0]).all():  # nothing to fit: what every party says, all of them together say
        return np.eye(len(schema.classes))[np.full(len(test), y[0])]
    return _trained(teacher, schema, x, y, test)


def _trained(teacher: TeacherKind, schema: Schema, x: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    classes = len(schema.classes)
    if isinstance(teacher, RidgeSpec) and len(x) >= test.shape[1]:
        return _ridge(teacher, schema, x, y, test)
    inputs = schema.inputs(x)
    if isinstance(teacher, OwnCode | RandomForestSpec):
        # as a teacher is; where one's own cannot be trained on so many rows, their most frequent class
        return class_probabilities(fit_teacher(teacher, Rows(inputs, y), 0), test, classes)
    model: Any = LogisticTeacher(iterations=2000)
    if isinstance(teacher, RidgeSpec):
        model = RidgeTeacher(teacher.alpha)
    elif isinstance(teacher, GradientBoostingSpec):
        from sklearn.ensemble import HistGradientBoostingClassifier

        model = HistGradientBoostingClassifier(
            max_iter=teacher.trees,
            max_depth=teacher.depth,
            learning_rate=teacher.learning_rate,
            class_weight=None if teacher.class_weight == "none" else teacher.class_weight,
            early_stopping=False,  # pyright: ignore[reportArgumentType]
            random_state=0,
        )
    elif isinstance(teacher, NetworkSpec):
        from consilium.models.torch_classifier import NetworkTeacher  # torch takes two seconds to import

        epochs = max(1, min(teacher.epochs, _ROWS_SEEN // len(x)))
        model = NetworkTeacher(teacher.model_copy(update={"epochs": epochs}), seed=0)
    return class_probabilities(model.fit(inputs, y), test, classes)


def _ridge(teacher: RidgeSpec, schema: Schema, x: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Rows are never all in memory, only sums over them, 4 inputs^2 bytes. They are solved in float64, where fewer are
    nearly singular; where they are singular all the same, with their rounding as a further penalty."""
    width, classes = test.shape[1], len(schema.classes)
    gram, cross = np.zeros((width, width), dtype=np.float32), np.zeros((width, classes), dtype=np.float32)
    total, counts = np.zeros(width), np.bincount(y, minlength=classes)
    for start in range(0, len(x), _BLOCK):
        inputs = schema.inputs(x[start : start + _BLOCK]).astype(np.float32)
        gram += inputs.T @ inputs
        cross += inputs.T @ np.eye(classes, dtype=np.float32)[y[start : start + _BLOCK]]
        total += inputs.sum(axis=0)
    mean = (total / len(x)).astype(np.float32)
    largest = float(np.trace(gram))  # sums are rounded by a share of this, whatever is taken off them
    gram -= np.outer(mean, mean) * np.float32(len(x))
    gram[np.diag_indices_from(gram)] += np.float32(teacher.alpha)
    right = (cross - np.outer(mean, counts.astype(np.float32))).astype(np.float64)
    penalised = gram.astype(np.float64)
    try:
        weights = solve(penalised, right, assume_a="pos")
    except np.linalg.LinAlgError:
        penalised[np.diag_indices_from(penalised)] += float(np.finfo(np.float32).eps) * largest
        weights = solve(penalised, right, assume_a="pos", overwrite_a=True)
    scores = np.maximum((test - mean) @ weights + counts / len(x), 0)
    return scores / scores.sum(axis=1, keepdims=True)


BOOSTED = GradientBoostingSpec(trees=100, depth=4)  # of one size for all data: chosen on none of them


class PooledModel(StudyMethod):
    """One model on all that the parties train on, without any guarantee."""

    needs_ensemble: ClassVar[bool] = False

    name: Literal["pooled"] = "pooled"
    kind: Literal["teacher", "boosted"] = Field(
        default="teacher",
        description="`teacher`: a model of the teachers' kind; `boosted`: gradient boosting, whatever the teachers are,"
        " which says what there is to learn",
    )

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        rows = np.concatenate([case.partition.parties[party] for party in case.parties])
        schema, tested, data = case.config.rows, len(case.test_y), case.dataset
        judging = schema.inputs(np.concatenate([case.test_x, case.home_x]))
        own = case.scenario.simulation.own_teacher or case.config.teacher
        kind = BOOSTED if self.kind == "boosted" else own
        probabilities = pooled_probabilities(schema, kind, data.x[rows], data.y[rows], judging)
        return Predicted(
            test=probabilities[:tested] if tested else None,
            home=probabilities[tested:] if len(case.home_y) else None,
            figures={"rows": float(len(rows))},
        )
