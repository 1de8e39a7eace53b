"""Rows of results as arrays for the cache, and as a frame of the tidy table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from consilium.simulations.artifact import Arrays, from_bytes, to_bytes
from consilium.simulations.judge import Row

_TEXTS, _NUMBERS = ("method", "scope", "name", "metric"), ("value", "low", "high")
ABSENT = "absent"
"""In place of a matrix: why a method has no rows."""
_ROWS, _MATRIX = "rows.", "matrix."


def rows_bytes(rows: Sequence[Row], matrices: Mapping[str, np.ndarray] | None = None) -> bytes:
    """Rows, and matrices for pictures, as one artifact."""
    arrays: Arrays = {}
    for name in _TEXTS:
        arrays[_ROWS + name] = np.array([getattr(row, name) for row in rows], dtype=str)
    for name in _NUMBERS:
        given = [getattr(row, name) for row in rows]
        arrays[_ROWS + name] = np.array([np.nan if each is None else each for each in given], dtype=np.float64)
    arrays |= {_MATRIX + name: matrix for name, matrix in (matrices or {}).items()}
    return to_bytes(arrays)


def frame_and_matrices(content: bytes) -> tuple[pl.DataFrame, Arrays]:
    """The rows of an artifact (method, scope, name, metric, value, low, high; NaN where there is no number), and its
    matrices. Raises DataError."""
    arrays = from_bytes(content)
    texts = [pl.Series(name, arrays[_ROWS + name].tolist(), dtype=pl.String) for name in _TEXTS]
    numbers = [pl.Series(name, arrays[_ROWS + name], dtype=pl.Float64) for name in _NUMBERS]
    matrices = {name.removeprefix(_MATRIX): array for name, array in arrays.items() if name.startswith(_MATRIX)}
    return pl.DataFrame([*texts, *numbers]), matrices
