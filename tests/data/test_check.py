"""What `check_table` and `read_loosely` find, and what they leave alone."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilium.data.cells import CellRule
from consilium.data.check import MOST_CODES, Roles, check_table
from consilium.data.files import BadTable, Lines, in_file
from consilium.data.loose import read_loosely
from consilium.data.remedy import Grade, TableCheck, all_at_once
from consilium.data.table import TableRule, ruled
from consilium.protocol.errors import DataError
from tests.data.messy import ROWS, clean

ROLES = Roles(label="ill", owner="hospital")


def checked(frame: pl.DataFrame, roles: Roles = ROLES) -> TableCheck:
    return check_table(frame, Lines.of_rows("the table", frame.height), roles)


def codes(frame: pl.DataFrame, roles: Roles = ROLES) -> set[tuple[str, str]]:
    return {(finding.column, finding.code) for finding in checked(frame, roles).findings}


def changed(column: str, cells: dict[int, str | None]) -> pl.DataFrame:
    """The clean table with other cells in one column, by row."""
    frame = clean()
    values = [cells.get(row, value) for row, value in enumerate(frame[column].to_list())]
    return frame.with_columns(pl.Series(column, values, dtype=pl.String))


def added(**columns: list[str] | list[float]) -> pl.DataFrame:
    return clean().with_columns([pl.Series(name, values) for name, values in columns.items()])


@pytest.mark.parametrize("seed", range(3))
def test_of_a_clean_table_nothing_is_said(seed: int) -> None:
    assert checked(clean(seed)).findings == ()


SOME = (3, 50, 51, 300)
CASES: dict[str, tuple[pl.DataFrame, tuple[str, str]]] = {
    "a unit": (changed("dose", {row: "12 mg" for row in SOME}), ("dose", "number-in-text")),
    "thousands": (added(cost=[f"{1000 + 7 * row:,}" for row in range(ROWS)]), ("cost", "thousands")),
    "a bound": (changed("age", {row: "> 89" for row in SOME}), ("age", "number-in-text")),
    "text": (changed("age", {row: "old" for row in SOME}), ("age", "text-in-numbers")),
    "missing": (changed("age", {row: "n/a" for row in SOME}), ("age", "text-in-numbers")),
    "no value": (added(land=[""] * ROWS).with_columns(pl.lit(None, pl.String).alias("land")), ("land", "empty")),
    "no label": (changed("ill", dict.fromkeys(SOME)), ("ill", "label-missing")),
    "owners spelled": (changed("hospital", {row: "anna  hospital" for row in SOME}), ("hospital", "spelled-twice")),
    "labels spelled": (changed("ill", {row: "Yes " for row in SOME}), ("ill", "spelled-twice")),
    "owners with zeros": (
        changed("hospital", {row: ("7", "07", "007\u200b")[row % 3] for row in SOME}),
        ("hospital", "spelled-twice"),
    ),
    "codes": (added(kind=["01", "02", "11", "12"] * (ROWS // 4)), ("kind", "codes")),
    "written in two ways": (added(cost=["7.250", *(f"{row / 4:.2f}" for row in range(1, ROWS))]), ("cost", "codes")),
    "two owners": (changed("hospital", {row: "AB"[row % 2] for row in range(ROWS)}), ("hospital", "few-owners")),
    "copies": (
        pl.concat([clean(), clean().head(9).with_columns(pl.lit("Jakob Hospital").alias("hospital"))]),
        ("", "rows-twice"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_fault_is_found(case: str) -> None:
    frame, fault = CASES[case]
    assert fault in codes(frame)
    assert fault not in codes(clean())


LEFT_ALONE = {
    "roman numbers": added(kind=["I", "II", "III"] * (ROWS // 3)),
    "blood groups": added(kind=["A", "AB", "B", "0"] * (ROWS // 4)),
    "doses as names": added(kind=["10 mg", "20 mg", "40 mg"] * (ROWS // 3)),
    "a long tail": added(cost=[float(round(np.exp(row / 80))) for row in range(ROWS)]),
    "codes of kinds": added(kind=["1", "2", "3", "4"] * (ROWS // 4)),
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_what_only_looks_like_a_fault(case: str) -> None:
    assert codes(LEFT_ALONE[case]) == set()


def test_copies_of_rows() -> None:
    """Exact ones; rows of few columns agree by chance."""
    frame = pl.concat([clean(), clean().head(9)])
    (finding,) = checked(frame).findings
    assert (finding.code, finding.count, finding.places[0]) == ("rows-copied", 9, "row 601")
    assert finding.grade is Grade.LOOK and not checked(frame).remedy.duplicates
    of_patients = clean().with_columns(pl.Series("who", [f"p{row}" for row in range(ROWS)]))
    again = checked(pl.concat([of_patients, of_patients.head(9)]), Roles("ill", "hospital", "who"))
    assert [each.grade for each in again.findings] == [Grade.MEND] and again.remedy.duplicates
    few = clean().select("smoker", "sex", "hospital", "ill")
    assert checked(pl.concat([few, few.head(9)])).findings == ()


@pytest.mark.parametrize("python", [True, False])
def test_keys_of_a_message_can_be_pasted(python: bool) -> None:
    """As TOML below `[data]`, or as arguments."""
    frame, _ = CASES["a bound"]
    dose = ['1"2', *frame["dose"][1:]]
    bad = checked(frame.with_columns(pl.Series("dose", dose), pl.Series("bmi", ["27,1", *frame["bmi"][1:]])))
    error = all_at_once(DataError("", ""), "the table", bad, replaces=True, python=python)
    lines = [line for line in str(error).splitlines() if re.match("missing|cells", line)]
    if python:
        assert eval(f"dict({''.join(lines)})") == {"cells": bad.remedy.cells}
    else:
        assert tomllib.loads("[data]\n" + "\n".join(lines))["data"] == {"cells": bad.remedy.cells}


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    changed("dose", {3: "12 mg", 50: "13mg"}).write_csv(path)
    table = read_loosely([path])
    (finding,) = check_table(table.frame, table.lines, ROLES).findings
    assert (finding.where, finding.count, finding.values) == ("lines 5, 52", 2, ("12 mg", "13mg"))
    assert finding.grade is Grade.MEND


@pytest.mark.parametrize("case", ["a unit", "thousands", "a bound", "text", "missing"])
def test_the_remedy_reads_the_table(case: str) -> None:
    """What the keys make of it has no fault any more."""
    frame, (column, _) = CASES[case]
    remedy = checked(frame).remedy
    if case == "thousands":  # "1,234" is a number of the file's to mend
        assert remedy.drop == [column] and remedy.in_file
        return
    cells = {name: CellRule.model_validate(rule) for name, rule in remedy.cells.items()}
    rule = TableRule(columns=cells, missing=tuple(remedy.missing))
    read = ruled(frame, rule, Lines.of_rows("the table", frame.height), in_file("csv"))
    assert codes(read) == set()
    assert read[column].null_count() == (len(SOME) if case in ("text", "missing") else 0)


def test_a_column_with_too_many_codes_is_left_out() -> None:
    frame = added(cost=[f"{1000 + 7 * row} EUR" for row in range(ROWS)])
    assert MOST_CODES < ROWS
    remedy = checked(frame).remedy
    assert remedy.drop == ["cost"] and "cost" not in remedy.cells
    assert remedy.in_file == ["write in one unit column 'cost', which is left out until then"]


def test_units_that_are_mixed_are_never_made_one() -> None:
    """Numbers in two units would be read as one column."""
    remedy = checked(changed("dose", {3: "12 mg", 50: "1 g"})).remedy
    assert remedy.drop == ["dose"] and remedy.cells == {}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["12", "1,5", "1.5", "NA", "5 mg", "", "yes", "Yes", "1,234", "x", "-9"]), min_size=4))
def test_whatever_is_in_a_column_it_is_looked_at(cells: list[str]) -> None:
    owners = [f"o{row % 2}" for row in range(len(cells))]
    frame = pl.DataFrame({"a": pl.Series([cell or None for cell in cells], dtype=pl.String), "o": owners})
    first = checked(frame, Roles(owner="o"))
    assert first.rows == len(cells)
    assert first.findings == checked(frame, Roles(owner="o")).findings


def written(folder: Path, content: bytes) -> Path:
    path = folder / "a.csv"
    path.write_bytes(content)
    return path


HEAD = b"age,town\n"
FORMS = {
    "torn": (HEAD + b"1,a\n2\n3,b\n", "lines-torn", ("line 3",), {}),
    "the header again": (HEAD + b"1,a\nage,town\n3,b\n", "lines-header", ("line 3",), {}),
    "a name twice": (b"age,age\n1,a\n2,b\n", "name-twice", ("line 1",), {}),
    "windows letters": (HEAD + "1,Zürich\n".encode("cp1252"), "encoding", ("line 2",), {"encoding": "cp1252"}),
    "a name with a line break": (b'"a\nb",town\n1,a\n', "name-broken", ("line 2",), {}),

}  # fmt: skip


@pytest.mark.parametrize("case", FORMS)
def test_the_form_of_a_file(tmp_path: Path, case: str) -> None:
    content, code, places, keys = FORMS[case]
    table = read_loosely([written(tmp_path, content)])
    assert [(each.code, each.places) for each in table.findings] == [(code, places)]
    assert table.csv == keys


BAD = {
    "empty": (b"", "is empty"),
    "binary": (b"\x89PNG\x0d\x0a\x00\x00", "is binary, not CSV"),
    "a header alone": (b"age,town\n", "has a header and no rows"),
    "an open quote": (b'age,town\n1,a\n2,"b\n3,c\n', 'Look in line 3 for a " that is not closed'),
    "a comma too many in the heading": (b"age,town,\n1,a\n2,b\n", "all 2 rows have 2 fields.*heading ends with"),
    "a comma too many in the rows": (b"age,town\n1,a,\n2,b,\n", "all 2 rows have 3 fields.*row ends with a sep"),
    "row names": (b"age,town\n1,7,a\n2,7,b\n", "all 2 rows have 3 fields.*first column has no name"),
    "a name too few": (b"age,town\n1,7,a\n1,7,b\n", "all 2 rows have 3 fields.*a name is missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_table(tmp_path: Path, case: str) -> None:
    content, fault = BAD[case]
    with pytest.raises(BadTable, match=fault):
        read_loosely([written(tmp_path, content)])
