"""A run that is told to end leaves no private rows behind, says how to go on, and goes on.

Every moment is an event in the run's own log; no test waits for a number of seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from consilium.protocol.errors import ConfigError
from consilium.simulations.attempt import FORMAT, Attempt, unfinished
from consilium.simulations.interruption import Interrupted, Signals, interruptible
from consilium.simulations.scenario import load_scenario, scenario_json
from consilium.simulations.workspace import Workspace
from tests.simulations.test_resume import SMALL

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CHANGES = [part for item in SMALL for part in ("--set", item)]
COMMAND = [sys.executable, "-m", "consilium", "run", "--seed", "4", "--out", "run", *CHANGES]
DEAF = "import contextlib, consilium.simulations.interruption as i, consilium.simulations.run as r\n" + (
    "r.interruptible = lambda: contextlib.nullcontext(i.Signals())\nfrom consilium import cli\ncli.main()"
)
"""The command line as it stood: nobody listens to a signal."""

Seen = Callable[[list[dict]], bool]


def stage(name: str) -> Seen:
    return lambda events: any(event["event"] == "stage" and event["stage"] == name for event in events)


def released(events: list[dict]) -> bool:
    """The student has its first labels: it trains, and asks again."""
    return any(event["event"] == "released" for event in events)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300"}


def hear() -> None:
    """The tests may run under nohup or in a shell's background, which a child inherits."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def start(folder: Path, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment(),
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=hear,
    )


def wait_for(run: Path, seen: Seen, alive: Callable[[], bool]) -> None:
    """Until the run's log shows it. The run is alive all the while, or will never show it."""
    while True:
        going_on = alive()
        log = run / "events.jsonl"
        lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
        if seen([json.loads(line) for line in lines if line.endswith("\n")]):
            return
        assert going_on, "the run ended before it came to this moment"
        time.sleep(0.01)


def status(run: Path) -> str:
    return json.loads((run / "manifest.json").read_text())["status"]


def interrupt(folder: Path, number: int, seen: Seen, *more: str) -> tuple[int, str]:
    """Exit code and what was said to standard error."""
    process = start(folder, *COMMAND, *more)
    wait_for(folder / "run", seen, lambda: process.poll() is None)
    process.send_signal(number)
    _, said = process.communicate()
    return process.returncode, said


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("number", "seen", "code"),
    [
        (signal.SIGTERM, stage("enrol"), 143),
        pytest.param(signal.SIGINT, stage("train"), 130, marks=pytest.mark.proofs),
        pytest.param(signal.SIGHUP, stage("vote"), 129, marks=pytest.mark.proofs),
    ],
    ids=["SIGTERM-enrol", "SIGINT-train", "SIGHUP-vote"],
)
def test_a_signal_cleans_up_and_says_how_to_go_on(tmp_path: Path, number: int, seen: Seen, code: int) -> None:
    returned, said = interrupt(tmp_path, number, seen)
    run = tmp_path / "run"
    assert (returned, status(run)) == (code, "interrupted")
    assert not (run / "private" / "work").exists()
    told = said.splitlines()[-1]
    assert told == f"consilium: interrupted ({signal.Signals(number).name}); go on with: consilium run --resume {run}"
    assert "Traceback" not in said


@pytest.mark.proofs  # resumed after a kill: test_resume.py; ended by a signal in other stages: above
@pytest.mark.timeout(1800)
def test_terminated_while_the_student_learns_then_resumed(tmp_path: Path) -> None:
    returned, _ = interrupt(tmp_path, signal.SIGTERM, released)
    run = tmp_path / "run"
    assert (returned, status(run)) == (143, "interrupted")
    assert not (run / "private" / "work").exists()
    wrong = start(tmp_path, *COMMAND[:4], "stroke", "--seed", "5", "--engine", "ray", "--resume", "run")
    _, said = wrong.communicate()
    assert wrong.returncode == 2
    assert "--engine ray (the run has local), --seed 5 (the run has 4)" in said
    assert "SCENARIO" not in said
    again = start(tmp_path, *COMMAND[:4], "stroke", "--seed", "4", "--resume", "run")
    _, said = again.communicate()
    assert again.returncode == 0, said
    assert status(run) == "complete"
    assert not (run / "private" / "work").exists()


@pytest.mark.proofs  # kill -9 and resumed: test_resume.py
@pytest.mark.timeout(1800)
def test_killed_or_deaf_it_leaves_rows_and_says_running_and_can_be_resumed(tmp_path: Path) -> None:
    """The control: nobody listens to SIGTERM, as before. Nothing can be done about kill -9; it leaves the same."""
    run = tmp_path / "run"
    command = [sys.executable, "-c", DEAF, *COMMAND[3:]]
    process = start(tmp_path, *command)
    wait_for(run, stage("train"), lambda: process.poll() is None)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert (process.returncode, status(run)) == (-signal.SIGTERM, "running")
    assert list((run / "private" / "work" / "parties").iterdir())
    resumed = start(tmp_path, *COMMAND[:4], "--resume", "run")
    wait_for(run, released, lambda: resumed.poll() is None)
    resumed.send_signal(signal.SIGKILL)
    resumed.communicate()
    assert (resumed.returncode, status(run)) == (-signal.SIGKILL, "running")
    assert (run / "private" / "work").exists()
    again = start(tmp_path, *COMMAND[:4], "--resume", "run")
    _, said = again.communicate()
    assert again.returncode == 0, said
    assert status(run) == "complete"
    assert not (run / "private" / "work").exists()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_closed_terminal_is_no_failure(tmp_path: Path) -> None:
    """The terminal goes, and with it standard error: the progress that is drawn there fails, and is not the reason."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        hear()
        os.execve(sys.executable, [*COMMAND, "--keep-work"], environment())
    heard = threading.Thread(target=_drain, args=(terminal,), daemon=True)
    heard.start()
    run = tmp_path / "run"
    wait_for(run, stage("train"), lambda: os.waitpid(child, os.WNOHANG) == (0, 0))
    os.close(terminal)
    _, how = os.waitpid(child, 0)
    assert (os.waitstatus_to_exitcode(how), status(run)) == (129, "interrupted")
    assert (run / "private" / "work").exists()  # --keep-work keeps, however the run ends


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        return


@pytest.mark.proofs
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_engine_ray_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    returned, said = interrupt(tmp_path, signal.SIGTERM, stage("train"), "--engine", "ray")
    run = tmp_path / "run"
    assert (returned, status(run)) == (143, "interrupted"), said
    assert not (run / "private" / "work").exists()
    left = [
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if str(run / "private" / "work").encode() in _content(path)
    ]
    assert not left


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_the_first_signal_is_raised_once_and_cleaning_up_is_not_cut_short() -> None:
    steps = []
    with pytest.raises(Interrupted) as caught, interruptible() as signals:
        try:
            with signals.held():
                os.kill(os.getpid(), signal.SIGTERM)
                steps.append("whole")
            steps.append("never")
        finally:
            os.kill(os.getpid(), signal.SIGHUP)
            steps.append("cleaned")
    assert steps == ["whole", "cleaned"]
    assert caught.value.exit_code == 143
    assert "nothing to resume" in str(caught.value)


def test_an_ignored_signal_stays_ignored_and_handlers_come_back() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGTERM) != terminate
        assert signal.getsignal(signal.SIGTERM) == terminate
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def attempt_ends(folder: Path, keep: bool, error: BaseException | None) -> Workspace:
    folder.mkdir()
    space = Workspace(folder)
    signals = Signals()
    expected = contextlib.nullcontext() if error is None else pytest.raises(type(error))
    with expected, Attempt(signals, keep) as attempt:
        attempt.begin(lambda: space, {"format": FORMAT})
        assert status(folder) == "running"
        space.party_root.mkdir(parents=True)
        if error is not None:
            raise error
    return space


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, "complete"),
        (KeyboardInterrupt(), "interrupted"),
        (ConfigError("too small"), "failed: too small"),
        (ValueError("votes 17 3"), "failed: ValueError"),
    ],
)
def test_however_it_ends(tmp_path: Path, keep: bool, error: BaseException | None, told: str) -> None:
    space = attempt_ends(tmp_path / "run", keep, error)
    assert status(space.run_dir) == told
    assert space.work.exists() == keep


def made_second(space: Workspace) -> Path:
    """Home of a second aggregator, as it is laid out."""
    home = space.home(3)
    home.mkdir(parents=True)
    (home / "aggregator.toml").write_text("")
    return home / "state"


@pytest.mark.parametrize("keep", [False, True])
def test_what_the_second_aggregator_gave_lasts_until_the_run_is_complete(tmp_path: Path, keep: bool) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    space = Workspace(folder)

    def attempt(error: BaseException | None, given: str | None, kept: str | None) -> None:
        """One that ends so, in which `given` is written; `kept`: what the one before left."""
        expected = contextlib.nullcontext() if error is None else pytest.raises(type(error))
        with expected, Attempt(Signals(), keep) as entered:
            entered.begin(lambda: space, {"format": FORMAT})
            assert [path.read_text() for path in folder.rglob("given.db")] == ([] if kept is None else [kept])
            state = made_second(space)
            if given is not None:  # else it ends before anything was asked
                if space.kept_second.exists():
                    space.kept_second.rename(state)
                state.mkdir(exist_ok=True)
                (state / "given.db").write_text(given)
            if error is not None:
                raise error

    attempt(ConfigError("too small"), None, None)
    attempt(KeyboardInterrupt(), "one sum", None)
    attempt(ValueError("votes 17 3"), None, "one sum")
    attempt(ConfigError("too small"), "two sums", "one sum")
    attempt(None, "three sums", "two sums")
    assert not space.kept_second.exists()
    assert bool(list(folder.rglob("given.db"))) == keep


def test_a_run_in_progress_is_not_cleaned_up_by_another(tmp_path: Path) -> None:
    """`--resume` once removed the rows first and then found that another process works on them."""
    folder = tmp_path / "run"
    folder.mkdir()
    space = Workspace(folder)
    with Attempt(Signals(), False) as first:
        first.begin(lambda: space, {"format": FORMAT})
        space.party_root.mkdir(parents=True)
        with pytest.raises(ConfigError, match="another process"), Attempt(Signals(), False) as second:
            second.begin(lambda: Workspace(folder), {"format": FORMAT})
        assert space.party_root.exists()
        assert status(folder) == "running"


MANIFEST = {"format": FORMAT, "status": "interrupted", "scenario": "stroke", "engine": "local", "seed": 4}
MANIFEST |= {"created": "2026-01-01T00:00:00+00:00", "data": {}, "federation": "f" * 64}


@pytest.mark.parametrize(
    ("given", "overrides", "named"),
    [
        ({}, [], []),
        (
            {"SCENARIO": "stroke", "--seed": 4, "--engine": "local", "--device": "auto"},
            ["federation.query_budget.queries=300"],
            [],
        ),
        ({"--seed": 5, "--engine": "ray"}, [], ["--seed 5", "--engine ray"]),
        ({"SCENARIO": "mnist-250"}, [], ["SCENARIO mnist-250"]),
        (
            {"--device": "cuda"},
            ["federation.query_budget.queries=9", "data.least_rows=150"],
            ["--device cuda", "--set federation.query_budget.queries=9"],
        ),
        (
            {"--out": "/elsewhere"},
            ["federation.query_budget.absent=1"],
            ["--out /elsewhere", "--set federation.query_budget.absent=1"],
        ),
    ],
)
def test_what_contradicts_the_run_is_refused_by_name(
    tmp_path: Path, given: dict, overrides: list[str], named: list[str]
) -> None:
    """All of it was ignored, and something else resumed than what was asked for."""
    manifest = {**MANIFEST, "config": scenario_json(load_scenario("stroke", SMALL))}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    if not named:
        assert unfinished(tmp_path, {**given, "--out": str(tmp_path.resolve())}, overrides) == manifest
        return
    with pytest.raises(ConfigError) as caught:
        unfinished(tmp_path, given, overrides)
    contradicted = caught.value.what.partition("these contradict it: ")[2]
    assert [part.partition(" (the run has")[0] for part in contradicted.split("), ")] == named
