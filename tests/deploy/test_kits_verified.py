"""Verified votes from kits, as processes on loopback: the second aggregator is a node of its own, and may be away."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.config import FederationConfig
from consilium.protocol.config_files import load
from tests.deploy.kits import PARTIES, SECOND, STUDENT, make_kits, write_pool
from tests.deploy.test_kits_loopback import Node, audit, command, wait_for

pytestmark = [pytest.mark.deploy, pytest.mark.slow, pytest.mark.timeout(1500)]

PATIENT = {"enrol": 250, "train": 250, "vote": 250, "secure": 250, "student": 1400}
AWAY = "the second aggregator does not answer"


@contextlib.contextmanager
def federation(tmp_path: Path, **changes: Any) -> Iterator[tuple[Path, Node, list[Node], contextlib.ExitStack]]:
    """Kits, the coordinator and the parties, started; the second aggregator is not."""
    out = make_kits(tmp_path, own=[SECOND], collection="verified", minimum_parties=3, timeouts=PATIENT, **changes)
    logs = tmp_path / "logs"
    logs.mkdir()
    with contextlib.ExitStack() as stack:
        coordinator = Node(logs / "coordinator", "node", "start", str(out / "coordinator"))
        parties = [Node(logs / name, "node", "start", str(out / f"party-{name}")) for name in PARTIES]
        for node in (coordinator, *parties):
            stack.callback(node.end)
        yield out, coordinator, parties, stack


def second(out: Path, log: Path) -> Node:
    return Node(log, "node", "start", str(out / f"aggregator-{SECOND}"))


def student(out: Path, tmp_path: Path, name: str, first: int) -> Node:
    pool = write_pool(tmp_path / f"{name}-pool.npz", first, 15)
    return Node(
        tmp_path / "logs" / name, "student", "run", str(out / f"student-{STUDENT}"), "--wait", "600",
        "--format", "json", "--public", str(pool), "--out", str(tmp_path / name),
    )  # fmt: skip


def run_of(out: Path) -> Path:
    config = load(out / "coordinator" / "federation.json", FederationConfig)
    return out / "coordinator" / "state" / f"run-{config.digest()[:12]}"


def close(out: Path, coordinator: Node) -> None:
    done = command("node", "close", str(out / "coordinator"), "--format", "json")
    assert done.returncode == 0, done.stderr
    assert coordinator.process.wait(300) == 0


@pytest.mark.proofs
def test_the_second_aggregator_is_awaited_stopped_and_back(tmp_path: Path) -> None:
    with federation(tmp_path) as (out, coordinator, parties, stack):
        nodes = [coordinator, *parties]
        wait_for(lambda: AWAY in coordinator.said, 600, nodes)  # before anybody trains
        assert "students may ask" not in coordinator.said
        board = second(out, tmp_path / "logs" / SECOND)
        stack.callback(board.end)
        wait_for(lambda: "students may ask" in coordinator.said, 600, [*nodes, board])
        first = student(out, tmp_path, "student-1", 0)
        stack.callback(first.end)
        assert first.process.wait(600) == 0, first.said + coordinator.said
        for name in ("coordinator", "party-ward-a", f"aggregator-{SECOND}"):
            checked = command("doctor", str(out / name))
            assert checked.returncode == 0, checked.stdout
        own = json.loads(command("status", str(out / f"aggregator-{SECOND}"), "--format", "json").stdout)
        assert (own["queries"], own["standing"]) == (15, "serves, 15 queries in sums of this federation")

        assert board.end() == 0
        wait_for(lambda: f"aggregator {SECOND}: the connection is lost" in coordinator.said, 600, nodes)
        seen = json.loads(command("status", str(out / "coordinator"), "--format", "json").stdout)
        assert seen["aggregators"] == {SECOND: "away"}
        told = coordinator.said.count(AWAY)
        early = student(out, tmp_path, "student-2", 15)
        stack.callback(early.end)
        assert early.process.wait(600) == 9, early.said  # it may ask again later
        wait_for(lambda: coordinator.said.count(AWAY) > told, 60, [coordinator])  # what it says comes by a pipe
        assert f"{AWAY}: no such node is connected" in coordinator.said

        again = second(out, tmp_path / "logs" / f"{SECOND}-again")
        stack.callback(again.end)
        connected = f"aggregator {SECOND}: connected"
        before = coordinator.said.count(connected)
        wait_for(lambda: coordinator.said.count(connected) > before, 600, [*nodes, again])
        later = student(out, tmp_path, "student-3", 15)
        stack.callback(later.end)
        assert later.process.wait(600) == 0, later.said + coordinator.said
        close(out, coordinator)
    summary = json.loads((run_of(out) / "coordinator.json").read_text())
    assert summary["asked"] == 30  # each row once: what was asked while it was away is charged once
    found = audit(out, tmp_path / "student-1")
    assert found["holds"] and found["finished"]
