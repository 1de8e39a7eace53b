"""`consilium data check`: six planted faults, tables of strangers, clean tables; what it writes is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from consilium import cli
from consilium.data.check import Roles, check_table
from consilium.data.files import Lines
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.data_check import CheckedFiles, check_files
from consilium.simulations.datasets.embedded import _frame
from consilium.simulations.datasets.own import open_tables
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import divided_data, load_scenario
from tests.data.messy import FAULTS, GERMAN, clean, german, plant, write

ROLES = Roles(label="ill", owner="hospital")
QUICK = [
    "federation.mechanism={name='gnmax', sigma=5.0}",
    "federation.query_budget={queries=20, answers=20}",
    "federation.privacy={unit='record', neighbouring='add_or_remove', delta=1e-5}",
]


def whole(text: str) -> str:
    """Without the torn lines, as somebody mends them."""
    header, *lines = text.splitlines()
    return "\n".join([header, *(line for line in lines if line.count(",") - line.count('"') // 2 == header.count(","))])


def missed(checked: CheckedFiles, faults: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """Planted faults that nothing names."""
    seen = {(finding.column, finding.code) for finding in checked.check.findings}
    return [(column, codes) for column, codes in faults if not any((column, code) in seen for code in codes.split())]


def test_six_planted_faults(tmp_path: Path) -> None:
    """And nothing besides, of a table that is clean otherwise."""
    checked = check_files(str(write(tmp_path, plant(0))), ROLES)
    assert missed(checked, FAULTS) == []
    assert {finding.column for finding in checked.check.findings} - {column for column, _ in FAULTS} == set()
    assert check_files(str(write(tmp_path, clean(0).write_csv())), ROLES).check.findings == ()


def test_a_table_of_strangers(tmp_path: Path) -> None:
    """Faults that the rules were not written for."""
    path = tmp_path / "table.csv"
    path.write_bytes(german())
    checked = check_files(str(path), Roles("Befund", "Klinik"))
    assert missed(checked, GERMAN) == []
    assert "refused" not in checked.outcome


def test_the_scenario_reads_the_table(tmp_path: Path) -> None:
    """Once what no key mends is mended: two attempts."""
    path = write(tmp_path, plant(0))
    checked = check_files(str(path), ROLES)
    assert checked.in_file == ["mend the torn lines"]
    scenario = tmp_path / "own.toml"
    scenario.write_text(checked.scenario_text(tmp_path), encoding="utf-8")
    with pytest.raises(DataError, match=r"2 of 600 rows have more or fewer fields(.|\n)*line"):
        divided_data(load_scenario(str(scenario), QUICK), 0)
    write(tmp_path, whole(plant(0)))
    dataset, partition = divided_data(load_scenario(str(scenario), QUICK), 0)
    assert len(dataset.y) == checked.outcome["rows"] == 598
    assert len(dataset.columns) == checked.outcome["columns"]
    assert len(partition.parties) == 8 and np.isfinite(dataset.x).all()


ADVICE: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "set decimal_comma": ("bmi", ["27,1", "30,5"], {"cells": {"bmi": {"decimal_comma": True}}}),
    "name them as missing": ("bmi", ["broken"], {"missing": ["broken"]}),
    "which number each means": ("age", ["> 89"], {"cells": {"age": {"codes": {"> 89": 89.0}}}}),
    "say under codes of its cells": (
        "dose",
        ["12 mg"],
        {"cells": {"dose": {"codes": {"12 mg": 12.0}, "other": "number"}}},
    ),
    'unlabelled = "drop"': ("ill", ["", ""], {"unlabelled": "drop"}),
}
"""Words of an advice, in which column which cells bring it about, and the keys that it tells to set."""


@pytest.mark.parametrize("words", ADVICE)
def test_an_advice_that_is_printed_works(tmp_path: Path, words: str) -> None:
    """Keys that somebody sets who does what one finding says, and nothing else, read the table."""
    column, cells, keys = ADVICE[words]
    frame = clean()
    frame = frame.with_columns(pl.Series(column, [*cells, *frame[column][len(cells) :]]))
    path = write(tmp_path, frame.write_csv())
    (finding,) = (each for each in check_files(str(path), ROLES).check.findings if words in each.action)
    assert finding.column == column
    plain = {"set": "table", "path": str(path), "label": "ill", "owner": "hospital", "classes": ["no", "yes"]}
    source = open_tables(validate({**plain, **keys}, DataSpec, ""))
    dataset = source.dataset(np.arange(len(source.y)))
    assert [name for name in dataset.features if not name.endswith(" missing")] == [
        "age", "bmi", "glucose", "dose", "smoker=yes", "sex=male", "stage=I", "stage=II", "stage=III",
    ]  # fmt: skip


def command(*arguments: Any) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, ["data", "check", *map(str, arguments)])
    return done.exit_code, done.stdout


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, plant(0))
    code, text = command("patients.csv", "--label", "ill", "--owner", "hospital", "--out", "own.toml")
    assert code == 1
    for part in (
        "598 rows, 10 columns, 10 owners", "IN THE FILE FIRST (1)", "THE SCENARIO MENDS IT (5)", "FINE (4)",
        "('43mg', '26mg', '30 mg')", "Or in Python:", "council.fit(frame, 'ill', owners='hospital')",
        "In the file first: mend the torn lines. Then check it again.",
        "The scenario is in own.toml, once the file is mended: consilium run own.toml",
    ):  # fmt: skip
        assert part in text
    assert 'path = "patients.csv"' in (tmp_path / "own.toml").read_text()
    code, text = command("patients.csv", "--label", "ill", "--owner", "hospital", "--format", "json")
    table = json.loads(text)
    assert (code, table["must_be_mended"], len(table["findings"])) == (1, 6, 6)
    assert table["fine"] == ["glucose", "smoker", "sex", "stage"]
    assert table["findings"][1] == {
        "code": "text-in-numbers", "grade": "the scenario mends it", "column": "age", "count": 12,
        "fault": "text in a column of numbers", "action": "Correct them, or name them as missing, or declare the column"
        " a category",
        "places": ["line 98", "line 136", "line 145"], "values": ["-", "?", "NA"],
    }  # fmt: skip


def refused(*arguments: Any) -> Exception:
    done = CliRunner().invoke(cli.app, ["data", "check", *map(str, arguments)])
    assert isinstance(done.exception, (DataError, ConfigError)), done.output
    return done.exception


def test_what_is_no_table(tmp_path: Path) -> None:
    path = write(tmp_path, clean().write_csv())
    assert "has no column 'hopsital', which --owner names. Did you mean 'hospital'?" in str(
        refused(path, "--label", "ill", "--owner", "hopsital")
    )
    assert "Did you mean 'ill'?" in str(refused(path, "--label", "ILL"))
    path.write_text("Report of the ward, 2024\n\n" + clean().write_csv(), encoding="utf-8")
    assert "the heading is line 3, and other lines stand before it. Remove lines 1 to 2" in str(
        refused(path, "--label", "ill")
    )
    assert "is empty" in str(refused(write(tmp_path, "")))
    path.write_bytes(b"\x00\x01\x02" * 100)
    assert "is binary, not CSV" in str(refused(path))
    assert "is not there" in str(refused(tmp_path / "nothing.csv"))
    (tmp_path / "own.toml").touch()
    done = CliRunner().invoke(cli.app, ["data", "check", str(path), "--out", str(tmp_path / "own.toml")])
    assert "own.toml is already there" in str(done.exception)


def test_without_a_label_the_rest_is_told(tmp_path: Path) -> None:
    code, text = command(write(tmp_path, plant(0)), "--owner", "hospital")
    assert code == 1 and "no label is named. Name it with --label COLUMN" in text


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    clean().with_columns(
        pl.col("age", "bmi").cast(float), pl.col("dose").cast(float).replace(12.0, 1e300)
    ).write_parquet(path)
    checked = check_files(str(path), ROLES)
    assert [(finding.column, finding.code) for finding in checked.check.findings] == [("dose", "too-large")]
    assert "read_parquet" in checked.council_text()


def test_the_table_that_ships() -> None:
    """Heart disease at four hospitals: two columns are nearly never measured at some of them."""
    frame = _frame()
    findings = check_table(frame, Lines.of_rows("heart", frame.height), Roles("disease", "hospital")).findings
    assert {finding.grade.name for finding in findings} <= {"LOOK"}
    assert [finding.count for finding in findings if finding.code == "rows-copied"] == [3]
