"""Public rows with true labels, made up."""

from __future__ import annotations

import numpy as np

from consilium.protocol.schema import Schema
from consilium.simulations.methods.manual_labels import PublicTruth
from consilium.student.config import StudentSpec
from consilium.student.learn import train

INPUTS = 6


def made_up(pool: int = 600, test: int = 800, classes: int = 2, seed: int = 0) -> PublicTruth:
    """Classes whose means differ, so that a hundred labels teach most of what there is to learn."""
    generator = np.random.default_rng([seed, 5])
    y = generator.integers(classes, size=pool + test)
    means = generator.normal(size=(classes, INPUTS)) * 0.5
    x = (means[y] + generator.normal(size=(pool + test, INPUTS))).astype(np.float32)
    features = tuple(f"f{index}" for index in range(INPUTS))
    names = tuple(f"class {index}" for index in range(classes))
    schema = Schema.from_public_rows(features, names, x.astype(np.float64))
    return PublicTruth(schema, x[:pool], y[:pool], x[pool:], y[pool:])


def student_on(public: PublicTruth, count: int, spec: StudentSpec, seed: int) -> np.ndarray:
    """Probabilities of the test rows by a student of `count` true labels, drawn by lot of its own."""
    rows = np.random.default_rng([seed, 77]).permutation(len(public.labels))[:count]
    x = public.schema.inputs(public.queries)
    model = train(x[rows], public.labels[rows], x[:0], len(public.schema.classes), spec, seed)
    return model.predict_proba(public.schema.inputs(public.test_x))
