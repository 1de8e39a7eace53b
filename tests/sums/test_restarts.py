"""Any process may die between any two stages, and in the middle of one."""

from __future__ import annotations

import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from consilium.protocol.errors import ConfigError
from consilium.sums.errors import RosterMismatch
from consilium.sums.packing import pack_message
from consilium.sums.secure.machine import Aggregation, drive
from consilium.sums.secure.messages import STAGES, Stage
from tests.sums.network import Federation, Network, make_queries, no_noise, run_until


@pytest.mark.parametrize("stage", STAGES)
def test_a_coordinator_that_dies_before_its_requests_leave(tmp_path: Path, stage: Stage) -> None:
    federation = Federation(tmp_path, 10)
    network = Network(federation, lost={Stage.MASKED: federation.names[:1]})
    before = run_until(federation, stage, network)
    before.save(tmp_path / "state")
    again = Aggregation.load(tmp_path / "state", federation.roster, federation.coordinator, federation.queries)
    for name, request in before.requests().items():
        assert pack_message(again.requests()[name]) == pack_message(request)
    result = drive(again, network.send)
    assert np.array_equal(result.sums, federation.total(result.survivors))


@pytest.mark.parametrize("stage", STAGES)
def test_a_coordinator_that_dies_after_its_requests_left(tmp_path: Path, stage: Stage) -> None:
    """All replies of the stage are lost with it. The parties answer the same requests with the same bytes."""
    federation = Federation(tmp_path, 10)
    network = Network(federation)
    before = run_until(federation, stage, network)
    before.save(tmp_path / "state")
    lost = network.send(stage, before.requests())
    again = Aggregation.load(tmp_path / "state", federation.roster, federation.coordinator, federation.queries)
    replies = network.send(stage, again.requests())
    assert {x: pack_message(y) for x, y in lost.items()} == {x: pack_message(y) for x, y in replies.items()}  # type: ignore[arg-type]
    again.take(replies)
    result = drive(again, network.send)
    assert np.array_equal(result.sums, federation.total(federation.names))
    assert len(federation.balloted) == 10


def test_saved_state_is_for_its_owner_only_and_replaced_whole(tmp_path: Path) -> None:
    federation = Federation(tmp_path, 3)
    path = tmp_path / "state"
    path.write_text("old")
    path.chmod(0o644)
    federation.machine().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_crash_while_saving_leaves_the_old_state(tmp_path: Path, monkeypatch) -> None:
    federation = Federation(tmp_path, 3)
    path = tmp_path / "state"
    machine = federation.machine()
    machine.save(path)
    old = path.read_bytes()
    machine.take(Network(federation).send(Stage.ADVERTISE, machine.requests()))

    def crash(descriptor: int) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("consilium.protocol.files.os.fsync", crash)
        with pytest.raises(OSError):
            machine.save(path)
    assert path.read_bytes() == old
    machine.save(path)
    assert path.read_bytes() != old


@pytest.mark.parametrize("cut", [0, 5, 100, -1])
def test_a_damaged_state_is_refused(tmp_path: Path, cut: int) -> None:
    federation = Federation(tmp_path, 3)
    path = tmp_path / "state"
    federation.machine().save(path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ConfigError, match="not a saved session"):
        Aggregation.load(path, federation.roster, federation.coordinator, federation.queries)


def test_a_state_goes_on_only_with_its_own_roster_key_and_queries(tmp_path: Path) -> None:
    federation, other = Federation(tmp_path, 3), Federation(tmp_path, 3)
    path = tmp_path / "state"
    federation.machine().save(path)
    with pytest.raises(RosterMismatch):
        Aggregation.load(path, other.roster, federation.coordinator, federation.queries)
    with pytest.raises(RosterMismatch):
        Aggregation.load(path, federation.roster, other.coordinator, federation.queries)
    with pytest.raises(ConfigError, match="queries"):
        Aggregation.load(path, federation.roster, federation.coordinator, make_queries(seed=1))


@pytest.mark.parametrize("stage", STAGES)
def test_a_party_that_dies_before_its_commit_has_done_nothing(tmp_path: Path, stage: Stage, monkeypatch) -> None:
    """The commit fails: no reply, the state of before, and the stage can be done anew."""
    federation = Federation(tmp_path, 3)
    machine = run_until(federation, stage)
    name = federation.names[0]
    request = machine.requests()[name]
    sid = machine.terms.sid_bytes
    before = federation.party(name).state(sid)

    def power_cut(self) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr("consilium.party.store.Store.commit", power_cut)
        with pytest.raises(sqlite3.OperationalError):
            federation.serve(name, stage, request)
    assert federation.party(name).state(sid) is before
    result = drive(machine, Network(federation).send)
    assert np.array_equal(result.sums, federation.total(federation.names))


def test_a_party_that_is_asked_twice_at_once(tmp_path: Path) -> None:
    """Two processes serve the same request: one asks the teachers, both give the same bytes."""
    federation = Federation(tmp_path, 3)
    machine = run_until(federation, Stage.MASKED)
    request = machine.requests()["party-000"]
    with ThreadPoolExecutor(4) as pool:
        served = [pool.submit(federation.serve, "party-000", Stage.MASKED, request) for _ in range(4)]
        replies = {pack_message(future.result()) for future in served}
    assert len(replies) == 1
    assert federation.balloted == ["party-000"]


def test_a_vote_s_own_trouble_is_not_the_store_s(tmp_path: Path) -> None:
    federation = Federation(tmp_path, 3)
    request = run_until(federation, Stage.MASKED).requests()["party-000"]

    def voting_rule(queries: np.ndarray) -> np.ndarray:
        raise FileNotFoundError("teachers")

    with pytest.raises(FileNotFoundError, match="teachers"):
        federation.party("party-000").masked(request, voting_rule, no_noise)
