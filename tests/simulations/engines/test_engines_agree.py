"""The same seed gives the same labels and student on every engine, whether votes are clear or secure."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario


def quiet(_: Path):
    import contextlib

    return contextlib.nullcontext()


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_clear_on_local_and_secure_on_ray_agree(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    # fewer hospitals, more teachers each, and a teacher that depends on its seed
    changes = [
        "data.least_rows=180",
        "federation.minimum_parties=10",
        "federation.teachers_per_party=3",
        "federation.teacher.model=random_forest",
        "federation.teacher.trees=5",
        "federation.voting_rule.rule=relative",
        "federation.mechanism.threshold=20",
        "federation.query_budget.queries=100",
        "federation.query_budget.answers=60",
        "federation.timeouts.enrol=600",
    ]
    labels, summaries = [], []
    for engine, mode in (("local", "plaintext"), ("ray", "secure")):
        out = tmp_path / engine
        scenario = load_scenario("stroke-labels", [*changes, f"federation.collection={mode}"])
        summaries.append(run_scenario("stroke", scenario, engine, 3, out, quiet))  # pyright: ignore
        labels.append(pl.read_parquet(out / "labels.parquet"))
    # exact votes exist where they were clear, and nowhere else
    assert list((tmp_path / "local" / "private").glob("votes-*.npz"))
    assert not list((tmp_path / "ray" / "private").glob("votes-*.npz"))
    assert labels[0].equals(labels[1])
    assert summaries[0]["student"] == summaries[1]["student"]
    assert summaries[0]["teachers"] == 3 * summaries[0]["parties"] > 30
    assert json.loads((tmp_path / "ray" / "manifest.json").read_text())["status"] == "complete"
