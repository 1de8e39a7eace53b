"""Teachers on disjoint shards of a party's own rows: ridge regression, scikit-learn estimators, networks."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from consilium.party.data import Rows
from consilium.party.teachers.builders import Teacher, build, sample_weights, train_together
from consilium.protocol.parties.refusals import Refused, Rule
from consilium.protocol.parties.teachers import TeacherKind
from consilium.protocol.rows.images import why_no_images
from consilium.protocol.rows.schema import Schema

log = logging.getLogger("consilium.party")


def check_rows(spec: TeacherKind, schema: Schema) -> None:
    """Raise Refused (SCHEMA) if such a teacher cannot be trained on such rows."""
    if spec.of_images and (reason := why_no_images(schema)):
        raise Refused(Rule.SCHEMA, detail=f"teacher {spec.title}: {reason}")


def train_all(
    rows: Rows, spec: TeacherKind, parts: Sequence[np.ndarray], seeds: Sequence[int], classes: int
) -> list[Teacher]:
    """One teacher for each part of row indices, networks in one go. `classes`: of the federation, the labels' range.

    A teacher is a function of its own part, its seed and the number of parts, to the last bit: one row changes one
    vote. A part without two classes gives a constant teacher, and so does one that the party's own estimator cannot be
    fitted to: whether it can may depend on the labels, and who takes part must not.

    Raises
    ------
    Refused : the estimator of the party's own choice refuses its parameters (POLICY).
    """
    if spec.may_refuse_rows:
        return _own(rows, spec, parts, seeds, classes)
    networks = train_together(spec, rows, parts, seeds, classes)
    if networks is None:
        return [train(rows, spec, part, seed, classes) for part, seed in zip(parts, seeds, strict=True)]
    return [
        network if _plural(rows, part) else _constant(rows, part, seed, classes)
        for network, part, seed in zip(networks, parts, seeds, strict=True)
    ]


def train(rows: Rows, spec: TeacherKind, indices: np.ndarray, seed: int, classes: int) -> Teacher:
    """Train one teacher on the rows at `indices`. A shard without two classes gives a constant teacher.

    Raises
    ------
    ValueError : the estimator of the party's own choice refuses its parameters or the rows.
    """
    if not _plural(rows, indices):
        return _constant(rows, indices, seed, classes)
    x, y = rows.x[indices], rows.y[indices]
    estimator = build(spec, seed)
    weights = sample_weights(spec, y)
    if weights is None:
        return estimator.fit(x, y)  # pyright: ignore[reportAttributeAccessIssue]
    return estimator.fit(x, y, sample_weight=weights)  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]


def _own(
    rows: Rows, spec: TeacherKind, parts: Sequence[np.ndarray], seeds: Sequence[int], classes: int
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

    if failures and isinstance(failures[0], InvalidParameterError):
        raise Refused(Rule.POLICY, detail=f"[teacher] {spec.title}: {type(failures[0]).__name__}")
    if failures:
        # a refusal would let one row of one shard decide over all votes
        log.warning("[teacher] %s cannot be fitted to %d of %d shards", spec.title, len(failures), tried)
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
