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
        scenario = load_scenario("stroke", [*changes, f"federation.collection={mode}"])
        summaries.append(run_scenario("stroke", scenario, engine, 3, out, quiet))  # pyright: ignore
        labels.append(pl.read_parquet(out / "labels.parquet"))
    # exact votes exist where they were clear, and nowhere else
    assert list((tmp_path / "local" / "private").glob("votes-*.npz"))
    assert not list((tmp_path / "ray" / "private").glob("votes-*.npz"))
    assert labels[0].equals(labels[1])
    assert summaries[0]["student"] == summaries[1]["student"]
    assert summaries[0]["teachers"] == 3 * summaries[0]["parties"] > 30
    assert json.loads((tmp_path / "ray" / "manifest.json").read_text())["status"] == "complete"


@pytest.mark.slow
@pytest.mark.parametrize("collection", ["plaintext", "verified", "distributed"])
def test_parties_in_blocks_and_with_a_home_each_agree(tmp_path: Path, collection: str) -> None:
    """Also with votes that are given in shares, or under masks with the parties' own noise: all that a run says, but
    for seconds, and what was released."""
    changes = [
        "data.least_rows=150",
        "federation.minimum_parties=5",
        "federation.query_budget.queries=40",
        "federation.mechanism={name='histogram', sigma=20}",
        "simulation.hand_labels=none",
        f"federation.collection={collection}",
    ]
    runs = []
    for engine in ("local", "homes"):
        out = tmp_path / engine
        scenario = load_scenario("stroke", [*changes, "federation.query_budget.answers=40"])
        summary = run_scenario("stroke", scenario, engine, 3, out, quiet)  # pyright: ignore
        told = {key: value for key, value in summary.items() if key not in ("engine", "seconds", "out")}
        runs.append((told, pl.read_parquet(out / "labels.parquet")))
    assert runs[0][0] == runs[1][0]
    assert runs[0][1].equals(runs[1][1])
