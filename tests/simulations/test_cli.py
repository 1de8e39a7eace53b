"""The command line as people use it: one whole default federation, every mistake as one or two lines, and which
libraries a run loads, and when: each costs a tenth of a second or more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from consilium.protocol.errors import ConfigError
from consilium.simulations.shipped import Shipped
from tests import command_line

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
        "majority", "pooled", "plurality", "mean_teacher", "noisy_average", "private_gradient",
    }  # fmt: skip
    for name in ("noisy_average", "private_gradient"):
        above = summary["baselines"][name]["above_student"]
        assert above["interval"][0] < above["difference"] < above["interval"][1]
    worth = summary["worth"]
    assert 0 <= worth["low"] <= worth["manual_labels"] <= (worth["high"] or worth["most"]) <= worth["public_rows"]
    run = Path(summary["out"])
    assert not (run / "private" / "work").exists()  # copies of rows and teachers are gone
    assert len(json.loads((run / "private" / "report.json").read_text())["quality"]) == 371

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
def test_mistakes_are_told_in_a_line_or_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    arguments, expected, told = MISTAKES[case]
    (tmp_path / "broken.toml").write_text("title = [")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    done = command_line.consilium(*arguments)
    assert (done.exit_code, done.stdout) == (expected, ""), done.output
    assert told in done.stderr and "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"broken.toml"}  # nothing half-written


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


@pytest.mark.parametrize(
    ("arguments", "code", "told"), [(["--out", "."], 6, "exists already"), (["strok"], 2, "did you mean 'stroke'")]
)
def test_what_is_wrong_is_said_before_libraries_load(arguments: list[str], code: int, told: str) -> None:
    program = (
        "import sys; from consilium.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: sys.exit(99 if {'polars', 'sklearn'} & {*sys.modules} else end.code)"
    )
    done = subprocess.run([sys.executable, "-c", program, "run", *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (code, "", 1), done.stderr
    assert told in done.stderr


def test_names_complete_with_tab() -> None:
    def offered(typed: str) -> set[str]:
        environment = {"_CONSILIUM_COMPLETE": "complete_bash", "COMP_WORDS": f"consilium {typed}"}
        environment |= {"COMP_CWORD": str(len(typed.split(" "))), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
        code = "from consilium.cli import app; app(prog_name='consilium')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        return set(done.stdout.split())

    assert offered("run pate-") == {"pate-2017", "pate-2018"}


def test_a_name_is_what_ships_and_else_a_file(tmp_path: Path) -> None:
    assert Shipped.SCENARIO.path("stroke") == Shipped.SCENARIO.files()["stroke"]
    own = tmp_path / "stroke.toml"
    own.touch()
    assert Shipped.SCENARIO.path(str(own)) == own
    assert Shipped.STUDY.path("heart").is_file()


@pytest.mark.parametrize(
    ("kind", "name", "what", "action"),
    [
        (Shipped.SCENARIO, "strok", "no scenario 'strok': .*; did you mean 'stroke'", "consilium scenarios"),
        (Shipped.SCENARIO, "qqqqqq", r"neither a file nor one that ships\. List", "consilium scenarios"),
        (Shipped.SCENARIO, "heart", "'heart' is a study, no scenario", "consilium study heart"),
        (Shipped.STUDY, "stroke", "'stroke' is a scenario, no study", "consilium run stroke"),
    ],
)
def test_a_name_that_is_none(kind: Shipped, name: str, what: str, action: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        kind.path(name)
    assert action in caught.value.action


LATER = (
    "polars", "scipy.optimize", "consilium.simulations.analysis", "consilium.simulations.report.build", "scipy.stats",
    "sklearn", "pandas", "torch", "opendp", "joblib", "ray", "uvicorn", "starlette",
)  # fmt: skip
LOADED = "\nprint(json.dumps(sorted(sys.modules)))"
START = """
import json, sys
import consilium.cli
from consilium.simulations.engines.ray import run_ray
from consilium.simulations.progress import following
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
"""
"""What `consilium run` imports before it does anything."""


def loaded(program: str) -> set[str]:
    command = [sys.executable, "-c", program + LOADED]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_before_a_run_begins() -> None:
    """The names are those of modules: a control, since no module of another name was ever loaded."""
    modules = loaded(START)
    assert modules >= {"numpy", "scipy.special", "flwr"}
    assert not modules & {*LATER}


def test_workers_are_started_before_anything_is_loaded() -> None:
    modules = loaded("import json, sys\nimport consilium.cli\nimport consilium.simulations.engines.process\n")
    assert not modules & {"flwr", "scipy", *LATER}
