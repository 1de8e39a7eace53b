"""Raw columns become the features that public rows say, whatever a private row holds."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilium.data.cells import CellRule, ValueState, Wanted, read_cells
from consilium.data.encoding import DeclaredColumn, encode, infer
from consilium.protocol.errors import DataError
from consilium.protocol.schema import ColumnEncoding, Schema, features_of
from tests.marks import some

PUBLIC = pl.DataFrame(
    {
        "age": ["61", " 72.0", "55"],
        "sex": ["female", "male ", "female"],
        "stage": ["10", "9.0", "II"],
        "smoker": [True, False, None],
        "creatinine": [0.9, None, 1.1],
        "site": ["a", "a", "a"],
    }
)
COLUMNS = (
    ColumnEncoding(column="age", kind="number"),
    ColumnEncoding(column="sex", kind="category", values=("female", "male")),
    ColumnEncoding(column="stage", kind="category", values=("9", "10", "II")),
    ColumnEncoding(column="smoker", kind="category", values=("false", "true"), missing=True),
    ColumnEncoding(column="creatinine", kind="number", missing=True),
    ColumnEncoding(column="site", kind="category", values=("a",)),
)
FEATURES = (
    "age", "sex=male", "stage=9", "stage=10", "stage=II", "smoker=true", "smoker missing",
    "creatinine", "creatinine missing", "site=a",
)  # fmt: skip


def test_what_public_rows_say() -> None:
    assert infer(PUBLIC) == COLUMNS
    assert features_of(COLUMNS) == FEATURES
    x, doubts = encode(PUBLIC, COLUMNS)
    assert doubts == ()
    assert x.dtype == np.float32
    nan = np.nan
    expected = [[61, 0, 0, 1, 0, 1, 0, 0.9, 0, 1], [72, 1, 1, 0, 0, 0, 0, nan, 1, 1], [55, 0, 0, 0, 1, 0, 1, 1.1, 0, 1]]
    np.testing.assert_array_equal(x, np.array(expected, dtype=np.float32))


@pytest.mark.parametrize(
    ("values", "declared", "expected"),
    [
        (["250.0", "250.00"], {}, {"kind": "category", "values": ("250.0", "250.00")}),
        (["250.0", "250", "V10"], {}, {"kind": "category", "values": ("250", "250.0", "V10")}),
        (["TRUE", "2"], {}, {"kind": "category", "values": ("2", "true")}),
        (["1e-05", "2E+3", "-0.0", "0", "+7.5", "5.0", "5"], {}, {"kind": "number"}),
        (["NAN", "5", "7"], {}, {"kind": "number", "missing": True}),
        (["01", "02"], "number", {"kind": "number"}),
        (["1", "2"], "category", {"kind": "category", "values": ("1", "2")}),
        (["1", "2"], {"values": ["2", "1", "3"]}, {"kind": "category", "values": ("2", "1", "3")}),
        (["1", "2"], {"missing": True}, {"kind": "number", "missing": True}),
        ([None, None], {"values": ["a", "b"]}, {"kind": "category", "values": ("a", "b"), "missing": True}),
        (["TRUE", "False"], {}, {"kind": "category", "values": ("false", "true")}),

    ],
)  # fmt: skip
def test_what_is_declared_goes_before_what_is_inferred(values: list, declared, expected: dict) -> None:
    table = {"kind": declared} if isinstance(declared, str) else declared
    found = infer(pl.DataFrame({"a": values}), {"a": DeclaredColumn.model_validate(table)})
    assert found == (ColumnEncoding(column="a", **expected),)


@pytest.mark.parametrize("values", [[1.7e9, 1.7e9 + 1], [2**50, 2**50 + 1]])
def test_numbers_far_from_0_keep_what_tells_them_apart(values: list) -> None:
    frame = pl.DataFrame({"a": values})
    columns = infer(frame)
    x, _ = encode(frame, columns)
    assert np.diff(x[:, 0]).tolist() == [1.0]


TOO_FEW = [str(number) for number in range(30)]
NOT_ENCODED: dict[str, tuple[dict, dict, str]] = {
    "one number in two ways": ({"a": [*(f"{n}.5" for n in TOO_FEW), "3.50"]}, {}, "'3.50' among them is written as"),
    "infinite": ({"a": ["1", "INF"]}, {}, "row 2: column 'a' has text, or a number beyond float32"),
    "no such column": ({"a": ["1"]}, {"b": DeclaredColumn()}, "no column 'b'"),
    "nothing known": ({"a": ["", None]}, {}, "'a': no public row has a value"),
    "names": ({"a": [f"name {number}" for number in range(101)]}, {}, "101 different values in 101 rows"),
    "one name for two": ({"a": ["x", "y"], "a=y": ["1", "2"]}, {}, "two columns give a feature 'a=y'"),
    "long feature": ({"column": ["x", "y", "z" * 99]}, {}, "has 106 characters, at most 100: 'column=zzz"),
    "control": ({"a": ["x", "y", "\x1b[2J"]}, {}, "a value of column 'a' has a control character"),

}  # fmt: skip


@pytest.mark.parametrize(("frame", "declared", "told"), NOT_ENCODED.values(), ids=NOT_ENCODED.keys())
def test_columns_that_are_neither(frame: dict, declared: dict, told: str) -> None:
    with pytest.raises(DataError) as caught:
        infer(pl.DataFrame(frame), declared)
    assert told in str(caught.value)
    assert caught.value.action


@pytest.mark.parametrize(
    ("column", "values", "expected", "state"),
    [
        ("sex", ["divers"], [0], ValueState.UNKNOWN_CATEGORY),
        ("smoker", ["maybe"], [0, 0], ValueState.UNKNOWN_CATEGORY),
        ("smoker", [None], [0, 1], None),
        ("age", ["> 89"], [np.nan], ValueState.NOT_A_NUMBER),
        ("age", ["1e39"], [np.nan], ValueState.INFINITE),
        ("age", ["1,5"], [np.nan], ValueState.DECIMAL_COMMA),
        ("creatinine", [None], [np.nan, 1], None),
        ("stage", [9], [1, 0, 0], None),
        ("stage", ["09"], [0, 0, 0], ValueState.UNKNOWN_CATEGORY),
    ],
)
def test_what_the_public_rows_do_not_have(column: str, values: list, expected: list, state: ValueState | None) -> None:
    encoding = next(each for each in COLUMNS if each.column == column)
    x, doubts = encode(pl.DataFrame({column: values}), [encoding])
    np.testing.assert_array_equal(x[0], np.array(expected, dtype=np.float32))
    assert [(doubt.column, doubt.state, doubt.rows.tolist()) for doubt in doubts] == (
        [(column, state, [0])] if state else []
    )
    assert "rows" not in repr(doubts)


CELLS = st.one_of(st.none(), st.text(max_size=5), st.sampled_from(["female", "9.0", "true", "1e40", "nan", " 3,5"]),
                  st.floats().map(str), st.integers().map(str))  # fmt: skip
NUMBERS = st.one_of(st.none(), st.floats(), st.integers(-(2**53), 2**53).map(float))


@settings(max_examples=some(60), deadline=None)
@given(st.data(), st.integers(0, 4))
def test_any_frame_has_the_width_of_its_encoding_and_is_finite_where_nothing_is_missing(data, height: int) -> None:
    values = {
        column.column: pl.Series(data.draw(st.lists(CELLS, min_size=height, max_size=height)), dtype=pl.String)
        if data.draw(st.booleans())
        else pl.Series(data.draw(st.lists(NUMBERS, min_size=height, max_size=height)), dtype=pl.Float64)
        for column in COLUMNS
    }
    x, doubts = encode(pl.DataFrame(values), COLUMNS)
    assert (x.shape, x.dtype) == ((height, len(FEATURES)), np.dtype(np.float32))
    assert not np.isinf(x).any()
    odd = {(doubt.column, row) for doubt in doubts for row in doubt.rows.tolist()}
    assert {doubt.state for doubt in doubts} <= set(ValueState) - {ValueState.GOOD, ValueState.MISSING}
    start = 0
    for column in COLUMNS:
        part = x[:, start : start + len(column.features)]
        start += len(column.features)
        for row in np.flatnonzero(np.isnan(part).any(axis=1)):
            cell = values[column.column][int(row)]
            absent = cell is None or cell != cell or str(cell).strip().lower() in ("", "nan", "+nan", "-nan")
            assert absent or (column.column, row) in odd
        if column.kind == "category":
            assert (np.nan_to_num(part).sum(axis=1) <= 1).all()


def test_the_schema_of_a_table() -> None:
    x, _ = encode(PUBLIC, COLUMNS)
    schema = Schema.of_table(COLUMNS, ("well", "ill"), x)
    assert schema.features == FEATURES
    assert schema.center[7] == np.float32(1.0)  # of 0.9 and 1.1: what is missing counts in neither
    assert schema.scale[7] == pytest.approx(0.1)
    assert schema.scale[9] == 1.0
    filled = schema.filled(x)
    assert filled.dtype == np.float32
    assert schema.standardise(filled)[1, 7] == 0.0
    assert Schema.model_validate_json(schema.model_dump_json()) == schema


GOOD, MISSING, INFINITE = ValueState.GOOD, ValueState.MISSING, ValueState.INFINITE


@pytest.mark.parametrize(
    ("numbers", "rule", "values", "states"),
    [
        ([32.0, 212.0], {"factor": 5 / 9, "offset": -160 / 9}, [0, 100], [GOOD, GOOD]),
        ([1.0, 1e308], {"factor": 100.0}, [100, np.nan], [GOOD, INFINITE]),
        ([1.0, -9.0], {"missing_codes": ("-9",)}, [1, np.nan], [GOOD, MISSING]),
        ([np.nan, np.inf], {}, [np.nan, np.nan], [MISSING, INFINITE]),
        ([1.0, 2.0], {"codes": {"1": 7.0, "2": 8.0}}, [7, 8], [GOOD, GOOD]),
    ],
)
def test_numbers_come_in_the_federations_unit(numbers: list, rule: dict, values: list, states: list) -> None:
    column = read_cells(pl.Series(numbers), Wanted("x", "x", CellRule(**rule)))
    np.testing.assert_allclose(column.values, values, atol=1e-12)
    assert column.states.tolist() == states
    assert "[" not in repr(column)
