"""Public rows within a model with a kernel, in as few bytes as give the very same numbers again.

A row's representation by the schema can be far longer than the row: 3,969 numbers of a 28x28 image. Whoever loads the
model can compute them anew, so the row itself is kept, and where it is of bytes, as bytes.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from consilium.protocol.models import Frozen
from consilium.protocol.rows.queries import query_ids
from consilium.protocol.rows.schema import Schema

_UNITS = (1, 255)


class Form(Frozen):
    """of: rows as they travel, or as the schema represents them. unit: bytes that are this many times the number."""

    of: Literal["features", "inputs"]
    unit: Literal[1, 255] | None = None


def pack(rows: np.ndarray, schema: Schema | None = None, pool: np.ndarray | None = None) -> tuple[Any, np.ndarray]:
    """Rows -> their form, as JSON, and the array of the file, float32 or uint8 (m, width).

    Without `schema` they are rows as they travel. With it they are its representation of some of `pool` float32 (n,
    features), and are looked up there where that is shorter.
    """
    form: dict[str, Any] = {"of": "features" if schema is None else "inputs", "unit": None}
    if schema is not None and pool is not None and schema.representation != "none":
        place = {name: index for index, name in enumerate(query_ids(schema.inputs(pool).astype(np.float32)))}
        found = [place.get(name) for name in query_ids(rows)]
        if None not in found:
            rows, form["of"] = pool[np.array(found, dtype=np.int64)], "features"
    rows = rows.astype(np.float32)
    for unit in _UNITS:
        whole = np.round(rows * np.float32(unit))
        if (whole >= 0).all() and (whole <= 255).all() and (whole / np.float32(unit) == rows).all():
            form["unit"] = unit
            return form, whole.astype(np.uint8)
    return form, rows


def unpack(form: Form, stored: np.ndarray, schema: Schema | None = None) -> np.ndarray:
    """float32 rows: as they travel without `schema`, else as it represents them."""
    rows = stored if form.unit is None else stored.astype(np.float32) / np.float32(form.unit)
    if schema is not None and form.of == "features":
        rows = schema.inputs(rows)
    return rows.astype(np.float32)
