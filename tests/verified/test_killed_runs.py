"""A coordinator of verified votes is killed between a sum and its ledger; another one goes on in its folder.

Nodes, their accounts and the coordinator's ledger are those of a simulated run, whose own process is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tomli_w
from typer.testing import CliRunner

from consilium import cli
from consilium.coordinator.ledger import Ledger
from consilium.simulations.audit import audit_path
from consilium.simulations.engines.block_server import server
from consilium.simulations.engines.local import RUN_ID, LocalGrid, run_local
from consilium.simulations.engines.process import running_workers
from consilium.simulations.workspace import Workspace
from tests.simulations.study.tiny import SCENARIO, rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[2]
CLINICS, BATCH, QUERIES = 4, 3, 9
KILLED = """
import os
import signal

from consilium import cli
from consilium.coordinator.collection.verified import VerifiedCollector

collect, sums = VerifiedCollector.__call__, []


def killed(self, *arguments, **named):
    sums.append(collect(self, *arguments, **named))
    if len(sums) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return sums[-1]


VerifiedCollector.__call__ = killed
os.cpu_count = lambda: 1
cli.app()
"""
"""With one worker: each takes seconds to import what it needs.

The second aggregator has given its half of the second sum, and the ledger does not have it yet."""


def write_scenario(folder: Path) -> Path:
    """Four clinics, and three sums."""
    rows().filter(pl.col("clinic").is_in([f"clinic {each}" for each in range(CLINICS)])).write_csv(folder / "rows.csv")
    path = folder / "tiny.toml"
    scenario = {
        **SCENARIO,
        "federation": {
            **SCENARIO["federation"],
            "collection": "verified",
            "minimum_parties": 3,
            "query_budget": {"queries": QUERIES, "answers": QUERIES},
            "timeouts": {"enrol": 600, "train": 600, "vote": 600, "secure": 600},
        },
        "student": {**SCENARIO["student"], "batch": BATCH},
        "simulation": {"hand_labels": "none"},
    }
    path.write_text(tomli_w.dumps(scenario))
    return path


def run(*arguments: object) -> None:
    done = CliRunner().invoke(cli.app, ["run", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def ledger_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Outcome and label by query, each of them once, in order."""
    digest = json.loads((folder / "manifest.json").read_text())["federation"]
    with closing(Ledger(folder / "ledger.db", digest, "")) as ledger:
        ids = [query_id for batch in ledger.batches() for query_id in batch.query_ids]  # checks the chain
        assert len(ids) == len(set(ids))
        return {name: (int(found.outcome), found.label) for name, found in ledger.find(ids).items()}


def given(folder: Path) -> int:
    """Queries in sums that the second aggregator gave its half of."""
    (path,) = folder.rglob("given.db")
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT COUNT(*) FROM given").fetchone()[0]


@pytest.mark.proofs
def test_a_coordinator_killed_between_a_sum_and_its_ledger_ends_like_one_that_was_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    scenario, straight, crashed = write_scenario(tmp_path), tmp_path / "straight", tmp_path / "crashed"
    run(scenario, "--seed", 4, "--out", straight)
    expected = ledger_of(straight)
    assert len(expected) == QUERIES

    command = [sys.executable, "-c", KILLED, "run", str(scenario), "--seed", "4", "--out", str(crashed)]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert ledger_of(crashed).items() < expected.items()
    assert (given(crashed), len(ledger_of(crashed))) == (2 * BATCH, BATCH)

    space = Workspace(crashed)
    run_config = space.run_config(crashed, "simulation")
    with running_workers(1) as workers, LocalGrid(RUN_ID, run_config, space.nodes, workers) as grid:
        run_local(run_config, grid, server)
    assert "resumed-session" in {event["event"] for event in events(crashed)}
    assert list(ledger_of(crashed).items()) == list(expected.items())
    ended, alone = (json.loads((each / "coordinator.json").read_text()) for each in (crashed, straight))
    for key in ("asked", "answered"):
        assert ended[key] == alone[key]
    assert pl.read_parquet(crashed / "labels.parquet").equals(pl.read_parquet(straight / "labels.parquet"))
    records = [json.loads(line) for line in (crashed / "aggregator.jsonl").read_text().splitlines()]
    assert len({line["record"] for line in records}) == len(records) == QUERIES // BATCH
    assert [finding for finding in audit_path(crashed).findings if not finding.holds] == []
