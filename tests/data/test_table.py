"""One reader of tables: the same rows from every form, and a line that names file, row and column where that fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from consilium.data.cells import CellRule
from consilium.data.encoding import encode, infer, times_of
from consilium.data.files import files_of
from consilium.data.table import TableRule, read_raw
from consilium.protocol.errors import ConfigError, DataError

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
    if "only" in tables:
        assert found.to_dict(as_series=False) == {"age": ["61", "72"], '"sex"': ["female", "male"]}
    else:
        assert found.to_dict(as_series=False) == EXPECTED


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


@pytest.mark.parametrize(
    "cell",
    [{"codes": {"a": 1}, "values": {"a": "b"}}, {"values": {"a": "b"}, "factor": 2}, {"factor": 0}, {"codes": {}}],
)
def test_rules_that_make_no_sense(cell: dict) -> None:
    with pytest.raises(ValueError):
        CellRule.model_validate(cell)


BAD: list[tuple[str, str | bytes, dict, str]] = [
    ("semicolons", GOOD.replace(",", ";"), {}, "Set separator = ';' in its csv table"),
    ("Excel", b"PK\x03\x04" + b"4711", {}, "is a zip or Excel file"),
    ("no such column", GOOD, {"only": ["ages"]}, "has no column 'ages'. It has 'age', 'sex', 'weight'"),
    ("a rule for no column", GOOD, {"columns": {"ages": {}}}, "has no column 'ages'"),
    (
        "unknown code",
        GOOD + "4711,x,\n",
        {"columns": {"age": {"codes": {"61": 1, "72": 2}}}},
        "column 'age': 1 of 3 rows hold a value that codes does not have (first: line 4)",
    ),
    (
        "a point",
        "a;b\n1,5;x\n4.711;y\n",
        {"csv": {"separator": ";", "decimal_comma": True}},
        "column 'a': 1 of 2 rows have a point although decimal_comma is set",
    ),
]


@pytest.mark.parametrize(("content", "tables", "told"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_csv(tmp_path: Path, content: str | bytes, tables: dict, told: str) -> None:
    path = write(tmp_path / "a.csv", content)
    with pytest.raises(DataError) as caught:
        read_raw([path], rule(**tables))
    assert str(caught.value).startswith(str(path))
    assert told in str(caught.value)
    assert caught.value.action
    assert SECRET not in str(caught.value).replace(str(tmp_path), "")


def parquet(**columns: Any) -> Callable[[Path], Any]:
    return pl.DataFrame(columns, strict=False).write_parquet


BAD_PARQUET: list[tuple[str, Callable[[Path], Any], dict, str]] = [
    ("no such column", parquet(a=[4711]), {"only": ["b"]}, "has no column 'b'. It has 'a'"),
    (
        "no number",
        parquet(a=["1", "4711 mg"]),
        {"columns": {"a": {"factor": 2}}},
        "column 'a': 1 of 2 rows hold text that is no number (first: row 2)",
    ),
]


@pytest.mark.parametrize(
    ("make", "tables", "told"), [case[1:] for case in BAD_PARQUET], ids=[case[0] for case in BAD_PARQUET]
)
def test_bad_parquet(tmp_path: Path, make: Callable[[Path], Any], tables: dict, told: str) -> None:
    path = tmp_path / "a.parquet"
    make(path)
    with pytest.raises(DataError) as caught:
        read_raw([path], rule(**tables))
    assert told in str(caught.value)
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


@pytest.mark.parametrize(
    ("given", "told"), [("no.csv", "is not there"), ("no*.csv", "no file is like"), (".", "Is a directory")]
)
def test_paths_that_hold_no_table(tmp_path: Path, given: str, told: str) -> None:
    with pytest.raises((ConfigError, DataError), match=told):
        read_raw(files_of(given, tmp_path), rule())


def test_all_faults_of_a_file_come_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "age;weight;site\n61;7,5;a\nx;80;b\ny;90;c\n")
    codes = {"codes": {"> 89": 90}}
    with pytest.raises(DataError) as caught:
        read_raw([path], rule(csv={"separator": ";"}, columns={"age": codes, "weight": codes}))
    assert "column 'age': 2 of 3 rows hold text that is no number (first: line 3)" in str(caught.value)
    assert "column 'weight': 1 of 3 rows have a decimal comma (first: line 2)" in str(caught.value)
    with pytest.raises(DataError, match="has no column 'b', 'c'"):
        read_raw([path], rule(csv={"separator": ";"}, only=("age", "b", "c")))
