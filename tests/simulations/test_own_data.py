"""A stranger's table through every command: run, audit, plan, and kits for real nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.simulations.population.public import schema
from consilium.simulations.scenario import divided_data, load_scenario
from tests.command_line import consilium
from tests.simulations.datasets.own import FEDERATION, patients, table_keys, write_scenario

HEART = {
    "set": "table",
    "path": "heart.csv",
    "label": "disease",
    "label_values": {str(grade): "ill" if grade else "healthy" for grade in range(5)},
    "classes": ["healthy", "ill"],
    "owner": "hospital",
    "columns": {"cp": "category", "restecg": "category", "slope": "category", "thal": "category"},
    "public": {"by": "owner", "owners": ["cleveland"]},
}
OF_RECORDS = {
    **FEDERATION,
    "name": "UCI Heart",
    "teachers_per_party": 5,
    "privacy": {"unit": "record", "delta": 1e-3},
    "query_budget": {"queries": 40, "answers": 40},
}


def heart_csv(data: Path, path: Path) -> None:
    """UCI Heart as a hospital's export has it: empty cells, and a column of hospitals."""
    with np.load(data / "heart_uci.npz") as file:
        columns: dict[str, Any] = {
            str(name): [None if np.isnan(value) else float(value) for value in file["X"][:, at].astype(np.float64)]
            for at, name in enumerate(file["feature_names"])
        }
        columns["hospital"] = file["hospital_names"][file["hospital"]].tolist()
        columns["disease"] = file["num"].tolist()
    pl.DataFrame(columns).write_csv(path)


@pytest.mark.slow
def test_heart_from_a_csv_to_a_student_and_to_kits(tmp_path: Path, shared_data: Path) -> None:
    csv, run = tmp_path / "heart.csv", tmp_path / "run"
    heart_csv(shared_data, csv)
    scenario = write_scenario(tmp_path, HEART, federation=OF_RECORDS, simulation={"hand_labels": "none"})
    done = consilium("run", scenario, "--out", run, "--format", "json")
    assert done.exit_code == 0, done.stderr
    summary = done.json()
    assert summary["parties"] == 3 and summary["student"]["auc"] > 0.6
    assert consilium("audit", run).exit_code == 0


@pytest.mark.parametrize(("kind", "votes"), [("table", "plaintext"), ("npz", "secure")])
def test_kits_have_the_simulations_schema_and_none_of_its_rows(tmp_path: Path, kind: str, votes: str) -> None:
    frame = patients()
    frame.write_csv(tmp_path / "patients.csv")
    keys = table_keys()
    if kind == "npz":
        x = np.random.default_rng(0).standard_normal((240, 3)).astype(np.float32)
        np.savez(tmp_path / "rows.npz", x=x, y=frame["outcome"].to_numpy().astype("U5"), owner=np.arange(240) // 40)
        keys = {"set": "npz", "path": "rows.npz", "public_share": 0.34}
    path = write_scenario(tmp_path, keys, federation={**FEDERATION, "collection": votes})
    done = consilium("prepare", path, "--out", tmp_path / "out", "--kits", "localhost", "--format", "json")
    assert done.exit_code == 0, done.stderr
    scenario = load_scenario(str(path))
    data, parts = divided_data(scenario, 0)
    out = tmp_path / "out" / "kits"
    of_kits = json.loads((out / "student-student" / "schema.json").read_text())
    assert of_kits == schema(scenario.data, data, parts).model_dump(mode="json")
    assert {folder.name for folder in out.glob("party-*") if folder.is_dir()} == {
        f"party-{name}" for name in parts.parties
    }
    held = [file for file in out.rglob("*") if file.suffix in (".npz", ".csv", ".parquet")]
    assert {file.name for file in held} <= {"public.npz"}
    for file in held:
        pool = np.load(file)["queries"]
        private = data.x[np.concatenate(list(parts.parties.values()))]
        assert len(pool) <= len(parts.queries) + len(parts.too_near)
        if kind == "npz":
            assert not np.isin(pool[:, 0], private[:, 0]).any()
