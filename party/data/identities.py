"""Whose a row is: what decides its shard. 32 bytes, a function of the one row alone.

With `[patient] column` the identity is the text of that column, so that all rows of one patient are in one shard.
Without, it is the row: features and label as the party's own mapping reads them from the file, before the federation's
scale, ranges and means. Not the row as it is trained on: a coordinator that sets the range or scale of a column would
decide which rows become equal and move together. The label is part of it, as it is of what a teacher learns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

BLOCK = 1024
"""Rows that are copied at once: all of a large file would be in memory twice."""


def of_patients(ids: Sequence[str]) -> np.ndarray:
    """uint8 (rows, 32), equal where the texts are."""
    return _joined([hashlib.sha256(b"patient\0" + text.encode()).digest() for text in ids])


def of_rows(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """uint8 (rows, 32), equal where the numbers are: `x` float64 (rows, features), `y` float64 (rows,) of the label.

    A missing value (NaN, whatever its bits) is equal to a missing value, and -0 to 0.
    """
    digests = []
    for start in range(0, len(y), BLOCK):
        block = slice(start, start + BLOCK)
        values = np.column_stack((x[block], y[block])).astype("<f8") + 0.0
        values[np.isnan(values)] = np.nan
        digests += [hashlib.sha256(b"row\0" + row.tobytes()).digest() for row in values]
    return _joined(digests)


def _joined(digests: Sequence[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, hashlib.sha256().digest_size)
