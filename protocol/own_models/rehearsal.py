"""A model that others wrote, tried on made-up rows before it meets real ones.

A fault of the model itself (a slip in a parameter, no probabilities, what cannot be kept) shows here, where its text
may be told: no private row and no released label is in it. So who takes part is decided by the party's own settings and
public statistics. What fails on real rows only may depend on their labels, and is no reason to stay away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from consilium.protocol.own_models.guard import GuardedClassifier, quoted, unless_signalled
from consilium.protocol.own_models.naming import UnusableModel
from consilium.protocol.rows.schema import Schema

_SIZES = 100, 1000
"""Rows that are made up: few, and where that fails more, for an estimator that needs many."""
_OF_A_CLASS = 10
_ALONE, _FURTHEST = 8, 1e-3
"""Rows that are asked once more, one by one, and how far their probabilities may be from those before: rounding."""
_LOT = 0x747279


def rehearse(title: str, make: Callable[[], Any], schema: Schema, keep_missing: bool = False) -> GuardedClassifier:
    """Train what `make` builds on made-up rows of `schema`, all classes among them; returned as it would be kept.

    keep_missing: some of their values are NaN.

    Raises
    ------
    UnusableModel : it cannot be built, or trained on any of them, or does not stand by its answers.
    """
    last: BaseException | None = None
    for size in _SIZES:
        x, y = made_up(schema, max(size, _OF_A_CLASS * len(schema.classes)), keep_missing)
        try:
            trained = GuardedClassifier.trained(make(), x, y)
            _check_answers(trained, x)
            return trained
        except (Exception, SystemExit) as error:
            unless_signalled(error)
            last = error
    if isinstance(last, UnusableModel):
        raise UnusableModel(f"{title}: {last.what}", last.action)
    said = "it fails" if last is None else quoted(last)
    raise UnusableModel(f"{title} cannot be trained on made-up rows: {said}", "Correct it, or its parameters")


def _check_answers(trained: GuardedClassifier, x: np.ndarray) -> None:
    """As it is kept, it must judge each row by itself and always alike: a question that comes again is counted once."""
    kept = GuardedClassifier(trained.seen, trained.content, trained.usual)
    alone = np.concatenate([kept.probabilities(x[row : row + 1]) for row in range(_ALONE)])
    if not (np.abs(alone - trained.probabilities(x)[:_ALONE]) <= _FURTHEST).all():
        raise UnusableModel(
            "its answer for a row changes from time to time, or with the rows that are asked with it",
            "It must judge each row by itself, without chance",
        )


def made_up(schema: Schema, count: int, missing: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Inputs float64 (count, inputs), normal with a shift for each class, and classes int64 (count,), each as often.

    From the schema alone, the same each time. `missing`: one value in twenty is NaN, where inputs are the features.
    """
    generator = np.random.default_rng(_LOT)
    width, classes = len(schema.features), len(schema.classes)
    y = np.arange(count, dtype=np.int64) % classes
    raw = generator.normal(schema.center, schema.scale, size=(count, width))
    raw += generator.normal(0, schema.scale, size=(classes, width))[y]
    for allowed in schema.ranges:
        index = schema.features.index(allowed.feature)
        column = np.rint(raw[:, index]) if allowed.whole else raw[:, index]
        raw[:, index] = np.clip(column, allowed.low, allowed.high)
    x = np.asarray(schema.inputs(raw), dtype=np.float64)
    if missing:
        x[generator.random(x.shape) < 0.05] = np.nan
    return x, y
