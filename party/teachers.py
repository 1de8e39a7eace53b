"""Teachers on disjoint shards of a party's own rows: ridge regression, scikit-learn estimators, networks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from party.data import Rows
from party.network import NetworkTeacher
from party.one_hot import OneHotTeacher
from party.own_teacher import SklearnSpec
from party.ridge import RidgeTeacher
from protocol.images import why_no_images
from protocol.messages import TeacherSpec
from protocol.refusals import Refused, Rule
from protocol.schema import Schema

Teacher = ClassifierMixin | RidgeTeacher | NetworkTeacher | OneHotTeacher
"""What is trained and kept: it has `fit`, `predict`, `predict_proba` and `classes_`."""


def check_rows(spec: TeacherSpec | SklearnSpec, schema: Schema) -> None:
    """Raise Refused (SCHEMA) if such a teacher cannot be trained on such rows."""
    if spec.model == "cnn" and (reason := why_no_images(schema)):
        raise Refused(Rule.SCHEMA, detail=f"teacher cnn: {reason}")


def build(spec: TeacherSpec | SklearnSpec, seed: int) -> Teacher:
    """An untrained estimator. One thread: the parallelism of a federation is its parties."""
    if isinstance(spec, SklearnSpec):
        estimator = spec.build(seed)
        if hasattr(estimator, "predict_proba"):
            return estimator  # pyright: ignore[reportReturnType]
        return OneHotTeacher(estimator)
    weight = None if spec.class_weight == "none" else spec.class_weight
    match spec.model:
        case "ridge":
            return RidgeTeacher(spec.alpha, balanced=spec.class_weight == "balanced")
        case "logistic_regression":
            return LogisticRegression(C=spec.C, class_weight=weight, max_iter=spec.iterations)
        case "random_forest":
            from sklearn.ensemble import RandomForestClassifier  # a second to import: only where it is used

            return RandomForestClassifier(
                n_estimators=spec.trees, max_depth=spec.depth, class_weight=weight, random_state=seed, n_jobs=1
            )
        case "gradient_boosting":
            from sklearn.ensemble import GradientBoostingClassifier

            return GradientBoostingClassifier(
                n_estimators=spec.trees, max_depth=spec.depth, learning_rate=spec.learning_rate, random_state=seed
            )
        case "mlp" | "cnn":
            return NetworkTeacher(spec, seed)


def shards(y: np.ndarray, count: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Disjoint row indices for `count` teachers, every row in exactly one, each class spread as evenly as it can be.

    Disjointness is what makes one record move one vote. `y` is int64 (n,).
    """
    order = generator.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    return [np.sort(order[start::count]) for start in range(count)]


def train_all(
    rows: Rows, spec: TeacherSpec | SklearnSpec, parts: Sequence[np.ndarray], seeds: Sequence[int]
) -> list[Teacher]:
    """One teacher for each part of row indices, networks in one go."""
    if isinstance(spec, SklearnSpec) or not spec.network:
        return [train(rows, spec, part, seed) for part, seed in zip(parts, seeds, strict=True)]
    from party.network_training import train_many  # torch takes two seconds to import

    plural = [index for index, part in enumerate(parts) if len(np.unique(rows.y[part])) > 1]
    networks = train_many(spec, rows.x, rows.y, [parts[index] for index in plural], [seeds[index] for index in plural])
    trained = dict(zip(plural, networks, strict=True))
    return [trained.get(index) or train(rows, spec, part, seeds[index]) for index, part in enumerate(parts)]


def train(rows: Rows, spec: TeacherSpec | SklearnSpec, indices: np.ndarray, seed: int) -> Teacher:
    """Train one teacher on the rows at `indices`. A shard with one class only gives a constant teacher.

    Raises
    ------
    Refused : the estimator of the party's own choice refuses its parameters or the rows (POLICY).
    """
    x, y = rows.x[indices], rows.y[indices]
    estimator = build(spec, seed) if len(np.unique(y)) > 1 else DummyClassifier(strategy="most_frequent")
    weights = None
    if spec.model == "gradient_boosting" and spec.class_weight == "balanced":
        counts = np.bincount(y)  # gradient boosting has no class_weight of its own
        weights = len(y) / (np.count_nonzero(counts) * counts[y])
    try:
        if weights is None:
            return estimator.fit(x, y)  # pyright: ignore[reportAttributeAccessIssue]
        return estimator.fit(x, y, sample_weight=weights)  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
    except ValueError as error:
        if not isinstance(spec, SklearnSpec):
            raise
        raise Refused(Rule.POLICY, detail=f"[teacher] {spec.estimator}: {type(error).__name__}") from None


def vote(teachers: Sequence[Teacher], x: np.ndarray, classes: int) -> np.ndarray:
    """One vote of each teacher on each query.

    `x` is float (queries, inputs), see `Schema.inputs`; the votes are int64 (queries, classes), each row summing to
    len(teachers).
    """
    votes = np.zeros((len(x), classes), dtype=np.int64)
    rows = np.arange(len(x))
    for teacher in teachers:
        votes[rows, teacher.predict(x)] += 1  # pyright: ignore[reportAttributeAccessIssue]
    return votes
