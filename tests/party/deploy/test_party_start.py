"""What `consilium node start` says by itself: a full disk, and why there is no connection."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from consilium.coordinator.provision.authority import Authority
from consilium.node import supernode
from consilium.node.kit import open_kit
from consilium.node.supernode import BACK, CONNECTED, NEWS, NodeWatch, read_connection
from consilium.party.deployed import PARTY
from tests.deploy.kits import make_kits, server_of
from tests.deploy.test_kits_doctor import Https

REFUSED = NEWS["Failed to activate SuperNode"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_kits(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def out(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "kits"))


def told_by(out: Path) -> tuple[NodeWatch, list[tuple[str, str]]]:
    told: list[tuple[str, str]] = []
    kit = open_kit(out / "party-ward-a")
    assert kit.state.exists()  # a start makes it
    return NodeWatch(kit, lambda name, what: told.append((name, what)), lambda: PARTY.standing(kit)), told


def test_a_full_disk_is_told_once_and_so_is_its_end(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, told = told_by(out)
    watch.tell("supernode", CONNECTED)
    for free in (10**9, 5 * 10**6, 10**6, 10**9, 10**9):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: shutil._ntuple_diskusage(10**10, 1, free))
        watch.look()
    assert [name for name, _ in told] == ["supernode", "disk", "disk"]
    assert "5 MB free at" in told[1][1]
    assert "Make room" in told[1][1]
    assert told[2][1] == "there is room again"


def test_a_party_without_a_connection_says_why(out: Path) -> None:
    watch, told = told_by(out)
    coordinator = open_kit(out / "coordinator")
    watch.look()
    watch.look()
    with Https(coordinator, ahead=-60):
        watch.look()
    coordinator.server_tls.key.unlink()
    past = datetime.now(UTC) - timedelta(days=3)
    authority = Authority.load(out / "operator")
    server_of(authority, coordinator.coordinator.hosts, days=1, now=past).save(coordinator.folder, "server")
    with Https(coordinator):
        watch.look()
    watch.tell("supernode", CONNECTED)
    watch.look()  # nothing is wrong for somebody who is connected
    said = [what for name, what in told if name == "coordinator"]
    assert len(said) == 3
    for what, part in zip(said, ("Start the coordinator", "s ahead of the coordinator", "has expired"), strict=True):
        assert part in what


def test_a_connection_is_back_that_was_there_before(out: Path) -> None:
    node, told = told_by(out)
    trying, ended = "a connection could not be made; trying on", "ended (exit code 1); starts again in 1 s; log: x"
    for what in (trying, BACK, CONNECTED, trying, BACK, ended, trying, BACK, CONNECTED):
        node.tell("supernode", what)
    assert [what for _, what in told] == [trying, CONNECTED, trying, BACK, ended, trying, CONNECTED]


@pytest.mark.parametrize(("messages", "noted"), [(["ended (exit code 1); starts again in 1 s"], "ended (exit code 1)")])
def test_why_it_is_refused_is_not_forgotten_when_it_ends(out: Path, messages: list[str], noted: str) -> None:
    watch, _ = told_by(out)
    for message in messages:
        watch.tell("supernode", message)
    assert noted in read_connection(open_kit(out / "party-ward-a"))


def test_a_check_that_breaks_ends_nothing(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, told = told_by(out)
    monkeypatch.setattr(supernode, "check_disk", lambda *_: 1 / 0)
    watch.look()
    assert told[0] == ("disk", "cannot be checked: ZeroDivisionError")
