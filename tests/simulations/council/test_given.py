"""The arguments of a fit: columns by name or as arrays, and everything that can be wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.simulations.council.frames import BadInput, GivenRows, WrongType

FRAME = pl.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "ill": ["n", "y", "n", "y"], "site": ["a", "a", "b", "c"]})
ROWS = np.arange(8.0).reshape(4, 2)
Y = np.array([0, 1, 0, 1])


def given(rows: Any = FRAME, y: Any = "ill", owners: Any = "site", **named: Any) -> GivenRows:
    return GivenRows.of(rows, y, owners, named.get("patients"), named.get("public"), named.get("classes"))


def test_columns_by_name_are_no_features() -> None:
    found = given()
    assert (found.features, found.label, found.owner, found.patient) == (("age",), "ill", "site", None)
    assert found.meant == {"n": "n", "y": "y"}


def test_arrays_become_columns_beside_those_that_are_there() -> None:
    rows = FRAME.rename({"ill": "y", "site": "owner"})
    found = given(rows, Y, ["p", "p", "q", "r"])
    assert (found.features, found.label, found.owner) == (("age", "y", "owner"), "y_", "owner_")
    assert found.frame["owner_"].to_list() == ["p", "p", "q", "r"]


LABELS: list[tuple[Any, dict[str, Any]]] = [
    (np.array([-1, 1, -1, 1]), {"-1": -1, "1": 1}),
    ([1.0, 2.0, 1.0, 2.0], {"1": 1.0, "2": 2.0}),
    ([True, False, True, False], {"true": True, "false": False}),
    (["no", "yes", "no", "yes"], {"no": "no", "yes": "yes"}),
]


@pytest.mark.parametrize(("y", "meant"), LABELS)
def test_labels_come_back_as_they_were_written(y: Any, meant: dict[str, Any]) -> None:
    assert given(ROWS, y, None).meant == meant


def test_public_rows_need_no_owner() -> None:
    found = given(public=FRAME.drop("site"))
    assert found.public is not None
    assert found.public.columns == ["age", "ill"]
    assert found.public_owners == ()


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"y": None}, BadInput, "requires y to be passed, but the target y is None"),
    ({"y": "nothing"}, BadInput, "y: the rows have no column 'nothing'. They have age, ill, site"),
    ({"y": "ill", "owners": "ill"}, BadInput, "the same column twice"),
    ({"y": [0, 1, 0]}, BadInput, "y has 3 values for 4 rows"),
    ({"y": [0.5, 1.5, 0.25, 1.0]}, BadInput, r"Unknown label type.* continuous values\. Give labels of classes$"),
    ({"y": [0, None, 0, 1]}, BadInput, "y contains NaN: 1 rows have no label"),
    (
        {"owners": ["a", "a", "b", "b"]},
        BadInput,
        "owners: 2 different ones, at least 3 are needed: two that vote, and one",
    ),
    ({"y": ["a", "a ", "b", "b"]}, BadInput, "two labels are written alike"),
    ({"public": 0.3}, WrongType, "public is 0.3. Give a list of owners, or a frame of public rows"),
    ({"public": ["a", "a"]}, BadInput, "public has the same name twice"),
    ({"public": FRAME, "y": [0, 1, 0, 1]}, BadInput, "y is an array, and the public rows are a frame of their own"),
]


@pytest.mark.parametrize(("arguments", "kind", "told"), WRONG)
def test_wrong_arguments_say_which(arguments: dict[str, Any], kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=told):
        given(**arguments)
