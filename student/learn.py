"""A student's trainer on the labels, or noisy shares, that it was given."""

from __future__ import annotations

import numpy as np

from consilium.models.base import SILENT, Aids, Job, Model, Shares, SharesTrainer, constant
from consilium.models.devices import asked_device, resolve_device, training_floats
from consilium.models.images.pixels import shape_of
from consilium.models.published.own_models import trust_of_maker
from consilium.models.published.structures import put_together, take_apart
from consilium.models.specs import TrainerKind
from consilium.models.tabular import SelfTraining
from consilium.models.train import rehearsed, trainer_of
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import LabelTerms
from consilium.protocol.schema import Schema
from consilium.student.config import StudentSpec


def train(
    x: np.ndarray,
    y: np.ndarray,
    unlabelled: np.ndarray,
    classes: int,
    spec: StudentSpec,
    seed: int,
    job: Job = SILENT,
    schema: Schema | None = None,
    shares: Shares | None = None,
) -> Model:
    """Train by `spec` on rows as `inputs` gives them; labels of fewer than two classes give a constant model.

    `schema`: of the rows, for a student that takes bare features and also needs their representation, and for one of
    others that looks columns up by name. `shares`: the noisy shares of the votes on these rows, where they are known; a
    trainer that cannot use them takes the labels.
    """
    trainer = trainer_of(spec.trainer, Aids(unlabelled, np.asarray if schema is None else schema.inputs, job, schema))
    if shares is not None and len(shares) and isinstance(trainer, SharesTrainer):
        return trainer.fit_shares(x, shares, seed)
    if len(np.unique(y)) < 2:
        return constant(y, classes)
    if spec.self_training:
        trainer = SelfTraining(trainer, spec.self_training_confidence, spec.self_training_rounds, unlabelled)
    return trainer.fit(x, y, classes, seed)


def inputs(spec: StudentSpec, schema: Schema, rows: np.ndarray) -> np.ndarray:
    """Canonical rows (n, features) -> what the student's model takes, see `StudentSpec.inputs`."""
    return rows if spec.inputs == "features" else schema.inputs(rows)


def check_trainer(spec: TrainerKind, schema: Schema) -> None:
    """A student that others wrote, trained on made-up rows, taken apart and put together: before anything is asked.

    Raises
    ------
    UnusableModel, BadModel : it can be trained on no rows, or not be published.
    """
    model = rehearsed(spec, schema)
    if model is not None:
        parts = take_apart(model, schema, np.zeros((0, len(schema.features)), dtype=np.float32))
        put_together(parts, schema, spec.inputs, trust_of_maker(model, parts))


def check_student(spec: StudentSpec, terms: LabelTerms) -> None:
    """Raise ConfigError unless the student can learn from what this federation gives, on this machine."""
    check_trainer(spec.trainer, terms.schema)
    if spec.self_training and terms.count_sigma > 0:
        raise ConfigError(
            "student.self_training takes labels, and this federation gives noisy histograms",
            "Leave it out: trainers that learn from histograms use the rows without one themselves",
        )
    if spec.inputs == "features":
        shape_of(len(terms.schema.features))
        device = resolve_device(asked_device())
        if spec.trainer.mixed_floats:
            training_floats(device)


def check_prevalence(spec: StudentSpec, schema: Schema) -> None:
    """Raise ConfigError unless the declared shares, if there are any, are those of the federation's classes."""
    if spec.prevalence and len(spec.prevalence) != len(schema.classes):
        raise ConfigError(
            f"student.prevalence has {len(spec.prevalence)} shares for the {len(schema.classes)} classes"
            f" {list(schema.classes)}",
            "Give one for each, in this order, or leave it out",
        )
