"""A party's data file: its mapping brings the same rows out of every format, reads no column that it does not name, and
every way to be wrong is a line that names column and count, and quotes no row.

What a party has never keeps it out, and no range or scale that a coordinator chooses asks for its values.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import tomli_w
from pydantic import ValidationError

from consilium.data.encoding import encode, infer
from consilium.data.files import BLOCK
from consilium.data.mapping import DataRules
from consilium.data.private_rows import DataReport, FileRows, MemoryRows, Rows
from consilium.models.table import fit_teachers
from consilium.party.home import PartyFile
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.refusals import Refusal, Refused, Rule
from consilium.protocol.schema import Range, Schema
from tests.federation import CLASSES as OTHER_CLASSES
from tests.federation import FEATURES, make_config, make_rows
from tests.specs import teacher_of

SECRET = "4711"
"""In every bad row: it may appear nowhere."""
CLASSES = ("well", "ill")
NUMBERS = Schema(
    features=("age", "pressure"),
    classes=CLASSES,
    center=(60.0, 140.0),
    scale=(10.0, 20.0),
    ranges=(Range(feature="age", low=0, high=120, whole=True),),
)
GOOD = "age,pressure,label\n61,120.5,well\n72,150,ill\n55,135,ill\n"
PUBLIC = pl.DataFrame(
    {
        "age": [61, 72, 55, 40],
        "sex": ["female", "male", "female", "male"],
        "stage": ["I", "II", "III", "I"],
        "creatinine": [0.9, None, 1.1, 1.0],
    }
)
COLUMNS = infer(PUBLIC)
SCHEMA = Schema.of_table(COLUMNS, CLASSES, encode(PUBLIC, COLUMNS)[0])
OWN = (
    "age,sex,stage,creatinine,label\n61,female,I,0.9,well\n72,male,II,,ill\n55,female,III,1.1,ill\n40,male,I,1.0,well\n"
)


def rules(**tables: Any) -> DataRules:
    return DataRules.model_validate(tables)


def read(folder: Path, content: str, schema: Schema = NUMBERS, **tables: Any) -> tuple[Rows | None, DataReport]:
    path = folder / "data.csv"
    path.write_text(content)
    rows, report = FileRows(path, rules(**tables)).report(schema)
    assert (rows is None) == bool(report.problems)
    assert SECRET not in f"{report}{report.problems}{report.doubts}{report.remarks}".replace(str(folder), "")
    return rows, report


def taken(folder: Path, content: str, schema: Schema = NUMBERS, **tables: Any) -> tuple[Rows, DataReport]:
    rows, report = read(folder, content, schema, **tables)
    assert rows is not None, report.problems
    return rows, report


def expected(frame: pl.DataFrame) -> np.ndarray:
    """What a student's pool reader makes of the same rows."""
    return SCHEMA.standardise(SCHEMA.filled(encode(frame, COLUMNS)[0]))


TABLES: dict[str, Any] = {
    "columns": {
        "age": "Alter",
        "female": {"column": "Geschlecht", "codes": {"w": 1, "m": 0, "1": 1, "2": 0}},
        "pressure": {"column": "RR syst", "missing": "mean", "missing_codes": ["-9", "unbekannt"]},
    },
    "label": {"column": "Ergebnis", "classes": {"0": "well", "1": "ill"}, "missing": "drop-row"},
}
CSV_ROWS = (
    '"Patient"{0}"Ergebnis"{0}"RR syst"{0}"Geschlecht"{0}"Alter"\n"Meier, Anna"{0}0{0}120{0}" w"{0}60\n'
    '"M"""{0}1{0}unbekannt{0}m{0}72.0\n"X"{0}{0}120{0}m{0}50\n"Ä"{0}1{0}1.5e2{0}w{0}55\n'
)


def parquet_of(**casts: Any) -> Callable[[Path], Any]:
    frame = pl.DataFrame(
        {
            "Patient": ["a", "b", "c", "d"],
            "Ergebnis": [0, 1, None, 1],
            "RR syst": [120.0, -9.0, 120.0, 150.0],
            "Geschlecht": ["w", "m", "m", "w"],
            "Alter": [60, 72, 50, 55],
            "list": [[1], [2], [3], [4]],
        }
    )
    return frame.cast(casts).write_parquet


def write_arrays(path: Path) -> None:
    x = np.array([[60, 1, 120, 9], [72, 2, -9, 9], [50, 2, 120, 9], [55, 1, 150, 9]], dtype=np.float32)
    names = np.array(["Alter", "Geschlecht", "RR syst", "other"])
    np.savez(path, x=x, y=np.array([0, 1, 2, 1]), features=names, classes=np.array(["0", "1", "?"]))


FORMS: dict[str, tuple[str, Callable[[Path], Any], dict[str, Any]]] = {
    "marked": ("data.CSV", lambda path: path.write_bytes(b"\xef\xbb\xbf" + CSV_ROWS.format(",").encode()), {}),
    "semicolons": ("data.csv", lambda path: path.write_text(CSV_ROWS.format(";")), {"csv": {"separator": ";"}}),
    "parquet": ("data.parquet", parquet_of(), {}),
    "a category": ("data.parquet", parquet_of(Geschlecht=pl.Categorical), {}),
    "float labels": ("data.parquet", parquet_of(Ergebnis=pl.Float32), {}),
    "decimals": ("data.parquet", parquet_of(Alter=pl.Decimal(10, 2)), {}),
    "arrays": ("data.npz", write_arrays, {"label": {**TABLES["label"], "missing_codes": ["?"]}}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_format_gives_the_same_rows(tmp_path: Path, form: str) -> None:
    name, make, tables = FORMS[form]
    make(tmp_path / name)
    schema = Schema(features=("age", "female", "pressure"), classes=CLASSES, center=(60, 0.5, 140), scale=(10, 0.5, 20))
    rows, report = FileRows(tmp_path / name, rules(**{**TABLES, **tables})).report(schema)
    assert rows is not None, report.problems
    assert np.allclose(rows.x, [[0.0, 1.0, -1.0], [1.2, -1.0, 0.0], [-0.5, 1.0, 0.5]], rtol=0, atol=1e-12)
    assert rows.y.tolist() == [0, 1, 1]
    assert (rows.x.dtype, rows.y.dtype, repr(rows)) == (np.float64, np.int64, "Rows()")
    assert (report.rows, report.used, report.filled) == (4, 3, {"pressure": 1})
    assert report.classes == {"well": 1, "ill": 2}


@pytest.mark.parametrize("other", ["", "61,,ill\n"])
def test_missing_codes_are_numbers_too(tmp_path: Path, other: str) -> None:
    content = f"age,pressure,label\n61,-9.0,well\n61,120,ill\n{other}"
    rows, report = taken(tmp_path, content, missing={"rule": "mean", "codes": ["-9"]})
    assert report.filled == {"pressure": 2 if other else 1}
    assert rows.x[:2, 1].tolist() == [0.0, -1.0]


def test_columns_that_are_not_named_are_not_read_whatever_the_coordinator_asks_for(tmp_path: Path) -> None:
    _, report = read(tmp_path, "age,pressure,label\n61,x,well\n62,y,ill\n", columns={"age": "age"})
    assert [problem.where for problem in report.problems] == ["pressure"]  # nothing on what stands in it
    _, report = taken(tmp_path, "age,x,x,pressure,label\n61,,?,120,well\n61,inf,1,130,ill\n")
    assert report.problems == ()


@pytest.mark.parametrize("content", ["age,pressure,label\n61,120,ill\n", "age,pressure,label\n61,1,ill\n61,2,ill\n"])
@pytest.mark.parametrize(("allowed", "doubts"), [(False, ["label"]), (True, [])])
def test_rows_of_one_class_are_taken_and_doubted_unless_they_are_said_to_be_right(
    tmp_path: Path, content: str, allowed: bool, doubts: list[str]
) -> None:
    _, report = taken(tmp_path, content, allow_one_class=allowed)
    assert (report.problems, [problem.where for problem in report.doubts]) == ((), doubts)


def test_a_mapping_may_leave_out_a_class_that_the_file_has_none_of(tmp_path: Path) -> None:
    rows, _ = taken(tmp_path, "age,pressure,label\n61,120,1\n", label={"classes": {"1": "ill"}})
    assert rows.y.tolist() == [CLASSES.index("ill")]


@pytest.mark.parametrize(
    "changes",
    [
        {"columns": {"age": 3}},
        {"columns": {"age": {"codes": {}}}},
        {"columns": {"age": {"colum": "x"}}},
        {"label": {"missing": "mean"}},
        {"missing": {"rule": "zero"}},
    ],
)
def test_mappings_that_make_no_sense_are_refused(tmp_path: Path, changes: dict) -> None:
    (tmp_path / "party.toml").write_text(tomli_w.dumps({"data": "data.csv", **TABLES, **changes}))
    with pytest.raises(ConfigError):
        load(tmp_path / "party.toml", PartyFile)


def chosen(*ranges: Range, scale: float = 1.0) -> Schema:
    return Schema(features=("a", "b"), classes=("x", "y"), center=(0, 0), scale=(scale, 1), ranges=ranges)


def test_training_moves_values_to_the_range_and_says_so_here_only(tmp_path: Path, caplog) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,b,label\n-5,1,x\n4711,1,y\n3,1,x\n4,1,y\n")
    with caplog.at_level(logging.WARNING):
        rows = FileRows(path).read(chosen(Range(feature="a", low=0, high=10)))
    assert rows.x[:, 0].tolist() == [0, 10, 3, 4]
    assert "2 of 4 rows are outside" in caplog.text
    assert SECRET not in caplog.text.replace(str(tmp_path), "")


@pytest.mark.parametrize("limit", [5, 4711, 1e6])
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_nothing_that_a_coordinator_chooses_makes_large_values_fail(tmp_path: Path, limit: float, scale: float) -> None:
    schema = chosen(Range(feature="a", low=0, high=limit), scale=scale)
    (tmp_path / "data.csv").write_text("a,b,label\n0.5,1,x\n4711,1,y\n3,1,x\n1e306,1,y\n")
    rows = FileRows(tmp_path / "data.csv").read(schema)
    assert np.isfinite(rows.x).all()
    if scale == 1.0 and limit == 1e6:
        assert rows.x[:, 0].tolist() == [0.5, 4711, 3, 1e6]
    fit_teachers(teacher_of("random_forest", trees=3), rows, [np.arange(4)], [1], 2)


@pytest.mark.parametrize(
    "change",
    [
        {"ranges": [{"feature": "c", "low": 0, "high": 1}]},
        {"ranges": [{"feature": "a", "low": 2, "high": 1}]},
        {"ranges": [{"feature": "a", "low": 0, "high": 1}, {"feature": "a", "low": 0, "high": 2}]},
        {"columns": [{"column": "b", "kind": "number"}]},
        {"columns": [{"column": "a", "kind": "number", "values": ["1"]}, {"column": "b", "kind": "number"}]},
        {"columns": [{"column": "a", "kind": "category", "values": ["x", "x"]}, {"column": "b", "kind": "number"}]},
        {"columns": [{"column": "a", "kind": "number", "missing": True}, {"column": "b", "kind": "number"}]},
    ],
)
def test_schemas_that_make_no_sense_are_refused(change: dict) -> None:
    with pytest.raises(ValidationError):
        Schema.model_validate({**chosen().model_dump(), **change})


HOSPITAL = """Alter;Geschlecht;Stadium;Krea;Ergebnis
61;w;1;79,56;0
> 89;m;2;n/k;1
n/k;D;9;97,24;1
40;m;1;88,4;0
"""
MAPPING: dict[str, Any] = {
    "columns": {
        "age": {"column": "Alter", "codes": {"> 89": 90}, "missing_codes": ["n/k"], "missing": "mean"},
        "sex": {"column": "Geschlecht", "values": {"w": "female", "m": "male"}},
        "stage": {"column": "Stadium", "values": {"1": "I", "2": "II", "3": "III"}},
        "creatinine": {"column": "Krea", "factor": 1 / 88.4, "missing_codes": ["n/k"]},
    },
    "label": {"column": "Ergebnis", "classes": {"0": "well", "1": "ill"}},
    "csv": {"separator": ";", "decimal_comma": True},
}


def test_raw_columns_become_the_features(tmp_path: Path) -> None:
    rows, report = taken(tmp_path, OWN, SCHEMA)
    assert (report.problems, report.doubts + report.remarks, report.filled) == ((), (), {"creatinine": 1})
    assert rows.x.tobytes() == expected(PUBLIC).tobytes()
    assert rows.y.tolist() == [0, 1, 1, 0]


def test_what_a_hospital_writes_with_ages_over_89_other_words_and_another_unit(tmp_path: Path) -> None:
    rows, report = taken(tmp_path, HOSPITAL, SCHEMA, **MAPPING)
    assert report.filled == {"age": 1, "creatinine": 1}
    assert [str(doubt) for doubt in report.remarks] == [
        f"{name}: 1 of 4 rows hold a value that no public row has (first: line 4): it counts as none of the known ones."
        f" If they mean one of {known}, say so under values; if they are missing, in missing_codes"
        for name, known in (
            ("sex (column 'Geschlecht')", "'female', 'male'"),
            ("stage (column 'Stadium')", "'I', 'II', 'III'"),
        )
    ]
    same = pl.DataFrame(
        {
            "age": [61, 90, None, 40],
            "sex": ["female", "male", "x", "male"],
            "stage": ["I", "II", "x", "I"],
            "creatinine": [0.9, None, 1.1, 1.0],
        }
    )
    np.testing.assert_allclose(rows.x, expected(same), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("column", "cell"), [("sex", SECRET), ("stage", SECRET), ("stage", "i")])
@pytest.mark.parametrize("rows", [1, 5])
def test_an_unseen_category_is_a_doubt_and_keeps_nobody_out(tmp_path: Path, column: str, cell: str, rows: int) -> None:
    row = {"age": "61", "sex": "female", "stage": "I", "creatinine": "1", "label": "well", column: cell}
    content = ",".join(row) + "\n" + (",".join(row.values()) + "\n") * rows
    found, report = taken(tmp_path, content, SCHEMA, allow_one_class=True)
    assert [doubt.where for doubt in report.remarks] == [column]
    features = [index for index, name in enumerate(SCHEMA.features) if name.startswith(f"{column}=")]
    raw = found.x[:, features] * np.array(SCHEMA.scale)[features] + np.array(SCHEMA.center)[features]
    np.testing.assert_allclose(raw, 0, atol=1e-12)


@pytest.mark.parametrize(("factor", "told"), [(88.4, ["4 of 4 rows are more than 10 deviations from"]), (1.0, [])])
def test_another_unit_is_told(tmp_path: Path, factor: float, told: list[str]) -> None:
    lines = [f"61,female,I,{value * factor},{label}" for value, label in ((0.9, "well"), (1.1, "ill"))] * 2
    _, report = taken(tmp_path, "age,sex,stage,creatinine,label\n" + "\n".join(lines), SCHEMA)
    assert [doubt.fault[:44] for doubt in report.remarks if doubt.where == "creatinine"] == told
    assert all("factor" in doubt.action for doubt in report.remarks)


NAMED = {name: name for name in ("age", "sex", "stage", "creatinine")}
COLUMN_FAULTS: list[tuple[dict[str, Any], str]] = [
    (
        {**NAMED, "sex": {"codes": {"w": 1}}},
        "sex: is a category, and codes, factor and offset are of numbers. Give values: the federation's are 'female'",
    ),
    ({**NAMED, "age": {"values": {"1": "x"}}}, "age: is a number, and values are of a category"),
    ({"age": "age", "sex": "sex", "stage": "stage"}, "creatinine: the federation asks for it, [columns] does not"),
    (
        {**NAMED, "age": {"codes": {"61": 1}}},
        "age: 3 of 4 rows hold a value that codes does not have (first: line 3). Add it to codes",
    ),
]


@pytest.mark.parametrize(("columns", "told"), COLUMN_FAULTS, ids=range(4))
def test_faults_of_raw_columns(tmp_path: Path, columns: dict[str, Any], told: str) -> None:
    _, report = read(tmp_path, OWN, SCHEMA, columns=columns)
    assert any(str(problem).startswith(told) for problem in report.problems), report.problems


def test_identities_are_of_what_the_party_has_and_not_of_what_the_coordinator_knows(tmp_path: Path) -> None:
    rows, _ = taken(tmp_path, OWN + "61,x,I,0.9,well\n61,y,I,0.9,well\n61,x,I,0.9,well\n", SCHEMA)
    assert (rows.x[4] == rows.x[5]).all()
    assert len({bytes(identity) for identity in rows.identities}) == 7


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
    ("its rule", GOOD + "61,,ill\n", {}, "pressure", 'set rule = "drop-row" or "mean" in [missing]'),
    ("unknown class", GOOD + "61,120,ill4711\n", {}, "label", "1 of 4 rows have a label that is no class"),
    ("none left", "age,pressure,label\n61,,ill\n", {"missing": {"rule": "drop-row"}}, "rows", "none is left of 1"),
    ("the label", GOOD, {"columns": {"age": "label", "pressure": "pressure"}}, "age", "is the label's column"),
]


def parquet(**columns: Any) -> Callable[[Path], None]:
    values: dict[str, Any] = {"age": [61, 72], "pressure": [120.5, 150], "label": ["well", "ill"], **columns}
    frame = pl.DataFrame({name: value for name, value in values.items() if value is not None}, strict=False)
    return frame.write_parquet


PARQUET_FAULTS: list[tuple[str, Callable[[Path], Any], str, str]] = [
    ("not Parquet", lambda path: path.write_bytes(b"4711"), "data.parquet", "is not a readable Parquet file"),
    ("nested", parquet(age=[[4711], [1]]), "age", "is of type List"),
    ("null", parquet(age=[None, 61]), "age", "1 of 2 rows have no value"),
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


PATH_FAULTS: list[tuple[str, Callable[[Path], Any], str, str]] = [
    ("csv, absent", lambda path: None, "data.csv", "cannot be read: No such file"),
    ("csv, a folder", Path.mkdir, "data.csv", "cannot be read: Is a directory"),
    ("xlsx, Excel", Path.touch, "data.xlsx", "is of no format that is known by its name"),
]
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
    **{name: (make, {}, *rest) for name, make, *rest in PATH_FAULTS},
}


@pytest.mark.parametrize("case", CASES)
def test_each_fault_is_told_with_its_place_and_quotes_no_row(tmp_path: Path, capfd, case: str) -> None:
    make, tables, where, what = CASES[case]
    path = tmp_path / f"data.{case.partition(',')[0]}"
    make(path)
    rows, report = FileRows(path, rules(**tables)).report(NUMBERS)
    assert (rows is None) == bool(report.problems)
    told = (*report.problems, *report.doubts)
    found = [str(problem) for problem in told if problem.where.removeprefix(f"{tmp_path}/") == where]
    assert any(what in line for line in found), (found, told)
    output = capfd.readouterr()
    said = " ".join(map(str, told)) + f"{report!r}{output.out}{output.err}"
    assert SECRET not in said.replace(str(tmp_path), "")


def test_all_problems_come_at_once_each_with_its_column_and_count(tmp_path: Path) -> None:
    content = 'age,puls,label\n"61,5",,well\nx,NA,sick\n'
    _, report = read(tmp_path, content, columns={"age": "age", "pressure": "puls"}, missing={"codes": ["?"]})
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
    (tmp_path / "data.csv").write_text(content)
    with pytest.raises(Refused) as caught:
        FileRows(tmp_path / "data.csv").read(NUMBERS)
    assert caught.value.refusal == Refusal(rule=rule)
    assert SECRET not in str(caught.value).replace(str(tmp_path), "")


@pytest.mark.parametrize("row", [0, BLOCK])
def test_a_fault_is_found_in_every_block(tmp_path: Path, row: int) -> None:
    lines = ["61,120,well" if index % 2 else "72,150.5,ill" for index in range(2 * BLOCK + 1)]
    lines[row] = "61,x4711,well"
    _, report = read(tmp_path, "age,pressure,label\n" + "\n".join(lines))
    assert [problem.fault for problem in report.problems] == [
        f"1 of {2 * BLOCK + 1} rows hold text that is no number (first: line {row + 2})"
    ]


@pytest.mark.parametrize("wrong", [None, "nan", "class", "turned"])
def test_rows_in_memory_are_read_as_those_of_a_file(tmp_path: Path, caplog, wrong: str | None) -> None:
    """Whether or not they go the short way, which is of plain tables, where nobody looks for what is odd."""
    caplog.set_level(logging.ERROR, "consilium.party.remarks")
    x, y = make_rows(20, 1)
    table = {"x": x, "y": y, "features": np.array(FEATURES), "classes": np.array(OTHER_CLASSES)}
    straight = MemoryRows(table).read(make_config().rows)
    if wrong == "nan":
        table["x"] = x.copy()
        table["x"][1, 0] = np.nan
    if wrong == "class":
        table["classes"] = np.array(["well", "unheard"])
    if wrong == "turned":  # columns and classes are matched by name
        table |= {"x": np.column_stack([x[:, ::-1], np.zeros(20)]), "features": np.array([*FEATURES[::-1], "more"])}
        table |= {"y": 1 - y, "classes": np.array(OTHER_CLASSES[::-1])}
    np.savez(tmp_path / "a.npz", **table)
    outcomes = []
    for source in (MemoryRows(table), FileRows(tmp_path / "a.npz")):
        try:
            rows = source.read(make_config().rows)
            outcomes.append([rows.x.tobytes(), rows.y.tobytes(), rows.identities.tobytes()])
        except Refused as error:
            outcomes.append(error.refusal)
    assert outcomes[0] == outcomes[1]
    assert isinstance(outcomes[0], Refusal) is (wrong in ("nan", "class"))
    if wrong == "turned":
        assert outcomes[0][:2] == [straight.x.tobytes(), straight.y.tobytes()]
