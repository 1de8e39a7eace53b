"""One reader of tables: the same rows from every form, columns that become the features that public rows say, and a
line that names file, row and column where that fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.data.cells import CellRule, ValueState, Wanted, read_cells
from consilium.data.encoding import DeclaredColumn, encode, infer, times_of
from consilium.data.files import files_of
from consilium.data.table import TableRule, read_raw
from consilium.protocol.errors import DataError
from consilium.protocol.schema import ColumnEncoding, Schema, features_of

GOOD = "age,sex,weight\n61,female,70.5\n72, male ,\n"
EXPECTED = {"age": ["61", "72"], "sex": ["female", "male"], "weight": ["70.5", None]}
SECRET = "4711"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rule(**tables: Any) -> TableRule:
    return TableRule.model_validate(tables)


@pytest.mark.parametrize(
    ("content", "tables"),
    [
        (GOOD, {}),
        (b"\xef\xbb\xbf" + GOOD.encode(), {}),
        (GOOD.replace("\n", "\r\n\r\n"), {}),
        (GOOD.replace(",", ";").replace(".", ","), {"csv": {"separator": ";", "decimal_comma": True}}),
        (GOOD.replace(",", "\t"), {"csv": {"separator": "\t"}}),
        (GOOD.replace("70.5", '"70.5"').replace("sex", ' "sex" '), {"only": ["age", '"sex"']}),
        (GOOD.replace("\n72, male ,\n", "\n72, male ,?\n"), {"missing": ["?"]}),
        (GOOD.replace("age", ",age").replace("61", "0,61").replace("72", "1,72"), {"drop": [""]}),
        ("".join(f"{line},\n" for line in GOOD.splitlines()), {}),
        ("x,x," + GOOD.replace("61", "1,2,61").replace("72", "1,2,72"), {"drop": ["x"]}),
    ],
    ids=["plain", "mark", "windows", "commas", "tabs", "quotes", "missing", "unnamed", "trailing", "double"],
)
def test_ways_to_write_the_same_rows(tmp_path: Path, content: str | bytes, tables: dict) -> None:
    found = read_raw([write(tmp_path / "a.csv", content)], rule(**tables)).frame
    expected = {"age": ["61", "72"], '"sex"': ["female", "male"]} if "only" in tables else EXPECTED
    assert found.to_dict(as_series=False) == expected


def test_csv_and_parquet_give_the_same_features(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "age": [61, 72, None],
            "grade": [1.0, 2.0, 3.0],
            "smoker": [True, False, True],
            "sex": pl.Series(["female", "male", None], dtype=pl.Categorical),
            "empty": [None, None, "x"],
        }
    )
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.parquet")
    csv, parquet = (read_raw([tmp_path / f"a.{suffix}"], rule()).frame for suffix in ("csv", "parquet"))
    columns = infer(csv)
    assert infer(parquet) == columns
    assert encode(csv, columns)[0].tobytes() == encode(parquet, columns)[0].tobytes()
    assert encode(csv, columns)[1] == ()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["2024-01-01", None, "2024-01-02 12:00"], [19723.0, None, 19724.5]),
        (["2024-01-01T06:00:00.5"], [19723.25 + 0.5 / 86400]),
        (["2020", ""], [2020.0, None]),
        ([3, None], [3.0, None]),
    ],
)
def test_times(values: list, expected: list) -> None:
    found = times_of(pl.Series("t", values))
    assert [None if value != value else pytest.approx(value) for value in found] == expected


@pytest.mark.parametrize(
    ("cell", "cells", "expected"),
    [
        ({"codes": {"> 89": 90}, "missing_codes": ["n/k"]}, ["34", "> 89", "n/k", "7.5"], [34, 90, None, 7.5]),
        ({"codes": {"<0,1": 0.05}}, ["34", "<0,1"], [34, 0.05]),
        ({"codes": {"T1": 1}, "other": "number"}, ["T1", "5"], [1, 5]),
        ({"factor": 0.5, "offset": 1}, ["4", ""], [3, None]),
        ({"codes": {"> 9": 10}, "factor": 2}, ["4", "> 9"], [8, 20]),
        ({"values": {"w": "female", "m": "male"}}, ["w", "m", "x", ""], ["female", "male", "x", None]),
    ],
)
def test_rules_of_cells(tmp_path: Path, cell: dict, cells: list[str], expected: list) -> None:
    path = write(tmp_path / "a.csv", "a;b\n" + "".join(f"{each};1\n" for each in cells))
    found = read_raw([path], rule(csv={"separator": ";"}, columns={"a": cell})).frame
    assert found["a"].to_list() == expected


CELL_STATES = (ValueState.GOOD, ValueState.MISSING, ValueState.INFINITE)


@pytest.mark.parametrize(
    ("numbers", "cell", "values", "states"),
    [
        ([1.0, 1e308], {"factor": 100.0}, [100, np.nan], [0, 2]),
        ([1.0, -9.0], {"missing_codes": ("-9",)}, [1, np.nan], [0, 1]),
        ([np.nan, np.inf], {}, [np.nan, np.nan], [1, 2]),
        ([1.0, 2.0], {"codes": {"1": 7.0, "2": 8.0}}, [7, 8], [0, 0]),
    ],
)
def test_rules_of_numbers(numbers: list, cell: dict, values: list, states: list[int]) -> None:
    column = read_cells(pl.Series(numbers), Wanted("x", "x", CellRule(**cell)))
    np.testing.assert_allclose(column.values, values, atol=1e-12)
    assert column.states.tolist() == [CELL_STATES[state] for state in states]
    assert "[" not in repr(column)


@pytest.mark.parametrize(
    "cell",
    [{"codes": {"a": 1}, "values": {"a": "b"}}, {"values": {"a": "b"}, "factor": 2}, {"factor": 0}, {"codes": {}}],
)
def test_rules_that_make_no_sense(cell: dict) -> None:
    with pytest.raises(ValueError):
        CellRule.model_validate(cell)


def parquet(**columns: Any) -> Callable[[Path], Any]:
    return pl.DataFrame(columns, strict=False).write_parquet


BAD: dict[str, tuple[str | bytes | Callable[[Path], Any], dict, str]] = {
    "semicolons": (GOOD.replace(",", ";"), {}, "Set separator = ';' in its csv table"),
    "Excel": (b"PK\x03\x04" + b"4711", {}, "is a zip or Excel file"),
    "no such column": (GOOD, {"only": ["ages"]}, "has no column 'ages'. It has 'age', 'sex', 'weight'"),
    "a rule for no column": (GOOD, {"columns": {"ages": {}}}, "has no column 'ages'"),
    "unknown code": (
        GOOD + "4711,x,\n",
        {"columns": {"age": {"codes": {"61": 1, "72": 2}}}},
        "column 'age': 1 of 3 rows hold a value that codes does not have (first: line 4)",
    ),
    "a point": (
        "a;b\n1,5;x\n4.711;y\n",
        {"csv": {"separator": ";", "decimal_comma": True}},
        "column 'a': 1 of 2 rows have a point although decimal_comma is set",
    ),
    "no name": ("," + GOOD.replace("61", "7,61").replace("72", "8,72"), {}, "has values in a column without a name"),
    "no number": (
        parquet(a=["1", "4711 mg"]),
        {"columns": {"a": {"factor": 2}}},
        "column 'a': 1 of 2 rows hold text that is no number (first: row 2)",
    ),
}


@pytest.mark.parametrize(("content", "tables", "told"), BAD.values(), ids=BAD.keys())
def test_tables_that_cannot_be_read(tmp_path: Path, content: Any, tables: dict, told: str) -> None:
    path = tmp_path / ("a.parquet" if callable(content) else "a.csv")
    content(path) if callable(content) else write(path, content)
    with pytest.raises(DataError) as caught:
        read_raw([path], rule(**tables))
    assert str(caught.value).startswith(str(path)) and told in str(caught.value)
    assert caught.value.action
    assert SECRET not in str(caught.value).replace(str(tmp_path), "")


def test_several_files_are_one_table(tmp_path: Path) -> None:
    write(tmp_path / "b.csv", "sex,age\nmale,72\n")
    write(tmp_path / "a.csv", "age,sex\n61,female\n")
    pl.DataFrame({"age": [55], "sex": ["male"]}).write_parquet(tmp_path / "c.parquet")
    paths = files_of("*.*", tmp_path)
    assert [path.name for path in paths] == ["a.csv", "b.csv", "c.parquet"]
    found = read_raw(paths, rule())
    assert found.frame.rows() == [("61", "female"), ("72", "male"), ("55", "male")]
    assert [found.lines.place(row) for row in range(3)] == ["line 2 of a.csv", "line 2 of b.csv", "row 1 of c.parquet"]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("age\n61\n", "b.csv has no column 'sex', which a.csv has"),
        ("age,sex,x\n1,f,2\n", "a.csv has no column 'x', which b.csv"),
    ],
)
def test_a_column_that_one_file_lacks(tmp_path: Path, other: str, told: str) -> None:
    write(tmp_path / "a.csv", "age,sex\n61,female\n")
    write(tmp_path / "b.csv", other)
    with pytest.raises(DataError, match=told):
        read_raw(files_of("?.csv", tmp_path), rule())


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
    x, doubts = encode(PUBLIC, COLUMNS)
    assert (doubts, x.dtype) == ((), np.float32)
    nan = np.nan
    expected = [[61, 0, 0, 1, 0, 1, 0, 0.9, 0, 1], [72, 1, 1, 0, 0, 0, 0, nan, 1, 1], [55, 0, 0, 0, 1, 0, 1, 1.1, 0, 1]]
    np.testing.assert_array_equal(x, np.array(expected, dtype=np.float32))
    schema = Schema.of_table(COLUMNS, ("well", "ill"), x)
    assert schema.features == features_of(COLUMNS) == FEATURES
    assert schema.center[7] == np.float32(1.0)  # of 0.9 and 1.1: what is missing counts in neither
    assert schema.scale[7] == pytest.approx(0.1)
    assert schema.scale[9] == 1.0
    assert schema.standardise(schema.filled(x))[1, 7] == 0.0
    assert Schema.model_validate_json(schema.model_dump_json()) == schema


NUMBER: tuple[str, ...] = ()
KINDS: list[tuple[list[Any], dict[str, Any], tuple[str, ...]]] = [
    (["250.0", "250.00"], {}, ("250.0", "250.00")),
    (["250.0", "250", "V10"], {}, ("250", "250.0", "V10")),
    (["TRUE", "2"], {}, ("2", "true")),
    (["1e-05", "2E+3", "-0.0", "0", "+7.5", "5.0", "5"], {}, NUMBER),
    (["NAN", "5", "7"], {}, NUMBER),
    (["1", "2"], {"kind": "category"}, ("1", "2")),
    (["1", "2"], {"values": ["2", "1", "3"]}, ("2", "1", "3")),
    ([None, None], {"values": ["a", "b"]}, ("a", "b")),
    # a text is a number by its form
    (["01882", "1882"], {}, ("01882", "1882")),
    (["1E3", "20"], {}, ("20", "1E3")),
    (["+1", "1"], {}, ("+1", "1")),
    (["0x1F", "7"], {}, ("7", "0x1F")),
    (["١٢", "7"], {}, ("7", "١٢")),
    (["∞", "7"], {}, ("7", "∞")),
    ([".5", "1.", "2.25"], {}, NUMBER),
    ([" 1", "2 ", "\t3", "\u00a04"], {}, NUMBER),
    # values are judged by the kind of their column
    (["INF", "ANT"], {}, ("ANT", "INF")),
    (["NAN", "ANT"], {}, ("ANT", "NAN")),
    (["1e300", "1"], {"kind": "category"}, ("1", "1e300")),
    (["1e400", "1"], {"values": ["1", "1e400"]}, ("1", "1e400")),
    (["2020-01-02", "2020-01-03"], {"kind": "category"}, ("2020-01-02", "2020-01-03")),
    (["1,5", "2"], {"kind": "category"}, ("2", "1,5")),
    (["+", "-"], {}, ("+", "-")),
    (["inf", "nan", "-", "x"], {}, ("-", "inf", "nan", "x")),
]
"""Values, what is declared of them, and the values of the category that they are."""


@pytest.mark.parametrize(("values", "declared", "expected"), KINDS)
def test_what_is_a_number_and_what_a_category(values: list, declared: dict, expected: tuple[str, ...]) -> None:
    frame = pl.DataFrame({"a": values})
    columns = infer(frame, {"a": DeclaredColumn.model_validate(declared)})
    assert (columns[0].kind == "number", columns[0].values) == (expected is NUMBER, expected)
    assert columns[0].missing == (None in values or (expected is NUMBER and "NAN" in values))
    assert encode(frame, columns)[1] == ()


@pytest.mark.parametrize("values", [[1.7e9, 1.7e9 + 1], [2**50, 2**50 + 1]])
def test_numbers_far_from_0_keep_what_tells_them_apart(values: list) -> None:
    frame = pl.DataFrame({"a": values})
    assert np.diff(encode(frame, infer(frame))[0][:, 0]).tolist() == [1.0]


NOT_ENCODED: dict[str, tuple[dict, dict, str]] = {
    "one number in two ways": (
        {"a": [*(f"{number}.5" for number in range(30)), "3.50"]},
        {},
        "'3.50' among them is written as",
    ),
    "infinite": ({"a": ["1", "INF"]}, {}, "row 2: column 'a' has text, or a number beyond float32"),
    "no such column": ({"a": ["1"]}, {"b": DeclaredColumn()}, "no column 'b'"),
    "nothing known": ({"a": ["", None]}, {}, "'a': no public row has a value"),
    "names": ({"a": [f"name {number}" for number in range(101)]}, {}, "101 different values in 101 rows"),
    "one name for two": ({"a": ["x", "y"], "a=y": ["1", "2"]}, {}, "two columns give a feature 'a=y'"),
    "long feature": ({"column": ["x", "y", "z" * 99]}, {}, "has 106 characters, at most 100: 'column=zzz"),
    "control": ({"a": ["x", "y", "\x1b[2J"]}, {}, "a value of column 'a' has a control character"),
}


@pytest.mark.parametrize(("frame", "declared", "told"), NOT_ENCODED.values(), ids=NOT_ENCODED.keys())
def test_columns_that_are_neither(frame: dict, declared: dict, told: str) -> None:
    with pytest.raises(DataError) as caught:
        infer(pl.DataFrame(frame), declared)
    assert told in str(caught.value)
    assert caught.value.action


@pytest.mark.parametrize(
    ("column", "value", "expected", "state"),
    [
        ("sex", "divers", [0], ValueState.UNKNOWN_CATEGORY),
        ("smoker", "maybe", [0, 0], ValueState.UNKNOWN_CATEGORY),
        ("smoker", None, [0, 1], None),
        ("age", "> 89", [np.nan], ValueState.NOT_A_NUMBER),
        ("age", "1e39", [np.nan], ValueState.INFINITE),
        ("age", "1,5", [np.nan], ValueState.DECIMAL_COMMA),
        ("creatinine", None, [np.nan, 1], None),
        ("stage", 9, [1, 0, 0], None),
        ("stage", "09", [0, 0, 0], ValueState.UNKNOWN_CATEGORY),
    ],
)
def test_what_the_public_rows_do_not_have(column: str, value: Any, expected: list, state: ValueState | None) -> None:
    encoding = next(each for each in COLUMNS if each.column == column)
    x, doubts = encode(pl.DataFrame({column: [value]}), [encoding])
    np.testing.assert_array_equal(x[0], np.array(expected, dtype=np.float32))
    known = [(column, state, [0])] if state else []
    assert [(doubt.column, doubt.state, doubt.rows.tolist()) for doubt in doubts] == known
    assert "rows" not in repr(doubts)
