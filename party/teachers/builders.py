"""From the description of a teacher to an untrained one: one function for each kind, chosen by the description's class.

A new kind is a class in `protocol.parties.teachers` and a function here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from consilium.data.private_rows import Rows
from consilium.party.teachers.network import NetworkTeacher, train_many
from consilium.party.teachers.own_code import OwnCodeTeacher, check_own_code, fit
from consilium.party.teachers.own_teacher import OwnCode
from consilium.party.teachers.ridge import RidgeTeacher
from consilium.protocol.parties.teachers import (
    GradientBoostingSpec,
    LogisticRegressionSpec,
    NetworkSpec,
    RandomForestSpec,
    RidgeSpec,
    TeacherKind,
    WeightedTeacher,
)
from consilium.protocol.rows.schema import Schema

if TYPE_CHECKING:  # scikit-learn takes half a second to import, in each process of a party: only where it is used
    from sklearn.base import ClassifierMixin

Teacher: TypeAlias = "ClassifierMixin | RidgeTeacher | NetworkTeacher | OwnCodeTeacher"
"""What is trained and kept: it has `fit`, `predict`, `predict_proba` and `classes_`."""


@singledispatch
def build(spec: TeacherKind, seed: int) -> Teacher:
    """An untrained estimator. One thread: the parallelism of a federation is its parties."""
    raise TypeError(f"no builder for {type(spec).__name__}")


@build.register(LogisticRegressionSpec)
def _(spec: LogisticRegressionSpec, seed: int) -> Teacher:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=spec.C, class_weight=sklearn_weight(spec), max_iter=spec.iterations)


@build.register(RidgeSpec)
def _(spec: RidgeSpec, seed: int) -> Teacher:
    return RidgeTeacher(spec.alpha, balanced=spec.class_weight == "balanced")


@build.register(RandomForestSpec)
def _(spec: RandomForestSpec, seed: int) -> Teacher:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(
        n_estimators=spec.trees, max_depth=spec.depth, class_weight=sklearn_weight(spec), random_state=seed, n_jobs=1
    )


@build.register(GradientBoostingSpec)
def _(spec: GradientBoostingSpec, seed: int) -> Teacher:
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(
        n_estimators=spec.trees, max_depth=spec.depth, learning_rate=spec.learning_rate, random_state=seed
    )


@build.register(NetworkSpec)
def _(spec: NetworkSpec, seed: int) -> Teacher:
    return NetworkTeacher(spec, seed)


def sklearn_weight(spec: WeightedTeacher) -> str | None:
    """`class_weight` as scikit-learn takes it."""
    return None if spec.class_weight == "none" else spec.class_weight


@singledispatch
def check(spec: TeacherKind, schema: Schema) -> None:
    """Raise Refused if such a teacher cannot be trained on rows of this schema, whatever they hold."""


@check.register(OwnCode)
def _(spec: OwnCode, schema: Schema) -> None:
    check_own_code(spec, schema)


@singledispatch
def train_together(
    spec: TeacherKind, rows: Rows, parts: Sequence[np.ndarray], seeds: Sequence[int], classes: int
) -> Sequence[Teacher | None] | None:
    """Teachers of all parts in one go, None for those that cannot be trained; None alone for a kind whose teachers are
    trained one after the other."""
    return None


@train_together.register(OwnCode)
def _(
    spec: OwnCode, rows: Rows, parts: Sequence[np.ndarray], seeds: Sequence[int], classes: int
) -> Sequence[Teacher | None]:
    return [
        fit(spec, rows.x[part], rows.y[part], seed) if len(np.unique(rows.y[part])) > 1 else None
        for part, seed in zip(parts, seeds, strict=True)
    ]


@train_together.register(NetworkSpec)
def _(
    spec: NetworkSpec, rows: Rows, parts: Sequence[np.ndarray], seeds: Sequence[int], classes: int
) -> Sequence[Teacher]:
    return train_many(spec, rows.x, rows.y, parts, seeds, classes)


@singledispatch
def sample_weights(spec: TeacherKind, y: np.ndarray) -> np.ndarray | None:
    """Weights float64 (n,) of rows with labels `y` int64 (n,), for an estimator without class weights of its own."""
    return None


@sample_weights.register(GradientBoostingSpec)
def _(spec: GradientBoostingSpec, y: np.ndarray) -> np.ndarray | None:
    if spec.class_weight != "balanced":
        return None
    counts = np.bincount(y)
    return len(y) / (np.count_nonzero(counts) * counts[y])
