"""Programs that start slowly: the same work is not started twice, and who is gone is missed as soon as before."""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from flwr.common.constant import Status
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore.constant import TaskType
from flwr.supercore.date import now
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

from consilium.node import flower
from consilium.node.flower import (
    CLAIM,
    START_SECONDS,
    STORES,
    be_patient,
    check_patience,
    command,
    flower_environment,
    without_loopback,
)
from consilium.protocol.errors import EngineError


def in_memory(folder: Path) -> Any:
    return InMemoryNodeState(ObjectStoreFactory().store())


def in_a_database(folder: Path) -> Any:
    state = SqlLinkState(str(folder / "state.db"), Mock(), ObjectStoreFactory().store())
    state.initialize()
    return state


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is replaced comes back after the test."""
    for module, name in STORES.items():
        store = getattr(import_module(module), name)
        monkeypatch.setattr(store, CLAIM, getattr(store, CLAIM))


class Clock:
    """In place of the stores' clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at: datetime = now()
        for module in STORES:
            monkeypatch.setattr(f"{module}.now", lambda: self.at)

    def wait(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


KINDS = pytest.mark.parametrize("made", [in_memory, in_a_database])


class TestWork:
    @KINDS
    def test_control_flower_hands_it_out_again_after_half_a_minute(self, tmp_path, monkeypatch, made) -> None:
        clock = Clock(monkeypatch)
        state = made(tmp_path)
        task = state.create_task(TaskType.CLIENT_APP, 1)
        first = state.claim_task(task)
        clock.wait(31)
        assert state.get_task_by_token(first) is None
        assert [found.task_id for found in state.get_tasks(statuses=[Status.PENDING])] == [task]

    @KINDS
    def test_is_not_handed_out_again_while_its_program_starts(self, tmp_path, monkeypatch, restored, made) -> None:
        clock = Clock(monkeypatch)
        be_patient()
        state = made(tmp_path)
        task = state.create_task(TaskType.CLIENT_APP, 1)
        first = state.claim_task(task)
        clock.wait(START_SECONDS - 1)
        assert state.get_task_by_token(first).task_id == task
        assert state.claim_task(task) is None
        clock.wait(2)
        assert state.get_task_by_token(first) is None
        assert [found.task_id for found in state.get_tasks(statuses=[Status.PENDING])] == [task]

    @KINDS
    def test_of_who_has_spoken_and_is_gone_fails_as_soon_as_before(self, tmp_path, monkeypatch, restored, made) -> None:
        clock = Clock(monkeypatch)
        be_patient()
        state = made(tmp_path)
        task = state.create_task(TaskType.CLIENT_APP, 1)
        token = state.claim_task(task)
        clock.wait(START_SECONDS - 1)
        assert state.activate_task(task)
        clock.wait(91)
        assert state.get_task_by_token(token) is None


class TestFlower:
    @pytest.mark.parametrize(
        ("broken", "told"),
        [
            ({"STORES": {"flwr.supercore.corestate.in_memory_corestate": "Gone"}}, "Gone.claim_task"),
            ({"STORES": {"flwr.supercore.gone": "InMemoryCoreState"}}, "flwr.supercore.gone"),
            ({"WAIT": "HEARTBEAT_PATIENCE"}, "does not read HEARTBEAT_PATIENCE"),
            ({"PROGRAMS": {"flower-supernode": ("flwr.supernode.cli", "gone")}}, "flwr.supernode.cli.gone"),
        ],
    )
    def test_another_one_is_refused(self, monkeypatch, broken: dict[str, Any], told: str) -> None:
        for name, value in broken.items():
            monkeypatch.setattr(flower, name, value)
        with pytest.raises(EngineError, match=told):
            check_patience()

    @pytest.mark.slow
    @pytest.mark.parametrize("program", list(flower.PROGRAMS))
    def test_its_programs_are_what_they_were(self, tmp_path: Path, program: str) -> None:
        done = subprocess.run(
            [*command(program), "--help"],
            env=flower_environment(tmp_path),
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0
        assert f"usage: {program}" in done.stdout


@pytest.mark.parametrize("before", [{}, {"NO_PROXY": "example.net"}, {"no_proxy": "localhost,example.net"}])
def test_this_machine_is_behind_no_proxy(before: dict[str, str]) -> None:
    names = without_loopback(before)["no_proxy"].split(",")
    assert {"127.0.0.1", "localhost", "::1", *("example.net" for _ in before)} == set(names)
    assert len(names) == len(set(names))
