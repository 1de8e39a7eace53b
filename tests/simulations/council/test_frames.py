"""What people hold in memory becomes the same table, or an error that says which column and what to do."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from consilium.protocol.errors import ConsiliumError
from consilium.simulations.council.frames import BadInput, WrongType, frame_of, has_names, values_of

TABLE = pl.DataFrame({"n": [1.5, None, 3.0], "t": ["a", None, "b"], "b": [True, False, None]})


class Arrow:
    """Something that gives Arrow's C stream, and has nothing else."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


def test_named_tables_are_the_same_whatever_holds_them() -> None:
    for held in (TABLE, TABLE.lazy(), Arrow()):
        assert has_names(held)
        assert frame_of(held).to_dict(as_series=False) == TABLE.to_dict(as_series=False)


BIG = 2**53 + 1
"""float64 has no such number."""
ARRAYS: list[tuple[str, Any, dict[str, list[Any]]]] = [
    ("floats", np.array([[1.0, np.nan], [2.0, 3.0]]), {"x0": [1.0, 2.0], "x1": [None, 3.0]}),
    ("truth values", np.array([[True], [False]]), {"x0": [True, False]}),
    ("texts", np.array([["a", "b"], ["c", "d"]]), {"x0": ["a", "c"], "x1": ["b", "d"]}),
    ("mixed", np.array([[1, "b"], [None, "d"]], dtype=object), {"x0": [1.0, None], "x1": ["b", "d"]}),
    ("numbers and texts", np.array([[1], ["> 89"]], dtype=object), {"x0": ["1", "> 89"]}),
    ("dates", np.array([[datetime.date(2020, 1, 2)], [None]], dtype=object), {"x0": ["2020-01-02", None]}),
    ("large beside fractions", np.array([[BIG], [0.5]], dtype=object), {"x0": [str(BIG), "0.5"]}),
    ("moments in seconds", np.array([["1970-01-02"]], dtype="M8[s]"), {"x0": [datetime.datetime(1970, 1, 2)]}),
]


@pytest.mark.parametrize(("rows", "expected"), [case[1:] for case in ARRAYS], ids=[case[0] for case in ARRAYS])
def test_arrays_get_names_of_their_own(rows: Any, expected: dict[str, list[Any]]) -> None:
    assert not has_names(rows)
    found = frame_of(rows)
    assert found.to_dict(as_series=False) == expected


WRONG: list[tuple[str, Any, type[ConsiliumError], str]] = [
    ("sparse", sparse.csr_matrix(np.eye(3)), WrongType, "sparse"),
    ("three dimensions", np.zeros((2, 2, 2)), BadInput, "3 dimensions"),
    ("no rows", np.zeros((0, 2)), BadInput, r"0 sample\(s\)"),
    ("complex numbers", np.array([[1j], [2]]), BadInput, "Complex data not supported"),
    ("records", np.array([(1, 2.0)], dtype=[("a", "i8"), ("b", "f8")]), WrongType, "structured array"),
    ("infinite", np.array([[np.inf], [1.0]]), BadInput, "column 'x0' contains infinity in 1 rows"),
    ("ragged lists", [[1, 2], [3]], BadInput, "no table"),
]


@pytest.mark.parametrize(("rows", "kind", "told"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_is_no_table_says_so(rows: Any, kind: type[ConsiliumError], told: str) -> None:
    with pytest.raises(kind, match=told) as error:
        frame_of(rows)
    assert error.value.action


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (["a"], "owners has 1 values for 3 rows"),
        (np.zeros((3, 2)), r"owners has shape \(3, 2\)"),
        (5, "owners is no column but a int"),
        (pl.DataFrame({"a": [1], "b": [2]}), "owners is a frame of 2 columns"),
    ],
)
def test_what_is_no_column_says_so(values: Any, told: str) -> None:
    with pytest.raises(ConsiliumError, match=told):
        values_of(values, "owners", 3)
