"""A coordinator of verified votes is killed between a sum and its ledger; another one goes on in its folder.

Nodes, their accounts and the coordinator's ledger are those of a simulated run, which ends as if its process had.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tomli_w

from consilium.coordinator.collection.base import Counts
from consilium.coordinator.collection.exchange import FlowerTransport
from consilium.coordinator.collection.verified import VerifiedCollector
from consilium.coordinator.ledger import Ledger
from consilium.simulations.divide import Case, divide
from consilium.simulations.engines.local import LocalGrid
from consilium.simulations.federation import SimulatedFederation
from consilium.simulations.scenario import load_scenario
from consilium.simulations.simulated import Population
from tests.simulations.study.tiny import SCENARIO, rows
from tests.workers import Here

pytestmark = pytest.mark.slow

CLINICS, BATCH, QUERIES = 4, 3, 9


class Killed(BaseException):
    """The coordinator's process is no more: nothing on the way takes it for a failure."""


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


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def ledger_of(folder: Path, case: Case) -> dict[str, tuple[int, int]]:
    """Outcome and label by query, each of them once, in order."""
    with closing(Ledger(folder / "ledger.db", case.config.digest(), "")) as ledger:
        ids = [query_id for batch in ledger.batches() for query_id in batch.query_ids]  # checks the chain
        assert len(ids) == len(set(ids))
        return {name: (int(found.outcome), found.label) for name, found in ledger.find(ids).items()}


def given(folder: Path) -> int:
    """Queries in sums that the second aggregator gave its half of."""
    (path,) = folder.rglob("given.db")
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT COUNT(*) FROM given").fetchone()[0]


def test_a_coordinator_killed_between_a_sum_and_its_ledger_ends_like_one_that_was_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second aggregator has given its half of the second sum, and the ledger does not have it yet."""
    case = divide(load_scenario(str(write_scenario(tmp_path))), 4)
    federation, straight, crashed = SimulatedFederation.of(case), tmp_path / "straight", tmp_path / "crashed"
    for folder in (straight, crashed):
        folder.mkdir()
    with LocalGrid(Population.of(case, tmp_path / "of straight"), [Here()]) as grid:
        federation.run(FlowerTransport(grid), straight)
    expected = ledger_of(straight, case)
    assert len(expected) == QUERIES

    collect, sums = VerifiedCollector.collect, []

    def killed(self: VerifiedCollector, *arguments: Any, **named: Any) -> Counts:
        sums.append(collect(self, *arguments, **named))
        if len(sums) == 2:
            raise Killed
        return sums[-1]

    with LocalGrid(Population.of(case, tmp_path / "of crashed"), [Here()]) as grid:
        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(VerifiedCollector, "collect", killed)
            federation.run(FlowerTransport(grid), crashed)
        assert ledger_of(crashed, case).items() < expected.items()
        assert (given(tmp_path / "of crashed"), len(ledger_of(crashed, case))) == (2 * BATCH, BATCH)
        federation.run(FlowerTransport(grid), crashed)
    assert "resumed-session" in {event["event"] for event in events(crashed)}
    assert list(ledger_of(crashed, case).items()) == list(expected.items())
    ended, alone = (json.loads((each / "coordinator.json").read_text()) for each in (crashed, straight))
    for key in ("asked", "answered"):
        assert ended[key] == alone[key]
    assert pl.read_parquet(crashed / "labels.parquet").equals(pl.read_parquet(straight / "labels.parquet"))
    records = [json.loads(line) for line in (crashed / "aggregator.jsonl").read_text().splitlines()]
    assert len({line["record"] for line in records}) == len(records) == QUERIES // BATCH
