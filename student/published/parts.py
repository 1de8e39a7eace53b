"""A published model taken apart, and the checks of arrays that all kinds share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.protocol.rows.schema import Schema
from consilium.student.published.file import BadModel

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Parts:
    """A model taken apart: its kind, a few settings, and arrays."""

    kind: str
    settings: dict[str, Any]
    arrays: Arrays = field(repr=False)


def check_shapes(arrays: Arrays, bound: dict[str, int], wanted: dict[str, tuple[str, str]]) -> dict[str, int]:
    """Exactly the `wanted` arrays, each with its type and the named sizes; a size without a value gets one here.

    Raises
    ------
    BadModel
    """
    if set(arrays) != set(wanted):
        odd = sorted(name[:40] for name in set(arrays) ^ set(wanted))
        raise unfit(f"arrays that are missing or too many: {', '.join(map(repr, odd[:5]))}")
    bound = dict(bound)
    for name, (kind, sizes) in wanted.items():
        array, names = arrays[name], sizes.split()
        expected = tuple(bound.get(size, found) for size, found in zip(names, array.shape, strict=False))
        if array.dtype != np.dtype(f"<{kind}") or array.ndim != len(names) or array.shape != expected or not array.size:
            raise unfit(f"{name} is {array.dtype} of shape {array.shape}")
        bound |= dict(zip(names, array.shape, strict=True))
    return bound


def check_seen(seen: np.ndarray, schema: Schema) -> np.ndarray:
    """The classes that a model has seen, int64 (seen,): two or more of the schema's, ascending. Raises BadModel."""
    if len(seen) < 2 or seen[0] < 0 or seen[-1] >= len(schema.classes) or (np.diff(seen) <= 0).any():
        raise unfit("classes that the schema does not have")
    return seen


def unfit(what: str) -> BadModel:
    """The error for a file whose parts do not belong together."""
    return BadModel(f"the student's parts do not fit: {what}", "Such a student must not be used")
