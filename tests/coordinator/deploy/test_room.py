"""A full disk at the coordinator: said once, waited for, and never tried on and on."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from consilium.coordinator.deploy import start as node
from consilium.coordinator.deploy.runs import begin
from consilium.coordinator.deploy.start import LEAST_BYTES, MOST_IN_A_ROW, Room
from consilium.node.kit import Kit, open_kit
from consilium.node.supervisor import Program, Supervisor
from consilium.protocol.errors import StorageError
from tests.coordinator.deploy.test_coordinator_node import Attempts
from tests.deploy.kits import make_kits

FULL, ROOM = 1_000_000, 10 * LEAST_BYTES


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    return make_kits(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def kit(sound: Path, tmp_path: Path) -> Kit:
    return open_kit(Path(shutil.copytree(sound / "coordinator", tmp_path / "coordinator")))


def free(monkeypatch: pytest.MonkeyPatch, *amounts: int) -> None:
    """Bytes that are free, at one look after another; the last for ever."""
    left = list(amounts)

    def usage(_: object):
        return shutil._ntuple_diskusage(10**12, 1, left.pop(0) if len(left) > 1 else left[0])

    monkeypatch.setattr(shutil, "disk_usage", usage)


def test_want_of_room_is_told_once_and_so_is_its_end(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    room = Room(kit, lambda _, what: told.append(what), seconds=0.001)
    free(monkeypatch, *[FULL] * 9, ROOM)
    room.wait(threading.Event())
    room.wait(threading.Event())
    assert len(told) == 2
    assert "1 MB free at" in told[0] and "Make room" in told[0] and "nothing is lost" in told[0]
    assert told[1] == "there is room again"


def test_whoever_stops_the_coordinator_need_not_make_room(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    free(monkeypatch, FULL)
    Room(kit, lambda *_: stop.set(), seconds=100).wait(stop)


def test_a_run_that_could_not_write_why_it_ended_is_not_repeated_until_there_is_room(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when the run ends without a word, and has room at the third look after."""
    attempts = Attempts(kit, monkeypatch, "nothing", "closed")
    monkeypatch.setattr(node, "Room", lambda kit, tell: Room(kit, tell, seconds=0.001))
    told: list[str] = []
    free(monkeypatch, ROOM, FULL, FULL, FULL, FULL, ROOM)
    assert node._serve(kit, begin(kit), kit.folder, lambda _, what: told.append(what), threading.Event()) == {
        "asked": 3
    }
    assert attempts.count == 2
    assert "MB free at" in told[1] and "without an outcome" not in "".join(told)
    assert told.count("there is room again") == 1


def test_a_quota_ends_the_coordinator_after_some_tries(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    full = StorageError("cannot write x: Disk quota exceeded", "Make room and try again")
    attempts = Attempts(kit, monkeypatch, *[full] * 99)
    with pytest.raises(StorageError, match="quota"):
        node._serve(kit, begin(kit), kit.folder, lambda *_: None, threading.Event())
    assert attempts.count == MOST_IN_A_ROW


def test_a_supervisor_that_cannot_write_still_ends_what_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mark of the process is what a full disk takes nothing of."""

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    started: list[subprocess.Popen] = []
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(real(*a, **k)) or started[-1])
    program = Program("sleeper", [sys.executable, "-c", "import time; time.sleep(999)"], tmp_path, tmp_path / "log")
    with Supervisor([program], lambda *_: None, patience=5):
        deadline = time.monotonic() + 250
        while not started:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert started[0].poll() is not None
    assert not (tmp_path / "log.pid").exists()
