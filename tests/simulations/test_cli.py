"""The command line as people use it: one whole default federation, and every mistake as one or two lines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests import command_line
from tests.simulations.tampering import main

ROOT = Path(__file__).resolve().parents[2]


def consilium(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-m", "consilium", *arguments],
        cwd=cwd, capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_the_default_federation_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = consilium(
        "run", "--format", "json", "--out", "result", "--set", "federation.timeouts.enrol=900", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)  # one object and nothing else
    assert summary["scenario"] == "stroke"
    assert summary["parties"] == summary["teachers"] == 371
    assert summary["queries"]["answered"] == 300
    privacy = summary["privacy"]
    assert 0 < privacy["epsilon_data_dependent"] <= privacy["epsilon_spent"] <= privacy["epsilon_guaranteed"] < 1
    assert 0.7 < summary["student"]["auc"] < summary["baselines"]["pooled"]["auc"]
    assert set(summary["baselines"]) == {
        "majority", "pooled", "plurality", "mean_teacher", "local_only", "noisy_average", "private_gradient",
    }  # fmt: skip
    for name in ("noisy_average", "private_gradient"):
        above = summary["baselines"][name]["above_student"]
        assert above["interval"][0] < above["difference"] < above["interval"][1]
    worth = summary["worth"]
    assert 0 <= worth["low"] <= worth["manual_labels"] <= (worth["high"] or worth["most"]) <= worth["public_rows"]
    run = Path(summary["out"])
    assert not (run / "private" / "work").exists()  # copies of rows and teachers are gone
    metrics = pl.read_parquet(run / "metrics.parquet")
    student = metrics.filter((pl.col("name") == "student") & (pl.col("metric") == "auc"))
    assert student["value"].to_list() == [summary["student"]["auc"]]
    assert metrics.filter(pl.col("scope") == "party")["name"].n_unique() == 371

    monkeypatch.chdir(tmp_path)
    shown = command_line.consilium("show", "result")
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.startswith("The student reaches AUC")
    assert shown.stdout.splitlines()[-1].startswith(f"Report: {run}/report.html")
    assert json.loads(command_line.consilium("show", "result", "--format", "json").stdout) == summary
    monkeypatch.setenv("COLUMNS", "200")
    again = command_line.consilium("run", "--out", "result")
    assert (again.exit_code, again.stderr.count("\n")) == (6, 1)
    assert "exists already" in again.stderr
    assert json.loads((run / "manifest.json").read_text())["status"] == "complete"

    public = command_line.consilium("report", "result", "--public")
    assert public.exit_code == 0, public.stderr
    text = (run / "report-public.html").read_text()
    assert "hospital-" not in text
    assert f"{privacy['epsilon_data_dependent']:.4f}" not in text or (
        f"{privacy['epsilon_spent']:.4f}" == f"{privacy['epsilon_data_dependent']:.4f}"
    )


FEW = ["--set", "data.least_rows=150", "--set", "federation.minimum_parties=5"]
MISTAKES = {
    "unknown key": (["run", "--set", "federation.mechanism.sigma3=1"], 2, "unknown key"),
    "not key=value": (["run", "--set", "query_budget"], 2, "is not key=value"),
    "broken file": (["run", "broken.toml"], 2, "is not valid TOML"),
    "unknown engine": (["run", "--engine", "spark"], 2, "spark"),
    "too few parties": (["run", "--set", "federation.minimum_parties=400"], 4, "371 hospitals are left"),
    "other classes": (["run", "--set", "data.classes=['well','ill']"], 2, "do not match data set"),
    "threshold beyond the votes": (
        ["run", "stroke", *FEW, "--set", "federation.mechanism.threshold=99"], 2, "above the 16 votes"
    ),
    "folder that cannot be made": (["run", "--out", "/proc/consilium/run"], 2, "cannot make output folder"),
    "show of nothing": (["show", "absent"], 2, "is no folder"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_told_in_a_line_or_two(tmp_path: Path, monkeypatch, capsys, case: str) -> None:
    arguments, expected, told = MISTAKES[case]
    (tmp_path / "broken.toml").write_text("title = [")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    code, out, err = main(monkeypatch, capsys, *arguments)
    assert code == expected, err
    assert told in err
    assert "Traceback" not in err
    assert out == ""
    assert {path.name for path in tmp_path.iterdir()} == {"broken.toml"}  # nothing half-written


def test_a_mistake_is_the_exit_code_of_the_process(tmp_path: Path) -> None:
    done = consilium("run", "absent", cwd=tmp_path)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)


def test_scenarios_is_a_menu_with_the_default_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = command_line.consilium("scenarios")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[2].startswith("stroke (default)") and max(map(len, lines)) <= 80
    listed = json.loads(command_line.consilium("scenarios", "--format", "json").stdout)
    assert [entry["name"] for entry in listed["scenarios"] if entry["default"]] == ["stroke"]
    needs = {entry["name"]: entry["needs"] for entry in listed["scenarios"]}
    assert (needs["stroke"], needs["adult-250"]) == (None, "data.path")
    happens = [entry["happens"] for entry in listed["scenarios"]]
    assert len(set(happens)) == len(happens)


def test_a_folder_that_is_there_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; from consilium.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: sys.exit(end.code if 'polars' not in sys.modules else 99)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 6, done.stderr
    assert "exists already" in done.stderr


def test_names_complete_with_tab() -> None:
    def offered(typed: str) -> set[str]:
        environment = {"_CONSILIUM_COMPLETE": "complete_bash", "COMP_WORDS": f"consilium {typed}"}
        environment |= {"COMP_CWORD": str(len(typed.split(" "))), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
        code = "from consilium.cli import app; app(prog_name='consilium')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        return set(done.stdout.split())

    assert offered("run pate-") == {"pate-2017", "pate-2018"}
    assert offered("study na") == {"naturals"}
