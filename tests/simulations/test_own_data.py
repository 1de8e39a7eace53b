"""A stranger's table through every command: run, audit, and a signed folder for real nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.command_line import consilium
from tests.simulations.datasets.own import FEDERATION, write_scenario

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
def test_heart_from_a_csv_to_a_student_and_to_a_signed_folder(tmp_path: Path, shared_data: Path) -> None:
    csv, run = tmp_path / "heart.csv", tmp_path / "run"
    heart_csv(shared_data, csv)
    scenario = write_scenario(tmp_path, HEART, federation=OF_RECORDS, simulation={"manual_labels": "none"})
    done = consilium("run", scenario, "--out", run, "--format", "json")
    assert done.exit_code == 0, done.stderr
    summary = done.json()
    assert summary["parties"] == 3 and summary["student"]["auc"] > 0.6
    assert consilium("audit", run).exit_code == 0
