"""Every way a .csv, .parquet or .npz can be wrong is a line that names column and count, and quotes no row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.data.files import BLOCK
from consilium.data.mapping import DataRules
from consilium.data.private_rows import DataReport, FileRows
from consilium.protocol.refusals import Refusal, Refused, Rule
from consilium.protocol.schema import Range, Schema

SCHEMA = Schema(
    features=("age", "pressure"),
    classes=("well", "ill"),
    center=(60.0, 140.0),
    scale=(10.0, 20.0),
    ranges=(Range(feature="age", low=0, high=120, whole=True),),
)
GOOD = "age,pressure,label\n61,120.5,well\n72,150,ill\n55,135,ill\n"
SECRET = "4711"  # in every bad row: it may appear nowhere


def rules(**tables: Any) -> DataRules:
    return DataRules.model_validate(tables)


def report_on(tmp_path: Path, content: str | bytes, suffix: str = ".csv", **tables: Any) -> DataReport:
    path = tmp_path / f"data{suffix}"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    rows, report = FileRows(path, rules(**tables)).report(SCHEMA)
    assert (rows is None) == bool(report.problems)
    return report


CSV_FAULTS: list[tuple[str, str, dict, str, str]] = [
    # what, content, rules, column or file, message
    ("empty", "", {}, "data.csv", "is empty"),
    ("no header", "61,4711,1\n61,120,0\n", {}, "data.csv", "has nothing but numbers in its first line"),
    ("other separator", GOOD.replace(",", ";"), {}, "data.csv", "has one column only when split at ','"),
    ("one field too many", GOOD + "61,4711,5,ill\n", {}, "data.csv", "1 of 4 rows have more or fewer fields"),
    ("column absent", GOOD.replace("age", "years"), {}, "age", "the file has no such column"),
    ("column absent, hint", GOOD.replace("age", " AGE"), {}, "age", "differs only in capitals"),
    ("column twice", GOOD.replace("pressure", "age"), {}, "age", "the file has 2 columns of this name"),
    ("not a number", GOOD + "4711 mg,130,ill\n", {}, "age", "1 of 4 rows hold text that is no number"),
    ("code for missing", GOOD + "61,NA,ill\n", {}, "pressure", "name it in missing_codes"),
    ("decimal comma", GOOD + '61,"4711,5",ill\n', {}, "pressure", "1 of 4 rows have a decimal comma"),
    ("infinite", GOOD + "61,inf,ill\n61,-Infinity,ill\n61,1e999,ill\n", {}, "pressure", "3 of 6 rows are infinite"),
    ("missing", GOOD + "61,,ill\n61,  ,ill\n61,NaN,ill\n", {}, "pressure", "3 of 6 rows have no value"),
    ("unknown class", GOOD + "61,120,ill4711\n", {}, "label", "1 of 4 rows have a label that is no class"),
    ("one class", "age,pressure,label\n61,4711,ill\n61,2,ill\n", {}, "label", "the same of 2 classes"),
    ("none left", "age,pressure,label\n61,,ill\n", {"missing": {"rule": "drop-row"}}, "rows", "none is left of 1"),
    (
        "label among the features",
        GOOD,
        {"columns": {"age": "label", "pressure": "pressure"}},
        "age",
        "is the label's column",
    ),
]


def parquet(**columns: Any) -> Callable[[Path], None]:
    values: dict[str, Any] = {"age": [61, 72], "pressure": [120.5, 150], "label": ["well", "ill"], **columns}
    frame = pl.DataFrame({name: value for name, value in values.items() if value is not None}, strict=False)
    return frame.write_parquet


PARQUET_FAULTS: list[tuple[str, Callable[[Path], Any], str, str]] = [
    ("not Parquet", lambda path: path.write_bytes(b"4711"), "data.parquet", "is not a readable Parquet file"),
    ("nested", parquet(age=[[4711], [1]]), "age", "is of type List"),
    ("null", parquet(age=[None, 61]), "age", "1 of 2 rows have no value"),
    ("column absent", parquet(age=None), "age", "the file has no such column"),
    ("numbers for classes", parquet(label=[0, 4711]), "label", "2 of 2 rows have a label that is no class"),
    ("no rows", parquet(age=[], pressure=[], label=[]), "rows", "there are none"),
]


def npz(**changes: Any) -> Callable[[Path], None]:
    values = {
        "x": np.array([[61, 120.5], [72, 150]]),
        "y": np.array([0, 1]),
        "features": np.array(["age", "pressure"]),
        "classes": np.array(["well", "ill"]),
        **changes,
    }
    return lambda path: np.savez(path, **{name: value for name, value in values.items() if value is not None})


NPZ_FAULTS: list[tuple[str, Callable[[Path], Any], str, str]] = [
    ("no npz", lambda path: path.write_bytes(b"4711"), "data.npz", "is not a readable .npz"),
    ("objects", npz(x=np.array([["4711", None]] * 2, dtype=object)), "data.npz", "is not a readable .npz (ValueError)"),
    ("part absent", npz(classes=None), "data.npz", "is not a readable .npz (KeyError)"),
    ("rows differ", npz(y=np.array([0, 1, 1])), "data.npz", "x has shape (2, 2), y (3,)"),
    ("text", npz(x=np.array([["4711", "a"]] * 2)), "data.npz", "x is <U4, it must hold numbers"),
    ("fractions", npz(y=np.array([0.5, 4711.0])), "data.npz", "y is float64, it must hold integers"),
    ("outside classes", npz(y=np.array([0, 4711])), "label (column 'y')", "1 of 2 rows have an index outside"),
    ("unknown class", npz(classes=np.array(["well", "4711"])), "label (column 'y')", "1 of 2 rows have a label"),
    ("NaN", npz(x=np.array([[np.nan, 1], [61, 1]])), "age", "1 of 2 rows have no value"),
]


CASES = {
    **{f"csv, {name}": (lambda path, of=text: path.write_text(of), *rest) for name, text, *rest in CSV_FAULTS},
    **{f"parquet, {name}": (make, {}, *rest) for name, make, *rest in PARQUET_FAULTS},
    **{f"npz, {name}": (make, {}, *rest) for name, make, *rest in NPZ_FAULTS},
}


@pytest.mark.parametrize("case", CASES)
def test_each_fault_is_told_with_its_place_and_quotes_no_row(tmp_path: Path, capfd, case: str) -> None:
    make, tables, where, what = CASES[case]
    path = tmp_path / f"data.{case.partition(',')[0]}"
    make(path)
    rows, report = FileRows(path, rules(**tables)).report(SCHEMA)
    assert (rows is None) == bool(report.problems)
    told = (*report.problems, *report.doubts)
    found = [str(problem) for problem in told if problem.where.removeprefix(f"{tmp_path}/") == where]
    assert any(what in line for line in found), (found, told)
    output = capfd.readouterr()
    said = " ".join(map(str, told)) + f"{report!r}{output.out}{output.err}"
    assert SECRET not in said.replace(str(tmp_path), "")


@pytest.mark.parametrize("name", ["absent.csv", "data.xlsx", "folder.csv"])
def test_files_that_are_not_there_or_of_no_known_format(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    rows, report = FileRows(tmp_path / name).report(SCHEMA)
    assert rows is None
    assert len(report.problems) == 1


def test_all_problems_come_at_once_each_with_its_column_and_count(tmp_path: Path) -> None:
    content = 'age;puls,label\n"61,5",,well\nx,NA,sick\n'.replace(";puls", ",puls")
    report = report_on(tmp_path, content, columns={"age": "age", "pressure": "puls"}, missing={"codes": ["?"]})
    assert [str(problem).split(". ")[0] for problem in report.problems] == [
        "age: 1 of 2 rows hold text that is no number (first: line 3)",
        "age: 1 of 2 rows have a decimal comma (first: line 2)",
        "pressure (column 'puls'): 1 of 2 rows hold text that is no number (first: line 3)",
        "pressure (column 'puls'): 1 of 2 rows have no value (first: line 2)",
        "label: 1 of 2 rows have a label that is no class (first: line 3)",
    ]


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("age,pressure,label\n61,x4711,well\n", Rule.DATA),
        ("age,pressure,label\n61,1,well4711\n61,1,ill\n", Rule.SCHEMA),
        ("age,label\n61,well\n61,ill\n", Rule.SCHEMA),
        ("age,label\nx4711,well\n61,ill\n", Rule.DATA),
    ],
)
def test_the_coordinator_is_told_the_rule_and_no_count(tmp_path: Path, content: str, rule: Rule) -> None:
    path = tmp_path / "data.csv"
    path.write_text(content)
    with pytest.raises(Refused) as caught:
        FileRows(path).read(SCHEMA)
    assert caught.value.refusal == Refusal(rule=rule)
    assert SECRET not in str(caught.value).replace(str(tmp_path), "")


@pytest.mark.parametrize("row", [0, BLOCK])
def test_a_fault_is_found_in_every_block(tmp_path: Path, row: int) -> None:
    lines = ["61,120,well" if index % 2 else "72,150.5,ill" for index in range(2 * BLOCK + 1)]
    clean = "age,pressure,label\n" + "\n".join(lines)
    assert report_on(tmp_path, clean).used == 2 * BLOCK + 1
    lines[row] = "61,x4711,well"
    report = report_on(tmp_path, "age,pressure,label\n" + "\n".join(lines))
    assert [problem.fault for problem in report.problems] == [
        f"1 of {2 * BLOCK + 1} rows hold text that is no number (first: line {row + 2})"
    ]
