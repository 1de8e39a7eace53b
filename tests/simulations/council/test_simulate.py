"""`simulate`: scenarios by name or object, with keys changed; and a script as people write them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from consilium.simulations.council.frames import BadSetting
from consilium.simulations.council.runs import simulate
from consilium.simulations.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[3]
SMALL: dict[str, Any] = {
    "data.least_rows": 200,
    "federation.minimum_parties": 5,
    "federation.mechanism": {"name": "histogram", "sigma": 20.0},
    "federation.query_budget": {"queries": 30, "answers": 30},
    "simulation.manual_labels": "none",
}


@pytest.mark.parametrize(
    ("scenario", "settings", "told"),
    [
        ("nowhere", {}, "no scenario 'nowhere'"),
        ("stroke", {"federation.mechanism.sigma2": "much"}, "sigma2"),
        ("stroke", {"federation.mechanism": object()}, "federation.mechanism"),
    ],
)
def test_mistakes_are_typed(scenario: str, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(BadSetting, match=told):
        simulate(scenario, settings=settings)


@pytest.mark.usefixtures("quick")
def test_a_name_and_what_it_stands_for_are_the_same_run(tmp_path: Path) -> None:
    by_name = simulate("stroke", seed=3, out=tmp_path / "run", settings=SMALL)
    by_object = simulate(load_scenario("stroke"), seed=3, settings=SMALL)
    assert by_name.summary["federation_digest"] == by_object.summary["federation_digest"]
    assert by_name.labels.equals(by_object.labels)
    assert by_name.audit()
    assert (tmp_path / "run" / "summary.json").is_file()
    folder = by_object.path
    del by_object
    assert not folder.exists()


SCRIPT = """
import asyncio
import numpy as np
from threadpoolctl import threadpool_info
from consilium import Council

print("begun")
generator = np.random.default_rng(0)
X = generator.normal(size=(200, 3))
before = [each["num_threads"] for each in threadpool_info()]

async def cell():  # as a notebook runs a cell: within a loop, in the main thread
    return Council(unit="party", parties=5, epsilon=None, mechanism={"name": "histogram", "sigma": 1.0}, queries=20,
                   manual_labels="none", noise="seeded", random_state=0).fit(X, X[:, 0] > 0)

council = asyncio.run(cell())
print(council.score(X, X[:, 0] > 0) > 0.8, bool(council.run_.audit()), "</html>" in council.report_.path.read_text())
known = {each["filepath"]: each["num_threads"] for each in threadpool_info()}
print(before == list(known.values())[: len(before)], council.run_.path.exists())
print(council.run_.path)
"""


def test_a_script_without_a_guard_in_which_a_loop_runs(tmp_path: Path) -> None:
    """Nothing is imported twice, the caller's threads come back, and the temporary folder goes with the program."""
    script = tmp_path / "own_script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        cwd=tmp_path,
        env={**free, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *lines, folder = done.stdout.splitlines()
    assert lines == ["begun", "True True True", "True True"]
    assert not Path(folder).exists()
    assert done.stderr == ""
