"""Arrays as cells of the ledger's tables, and back."""

from __future__ import annotations

import numpy as np

HISTOGRAM, PROBABILITIES = np.dtype("<i8"), np.dtype("<f8")


def column(values: list[float | None]) -> np.ndarray | None:
    """float64 (rows,); None where any is missing."""
    return None if any(value is None for value in values) else np.array(values, dtype=np.float64)


def blobs(matrix: np.ndarray | None, dtype: np.dtype, rows: int) -> list[bytes | None]:
    """A blob for each row, or None for all."""
    return [None] * rows if matrix is None else [row.astype(dtype).tobytes() for row in matrix]


def matrix_of(cells: list[bytes | None], dtype: np.dtype) -> np.ndarray | None:
    """The inverse of `blobs`; None where any is missing."""
    given = [cell for cell in cells if cell is not None]
    return np.stack([np.frombuffer(cell, dtype) for cell in given]) if given and len(given) == len(cells) else None
