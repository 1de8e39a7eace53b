"""Teachers on disjoint shards of a party's own rows: ridge regression, scikit-learn estimators, networks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from consilium.party.data import Rows
from consilium.party.teachers.network import NetworkTeacher, train_many
from consilium.party.teachers.one_hot import OneHotTeacher
from consilium.party.teachers.own_teacher import SklearnSpec
from consilium.party.teachers.ridge import RidgeTeacher
from consilium.protocol.parties.messages import TeacherSpec
from consilium.protocol.parties.refusals import Refused, Rule
from consilium.protocol.rows.images import why_no_images
from consilium.protocol.rows.schema import Schema

if TYPE_CHECKING:  # scikit-learn takes half a second to import, in each process of a party: only where it is used
    from sklearn.base import ClassifierMixin

log = logging.getLogger("consilium.party")

Teacher: TypeAlias = "ClassifierMixin | RidgeTeacher | NetworkTeacher | OneHotTeacher"
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
            from sklearn.linear_model import LogisticRegression

            return LogisticRegression(C=spec.C, class_weight=weight, max_iter=spec.iterations)
        case "random_forest":
            from sklearn.ensemble import RandomForestClassifier

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


def train_all(
    rows: Rows, spec: TeacherSpec | SklearnSpec, parts: Sequence[np.ndarray], seeds: Sequence[int], classes: int
) -> list[Teacher]:
    """One teacher for each part of row indices, networks in one go. `classes`: of the federation, the labels' range.

    A teacher is a function of its own part, its seed and the number of parts, to the last bit: one row changes one
    vote. A part without two classes gives a constant teacher, and so does one that the party's own estimator cannot be
    fitted to, unless it can be fitted to none.

    Raises
    ------
    Refused : the estimator of the party's own choice refuses its parameters, or the rows of every part (POLICY).
    """
    if isinstance(spec, SklearnSpec):
        return _own(rows, spec, parts, seeds, classes)
    if not spec.network:
        return [train(rows, spec, part, seed, classes) for part, seed in zip(parts, seeds, strict=True)]
    networks = train_many(spec, rows.x, rows.y, parts, seeds, classes)
    return [
        network if _plural(rows, part) else _constant(rows, part, seed, classes)
        for network, part, seed in zip(networks, parts, seeds, strict=True)
    ]


def train(rows: Rows, spec: TeacherSpec | SklearnSpec, indices: np.ndarray, seed: int, classes: int) -> Teacher:
    """Train one teacher on the rows at `indices`. A shard without two classes gives a constant teacher.

    Raises
    ------
    ValueError : the estimator of the party's own choice refuses its parameters or the rows.
    """
    if not _plural(rows, indices):
        return _constant(rows, indices, seed, classes)
    x, y = rows.x[indices], rows.y[indices]
    estimator = build(spec, seed)
    weights = None
    if spec.model == "gradient_boosting" and spec.class_weight == "balanced":
        counts = np.bincount(y)  # gradient boosting has no class_weight of its own
        weights = len(y) / (np.count_nonzero(counts) * counts[y])
    if weights is None:
        return estimator.fit(x, y)  # pyright: ignore[reportAttributeAccessIssue]
    return estimator.fit(x, y, sample_weight=weights)  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]


def _own(
    rows: Rows, spec: SklearnSpec, parts: Sequence[np.ndarray], seeds: Sequence[int], classes: int
) -> list[Teacher]:
    trained: list[Teacher] = []
    failures: list[ValueError] = []
    tried = sum(_plural(rows, part) for part in parts)
    for part, seed in zip(parts, seeds, strict=True):
        try:
            trained.append(train(rows, spec, part, seed, classes))
        except ValueError as error:
            failures.append(error)
            trained.append(_constant(rows, part, seed, classes))
    from sklearn.utils._param_validation import InvalidParameterError

    if failures and (len(failures) == tried or isinstance(failures[0], InvalidParameterError)):
        raise Refused(Rule.POLICY, detail=f"[teacher] {spec.estimator}: {type(failures[0]).__name__}")
    if failures:
        # a refusal would let one row of one shard decide over all votes
        log.warning("[teacher] %s cannot be fitted to %d of %d shards", spec.estimator, len(failures), tried)
    return trained


def _plural(rows: Rows, part: np.ndarray) -> bool:
    return len(np.unique(rows.y[part])) > 1


def _constant(rows: Rows, part: np.ndarray, seed: int, classes: int) -> Teacher:
    """Always votes for the most frequent class of the part; for one that the seed draws where there are no rows."""
    from sklearn.dummy import DummyClassifier

    y = rows.y[part] if len(part) else np.array([seed % classes])
    return DummyClassifier(strategy="most_frequent").fit(np.zeros((len(y), rows.x.shape[1])), y)


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
