"""A schema of raw columns: a party maps its own columns, units and words, and what it has never keeps it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.data.encoding import encode, infer
from consilium.data.mapping import DataRules
from consilium.data.private_rows import DataReport, FileRows, Rows
from consilium.data.table import TableRule, read_raw
from consilium.protocol.schema import Schema

PUBLIC = pl.DataFrame(
    {
        "age": [61, 72, 55, 40],
        "sex": ["female", "male", "female", "male"],
        "stage": ["I", "II", "III", "I"],
        "creatinine": [0.9, None, 1.1, 1.0],
    }
)
COLUMNS = infer(PUBLIC)
SCHEMA = Schema.of_table(COLUMNS, ("well", "ill"), encode(PUBLIC, COLUMNS)[0])
OWN = (
    "age,sex,stage,creatinine,label\n61,female,I,0.9,well\n72,male,II,,ill\n55,female,III,1.1,ill\n40,male,I,1.0,well\n"
)
SECRET = "4711"


def read(tmp_path: Path, content: str, schema: Schema = SCHEMA, **tables: Any) -> tuple[Rows | None, DataReport]:
    path = tmp_path / "data.csv"
    path.write_text(content)
    rows, report = FileRows(path, DataRules.model_validate(tables)).report(schema)
    assert (rows is None) == bool(report.problems)
    assert SECRET not in f"{report}{report.problems}{report.doubts}{report.remarks}".replace(str(tmp_path), "")
    return rows, report


def expected(frame: pl.DataFrame) -> np.ndarray:
    """What a student's pool reader makes of the same rows."""
    return SCHEMA.standardise(SCHEMA.filled(encode(frame, COLUMNS)[0]))


def test_raw_columns_become_the_features(tmp_path: Path) -> None:
    rows, report = read(tmp_path, OWN)
    assert rows is not None
    assert (report.problems, report.doubts + report.remarks, report.filled) == ((), (), {"creatinine": 1})
    assert rows.x.tobytes() == expected(PUBLIC).tobytes()
    assert rows.y.tolist() == [0, 1, 1, 0]


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


def test_what_a_hospital_writes_with_ages_over_89_other_words_and_another_unit(tmp_path: Path) -> None:
    rows, report = read(tmp_path, HOSPITAL, **MAPPING)
    assert rows is not None
    assert report.filled == {"age": 1, "creatinine": 1}
    assert [str(doubt) for doubt in report.remarks] == [
        "sex (column 'Geschlecht'): 1 of 4 rows hold a value that no public row has (first: line 4): it counts as"
        " none of the known ones. If they mean one of 'female', 'male', say so under values; if they are missing, in"
        " missing_codes",
        "stage (column 'Stadium'): 1 of 4 rows hold a value that no public row has (first: line 4): it counts as"
        " none of the known ones. If they mean one of 'I', 'II', 'III', say so under values; if they are missing, in"
        " missing_codes",
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


@pytest.mark.parametrize(("column", "cell"), [("sex", "4711"), ("stage", "4711"), ("stage", "i")])
@pytest.mark.parametrize("rows", [1, 5])
def test_an_unseen_category_is_a_doubt_and_keeps_nobody_out(tmp_path: Path, column: str, cell: str, rows: int) -> None:
    row = {"age": "61", "sex": "female", "stage": "I", "creatinine": "1", "label": "well", column: cell}
    found, report = read(tmp_path, ",".join(row) + "\n" + (",".join(row.values()) + "\n") * rows, allow_one_class=True)
    assert found is not None
    assert [doubt.where for doubt in report.remarks] == [column]
    features = [index for index, name in enumerate(SCHEMA.features) if name.startswith(f"{column}=")]
    raw = found.x[:, features] * np.array(SCHEMA.scale)[features] + np.array(SCHEMA.center)[features]
    np.testing.assert_allclose(raw, 0, atol=1e-12)


@pytest.mark.parametrize(("factor", "told"), [(88.4, ["4 of 4 rows are more than 10 deviations from"]), (1.0, [])])
def test_another_unit_is_told(tmp_path: Path, factor: float, told: list[str]) -> None:
    lines = [f"61,female,I,{value * factor},{label}" for value, label in ((0.9, "well"), (1.1, "ill"))] * 2
    rows, report = read(tmp_path, "age,sex,stage,creatinine,label\n" + "\n".join(lines))
    assert rows is not None
    assert [doubt.fault[:44] for doubt in report.remarks if doubt.where == "creatinine"] == told
    assert all("factor" in doubt.action for doubt in report.remarks)


FAULTS: dict[str, tuple[str, dict, str]] = {
    "text in a number": (
        OWN + "4711 mg,male,I,1,ill\n",
        {},
        "age: 1 of 5 rows hold text that is no number (first: line 6)",
    ),
    "codes for a category": (
        OWN,
        {"columns": {**MAPPING["columns"], "sex": {"codes": {"w": 1}}}},
        "sex: is a category, and codes, factor and offset are of numbers. Give values: the federation's are 'female'",
    ),
    "values for a number": (
        OWN,
        {"columns": {**MAPPING["columns"], "age": {"values": {"1": "x"}}}},
        "age: is a number, and values are of a category",
    ),
    "a column not named": (
        OWN,
        {"columns": {"age": "age", "sex": "sex", "stage": "stage"}},
        "creatinine: the federation asks for it, [columns] does not name it",
    ),
    "ages by code": (
        OWN,
        {"columns": {"age": {"codes": {"61": 1}}, "sex": "sex", "stage": "stage", "creatinine": "creatinine"}},
        "age: 3 of 4 rows hold a value that codes does not have (first: line 3). Add it to codes",
    ),
}


@pytest.mark.parametrize(("content", "tables", "told"), FAULTS.values(), ids=FAULTS.keys())
def test_faults(tmp_path: Path, content: str, tables: dict, told: str) -> None:
    _, report = read(tmp_path, content, **tables)
    assert any(str(problem).startswith(told) for problem in report.problems), report.problems


def test_arrays_hold_features_as_a_simulation_has_them(tmp_path: Path) -> None:
    x, names = encode(PUBLIC, COLUMNS)[0], np.array(SCHEMA.features)
    np.savez(tmp_path / "data.npz", x=x, y=[0, 1, 1, 0], features=names, classes=np.array(SCHEMA.classes))
    rules = DataRules.model_validate({"missing": {"rule": "mean"}})
    rows, report = FileRows(tmp_path / "data.npz", rules).report(SCHEMA)
    assert rows is not None, report.problems
    np.testing.assert_allclose(rows.x, expected(PUBLIC), rtol=0, atol=1e-7)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_party_and_a_simulation_read_the_same_numbers(tmp_path: Path, suffix: str) -> None:
    generator = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "age": generator.normal(60, 12, 300),
            "sex": generator.choice(["female", "male", "divers"], 300),
            "stage": generator.choice(["I", "II", "III"], 300),
            "creatinine": np.where(generator.random(300) < 0.2, np.nan, generator.normal(1, 0.2, 300)),
            "label": generator.choice(["well", "ill"], 300),
        }
    ).with_columns(pl.col("creatinine").fill_nan(None))
    path = tmp_path / f"data{suffix}"
    frame.write_csv(path) if suffix == ".csv" else frame.write_parquet(path)
    rows, _ = FileRows(path).report(SCHEMA)
    assert rows is not None
    raw = read_raw([path], TableRule(only=("age", "sex", "stage", "creatinine"))).frame
    assert rows.x.tobytes() == expected(raw).tobytes()


def test_identities_are_of_what_the_party_has_and_not_of_what_the_coordinator_knows(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, OWN + "61,x,I,0.9,well\n61,y,I,0.9,well\n61,x,I,0.9,well\n")
    assert rows is not None
    assert (rows.x[4] == rows.x[5]).all()
    assert len({bytes(identity) for identity in rows.identities}) == 7
