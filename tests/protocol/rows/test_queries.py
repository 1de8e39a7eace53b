"""Queries in the one form that everybody hashes."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.protocol.errors import DataError
from consilium.protocol.rows.queries import canonical_queries, query_ids, query_set_hash


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
