"""A real deployment on loopback: SuperLink, three SuperNodes with three hospitals' files, and a student process.

Votes travel under secure aggregation. No TLS and no node keys yet; real noise from the operating system, no simulation
anywhere.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import tomli_w

from accounting.units import Unit
from coordinator.config import Caps, FederationConfig, Privacy, Timeouts
from coordinator.ledger import Ledger
from coordinator.mechanisms.confident import Confident
from protocol.messages import TeacherSpec
from protocol.schema import Schema
from simulations.datasets import load_dataset
from simulations.engines.flower_processes import (
    flower_environment,
    flwr_run,
    free_port,
    super_link,
    super_node,
    write_shim,
)
from simulations.partition import natural_partition
from tests.federation import make_secure

pytestmark = [pytest.mark.deploy, pytest.mark.slow, pytest.mark.timeout(240)]
TEACHERS = 20


def write_home(folder: Path, name: str, rows: np.ndarray) -> Path:
    """What a hospital has: its file and its policy, with safe defaults (no simulation)."""
    data = load_dataset("stroke")
    folder.mkdir()
    np.savez(
        folder / "data.npz",
        x=data.x[rows],
        y=data.y[rows],
        features=np.array(data.features),
        classes=np.array(data.classes),
    )
    policy = {
        "allowed_classes": list(data.classes),
        "least_rows_per_teacher": 5,
        "most_teachers": TEACHERS,
        "most_epsilon": 1000.0,
        "votes": "secure",
    }
    (folder / "party.toml").write_text(tomli_w.dumps({"name": name, "policy": policy}))
    return folder


def test_three_hospitals_and_a_student_as_processes(tmp_path: Path) -> None:
    data = load_dataset("stroke")
    parts = natural_partition(data, 0.2, 20, 200, 0)
    largest = sorted(parts.parties, key=lambda name: -len(parts.parties[name]))[:3]
    homes = {name: write_home(tmp_path / name, name, parts.parties[name]) for name in largest}
    keys = make_secure(list(homes.values()), tmp_path)
    keys.signer.save(tmp_path / "coordinator.pem")
    public = np.concatenate([parts.queries, parts.test])
    service = f"127.0.0.1:{free_port()}"
    config = FederationConfig(
        name="loopback",
        rows=Schema.from_public_rows(data.features, data.classes, data.x[public].astype(np.float64)),
        teachers_per_party=TEACHERS,
        teacher=TeacherSpec(class_weight="balanced"),
        minimum_parties=3,
        mechanism=Confident(threshold=40, sigma1=10.0, sigma2=5.0),
        privacy=Privacy(unit=Unit.RECORD, delta=1e-5),
        caps=Caps(queries=150, answers=100),
        timeouts=Timeouts(enrol=60, train=60, vote=60, student=120),
        service=service,
        votes="secure",
        roster=keys.roster.digest,
    )
    federation, pool, run_dir = tmp_path / "federation.json", tmp_path / "pool.npz", tmp_path / "coordinator"
    federation.write_text(config.model_dump_json())
    np.savez(
        pool,
        features=np.array(data.features),
        queries=data.x[parts.queries],
        test_x=data.x[parts.test],
        test_y=data.y[parts.test],
    )
    flower = tmp_path / "flower"
    run_config = {
        "federation-file": str(federation),
        "run-dir": str(run_dir),
        "student": "socket",
        "party-root": "",
        "roster-file": str(tmp_path / "roster.json"),
        "identity-file": str(tmp_path / "coordinator.pem"),
    }
    app = write_shim(flower / "app", run_config)
    environment = flower_environment(flower / "home")
    codes: list[int] = []
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(super_link(flower, environment))
        for name, home in homes.items():
            stack.enter_context(super_node(flower, environment, address, name, home))
        run = threading.Thread(target=lambda: codes.append(flwr_run(app, address, flower, environment)))
        run.start()
        student = subprocess.run(
            [
                sys.executable, "-m", "cli", "student", "run", "--coordinator", service, "--pool", str(pool),
                "--out", str(tmp_path / "student"), "--wait", "90",
            ],
            cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        run.join(60)
    logs = "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in flower.glob("*.log"))
    assert student.returncode == 0, student.stderr + logs
    assert codes == [0], logs

    result = json.loads(student.stdout)
    assert result["asked"] <= 150
    assert 0 < result["answered"] <= 100
    assert result["student"]["auc"] > 0.6
    summary = json.loads((run_dir / "coordinator.json").read_text())
    assert summary["parties"] == sorted(largest)
    assert summary["teachers"] == 3 * TEACHERS
    assert summary["noise"] == "system"
    assert summary["privacy"]["worst_case"]["unit"] == "record"

    labels = pl.read_parquet(tmp_path / "student" / "labels.parquet").filter(pl.col("outcome") != "not_asked")
    ledger = Ledger(run_dir / "ledger.db", config.digest(), "")
    recorded = ledger.find(labels["query_id"].to_list())
    assert len(recorded) == len(labels) == summary["asked"]
    for query_id, label in zip(labels["query_id"], labels["label"], strict=True):
        assert (data.classes[recorded[query_id].label] if recorded[query_id].label >= 0 else None) == label
    ledger.close()

    # no single vote was seen by anybody but its party
    assert summary["votes"] == "secure"
    assert summary["parties_counted"] == [3]
    # teachers stay at home, and what a party remembers of its answers is on its own disk
    for home in homes.values():
        assert len(list(home.glob("state/run-*/teacher-*.pickle"))) == TEACHERS
        assert (home / "state" / "spend.db").exists()
    assert not list(run_dir.glob("private/*"))
