"""Looking on at a run from another process: however it is, and whatever becomes of it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.deploy.runs import begin
from consilium.node.kit import open_kit
from consilium.protocol import files
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import is_held
from consilium.simulations.watching import YOUNG_SECONDS, Watch
from consilium.simulations.workspace import Workspace
from tests.command_line import consilium
from tests.deploy.kits import make_kits
from tests.simulations.test_progress import AT, Calls
from tests.simulations.test_resume import SMALL

ROOT = Path(__file__).resolve().parents[2]
CHANGES = [part for item in SMALL for part in ("--set", item)]


def event(name: str, **fields: Any) -> str:
    return json.dumps({"event": name, "at": AT, "seconds": 0.0, **fields}) + "\n"


BEGUN = event("begin", resumed=False) + event("stage", stage="train", total=3)
TRAINED = event("progress", stage="train", done=3, total=3)


def a_run(folder: Path, status: str | None, log: str = BEGUN) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "events.jsonl").write_text(log)
    if status is not None:
        (folder / "manifest.json").write_text(json.dumps({"status": status}))
    return folder


@contextmanager
def working_on(folder: Path) -> Iterator[None]:
    """Somebody holds the lock, as a run does."""
    with Workspace(folder).exclusive():
        yield


class Clock:
    """Time passes when somebody sleeps; at each sleep the next thing happens."""

    def __init__(self, *happens: Callable[[], object]) -> None:
        self.now = 1000.0
        self.happens = list(happens)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.happens:
            self.happens.pop(0)()


def watch(path: Path, wait: float = 0, *happens: Callable[[], object]) -> tuple[Watch, Calls, Clock]:
    clock, calls = Clock(*happens), Calls()
    calls.say = lambda text, at, warning=False: calls.made.append(("say", text))  # type: ignore[method-assign]
    return Watch(path, calls, wait, lambda: clock.now, clock.sleep), calls, clock


@pytest.mark.parametrize(
    ("status", "expected", "told"),
    [
        ("complete", "complete", "report.html"),
        ("interrupted", "interrupted", "--resume"),
        ("running", "killed", "--resume"),
        ("failed: 3 parties after stage 'train'", "failed", "--resume"),
    ],
)
def test_a_run_on_which_nobody_works(tmp_path: Path, status: str, expected: str, told: str) -> None:
    folder = a_run(tmp_path / "a run", status)
    looking, calls, clock = watch(folder)
    ending = looking.until_it_ends()
    assert (ending.status, ending.well, clock.now) == (expected, status == "complete", 1000.0)
    assert (told in ending.next and f"'{folder}'" in ending.next) or status == "complete"
    assert ("begin", "train", 3) in calls.made
    assert looking.summary(ending)["stages"] == [{"stage": "train", "done": 0, "total": 3, "seconds": 0.0}]


@pytest.mark.parametrize("wait", [0, 7])
def test_no_run(tmp_path: Path, wait: float) -> None:
    looking, _, clock = watch(tmp_path / "absent", wait)
    with pytest.raises(ConfigError, match=r"there is no run in .*--wait SECONDS"):
        looking.until_it_ends()
    assert clock.now == 1000.0 + wait


def test_no_run_but_a_file_or_an_empty_folder_or_a_damaged_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    a_run(tmp_path / "damaged", None)
    (tmp_path / "damaged" / "manifest.json").write_text("{")
    for name, told in (("file", "is no folder"), ("empty", "there is no run"), ("damaged", "is damaged")):
        with pytest.raises(ConfigError, match=told):
            watch(tmp_path / name)[0].until_it_ends()


def test_a_run_may_have_an_empty_folder_for_a_moment(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    looking, _, clock = watch(folder, 0, lambda: None, lambda: a_run(folder, "complete"))
    assert looking.until_it_ends().status == "complete"
    assert 1000.0 < clock.now < 1000.0 + YOUNG_SECONDS


def test_only_the_last_attempt_is_shown(tmp_path: Path) -> None:
    log = BEGUN + event("stage", stage="vote", total=3) + event("begin", resumed=True) + TRAINED
    looking, calls, _ = watch(a_run(tmp_path / "run", "complete", log))
    looking.until_it_ends()
    assert calls.made == [("restart",), ("say", "the run goes on where it was"), ("update", "train", 3, 3)]


def test_a_run_that_goes_on_and_ends(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    lock = working_on(folder)

    def write(text: str) -> None:
        with open(folder / "events.jsonl", "a") as file:
            file.write(text)

    def end() -> None:
        write(event("closed", asked=1, answered=1))
        a_run(folder, "complete", (folder / "events.jsonl").read_text())
        lock.__exit__(None, None, None)

    steps = [
        lambda: (a_run(folder, "running"), lock.__enter__()),
        lambda: write(TRAINED[:10]),
        lambda: write(TRAINED[10:]),
        end,
    ]
    looking, calls, _ = watch(folder, 60, *steps)
    assert looking.until_it_ends().status == "complete"
    assert calls.made == [
        ("restart",),
        ("begin", "train", 3),
        ("update", "train", 3, 3),
        ("say", "closed after 1 query and 1 answer"),
    ]


def test_a_run_that_is_killed_and_resumed_meanwhile(tmp_path: Path) -> None:
    folder, second = a_run(tmp_path / "run", "running"), None

    def resume() -> None:
        nonlocal second
        second = working_on(folder)
        second.__enter__()
        with open(folder / "events.jsonl", "a") as file:
            file.write(event("begin", resumed=True) + TRAINED)

    def kill() -> None:
        assert second is not None
        second.__exit__(None, None, None)

    looking, calls, clock = watch(folder, 5, lambda: None, resume, kill)
    assert looking.until_it_ends().status == "killed"
    assert clock.now == 1000.0 + 2 * 0.5 + 0.5 + 5
    waits = [made for made in calls.made if made == ("say", f"{KILLED}; waiting 5 s for it")]
    assert len(waits) == 2
    assert calls.made.index(("restart",)) < calls.made.index(("update", "train", 3, 3))


KILLED = "the run was killed: nobody works on it any more"


def test_looking_stops_nobody_who_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment in which somebody looks whether a run is locked comes just when it starts."""
    folder = a_run(tmp_path / "run", "interrupted")
    with working_on(folder):
        assert is_held(Workspace(folder).lock)
    pauses: list[float] = []
    with open(Workspace(folder).lock) as file:

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                fcntl.flock(file, fcntl.LOCK_UN)

        monkeypatch.setattr(files.time, "sleep", sleep)
        fcntl.flock(file, fcntl.LOCK_SH)
        with working_on(folder):
            assert is_held(Workspace(folder).lock)
        assert len(pauses) == 2
        fcntl.flock(file, fcntl.LOCK_SH)  # somebody who works there stays
        with pytest.raises(ConfigError, match="another process is working"), working_on(folder):
            pass


def test_a_coordinators_kit(tmp_path: Path) -> None:
    make_kits(tmp_path)
    kit = open_kit(tmp_path / "kits" / "coordinator")
    log = event("stage", stage="enrol", total=9) + event("stage", stage="enrol", total=2)
    (begin(kit) / "events.jsonl").write_text(log + event("serving", address="127.0.0.1:1"))
    done = consilium("watch", kit.folder)
    assert (done.exit_code, done.stdout.splitlines()[0]) == (1, "the coordinator is not running")
    assert "parties enrol (2)" in done.stderr and "(9)" not in done.stderr
    assert "students may ask at 127.0.0.1:1" in done.stderr
    (begin(kit) / "coordinator.json").write_text("{}")
    assert consilium("watch", kit.folder, "--quiet").output == ""
    assert consilium("watch", kit.folder, "--quiet", "--format", "json").json()["status"] == "closed"
    wrong = consilium("watch", tmp_path / "kits" / "party-ward-a")
    assert (wrong.exit_code, "is the kit of a party" in wrong.stderr) == (2, True)


def lines_of(text: str) -> list[str]:
    """Lines of a log without the time of day, which each must have."""
    found = [
        re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  (.*)", line)
        for line in text.splitlines()
        if not line.startswith("warning: ")
    ]
    assert all(found), text
    return [line.group(1) for line in found if line is not None]


def hear() -> None:
    """The tests may run in the background of a shell, whose children ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "consilium", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear,
    )


STAGES = ("libraries and data load", "homes are laid out", "parties enrol", "parties train", "queries are asked")
STAGES += ("parties vote", "student trains", "charges are added up", "teachers are judged", "pooled model trains")
STAGES += ("report is drawn",)


@pytest.mark.proofs  # a run that goes on, and who looks at it: below, on a folder that is like one
@pytest.mark.timeout(1800)
def test_a_run_without_a_terminal_and_who_looks_on(tmp_path: Path) -> None:
    """One run, killed on its way and resumed, with somebody who looks on; then read by one who comes late."""
    run = start(tmp_path, "run", "--seed", "4", "--out", "run", *CHANGES, "--format", "json")
    first = start(tmp_path, "watch", "run", "--wait", "900")
    assert run.stderr is not None
    assert run.stderr.readline().rstrip().endswith("run of stroke, engine local, seed 4")
    while not any("parties train" in line for line in iter(run.stderr.readline, "") if "(" in line):
        assert run.poll() is None
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert first.stderr is not None
    while "the run was killed" not in (line := first.stderr.readline()):
        assert line
    quiet = start(tmp_path, "watch", "run", "--quiet", "--format", "json")
    out, told = quiet.communicate()
    assert (quiet.returncode, json.loads(out)["status"], told) == (1, "killed", "")

    resumed = start(tmp_path, "run", "--resume", "run", "--format", "json")
    out, told = resumed.communicate()
    assert resumed.returncode == 0, told
    assert json.loads(out)["scenario"] == "stroke"  # one object and nothing else
    shown = lines_of(told)
    begun = [next(place for place, line in enumerate(shown) if line.startswith(name)) for name in STAGES]
    assert begun == sorted(begun)
    for name in STAGES:
        assert any(re.fullmatch(rf"{name}(: \d+ of \d+)?, done in .*", line) for line in shown), name

    out, told = first.communicate()
    assert (first.returncode, out.splitlines()[0]) == (0, "the run is complete"), told
    assert lines_of(told)[-1].startswith("report is drawn, done")
    late = start(tmp_path, "watch", "run")
    _, told = late.communicate()
    assert late.returncode == 0
    assert lines_of(told)[0] == "the run goes on where it was"
    assert [line for line in lines_of(told) if "done in" in line] == [
        line for line in shown if "done in" in line and not line.startswith(STAGES[0])
    ]
    quiet = start(tmp_path, "run", "--out", "run", "--quiet")
    _, told = quiet.communicate()
    assert (quiet.returncode, len(told.splitlines())) == (6, 1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ctrl_c_of_who_looks_on_is_nothing_to_the_run(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "run", "running")
    with working_on(folder):
        looking = start(tmp_path, "watch", "run")
        assert looking.stderr is not None
        assert "parties train" in looking.stderr.readline()
        looking.send_signal(signal.SIGINT)
        _, told = looking.communicate()
    assert looking.returncode == 130
    assert "Traceback" not in told
    assert json.loads((folder / "manifest.json").read_text())["status"] == "running"
