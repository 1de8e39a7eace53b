"""A student's trainer on what it was told: labels, or what noisy counts and outcomes say by the law of their noise."""

from __future__ import annotations

import numpy as np

from consilium.models.base import Model, Told, constant
from consilium.models.devices import resolve_device
from consilium.models.images.pixels import shape_of
from consilium.models.keys import OwnCodeKeys, TrainerKind
from consilium.models.own_model import OwnModel, rehearse
from consilium.models.published.structures import put_together, take_apart
from consilium.models.table import trainer_of
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import NO_LABEL, Progress, no_progress
from consilium.protocol.schema import Schema
from consilium.student.config import StudentSpec


def train(
    x: np.ndarray,
    y: np.ndarray,
    unlabelled: np.ndarray,
    classes: int,
    spec: StudentSpec,
    seed: int,
    progress: Progress = no_progress,
    schema: Schema | None = None,
    told: Told | None = None,
) -> Model:
    """Train by `spec` on rows as `inputs` gives them; labels of fewer than two classes give a constant model. `y`:
    NO_LABEL where there is none. `schema`: of the rows, for a student that takes bare features and also needs their
    representation. `told`: what these rows tell of the votes, where the law of the noise is known."""
    known = y != NO_LABEL
    trainer = trainer_of(spec.trainer, unlabelled, progress, schema)
    if told is not None and len(told):
        return trainer.fit_told(x, told, seed)
    if not known.all():
        return train(x[known], y[known], np.concatenate([unlabelled, x[~known]]), classes, spec, seed, progress, schema)
    if len(np.unique(y)) < 2:
        return constant(y, classes)
    return trainer.fit(x, y, classes, seed)


def inputs(spec: StudentSpec, schema: Schema, rows: np.ndarray) -> np.ndarray:
    """Canonical rows (n, features) -> what the student's model takes, see `TrainerKind.inputs`."""
    return rows if spec.trainer.inputs == "features" else schema.inputs(rows)


def check_trainer(spec: TrainerKind, schema: Schema) -> None:
    """A student that others wrote, trained on made-up rows, taken apart and put together: before anything is asked.
    Raises UnusableModel, BadModel: it can be trained on no rows, or not be published."""
    if isinstance(spec, OwnCodeKeys):
        trained = rehearse(f"the student {spec.title}", lambda: spec.build(0), schema)
        put_together(take_apart(OwnModel(trained, len(schema.classes), spec.title)), schema)


def check_student(spec: StudentSpec, schema: Schema) -> None:
    """Raise ConfigError unless the student can learn rows of this schema, on this machine."""
    check_trainer(spec.trainer, schema)
    if spec.trainer.inputs == "features":
        shape_of(len(schema.features))
        resolve_device()
    if spec.prevalence and len(spec.prevalence) != len(schema.classes):
        raise ConfigError(
            f"student.prevalence has {len(spec.prevalence)} shares for the {len(schema.classes)} classes"
            f" {list(schema.classes)}",
            "Give one for each, in this order, or leave it out",
        )
