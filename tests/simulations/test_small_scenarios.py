"""Every shipped scenario of a data set in a folder, with few parties and few queries, from the files to the report."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from consilium.simulations.audit import audit_path
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from tests.simulations.engines.test_engines_agree import quiet

FEW = [
    "federation.query_budget.queries=30",
    "federation.query_budget.answers=30",
    "federation.minimum_parties=5",
    "federation.timeouts.enrol=600",
]
GNMAX = [*FEW, "federation.mechanism.sigma=2"]
TREES = ["federation.teacher.trees=10"]
SHARDS = ["data.parties=8", "data.most_rows=100"]
PIXELS = ["data.representation=none", "student.trainer.name=logistic_regression", "federation.teacher.alpha=50"]
"""Without scattering, which takes seconds for the 9,000 public images."""

# scenario -> overrides, number of parties, least accuracy of the student, which is far above chance
CASES: dict[str, tuple[list[str], int, float]] = {
    "adult-250": ([*GNMAX, *SHARDS, *TREES], 8, 0.7),
    "diabetes-rf": ([*GNMAX, "data.parties=8", "data.most_rows=200", "federation.teacher.trees=10"], 8, 0.5),
    "fashion-250": ([*GNMAX, *SHARDS, *PIXELS], 8, 0.3),
    "mnist-writers": ([*GNMAX, *PIXELS, "data.least_rows=129"], 33, 0.3),
    "pneumonia": ([*GNMAX, "data.parties=8", "data.most_rows=94"], 8, 0.6),
}

ABSENT = dict.fromkeys(("adult-250", "diabetes-rf"), "teachers of kind random_forest are not linear")
"""Scenarios without an average of weights, and why."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_a_small_one_from_files_to_report(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # one worker process: starting one takes longer than its work
    overrides, parties, least = CASES[name]
    scenario = load_scenario(name, [*overrides, f"data.path={shared_data}"])
    summary = run_scenario(name, scenario, "local", 1, tmp_path / "run", quiet)
    assert summary["parties"] == parties
    assert 0 < summary["queries"]["answered"] <= summary["queries"]["asked"] <= 30
    privacy = summary["privacy"]
    assert 0 < privacy["epsilon_data_dependent"] <= privacy["epsilon_spent"] <= privacy["epsilon_guaranteed"]
    assert set(summary["student"]["recall_per_class"]) == set(scenario.data.classes)
    noisy = summary["baselines"]["noisy_average"]
    assert noisy.get("absent") == ABSENT.get(name) and (name in ABSENT or noisy["accuracy"] > least - 0.2)
    assert summary["worth"]["released"]["labels"] == summary["queries"]["answered"]
    assert summary["worth"]["metric"] == ("auc" if len(scenario.data.classes) == 2 else "accuracy")
    assert summary["student"]["accuracy"] > least
    assert summary["baselines"]["pooled"]["auc"] > 0.55
    assert [finding for finding in audit_path(tmp_path / "run").findings if not finding.holds] == []
    page = (tmp_path / "run" / "report.html").read_text()
    assert scenario.federation.name in page
    assert all(label in page for label in scenario.data.classes)
    word = "writers" if name == "mnist-writers" else "parties"  # by lot they are parties, whoever owns the rows
    assert f"All {parties} {word}, largest first" in page
