"""A full disk: one message and exit code 12 from every command that writes, nothing half-made, and nothing lost.

The system itself refuses: no file of the process may grow beyond a limit (RLIMIT_FSIZE), which ends a write as a full
disk does, in the middle.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.events import EventLog
from consilium.models.published.model import publish
from consilium.protocol.errors import OutputExists, PathError, StorageError
from consilium.protocol.files import write_private, writing
from tests.command_line import consilium
from tests.deploy.site import keys, make_site
from tests.models.published.models import case
from tests.simulations.small import SMALL

ROOT = Path(__file__).resolve().parents[1]
CHANGES = [part for item in SMALL for part in ("--set", item)]

# in the process itself: code of Python's between fork and exec is not safe where other tests have left threads
LIMITED = """
import os, resource, sys
most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
os.execv(sys.argv[2], sys.argv[2:])
"""


def limited(folder: Path, most: int | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`consilium ARGUMENTS --format json` in a process whose files end at `most` bytes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "consilium", *arguments, "--format", "json"]
    if most is not None:
        command = [sys.executable, "-c", LIMITED, str(most), *command]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def error_of(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert "Traceback" not in done.stderr
    assert done.stdout, (done.returncode, done.stderr)
    return json.loads(done.stdout)["error"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good files for every command."""
    folder = tmp_path_factory.mktemp("made")
    make_site(folder)
    keys(folder, "ward-z")
    (folder / "student").mkdir()
    known = case("table logistic_regression")
    publish(folder / "student" / "model.safetensors", known.model, known.schema, known.spec.inputs, known.pool)
    lines = [",".join(known.schema.features), ",".join(map(str, known.rows[0]))]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Those files, in the working folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
def test_nothing_half_made_stays(folder: Path, what: str) -> None:
    before = names(folder)
    with files_end_at(50):
        done = consilium(*shlex.split(WRITERS[what]), "--format", "json")
    error = done.json()["error"]
    assert (done.exit_code, error["type"], error["exit_code"]) == (12, "StorageError", 12), done.stderr
    assert "File too large" in str(error["what"]) and "cannot write " in str(error["what"])
    assert names(folder) == before


@pytest.mark.slow
def test_the_party_node_says_so_too(folder: Path) -> None:
    done = limited(folder, 0, "node", "start", "site/ward-a")
    assert (done.returncode, error_of(done)["type"]) == (12, "StorageError")


def test_a_full_disk_behind_stdout() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "consilium", "scenarios"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    assert done.returncode == 12
    assert done.stderr.startswith("consilium: cannot write ") and "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.proofs  # every writer on a full disk, the run among them: above
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("most", "code", "kind", "said"),
    [(20_000, 7, "LedgerError", "cannot open ledger "), (150_000, 13, "FailedAfterRelease", "cannot write ledger ")],
)
def test_a_run_on_a_full_disk_says_so(tmp_path: Path, most: int, code: int, kind: str, said: str) -> None:
    """Once before anything was asked, once when some labels are charged."""
    done = limited(tmp_path, most, "run", "stroke", "--seed", "4", "--out", "new", *CHANGES)
    error = error_of(done)
    assert (done.returncode, error["type"]) == (code, kind), done.stdout
    assert said in str(error["what"])
    assert json.loads((tmp_path / "new" / "manifest.json").read_text())["status"].startswith(f"failed: {said}")


def full(_descriptor: int) -> None:
    raise OSError(28, "No space left on device")


def test_half_a_key_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_private(tmp_path / "key", b"secret")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (OSError(28, "No space left on device"), StorageError, "cannot write out: No space left on device"),
        (OSError("4096 requested and 0 written"), StorageError, "cannot write out: the disk is full"),
        (PermissionError(13, "Permission denied", "out/a"), PathError, "cannot write out/a: Permission denied"),
        (FileExistsError(17, "File exists", "out/a"), OutputExists, "out/a is already there"),
    ],
)
def test_what_the_system_says(error: OSError, kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=told), writing(Path("out")):
        raise error


def test_a_torn_event_is_cut_off_before_others_follow(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "one"}\n{"event": "tw')
    log = EventLog(path)
    log.write("promised", epsilon=np.inf, delta=1e-5, unit="party")
    log.close()
    events = [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]
    assert [event["event"] for event in events] == ["one", "promised"]
    assert (events[1]["epsilon"], events[1]["infinite"]) == (None, ["epsilon"])
