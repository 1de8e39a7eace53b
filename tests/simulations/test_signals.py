"""A run that is told to end leaves no private rows behind.

Every moment is an event in the run's own log; no test waits for a number of seconds.
"""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from consilium.protocol.errors import ConfigError
from consilium.simulations.checksums import FILE
from consilium.simulations.interruption import Interrupted, interruptible
from consilium.simulations.manifest import FORMAT, WORK, working_in
from tests.simulations.test_killed import COMMAND, ROOT, Seen, stage, status, wait_for


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300"}


def hear() -> None:
    """The tests may run under nohup or in a shell's background, which a child inherits."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def interrupt(folder: Path, number: int, seen: Seen, *more: str) -> tuple[int, str]:
    """Exit code and what was said to standard error."""
    process = subprocess.Popen(
        [*COMMAND, "--out", "run", *more],
        cwd=folder,
        env=environment(),
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=hear,
    )
    wait_for(folder / "run", seen, lambda: process.poll() is None)
    process.send_signal(number)
    _, said = process.communicate()
    return process.returncode, said


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("number", "seen", "code"),
    [
        (signal.SIGTERM, stage("enrol"), 143),
        pytest.param(signal.SIGINT, stage("train"), 130, marks=pytest.mark.nightly),
    ],
    ids=["SIGTERM-enrol", "SIGINT-train"],
)
def test_a_signal_cleans_up(tmp_path: Path, number: int, seen: Seen, code: int) -> None:
    returned, said = interrupt(tmp_path, number, seen)
    run = tmp_path / "run"
    assert (returned, status(run)) == (code, "interrupted")
    assert not (run / "private" / "work").exists()
    assert said.splitlines()[-1] == f"consilium: interrupted ({signal.Signals(number).name})"
    assert "Traceback" not in said


@pytest.mark.timeout(1800)
def test_a_closed_terminal_is_no_failure(tmp_path: Path) -> None:
    """The terminal goes, and with it standard error: the progress that is drawn there fails, and is not the reason."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        hear()
        os.execve(sys.executable, [*COMMAND, "--out", "run"], environment())
    heard = threading.Thread(target=_drain, args=(terminal,), daemon=True)
    heard.start()
    run = tmp_path / "run"
    wait_for(run, stage("train"), lambda: os.waitpid(child, os.WNOHANG) == (0, 0))
    os.close(terminal)
    _, how = os.waitpid(child, 0)
    assert (os.waitstatus_to_exitcode(how), status(run)) == (129, "interrupted")


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        return


@pytest.mark.nightly
@pytest.mark.ray
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
    with pytest.raises(Interrupted) as caught, interruptible():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            steps.append("never")
        finally:
            os.kill(os.getpid(), signal.SIGHUP)
            steps.append("cleaned")
    assert steps == ["cleaned"]
    assert (caught.value.exit_code, str(caught.value)) == (143, "interrupted (SIGTERM)")


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


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, "complete"),
        (KeyboardInterrupt(), "interrupted"),
        (Interrupted(signal.SIGTERM), "interrupted"),
        (ConfigError("too small"), "failed: too small"),
        (ValueError("votes 17 3"), "failed: ValueError"),
    ],
)
def test_however_it_ends(tmp_path: Path, error: BaseException | None, told: str) -> None:
    expected = contextlib.nullcontext() if error is None else pytest.raises(type(error))
    with expected, working_in(tmp_path, {"format": FORMAT}):
        assert status(tmp_path) == "running"
        (tmp_path / WORK).mkdir(parents=True)
        if error is not None:
            raise error
    assert status(tmp_path) == told
    assert not (tmp_path / WORK).exists()
    assert (tmp_path / FILE).exists() == (error is None)
