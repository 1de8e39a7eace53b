"""A student that others wrote, trained on made-up rows, taken apart and put together: before anything is asked."""

from __future__ import annotations

import numpy as np

from consilium.protocol.rows.schema import Schema
from consilium.student.published.own_models import trust_of_maker
from consilium.student.published.structures import put_together, take_apart
from consilium.student.trainers.settings import TrainerKind


def check_trainer(trainer: TrainerKind, schema: Schema) -> None:
    """Raise UnusableModel or BadModel if what it trains can be trained on no rows, or not be published."""
    model = trainer.rehearsed(schema)
    if model is not None:
        parts = take_apart(model, schema, np.zeros((0, len(schema.features)), dtype=np.float32))
        put_together(parts, schema, trainer.inputs, trust_of_maker(model, parts))
