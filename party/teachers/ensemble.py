"""Teachers on disjoint shards of a party's own rows: ridge regression, scikit-learn estimators, networks."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from consilium.data.private_rows import Rows
from consilium.party.teachers.builders import Teacher, build, check, sample_weights, train_together
from consilium.protocol.parties.refusals import Refused, Rule
from consilium.protocol.parties.teachers import TeacherKind
from consilium.protocol.rows.schema import Schema, why_no_images

log = logging.getLogger("consilium.party")


def check_rows(spec: TeacherKind, schema: Schema) -> None:
    """Raise Refused if such a teacher cannot be trained on such rows: SCHEMA; POLICY for one that the party named."""
    if spec.of_images and (reason := why_no_images(schema)):
        raise Refused(Rule.SCHEMA, detail=f"teacher {spec.title}: {reason}")
    check(spec, schema)


def train_all(
    rows: Rows, spec: TeacherKind, parts: Sequence[np.ndarray], seeds: Sequence[int], classes: int
) -> list[Teacher]:
    """One teacher for each part of row indices, networks in one go. `classes`: of the federation, the labels' range.

    A teacher is a function of its own part, its seed and the number of parts, to the last bit: one row changes one
    vote. A part without two classes gives a constant teacher, and so does one that an estimator of the party's own
    cannot be fitted to: whether it can may depend on the labels, and who takes part must not.
    """
    together = train_together(spec, rows, parts, seeds, classes)
    if together is None:
        return [train(rows, spec, part, seed, classes) for part, seed in zip(parts, seeds, strict=True)]
    tried = [_plural(rows, part) for part in parts]
    if failed := sum(plural and teacher is None for plural, teacher in zip(tried, together, strict=True)):
        log.warning("[teacher] %s cannot be fitted to %d of %d shards", spec.title, failed, sum(tried))
    return [
        teacher if plural and teacher is not None else _constant(rows, part, seed, classes)
        for plural, teacher, part, seed in zip(tried, together, parts, seeds, strict=True)
    ]


def not_fitted(rows: Rows, parts: Sequence[np.ndarray], teachers: Sequence[Teacher]) -> int:
    """Of how many parts with two classes or more the teacher is constant, since its estimator could not be fitted."""
    from sklearn.dummy import DummyClassifier

    return sum(
        _plural(rows, part) and isinstance(teacher, DummyClassifier)
        for part, teacher in zip(parts, teachers, strict=True)
    )


def train(rows: Rows, spec: TeacherKind, indices: np.ndarray, seed: int, classes: int) -> Teacher:
    """Train one teacher on the rows at `indices`. A shard without two classes gives a constant teacher."""
    if not _plural(rows, indices):
        return _constant(rows, indices, seed, classes)
    x, y = rows.x[indices], rows.y[indices]
    estimator = build(spec, seed)
    weights = sample_weights(spec, y)
    if weights is None:
        return estimator.fit(x, y)  # pyright: ignore[reportAttributeAccessIssue]
    return estimator.fit(x, y, sample_weight=weights)  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]


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
