"""Queries: public, unlabelled rows, and the ids by which ledger and student name them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from consilium.protocol.errors import DataError

QUERY_DTYPE = np.dtype("<f4")


def canonical_queries(rows: np.ndarray, features: int) -> np.ndarray:
    """Rows (n, features) -> little-endian float32, contiguous, -0 as 0.

    Float32 is what travels and what is hashed, so that coordinator, parties and student see the very same numbers.

    Raises
    ------
    DataError : not a matrix of numbers, other width, no rows, or a value that float32 cannot hold.
    """
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise DataError(f"queries must be a matrix of numbers, got {rows.ndim} dimensions of {rows.dtype}")
    if rows.shape[0] == 0:
        raise DataError("no queries: the set is empty", "Send at least one row")
    if rows.shape[1] != features:
        raise DataError(f"queries have {rows.shape[1]} features, the federation's schema has {features}")
    with np.errstate(over="ignore"):
        canonical = np.ascontiguousarray(rows, dtype=QUERY_DTYPE) + QUERY_DTYPE.type(0)
    bad = np.flatnonzero(~np.isfinite(canonical).all(axis=1))
    if bad.size:
        raise DataError(
            f"{bad.size} of {len(canonical)} queries have a value that is missing, infinite or beyond float32"
            f" (first: row {bad[0]})",
            "Fill or drop them before asking",
        )
    return canonical.astype(QUERY_DTYPE, copy=False)


def query_ids(canonical: np.ndarray) -> list[str]:
    """SHA-256 (hex) of each canonical row: equal rows are one query and are paid for once."""
    return [hashlib.sha256(row.tobytes()).hexdigest() for row in canonical]


def first_equal(ids: Sequence[str]) -> np.ndarray:
    """Place, int64 (n,), of the first query with the same id: rows of one place are one query.

    >>> first_equal(query_ids(canonical_queries(np.array([[1.0], [2.0], [1.0]]), 1))).tolist()
    [0, 1, 0]
    """
    places: dict[str, int] = {}
    return np.array([places.setdefault(query_id, place) for place, query_id in enumerate(ids)], dtype=np.int64)


def query_set_hash(canonical: np.ndarray) -> str:
    """SHA-256 (hex) of the ordered canonical queries with their shape: what a vote is bound to."""
    rows, features = canonical.shape
    return hashlib.sha256(f"{rows},{features};".encode() + canonical.tobytes()).hexdigest()
