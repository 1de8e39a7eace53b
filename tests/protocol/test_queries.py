"""Queries in the one form that everybody hashes.

The schema: public statistics only, and always consistent.
"""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from consilium.protocol.errors import DataError
from consilium.protocol.queries import canonical_queries, query_ids, query_set_hash
from consilium.protocol.schema import Schema


def test_equal_rows_are_one_query_whatever_their_type_or_layout() -> None:
    rows = np.array([[0.0, 1.5], [2.0, -0.0]])
    forms = [rows, rows.astype(np.float32), np.asfortranarray(rows), rows.astype(">f8"), rows + 0]
    ids = {tuple(query_ids(canonical_queries(form, 2))) for form in forms}
    assert len(ids) == 1


def test_negative_zero_is_zero() -> None:
    assert query_ids(canonical_queries(np.array([[-0.0]]), 1)) == query_ids(canonical_queries(np.array([[0]]), 1))


def test_order_changes_the_set() -> None:
    rows = canonical_queries(np.arange(4.0).reshape(2, 2), 2)
    hashes = {query_set_hash(rows), query_set_hash(rows[::-1]), query_set_hash(rows.reshape(4, 1))}
    assert len(hashes) == 3


@pytest.mark.parametrize(
    ("rows", "features", "told"),
    [
        (np.zeros((0, 2)), 2, "empty"),
        (np.zeros(3), 3, "dimensions"),
        (np.zeros((2, 3)), 2, "3 features"),
        (np.array([[np.nan, 0]]), 2, "row 0"),
        (np.array([[0, 0], [np.inf, 0]]), 2, "row 1"),
        (np.array([[1e300, 0]]), 2, "float32"),
        (np.array([["a", "b"]]), 2, "matrix of numbers"),
        (np.array([[True, False]]), 2, "matrix of numbers"),
    ],
)
def test_rows_that_cannot_be_asked(rows: np.ndarray, features: int, told: str) -> None:
    with pytest.raises(DataError, match=told):
        canonical_queries(rows, features)


def test_standardises_with_public_statistics() -> None:
    rows = np.array([[1.0, 5.0], [3.0, 5.0]])
    schema = Schema.from_public_rows(("a", "b"), ("x", "y"), rows)
    assert schema.center == (2.0, 5.0)
    assert schema.scale == (1.0, 1.0)  # a constant column is left as it is
    assert (schema.standardise(rows) == [[-1, 0], [1, 0]]).all()


def test_digest_depends_on_every_field() -> None:
    base = {"features": ("a", "b"), "classes": ("x", "y"), "center": (0.0, 0.0), "scale": (1.0, 1.0)}
    changes = [{}, {"features": ("b", "a")}, {"classes": ("y", "x")}, {"center": (0.0, 0.1)}, {"scale": (1.0, 2.0)}]
    assert len({Schema(**{**base, **change}).digest() for change in changes}) == len(changes)


@pytest.mark.parametrize(
    "change",
    [
        {"features": ("a", "a")},
        {"classes": ("x",)},
        {"classes": ("x", "x")},
        {"center": (0.0,)},
        {"center": (0.0, float("nan"))},
        {"scale": (1.0, 0.0)},
        {"scale": (1.0, float("inf"))},
        {"more": 1},
    ],
)
def test_inconsistent_schemas_are_refused(change: dict) -> None:
    base = {"features": ("a", "b"), "classes": ("x", "y"), "center": (0.0, 0.0), "scale": (1.0, 1.0)}
    with pytest.raises(ValidationError):
        Schema(**{**base, **change})
