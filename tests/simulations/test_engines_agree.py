"""The same seed gives the same votes, labels and student on every engine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from simulations.run import run_scenario
from simulations.scenario import load_scenario


def quiet(_: Path):
    import contextlib

    return contextlib.nullcontext()


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_local_and_ray_agree(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    # fewer hospitals, more teachers each, and a teacher that depends on its seed
    scenario = load_scenario(
        "stroke",
        [
            "data.least_rows=120",
            "parties.minimum=10",
            "parties.teachers_per_party=3",
            "teacher.model=random_forest",
            "teacher.trees=5",
            "mechanism.threshold=20",
            "caps.queries=100",
            "caps.answers=60",
        ],
    )
    votes, labels, summaries = [], [], []
    for engine in ("local", "ray"):
        out = tmp_path / engine
        summaries.append(run_scenario("stroke", scenario, engine, 3, out, quiet))  # pyright: ignore
        (file,) = (out / "private").glob("votes-*.npz")
        with np.load(file) as content:
            votes.append({str(name): matrix for name, matrix in zip(content["parties"], content["votes"], strict=True)})
        labels.append(pl.read_parquet(out / "labels.parquet"))
    assert list(votes[0]) == list(votes[1])
    assert all((votes[0][name] == votes[1][name]).all() for name in votes[0])
    assert labels[0].equals(labels[1])
    assert summaries[0]["student"] == summaries[1]["student"]
    assert summaries[0]["teachers"] == 3 * summaries[0]["parties"] > 30
    assert json.loads((tmp_path / "ray" / "manifest.json").read_text())["status"] == "complete"
