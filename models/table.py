"""The table of models: what fits each kind of teacher and of student whose keys are in `models.keys`. A new kind is a
class of keys there and an entry here. Whether an estimator that others wrote can be fitted to a shard may depend on
labels. Who takes part must not: where it cannot, the teacher says the shard's most frequent class. What is wrong with
it on any rows shows on made-up ones, before, and is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from consilium.data.private_rows import Rows
from consilium.models import keys
from consilium.models.base import EvidenceTrainer
from consilium.models.keys import OwnCode, OwnCodeKeys, TeacherKind, TrainerKind, WeightedTeacher
from consilium.models.linear import ConstantTeacher, LogisticTeacher, RidgeTeacher, Teacher
from consilium.models.own_model import OwnClassifier, OwnTrainer, quoted, rehearse, unless_signalled
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.schema import Schema, why_no_images


def fit_teacher(spec: TeacherKind, rows: Rows, seed: int) -> Teacher:
    """Trained on rows of two classes or more, on one thread: the parallelism of a federation is its parties."""
    weight = "balanced" if isinstance(spec, WeightedTeacher) and spec.class_weight == "balanced" else None
    match spec:
        case keys.LogisticRegressionSpec():
            return LogisticTeacher(spec.C, weight is not None, spec.iterations).fit(rows.x, rows.y)
        case keys.RidgeSpec():
            return RidgeTeacher(spec.alpha, weight is not None).fit(rows.x, rows.y)
        case keys.RandomForestSpec():
            from sklearn.ensemble import RandomForestClassifier

            settings: dict[str, Any] = {"n_estimators": spec.trees, "max_depth": spec.depth, "random_state": seed}
            return RandomForestClassifier(class_weight=weight, n_jobs=1, **settings).fit(rows.x, rows.y)
        case keys.GradientBoostingSpec():
            from sklearn.ensemble import GradientBoostingClassifier

            settings = {"n_estimators": spec.trees, "max_depth": spec.depth, "random_state": seed}
            shares = None
            if weight is not None:  # it has no class weights of its own
                counts = np.bincount(rows.y)
                shares = len(rows.y) / (np.count_nonzero(counts) * counts[rows.y])
            untrained: Any = GradientBoostingClassifier(learning_rate=spec.learning_rate, **settings)
            return untrained.fit(rows.x, rows.y, sample_weight=shares)
        case keys.NetworkSpec():
            from consilium.models.torch_classifier import NetworkTeacher  # torch takes two seconds to import

            return NetworkTeacher(spec, seed).fit(rows.x, rows.y)
        case OwnCode():
            return _own(spec, rows, seed)
    raise TypeError(f"{type(spec).__name__} is no kind of teacher that can be fitted")


def _own(spec: OwnCode, rows: Rows, seed: int) -> Teacher:
    """What the estimator raises on the rows may quote one: it stays with the teacher, and is in no log."""
    try:
        estimator = spec.build(seed)
    except ConfigError as error:
        raise Refused(Rule.POLICY, detail=f"[teacher] {error}") from None
    try:
        return OwnClassifier.trained(estimator, rows.x, rows.y)
    except (Exception, SystemExit) as error:
        unless_signalled(error)
        return ConstantTeacher.most_frequent(rows.y, quoted(error))


def fit_teachers(
    spec: TeacherKind, rows: Rows, parts: Sequence[np.ndarray], seeds: Sequence[int], classes: int
) -> list[Teacher]:
    """One teacher for each part of row indices. `classes`: of the federation, the labels' range. A teacher is a
    function of its own part, its seed and the number of parts, to the last bit: one row changes one vote. A part
    without two classes gives a teacher that says its most frequent class, one without rows a class that the seed draws.
    So does a part to which an estimator of the party's own cannot be fitted, and says why. Raises Refused: an estimator
    of the party's own cannot be built, which no row has a part in (POLICY)."""
    return [
        fit_teacher(spec, Rows(rows.x[part], rows.y[part]), seed)
        if len(np.unique(rows.y[part])) > 1
        else ConstantTeacher.most_frequent(rows.y[part] if len(part) else np.array([seed % classes]))
        for part, seed in zip(parts, seeds, strict=True)
    ]


def check_teacher(spec: TeacherKind, schema: Schema) -> None:
    """Raise Refused if such a teacher cannot be trained on rows of this schema, whatever they hold: SCHEMA; POLICY for
    one that the party named, which is tried on made-up rows, so that what is wrong may be said."""
    if spec.of_images and (reason := why_no_images(schema)):
        raise Refused(Rule.SCHEMA, detail=f"teacher {spec.title}: {reason}")
    if not isinstance(spec, OwnCode):
        return
    try:
        if spec.keeps_missing and schema.representation != "none":
            raise ConfigError(
                f'missing = "keep" and a representation, {schema.representation}, exclude each other', "Leave it out"
            )
        key = spec.model_dump_json(), schema.digest()
        if key not in _SOUND:
            rehearse(spec.title, lambda: spec.build(0), schema, spec.keeps_missing)
            _SOUND.add(key)
    except ConfigError as error:
        raise Refused(Rule.POLICY, detail=f"[teacher] {error}") from None


_SOUND: set[tuple[str, str]] = set()
"""Teachers and schemas that were tried in this process, which may hold many simulated parties."""


def trainer_of(
    spec: TrainerKind, unlabelled: np.ndarray, progress: Progress = no_progress, schema: Schema | None = None
) -> EvidenceTrainer:
    """What trains a student. Its needs are imported here: parties read this module, too, once a message. unlabelled:
    float (m, inputs), as the labelled rows are given. progress: whom it tells. schema: of the rows, for a student that
    takes bare features and what the schema makes of them."""
    match spec:
        case keys.LogisticRegressionStudent():
            from consilium.models.shares import LinearTrainer

            return LinearTrainer(spec.C)
        case keys.GraphStudent():
            from consilium.models.shares import GraphTrainer

            return GraphTrainer(spec, unlabelled)
        case keys.GraphCnnStudent():
            from consilium.models.images.graph_cnn import GraphCnnTrainer

            represent = np.asarray if schema is None else schema.inputs
            return GraphCnnTrainer(spec, unlabelled, represent, progress)
        case OwnCodeKeys():
            return OwnTrainer(spec.title, spec.build, unlabelled)
    raise TypeError(f"{type(spec).__name__} is no kind of student that can be trained")
