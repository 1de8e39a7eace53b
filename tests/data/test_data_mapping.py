"""A party's mapping brings the same rows out of every format, and reads no column that it does not name.

Ranges help a party to find wrong units; a coordinator cannot use them, or the scale, to ask for its values.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import tomli_w
from pydantic import ValidationError

from consilium.data.mapping import DataRules
from consilium.data.private_rows import FileRows
from consilium.models.table import fit_teachers
from consilium.party.home import PartyFile
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.schema import Range, Schema
from tests.specs import teacher_of

SCHEMA = Schema(
    features=("age", "female", "pressure"), classes=("well", "ill"), center=(60, 0.5, 140), scale=(10, 0.5, 20)
)
TABLES: dict[str, Any] = {
    "columns": {
        "age": "Alter",
        "female": {"column": "Geschlecht", "codes": {"w": 1, "m": 0, "1": 1, "2": 0}},
        "pressure": {"column": "RR syst", "missing": "mean", "missing_codes": ["-9", "unbekannt"]},
    },
    "label": {"column": "Ergebnis", "classes": {"0": "well", "1": "ill"}, "missing": "drop-row"},
}
EXPECTED_X = [[0.0, 1.0, -1.0], [1.2, -1.0, 0.0], [-0.5, 1.0, 0.5]]
EXPECTED_Y = [0, 1, 1]
NAMES = ["Patient", "Ergebnis", "RR syst", "Geschlecht", "Alter"]
CSV_ROWS = [
    ["Meier, Anna", "0", "120", " w", "60"],
    ['M"', "1", "unbekannt", "m", "72.0"],
    ["X", "", "120", "m", "50"],
    ["Ä", "1", "1.5e2", "w", "55"],
]


def as_csv(path: Path, separator: str = ",", start: bytes = b"", end: str = "\n", encoding: str = "utf-8") -> Path:
    lines = [separator.join('"' + field.replace('"', '""') + '"' for field in row) for row in [NAMES, *CSV_ROWS]]
    path.write_bytes(start + (end.join(lines) + end).encode(encoding))
    return path


def check(path: Path, **tables: Any) -> None:
    rows, report = FileRows(path, DataRules.model_validate({**TABLES, **tables})).report(SCHEMA)
    assert report.problems == ()
    assert rows is not None
    assert np.allclose(rows.x, EXPECTED_X, rtol=0, atol=1e-12)
    assert rows.y.tolist() == EXPECTED_Y
    assert (rows.x.dtype, rows.y.dtype) == (np.float64, np.int64)
    assert (report.rows, report.used, report.filled) == (4, 3, {"pressure": 1})
    assert report.classes == {"well": 1, "ill": 2}


@pytest.mark.parametrize(
    ("options", "csv"), [({"start": b"\xef\xbb\xbf"}, {}), ({"separator": ";"}, {"separator": ";"})]
)
def test_csv(tmp_path: Path, options: dict, csv: dict) -> None:
    check(as_csv(tmp_path / "data.CSV", **options), csv=csv)


def frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "Patient": ["a", "b", "c", "d"],
            "Ergebnis": [0, 1, None, 1],
            "RR syst": [120.0, -9.0, 120.0, 150.0],
            "Geschlecht": ["w", "m", "m", "w"],
            "Alter": [60, 72, 50, 55],
            "list": [[1], [2], [3], [4]],
        }
    )


@pytest.mark.parametrize(
    "casts", [{}, {"Geschlecht": pl.Categorical}, {"Ergebnis": pl.Float32}, {"Alter": pl.Decimal(10, 2)}]
)
def test_parquet(tmp_path: Path, casts: dict) -> None:
    path = tmp_path / "data.parquet"
    frame().cast(casts).write_parquet(path)
    check(path)


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    x = np.array([[60, 1, 120, 9], [72, 2, -9, 9], [50, 2, 120, 9], [55, 1, 150, 9]], dtype=np.float32)
    names = np.array(["Alter", "Geschlecht", "RR syst", "other"])
    np.savez(path, x=x, y=np.array([0, 1, 2, 1]), features=names, classes=np.array(["0", "1", "?"]))
    check(path, label={**TABLES["label"], "missing_codes": ["?"]})


@pytest.mark.parametrize("other", ["", "61,1,,ill\n"])
def test_missing_codes_are_numbers_too(tmp_path: Path, other: str) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f"age,female,pressure,label\n61,1,-9.0,well\n61,0,120,ill\n{other}")
    rows, report = FileRows(path, DataRules.model_validate({"missing": {"rule": "mean", "codes": ["-9"]}})).report(
        SCHEMA
    )
    assert rows is not None
    assert report.filled == {"pressure": 2 if other else 1}
    assert rows.x[:2, 2].tolist() == [0.0, -1.0]


def test_columns_that_are_not_named_are_not_read_whatever_the_coordinator_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("age,hiv,label\n61,x,well\n62,y,ill\n")
    schema = Schema(features=("age", "hiv"), classes=("well", "ill"), center=(60, 0), scale=(10, 1))
    rows, report = FileRows(path, DataRules.model_validate({"columns": {"age": "age"}})).report(schema)
    assert rows is None
    assert [problem.where for problem in report.problems] == ["hiv"]  # nothing on what stands in it


def test_faults_in_columns_that_are_not_named_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("age,x,x,female,pressure,label\n61,,?,1,120,well\n61,inf,1,0,130,ill\n")
    rows, report = FileRows(path).report(SCHEMA)
    assert rows is not None
    assert report.problems == ()


@pytest.mark.parametrize("rows", ["61,1,120,ill\n", "61,1,120,ill\n61,0,130,ill\n"])
@pytest.mark.parametrize(("allowed", "doubts"), [(False, ["label"]), (True, [])])
def test_rows_of_one_class_are_taken_and_doubted_unless_they_are_said_to_be_right(
    tmp_path: Path, rows: str, allowed: bool, doubts: list[str]
) -> None:
    path = tmp_path / "data.csv"
    path.write_text("age,female,pressure,label\n" + rows)
    found, report = FileRows(path, DataRules(allow_one_class=allowed)).report(SCHEMA)
    assert found is not None
    assert (report.problems, [problem.where for problem in report.doubts]) == ((), doubts)
    assert len(FileRows(path).read(SCHEMA).y) == rows.count("\n")


def test_a_mapping_may_leave_out_a_class_that_the_file_has_none_of(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("age,female,pressure,label\n61,1,120,1\n")
    rules = DataRules.model_validate({"label": {"classes": {"1": "ill"}}})
    assert FileRows(path, rules).read(SCHEMA).y.tolist() == [SCHEMA.classes.index("ill")]


def party_file(tmp_path: Path, **changes: Any) -> PartyFile:
    table = {"data": "data.csv", **TABLES, **changes}
    (tmp_path / "party.toml").write_text(tomli_w.dumps(table))
    return load(tmp_path / "party.toml", PartyFile)


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
    with pytest.raises(ConfigError):
        party_file(tmp_path, **changes)


def schema(*ranges: Range, scale: float = 1.0) -> Schema:
    return Schema(features=("a", "b"), classes=("x", "y"), center=(0, 0), scale=(scale, 1), ranges=ranges)


def write(path: Path, *values: float) -> Path:
    lines = [f"{value},1,{'xy'[index % 2]}" for index, value in enumerate(values)]
    path.write_text("a,b,label\n" + "\n".join(lines) + "\n")
    return path


def test_training_moves_values_to_the_range_and_says_so_here_only(tmp_path: Path, caplog) -> None:
    path = write(tmp_path / "data.csv", -5, 4711, 3, 4)
    with caplog.at_level(logging.WARNING):
        rows = FileRows(path).read(schema(Range(feature="a", low=0, high=10)))
    assert rows.x[:, 0].tolist() == [0, 10, 3, 4]
    assert "2 of 4 rows are outside" in caplog.text
    assert "4711" not in caplog.text.replace(str(tmp_path), "")


@pytest.mark.parametrize("limit", [5, 4711, 1e6])
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_nothing_that_a_coordinator_chooses_makes_large_values_fail(tmp_path: Path, limit: float, scale: float) -> None:
    path = write(tmp_path / "data.csv", 0.5, 4711, 3, 1e306)
    asked = schema(Range(feature="a", low=0, high=limit), scale=scale)
    rows = FileRows(path).read(asked)
    assert np.isfinite(rows.x).all()
    if scale == 1.0 and limit == 1e6:
        assert rows.x[:, 0].tolist() == [0.5, 4711, 3, 1e6]
    fit_teachers(teacher_of("random_forest", trees=3), rows, [np.arange(4)], [1], 2)[0]


def test_ranges_are_part_of_the_digest() -> None:
    ranges = [(), (Range(feature="a", low=0, high=1),), (Range(feature="a", low=0, high=1, whole=True),)]
    assert len({schema(*each).digest() for each in ranges}) == 3


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
        Schema.model_validate({**schema().model_dump(), **change})
