"""From a party's rows to its teachers: one on each shard, and what their scores are held against.

A teacher is built as its description says; a new kind is a class in `protocol.teachers` and a function here.

Whether an estimator that others wrote can be fitted to a shard, or answers for a row, may depend on labels. Who takes
part must not: where it cannot, the teacher says the shard's most frequent class, and the party's own log and `consilium
party dry-run` say how many do. What is wrong with it on any rows shows on made-up ones, before, and is told
(`check_own_code`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from functools import singledispatch
from pathlib import Path
from typing import NamedTuple

import numpy as np

from consilium.data.private_rows import Rows
from consilium.models.guard import GuardedClassifier, quoted, rehearse, unless_signalled
from consilium.models.own_model import OwnCodeTeacher
from consilium.models.specs import OwnCode
from consilium.models.teachers import ConstantTeacher, NetworkTeacher, RidgeTeacher, Teacher, train_many
from consilium.party.voting import thresholds_of
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import read_private, write_private
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.schema import Schema, why_no_images
from consilium.protocol.teachers import (
    GradientBoostingSpec,
    LogisticRegressionSpec,
    NetworkSpec,
    RandomForestSpec,
    RidgeSpec,
    TeacherKind,
    WeightedTeacher,
)
from consilium.protocol.voting_rule import VotingRule

log = logging.getLogger("consilium.party")

_SOUND: set[tuple[str, str]] = set()
"""Tables and schemas that were tried in this process, which may hold many simulated parties."""


def fit(
    spec: OwnCode, x: np.ndarray, y: np.ndarray, seed: int, schema: Schema | None = None
) -> OwnCodeTeacher | ConstantTeacher:
    """A teacher trained on rows `x` float64 (n, inputs) and `y` int64 (n,) of two classes or more; one that says the
    most frequent class, and why, if that fails.

    schema: of `x`, for an estimator that looks columns up by name. What it raises on the rows may quote one: it stays
    with the teacher, and is in no log.

    Raises
    ------
    Refused : it cannot be built, which no row has a part in (POLICY).
    """
    try:
        estimator = spec.build(seed)
    except ConfigError as error:
        raise Refused(Rule.POLICY, detail=f"[teacher] {error}") from None
    try:
        return OwnCodeTeacher(GuardedClassifier.trained(estimator, x, y, schema=schema), spec.title)
    except (Exception, SystemExit) as error:
        unless_signalled(error)
        return ConstantTeacher.most_frequent(y, quoted(error))


def check_own_code(spec: OwnCode, schema: Schema) -> None:
    """Raise Refused (POLICY) unless the model can be built, and trained on made-up rows of this schema.

    No private row has any part in it, so it may say what is wrong.
    """
    try:
        if spec.keeps_missing and schema.representation != "none":
            raise ConfigError(
                f'missing = "keep" and a representation, {schema.representation}, exclude each other', "Leave it out"
            )
        key = spec.known_by, schema.digest()
        if key not in _SOUND:
            rehearse(spec.title, lambda: spec.build(0), schema, spec.keeps_missing)
            _SOUND.add(key)
    except ConfigError as error:
        raise Refused(Rule.POLICY, detail=f"[teacher] {error}") from None


@singledispatch
def build(spec: TeacherKind, seed: int) -> Teacher:
    """An untrained estimator. One thread: the parallelism of a federation is its parties."""
    raise TypeError(f"no builder for {type(spec).__name__}")


@build.register(LogisticRegressionSpec)
def _(spec: LogisticRegressionSpec, seed: int) -> Teacher:
    from consilium.models.linear import LogisticTeacher  # scipy.optimize: only where it is used

    return LogisticTeacher(spec.C, balanced=spec.class_weight == "balanced", iterations=spec.iterations)


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
        fit(spec, rows.x[part], rows.y[part], seed, rows.schema) if len(np.unique(rows.y[part])) > 1 else None
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
    if failed := not_fitted(together):
        log.warning("[teacher] %s cannot be fitted to %d of %d shards", spec.title, failed, len(parts))
    return [
        teacher if teacher is not None and _plural(rows, part) else _constant(rows, part, seed, classes)
        for teacher, part, seed in zip(together, parts, seeds, strict=True)
    ]


def not_fitted(teachers: Sequence[Teacher | None]) -> int:
    """How many are constant since their estimator could not be fitted."""
    return sum(isinstance(teacher, ConstantTeacher) and bool(teacher.failed) for teacher in teachers)


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
    return ConstantTeacher.most_frequent(rows.y[part] if len(part) else np.array([seed % classes]))


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


def make(
    rows: Rows,
    schema: Schema,
    spec: TeacherKind,
    voting_rule: VotingRule,
    reference: np.ndarray,
    parts: Sequence[np.ndarray],
    seeds: np.random.SeedSequence,
) -> tuple[list[Teacher], np.ndarray | None]:
    """One teacher for each of `parts` (row indices int64), and their thresholds (`party.teachers.voting`).

    `rows`: as they were loaded. `reference`: public rows float32 (rows, features), none where the voting rule needs
    none.
    """
    states = [int(seed.generate_state(1)[0]) for seed in seeds.spawn(len(parts))]
    teachers = train_all(rows.represented(schema, parts), spec, parts, states, len(schema.classes))
    return teachers, thresholds_of(teachers, schema, voting_rule, reference)


def simulated_seeds(seed: int, party: str) -> np.random.SeedSequence:
    """Of the estimators of a simulated party: by the run's seed and its name, never by its data. Known to everybody."""
    name = int(canonical_digest(json.dumps([party, "teacher"])), 16)
    return np.random.SeedSequence([seed, name]).spawn(2)[1]


_ALONE = 20
"""Questions that are asked one by one."""


class OwnCodeTrial(NamedTuple):
    """not_fitted: teachers that are constant, since the estimator could not be fitted to their shards. changed_votes:
    of one teacher that was trained again with the same seed. changed_alone: votes that differ when a question is asked
    alone."""

    not_fitted: int
    changed_votes: int
    changed_alone: int

    def lines(self, teachers: int) -> list[str]:
        """What to tell; nothing where all is well."""
        lines = []
        if self.not_fitted:
            lines.append(
                f"your estimator could not be fitted to {self.not_fitted} of {teachers} shards (too few rows of a"
                " class, say): these teachers always say their most frequent class."
            )
        if self.changed_votes:
            lines.append(
                f"trained again with the same seed, it gives {self.changed_votes} other votes: give it a random_state,"
                " or a coordinator that comes again after you lost state/ gets other answers, which count once more."
            )
        if self.changed_alone:
            lines.append(
                f"{self.changed_alone} votes change when a question is asked alone: it must judge each row by itself."
            )
        return lines


def try_again(
    rows: Rows,
    spec: TeacherKind,
    parts: Sequence[np.ndarray],
    seeds: Sequence[int],
    teachers: Sequence[Teacher],
    x: np.ndarray,
) -> OwnCodeTrial | None:
    """Train the teacher of the largest part once more, and ask it rows `x` float64 (n, inputs) one by one; None for a
    kind that a coordinator may ask for. Other arguments as of `ensemble.train_all`."""
    if not isinstance(spec, OwnCode):
        return None
    largest = max(range(len(parts)), key=lambda index: len(parts[index]))
    first = teachers[largest]
    (again,) = train_all(rows, spec, [parts[largest]], [seeds[largest]], int(rows.y.max()) + 1)
    votes = first.predict(x)  # pyright: ignore[reportAttributeAccessIssue]
    changed = int((again.predict(x) != votes).sum())  # pyright: ignore[reportAttributeAccessIssue]
    alone = [first.predict(x[row : row + 1])[0] for row in range(min(len(x), _ALONE))]  # pyright: ignore
    return OwnCodeTrial(not_fitted(teachers), changed, int((np.array(alone) != votes[:_ALONE]).sum()))


SECRET_BYTES = 32
SECRET_FILE = "shards.key"


def split(identities: np.ndarray, count: int, secret: bytes) -> list[np.ndarray]:
    """Row indices int64, ascending, of each of `count` shards: disjoint, and every row is in one.

    identities : uint8 (n, 32), one row's each. secret : bytes of `SECRET_BYTES`, independent of the data.

    >>> same = np.zeros((3, 32), dtype=np.uint8)
    >>> sorted(len(part) for part in split(same, 2, bytes(32)))
    [0, 3]
    """
    if count == 1:
        return [np.arange(len(identities))]
    drawn = (hmac.digest(secret, identity.tobytes(), "sha256") for identity in identities)
    shard = np.fromiter((int.from_bytes(value) % count for value in drawn), np.int64, len(identities))
    return [np.flatnonzero(shard == index) for index in range(count)]


def own_secret(state: Path) -> bytes:
    """The party's secret, made of the system's entropy on first use, mode 0600. It never leaves the party.

    Raises
    ------
    ConfigError : the file is damaged, others may read it, or somebody removes it.
    """
    secret = secret_if_there(state)
    if secret is None:
        part = state / f"{SECRET_FILE}.{secrets.token_hex(8)}"
        write_private(part, secrets.token_bytes(SECRET_BYTES))
        with suppress(FileExistsError):  # another process was first: its secret is the party's
            os.link(part, state / SECRET_FILE)
        part.unlink()
        secret = secret_if_there(state)
    if secret is None:
        raise ConfigError(f"{state / SECRET_FILE} was removed as soon as it was made", "Start the party again")
    return secret


def secret_if_there(state: Path) -> bytes | None:
    """The party's secret, or None where none was made yet. Makes nothing.

    Raises
    ------
    ConfigError : see `own_secret`.
    """
    path = state / SECRET_FILE
    if not path.exists():
        return None
    secret = read_private(path)
    if len(secret) != SECRET_BYTES:
        message = f"{path} holds {len(secret)} bytes, it must hold {SECRET_BYTES}"
        raise ConfigError(
            message, "Put it back from a backup; or remove it: rows are then divided anew, at new teachers"
        )
    return secret


def simulated_secret(seed: int, party: str) -> bytes:
    """The secret of a simulated party, the same in every run with this seed, and known to everybody."""
    return hashlib.sha256(json.dumps([seed, party, "shards"]).encode()).digest()
