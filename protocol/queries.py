"""Queries: public, unlabelled rows, the ids by which ledger and student name them, and reference rows. Reference rows
are a few public rows by which a teacher learns where its own scores lie (`protocol.voting_rule`). They are drawn from
the public rows in a way that anybody can repeat, stand in the federation's configuration, and are pinned by its digest.
What is computed from them is computed at each party and stays there."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence

import numpy as np

from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.schema import Schema

QUERY_DTYPE = np.dtype("<f4")


def canonical_queries(rows: np.ndarray, features: int) -> np.ndarray:
    """Rows (n, features) -> little-endian float32, contiguous, -0 as 0. Float32 is what travels and what is hashed, so
    that coordinator, parties and student see the very same numbers. Raises DataError: not a matrix of numbers, other
    width, no rows, or a value that float32 cannot hold."""
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


MOST_REFERENCE_ROWS = 1000
MOST_NUMBERS = 1_000_000
"""In all reference rows together: 4 MB, which every party gets once."""
LEAST_REFERENCE_ROWS = 2


def draw_reference(pool: np.ndarray, schema: Schema, most: int) -> np.ndarray:
    """At most so many different rows of a pool of public rows, canonical float32 (rows, features): the first in the
    order of a hash of each row. So they depend on the pool as a set and on nobody's choice. Rows outside the schema's
    ranges, which no party can have, are not drawn. Raises ConfigError: fewer than two are left, or too large ones."""
    if most * pool.shape[1] > MOST_NUMBERS:
        raise ConfigError(
            f"federation.voting_rule.reference {most} rows of {pool.shape[1]} features are more than {MOST_NUMBERS}"
            " numbers",
            f"Set it to {MOST_NUMBERS // pool.shape[1]} at most",
        )
    places = {query_id: row for row, query_id in enumerate(query_ids(pool))}
    inside = _inside(pool, schema)
    drawn = sorted(
        (hashlib.sha256(f"reference {query_id}".encode()).digest(), row)
        for query_id, row in places.items()
        if inside[row]
    )
    if len(drawn) < LEAST_REFERENCE_ROWS:
        raise ConfigError(
            f"{len(drawn)} different public rows are within the schema's ranges: too few for federation.voting_rule"
            ' rule = "relative"',
            'Name more public rows, or set rule = "top"',
        )
    return pool[[row for _, row in drawn[:most]]]


def why_no_reference(rows: np.ndarray, schema: Schema, most: int) -> str:
    """What is wrong with reference rows float32 (rows, features); empty: nothing. `most`: how many the voting rule
    takes, 0 for a rule that takes none."""
    if not most:
        return "there are reference rows, and a voting rule that takes none" if rows.size else ""
    if not LEAST_REFERENCE_ROWS <= len(rows) <= most or rows.shape[1] != len(schema.features):
        return (
            f"reference rows of shape {rows.shape}, there must be {LEAST_REFERENCE_ROWS} to {most} of"
            f" {len(schema.features)} features"
        )
    if rows.size > MOST_NUMBERS:
        return f"reference rows of {rows.size} numbers, at most {MOST_NUMBERS} are taken"
    if not np.isfinite(rows).all():
        return "a reference row has a value that is not finite"
    if len(set(query_ids(rows))) < len(rows):
        return "a reference row stands there twice"
    if not _inside(rows, schema).all():
        return "a reference row is outside the schema's ranges"
    return ""


def reference_text(rows: np.ndarray) -> str:
    """Rows float32 (rows, features) as the text that stands in a configuration: base64 of their little-endian bytes."""
    return base64.b64encode(rows.astype(QUERY_DTYPE).tobytes()).decode()


def reference_of(text: str, features: int) -> np.ndarray:
    """The inverse of `reference_text`: float32 (rows, features); an empty text is no rows. Raises ValueError."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("reference is no base64") from None
    if len(content) % (features * QUERY_DTYPE.itemsize):
        raise ValueError(f"reference has {len(content)} bytes, no whole number of rows of {features} features")
    return np.frombuffer(content, dtype=QUERY_DTYPE).reshape(-1, features)


def _inside(rows: np.ndarray, schema: Schema) -> np.ndarray:
    """Whether each row is within the schema's ranges, bool (rows,); in float32, as a party compares its own values."""
    inside = np.ones(len(rows), dtype=bool)
    with np.errstate(over="ignore"):
        for allowed in schema.ranges:
            values = rows[:, schema.features.index(allowed.feature)]
            inside &= (values >= np.float32(allowed.low)) & (values <= np.float32(allowed.high))
            inside &= (values == np.rint(values)) if allowed.whole else True
    return inside
