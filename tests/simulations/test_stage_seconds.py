"""Seconds of the stages add up to the total, in the function and in what a run writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilium.simulations.stage_seconds import stage_seconds
from tests.command_line import consilium
from tests.simulations.test_resume import SMALL

seconds = st.floats(min_value=0, max_value=1e5)


def total_of(found: dict[str, float]) -> float:
    return sum(value for stage, value in found.items() if stage != "total")


@given(st.dictionaries(st.sampled_from(["enrol", "train", "vote", "student"]), seconds), seconds, seconds, seconds)
def test_they_add_up(coordinator: dict[str, float], between: float, prepare: float, analysis: float) -> None:
    engine = sum(coordinator.values()) + between
    found = stage_seconds(coordinator, prepare=prepare, engine=engine, analysis=analysis, report=1.0)
    assert list(found) == ["prepare", *coordinator, "engine", "analysis", "report", "total"]
    assert found["total"] == pytest.approx(total_of(found), abs=5e-4)
    assert found["total"] == pytest.approx(prepare + engine + analysis + 1.0, abs=6e-3)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_those_of_a_run_without_a_bound_on_epsilon(tmp_path: Path) -> None:
    """And its JSON, which has no infinity, though the mechanism has no finite epsilon."""
    mechanism = "federation.mechanism={name='immutable', gamma=0.1, constant=100, unsafe_not_private=true}"
    small = [item for item in SMALL if not item.startswith(("federation.mechanism", "federation.caps"))]
    changes = [*small, mechanism, "federation.caps.queries=60", "federation.caps.answers=60", "student.rounds=1"]
    words = [part for item in changes for part in ("--set", item)]
    done = consilium("run", "--out", tmp_path / "run", "--format", "json", *words)
    assert done.exit_code == 0, done.stderr
    summary = done.json()
    assert total_of(summary["seconds"]) == pytest.approx(summary["seconds"]["total"], abs=5e-4)
    assert {"enrol", "train", "vote", "student", "engine"} <= set(summary["seconds"])
    privacy = summary["privacy"]
    assert privacy["epsilon_promised"] is privacy["epsilon_spent"] is None
    assert {"epsilon_promised", "epsilon_spent"} <= set(privacy["infinite"])
    for path in [*(tmp_path / "run").rglob("*.json"), *(tmp_path / "run").rglob("*.jsonl")]:
        for line in path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]:
            json.loads(line, parse_constant=lambda word, path=path: pytest.fail(f"{word} in {path}"))
    assert consilium("audit", tmp_path / "run", "--format", "json").json()["holds"]
    assert "unbounded" in consilium("report", tmp_path / "run").output or (tmp_path / "run" / "report.html").exists()
