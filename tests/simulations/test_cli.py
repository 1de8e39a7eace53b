"""The command line as people use it: a run shown, every mistake as one or two lines, and which libraries a run loads,
and when: each costs a tenth of a second or more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from consilium.protocol.errors import ConfigError
from consilium.simulations.shipped import Shipped
from tests.command_line import consilium

ROOT = Path(__file__).resolve().parents[2]


def test_a_finished_run_is_shown(small_run: Path) -> None:
    shown = consilium("show", small_run)
    assert (shown.exit_code, shown.stdout.startswith("The student reaches AUC")) == (0, True), shown.stderr
    assert shown.stdout.splitlines()[-1].startswith(f"Report: {small_run}/report.html")
    assert consilium("show", small_run, "--format", "json").json() == json.loads(
        (small_run / "summary.json").read_text()
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("run --engine spark", "spark"),
        ("run --out /proc/consilium/run", "cannot make output folder"),
        ("show absent", "is no folder"),
    ],
)
def test_mistakes_are_told_in_a_line_or_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, told: str
) -> None:
    """More of them: tests/test_wrong_inputs.py."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    done = consilium(*line.split())
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert told in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())  # nothing half-written


def test_scenarios_is_a_menu_with_the_default_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = consilium("scenarios")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[2].startswith("stroke (default)") and max(map(len, lines)) <= 80
    listed = json.loads(consilium("scenarios", "--format", "json").stdout)
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


@pytest.mark.parametrize(
    ("kind", "name", "what", "action"),
    [
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
