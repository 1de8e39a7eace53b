"""`consilium data check`: what is wrong with a table at once, with keys that read it when they are pasted; and
`Council` of a messy frame: all faults at once, in words that it knows, and what reads it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium import Council
from consilium.data.encoding import infer
from consilium.data.remedy import Faults, TableFault, cured, pasted
from consilium.protocol.errors import TRACEBACK, DataError
from consilium.simulations.council.frames import BadInput, BadSetting
from consilium.simulations.data_check import CheckedFiles, check_files
from consilium.simulations.scenario import divided_data, load_scenario
from tests.command_line import consilium
from tests.data.messy import FAULTS, GERMAN, ROWS, clean, german, plant, write
from tests.simulations.council.warm import QUICK, quick_fits

ROLES = {"label": "ill", "owner": "hospital"}
LEAST = [
    "federation.mechanism={name='gnmax', sigma=5.0}",
    "federation.query_budget={queries=20, answers=20}",
    "federation.privacy={unit='record', neighbouring='add_or_remove', delta=1e-5}",
]


def whole(text: str) -> str:
    """Without the torn lines, as somebody mends them."""
    header, *lines = text.splitlines()
    return "\n".join([header, *(line for line in lines if line.count(",") - line.count('"') // 2 == header.count(","))])


def checked(folder: Path, text: str | bytes, **roles: str) -> CheckedFiles:
    path = folder / "patients.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return check_files(str(path), roles or ROLES)


def said(found: CheckedFiles) -> list[str]:
    return [*map(str, (*found.faults, *found.doubts))]


def missed(found: CheckedFiles, faults: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """Planted faults that nothing names."""
    return [(name, words) for name, words in faults if not any(name in text and words in text for text in said(found))]


@pytest.mark.parametrize("seed", range(3))
def test_of_a_clean_table_nothing_is_said(tmp_path: Path, seed: int) -> None:
    found = checked(tmp_path, clean(seed).write_csv())
    assert (said(found), found.warnings, found.refused, found.read["rows"]) == ([], [], "", ROWS)


def test_planted_faults(tmp_path: Path) -> None:
    """And nothing besides, of a table that is clean otherwise."""
    found = checked(tmp_path, plant(0))
    assert missed(found, FAULTS) == [] and len(said(found)) == len(FAULTS)
    assert [str(fault).split(" have ")[0] for fault in found.in_file] == [f"{tmp_path}/patients.csv: 2 of 604 rows"]


@pytest.mark.parametrize("text", [whole(plant(0)).encode(), german()], ids=["planted", "german"])
def test_the_keys_that_are_printed_read_the_table(tmp_path: Path, text: bytes) -> None:
    """The second attempt: dates, decimal commas, types mixed, three codes for missing, spellings, labels missing."""
    roles = {"label": "Befund", "owner": "Klinik"} if b"Befund" in text else ROLES
    found = checked(tmp_path, text, **roles)
    assert roles is ROLES or missed(found, GERMAN) == []
    scenario = tmp_path / "own.toml"
    scenario.write_text(found.scenario_text(tmp_path), encoding="utf-8")
    dataset, partition = divided_data(load_scenario(str(scenario), LEAST), 0)
    assert len(dataset.y) == found.read["rows"] and len(dataset.columns) == found.read["columns"]
    assert len(partition.parties) == len(dataset.owner_names or ()) - 2 + (len(dataset.owner_names or ()) < 10)
    assert np.isfinite(dataset.x).all()
    plain = [line for line in scenario.read_text().splitlines() if not line.startswith("#")]
    assert tomllib.loads("\n".join(plain)) == found.scenario | {"data": tomllib.loads("\n".join(plain))["data"]}


def changed(column: str, cells: dict[int, str]) -> pl.DataFrame:
    """The clean table with other cells in one column, by row."""
    values = [cells.get(row, value) for row, value in enumerate(clean()[column].to_list())]
    return clean().with_columns(pl.Series(column, values, dtype=pl.String))


def added(**columns: list[str] | list[float]) -> pl.DataFrame:
    return clean().with_columns([pl.Series(name, values) for name, values in columns.items()])


SOME = (3, 50, 51, 300)
OUT = {"drop": ["cost"]}
CASES: dict[str, tuple[pl.DataFrame, str, dict[str, Any]]] = {
    "a unit": (
        changed("dose", {row: "12 mg" for row in SOME}),
        "'dose' has a unit",
        {"cells": {"dose": {"codes": {"12 mg": 12.0}, "other": "number"}}},
    ),
    "two units": (changed("dose", {3: "12 mg", 50: "1 g"}), "numbers in 2 units", {"drop": ["dose"]}),
    "a bound": (
        changed("age", {row: "> 89" for row in SOME}),
        "beside the number: '> 89'",
        {"cells": {"age": {"codes": {"> 89": 89.0}, "other": "number"}}},
    ),
    "a decimal comma": (changed("bmi", {3: "27,1"}), "decimal comma", {"cells": {"bmi": {"decimal_comma": True}}}),
    "text": (
        changed("age", {row: "old" for row in SOME}),
        "line 5 and 3 more: column 'age' has text",
        {"cells": {"age": {"missing_codes": ["old"]}}},
    ),
    "missing": (changed("age", {row: "n/a" for row in SOME}), "Name it as missing", {"missing": ["n/a"]}),
    "a category's missing": (changed("sex", {3: "NA"}), "is read as a value like others", {"missing": ["NA"]}),
    "no value": (added(cost=[""] * ROWS), "'cost': no public row has a value", OUT),
    "thousands": (added(cost=[f"{1000 + 7 * row:,}" for row in range(ROWS)]), "a mark between thousands", OUT),
    "units only": (added(cost=[f"{1000 + 7 * row} EUR" for row in range(ROWS)]), "an identifier or free text", OUT),
    "dates": (added(cost=[f"{1 + row % 28}.3.2024" for row in range(ROWS)]), "is of dates: '1.3.2024'", OUT),
    "written in two ways": (
        added(cost=["7.250", *(f"{row / 4:.2f}" for row in range(1, ROWS))]),
        "written as codes are",
        {"columns": {"cost": "number"}},
    ),
    "no label": (changed("ill", dict.fromkeys(SOME, "")), "ill has no value", {"unlabelled": "drop"}),
    "owners spelled": (
        changed("hospital", {row: ("anna  hospital", "Anna\u200bHospital")[row % 2] for row in SOME}),
        "names in 'hospital' differ in case",
        {
            "cells": {
                "hospital": {"values": {"Anna\u200bHospital": "Anna Hospital", "anna  hospital": "Anna Hospital"}}
            }
        },
    ),
    "copies": (pl.concat([clean(), clean().head(9)]), "9 rows equal another one in every column", {}),
    "a name twice": (
        added(a=[1.0] * ROWS, b=[2.0] * ROWS).rename({"b": " a"}),
        "has 2 columns named 'a'",
        {"drop": ["a"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_fault_and_its_cure(tmp_path: Path, case: str) -> None:
    """What is said, which keys are printed, and that these read the table."""
    frame, words, keys = CASES[case]
    found = checked(tmp_path, frame.write_csv())
    (text,) = said(found)
    assert words in text
    given = {key: found.data[key] for key in ("missing", "cells", "columns", "drop", "unlabelled") if key in found.data}
    assert given == keys
    assert found.refused == "" and found.read["rows"] == frame.height - (len(SOME) if "unlabelled" in keys else 0)


def test_an_owner_is_missing_or_there_are_two(tmp_path: Path) -> None:
    """No key says whose rows are."""
    with pytest.raises(DataError, match=r"line 5: hospital has no value(.|\n)*nobody knows whose they are"):
        checked(tmp_path, changed("hospital", {3: ""}).write_csv())
    found = checked(tmp_path, changed("hospital", {row: "AB"[row % 2] for row in range(ROWS)}).write_csv())
    assert found.faults == [] and "public_share" in found.refused


LEFT_ALONE = {
    "blood groups": added(kind=["A", "AB", "B", "0"] * (ROWS // 4)),
    "doses as names": added(kind=["10 mg", "20 mg", "40 mg"] * (ROWS // 3)),
    "smears": added(kind=["+", "-"] * (ROWS // 2)),
    "a long tail": added(cost=[float(round(np.exp(row / 80))) for row in range(ROWS)]),
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_what_only_looks_like_a_fault(tmp_path: Path, case: str) -> None:
    assert said(checked(tmp_path, LEFT_ALONE[case].write_csv())) == []


def test_copies_are_dropped_where_patients_are_named(tmp_path: Path) -> None:
    frame = clean().with_columns(pl.Series("who", [f"p{row}" for row in range(ROWS)]))
    found = checked(tmp_path, pl.concat([frame, frame.head(9)]).write_csv(), **ROLES, patient="who")
    assert found.data["duplicates"] == "drop" and found.read["rows"] == ROWS


HEAD = b"age,ill\n"
FORMS = {
    "torn": (HEAD + b"1,a\n2\n3,b\n", "1 of 3 rows have more or fewer fields than the header's 2 (first: line 3"),
    "the heading again": (HEAD + b"1,a\nage,ill\n3,b\n", "1 of 3 rows are the heading again (first: line 3)"),
    "a name with a line break": (b'"a\nb",ill\n1,a\n2,b\n', "a column's name has a control character: 'a\\nb'"),
    "empty": (b"", "is empty"),
    "binary": (b"PK\x03\x04\x00\x00", "is a zip or Excel file, not CSV"),
    "no rows": (HEAD, "has a header and no rows"),
    "an open quote": (HEAD + b'1,a\n2,"b\n3,c\n', 'Look in line 3 for a " that is not closed'),
    "a comma too many in the heading": (b"age,ill,\n1,a\n2,b\n", "rows have 2 fields, and the heading has 3. The"),
    "a comma too many in the rows": (HEAD + b"1,a,\n2,b,\n", "and the heading has 2. Each row ends"),
    "row names": (HEAD + b"1,7,a\n2,7,b\n", "The first column has no name"),
    "a name too few": (HEAD + b"1,7,a\n1,7,b\n", "a name is missing in it"),
    "a title": (b"Report\n\nage,bmi,ill\n1,2,a\n1,7,b\n", "If line 3 is the heading, remove what stands before it"),
    "no such label": (b"age,Ill\n1,a\n", "Did you mean 'Ill'?"),
}  # fmt: skip


@pytest.mark.parametrize("case", FORMS)
def test_the_form_of_a_file(tmp_path: Path, case: str) -> None:
    """What no key mends is said by its cause."""
    content, told = FORMS[case]
    try:
        text = "".join(map(str, checked(tmp_path, content, label="ill").in_file))
    except DataError as error:
        text = str(error)
    assert told in text


@pytest.mark.parametrize("python", [True, False])
def test_keys_of_a_message_can_be_pasted(python: bool) -> None:
    """As TOML below `[data]`, or as arguments."""
    frame, faults = changed("dose", {0: '1"2'}), Faults()
    infer(frame.with_columns(pl.Series("bmi", ["27,1", *frame["bmi"][1:]])), faults=faults)
    assert cured({"missing": ["?"]}, faults)["cells"]["dose"]["missing_codes"][0] == "?"  # of a column they stand alone
    keys = cured({"drop": ["x"]}, faults)
    text = pasted(keys, python)
    if python:
        assert eval(f"dict({text}\n)") | {"drop": ["x"]} == keys
    else:
        assert tomllib.loads(f"[data]\n{text}")["data"] == keys


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, plant(0))
    roles = "--label", "ill", "--owner", "hospital"
    done = consilium("data", "check", "patients.csv", *roles, "--out", "own.toml")
    assert done.exit_code == 1
    for part in (
        "IN THE FILE FIRST (1)", "THE SCENARIO MENDS IT (4)", "LOOK AT IT (3)", "FINE (4)", "'43mg', '26mg', '30 mg'",
        "The scenario reads 602 rows of 10 owners, 7 columns as 10 features",
        "Mend the file first. Then check it again.",
        "The scenario is in own.toml, once the file is mended: consilium run own.toml",
    ):  # fmt: skip
        assert part in done.stdout
    assert 'path = "patients.csv"' in (tmp_path / "own.toml").read_text()
    assert "own.toml is already there" in consilium("data", "check", "patients.csv", *roles, "--out", "own.toml").stderr
    done = consilium("data", "check", "patients.csv", *roles, "--format", "json")
    table = done.json()
    assert (done.exit_code, table["must_be_mended"], len(table["findings"]), len(table["in_file"])) == (1, 5, 8, 1)
    assert table["findings"][1] == {
        "code": "fault", "column": "age", "fault": "patients.csv, line 98 and 11 more: column 'age' has text in a"
        " column of numbers: '-', '?', 'NA'", "action": "Name it as missing", "keys": {"missing": ["-", "?", "NA"]},
    }  # fmt: skip
    assert "is not there" in consilium("data", "check", "nothing.csv", "--label", "ill").stderr


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    numbers = clean().with_columns(pl.col("age", "bmi", "dose").cast(float))
    numbers.with_columns(pl.col("dose").replace(12.0, 1e300), a=pl.lit([[1]])).write_parquet(path)
    found = check_files(str(path), ROLES)
    assert [fault.column for fault in found.faults if isinstance(fault, TableFault)] == ["a", "dose"]
    assert found.data["drop"] == ["a"] and found.refused == ""


def messy(folder: Path) -> pl.DataFrame:
    return pl.read_csv(write(folder, whole(plant(0))), infer_schema=False)


def refusal(frame: pl.DataFrame, seed: int, **changes: Any) -> BadInput:
    with pytest.raises(BadInput) as caught:
        Council(**{**QUICK, "random_state": seed, **changes}).fit(frame, "ill", owners="hospital")
    return caught.value


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    """The same words whichever rows are public, and keys that `Council` has."""
    frame = messy(tmp_path)
    spelled = {"ill": {"values": {"YES": "yes", "NO": "no"}}}
    texts = {str(refusal(frame, seed, cells=spelled)) for seed in range(4)}
    (text,) = texts
    for part in (
        "4 faults",
        "column 'age' has",
        "column 'bmi' has",
        "column 'dose' has",
        "column 'admitted' is",
        "give Council these:\nmissing=['-'",
        "\ncells=",
    ):
        assert part in text
    assert "data." not in text
    assert set(Council().get_params()) >= {"missing", "cells", "columns", "classes"}


def test_the_keys_that_the_check_writes_are_parameters(tmp_path: Path) -> None:
    """And later rows are as messy."""
    path = write(tmp_path, whole(plant(0)))
    found = check_files(str(path), {"label": "ill", "owner": "hospital"}).data
    keys = {key: found[key] for key in ("missing", "cells", "columns", "classes") if key in found}
    frame = messy(tmp_path).drop(found.get("drop", []))
    labelled = frame.filter(pl.col("ill").is_not_null() & ~pl.col("ill").is_in(["", *found["missing"]]))
    with quick_fits():
        council = Council(**QUICK, **keys).fit(labelled, "ill", owners="hospital")
    assert council.classes_.tolist() == ["no", "yes"] and council.n_owners_ == 8
    rows = frame.with_columns(dose=pl.lit("12 mg"), age=pl.lit("NA")).head(1)
    plain = frame.with_columns(dose=pl.lit("12"), age=pl.lit(None, pl.String)).head(1)
    dose = {**keys["cells"], "dose": {"codes": {"12 mg": 12.0}, "other": "number"}}
    assert (council.set_params(cells=dose).predict_proba(rows) == council.predict_proba(plain)).all()


def test_cells_are_of_named_columns() -> None:
    with pytest.raises(BadSetting, match=r"missing and cells are for columns with names.*Give a frame"):
        Council(**QUICK, missing=["NA"]).fit([["1", "2"]] * 20, [0, 1] * 10, owners=[0, 1, 2, 3] * 5)


def shown(statement: str) -> str:
    """What IPython prints of an error."""
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell()
    with capture_output() as output:
        shell.run_cell(statement)
    return output.stdout + output.stderr


def test_a_notebook_shows_the_message_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = "from consilium.protocol.errors import DataError\ndef f(): raise DataError('no', 'Do it')\nf()"
    monkeypatch.delenv(TRACEBACK, raising=False)
    assert shown(cell).strip() == "DataError: no. Do it"
    monkeypatch.setenv(TRACEBACK, "1")
    assert "Traceback" in shown(cell) or "def f()" in shown(cell)
    assert not hasattr(DataError("no"), "_render_traceback_")
