"""Which libraries a run of the default scenario loads, and when: each costs a tenth of a second or more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AT_THE_END = ("polars", "scipy.optimize", "consilium.simulations.analysis", "consilium.simulations.report.build")
NEVER = (
    "scipy.stats", "sklearn", "pandas", "torch", "opendp", "joblib", "ray", "uvicorn", "starlette",
)  # fmt: skip
"""By no run whose teachers and student are linear."""
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
RUN = """
consilium.simulations.run.running_workers = None  # the command has started them, before all this was imported
changes = ["federation.mechanism.threshold=20", "data.least_rows=100", "federation.minimum_parties=5"]
try:
    consilium.cli.main(["run", "--quiet", "--out", sys.argv[1], *(f"--set={change}" for change in changes)])
except SystemExit as ended:
    assert ended.code == 0
"""


def loaded(program: str, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", program + LOADED, *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_before_a_run_begins() -> None:
    """The names are those of modules: a control, since no module of another name was ever loaded."""
    modules = loaded(START)
    assert modules >= {"numpy", "scipy.special", "flwr"}
    assert not modules & {*AT_THE_END, *NEVER}


def test_workers_are_started_before_anything_is_loaded() -> None:
    modules = loaded("import json, sys\nimport consilium.cli\nimport consilium.simulations.engines.process\n")
    assert not modules & {"flwr", "scipy", *AT_THE_END, *NEVER}


@pytest.mark.nightly
def test_in_a_whole_run(tmp_path: Path) -> None:
    modules = loaded(START + RUN, str(tmp_path / "run"))
    assert (tmp_path / "run" / "report.html").exists()
    assert modules >= set(AT_THE_END)
    assert not modules & set(NEVER)
