"""A full disk: one message and exit code 12 from every command that writes, nothing half-made, and nothing lost.

The system itself refuses: no file of the process may grow beyond a limit (RLIMIT_FSIZE), which ends a write as a full
disk does, in the middle.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.events import EventLog
from consilium.protocol.files import write_private
from tests.command_line import consilium
from tests.deploy.site import keys, make_site
from tests.simulations.small import SMALL
from tests.test_wrong_inputs import make_student

ROOT = Path(__file__).resolve().parents[1]
CHANGES = [part for item in SMALL for part in ("--set", item)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good files for every command, which no test changes."""
    folder = tmp_path_factory.mktemp("made")
    make_site(folder)
    keys(folder, "ward-z")
    make_student(folder)
    return folder


@contextmanager
def files_end_at(most: int) -> Iterator[None]:
    """No file of this process grows beyond `most` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.name.startswith("__"))


WRITERS = {
    "provision": "provision site/federation.toml --out new",
    "add a party": "provision add site/out ward-z/ward-z.enrol.json",
    "keys": "node keys p --folder new",
    "predict": "predict student rows.csv --out new",
    "run": "run stroke --out new " + shlex.join(CHANGES),
}


@pytest.mark.parametrize("what", WRITERS)
def test_nothing_half_made_stays(folder: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.chdir(folder)
    before = names(folder)
    with files_end_at(50):
        done = consilium(*shlex.split(WRITERS[what]), "--format", "json")
    error = done.json()["error"]
    assert (done.exit_code, error["type"], error["exit_code"]) == (12, "StorageError", 12), done.stderr
    assert "File too large" in str(error["what"]) and "cannot write " in str(error["what"])
    assert names(folder) == before


def test_a_full_disk_behind_stdout() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "consilium", "scenarios"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    assert done.returncode == 12
    assert done.stderr.startswith("consilium: cannot write ") and "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


def test_half_a_key_does_not_stay(tmp_path: Path) -> None:
    with files_end_at(3), pytest.raises(OSError, match="File too large"):
        write_private(tmp_path / "key", b"secret")
    assert list(tmp_path.iterdir()) == []


def test_a_torn_event_is_cut_off_before_others_follow(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "one"}\n{"event": "tw')
    log = EventLog(path)
    log.write("promised", epsilon=np.inf, delta=1e-5, unit="party")
    log.close()
    events = [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]
    assert [event["event"] for event in events] == ["one", "promised"]
    assert (events[1]["epsilon"], events[1]["infinite"]) == (None, ["epsilon"])
