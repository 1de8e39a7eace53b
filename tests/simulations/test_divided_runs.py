"""Divisions, and what is changed after them: a run from Python, and its audit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from consilium.simulations.council.runs import simulate
from tests.command_line import consilium
from tests.simulations.datasets.own import patients, table_keys, write_scenario

BY_AGE = {"name": "ContinuousPartitioner", "num_partitions": 4, "partition_by": "age", "strictness": 0.9}
SHIFT = {"swap": 0.5}


def scenario(folder: Path, keys: dict[str, Any]) -> Path:
    patients().write_csv(folder / "patients.csv")
    return write_scenario(folder, table_keys(**keys), simulation={"manual_labels": "none"})


def test_a_run_from_python_and_its_audit(tmp_path: Path) -> None:
    path, out = scenario(tmp_path, {"partition": "iid"}), tmp_path / "run"
    changes = {"data.partition": "flwr", "data.partitioner": BY_AGE, "data.shift": SHIFT}
    run = simulate(path, seed=3, out=out, settings=changes)
    assert run.summary["parties"] == 4
    manifest = json.loads((out / "manifest.json").read_text())
    data = manifest["config"]["data"]
    assert (data["partitioner"], data["shift"]["swap"]) == (BY_AGE, 0.5)
    audit = consilium("audit", out)
    assert audit.exit_code == 0, audit.output

    del manifest["config"]["data"]["shift"]
    (out / "manifest.json").write_text(json.dumps(manifest))
    audit = consilium("audit", out)
    assert audit.exit_code == 1 and "manifest.json" in audit.stdout
