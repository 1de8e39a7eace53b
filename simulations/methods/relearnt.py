"""A rival's model, and then the student's trainer: what a rival has that uses the same public rows as the student does.

Whoever has a private model may let it label all public rows, and train on these as a student does. It takes what was
released and public rows alone, so the rival's guarantee covers it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consilium.simulations.divide import Case
from consilium.simulations.methods.manual_labels import most_draws
from consilium.student.learn import inputs, train_told

ON_PUBLIC_ROWS = "on_public_rows."
"""Before the name of a rival: that rival, and then the student's trainer."""


def relearnt(case: Case, drawn: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Probabilities float64 (test, classes) of the run's trainer on all public rows, labelled by each of `drawn`, a
    rival's float64 (pool, classes); of the first few where the trainer takes long (`most_draws`)."""
    spec, schema = case.scenario.student, case.config.rows
    rows, judging = inputs(spec, schema, case.pool_x), inputs(spec, schema, case.test_x)
    draws = most_draws(spec.trainer, rows.shape, len(case.classes))
    everywhere = np.arange(len(rows))
    labels = [each.argmax(axis=1) for each in drawn[:draws]]
    models = [train_told(rows, everywhere, each, None, spec, schema, case.seed) for each in labels]
    return [model.predict_proba(judging) for model in models]
