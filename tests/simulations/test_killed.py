"""A run that is killed, told to end, or fails looks like none that is finished, and leaves no private rows behind; what
it released stays, and running again works.

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
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.coordinator.events import read_events
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.verify import holds
from consilium.models.published.model import MODEL_FILE, load_model
from consilium.protocol.errors import DataError, FailedAfterRelease
from consilium.simulations.audit import audit_path
from consilium.simulations.council.runs import load_run
from consilium.simulations.folder import SUMS, WORK
from consilium.simulations.interruption import Interrupted, interruptible
from consilium.simulations.progress import EVENTS
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from tests.command_line import consilium
from tests.simulations.small import SMALL

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "consilium", "run", "--seed", "4", *(f"--set={change}" for change in SMALL)]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300"}


def wait_for(run: Path, seen: str, alive: Callable[[], bool]) -> None:
    """Until an event or a stage of this name is in the run's log. The run is alive all the while, or never shows it."""
    while True:
        going_on, log = alive(), run / "events.jsonl"
        lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
        events = [json.loads(line) for line in lines if line.endswith("\n")]
        if any(seen in (event["event"], event["event"] == "stage" and event["stage"]) for event in events):
            return
        assert going_on, "the run ended before it came to this moment"
        time.sleep(0.01)


def hear() -> None:
    """The tests may run under nohup or in a shell's background, which a child inherits."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def ended(folder: Path, number: int, seen: str, *more: str) -> tuple[int, str]:
    """Exit code and standard error of a run that got this signal at this moment."""
    process = subprocess.Popen(
        [*COMMAND, "--out", "run", *more], cwd=folder, env=ENVIRONMENT, text=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, preexec_fn=hear,
    )  # fmt: skip
    wait_for(folder / "run", seen, lambda: process.poll() is None)
    process.send_signal(number)
    _, said = process.communicate()
    return process.returncode, said


def status(run: Path) -> str:
    return json.loads((run / "manifest.json").read_text())["status"]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seen", [pytest.param("train", marks=pytest.mark.nightly), "student-saved"])
def test_killed_it_is_not_finished_and_another_run_is(tmp_path: Path, seen: str) -> None:
    run, again = tmp_path / "run", tmp_path / "again"
    assert ended(tmp_path, signal.SIGKILL, seen, "--quiet")[0] == -signal.SIGKILL
    assert status(run) == "running"
    for name in ("summary.json", "report.html", SUMS):
        assert not (run / name).exists()
    with pytest.raises(DataError, match="holds no finished run"):
        load_run(run)
    assert consilium("show", run).exit_code != 0
    if consilium("report", run).exit_code == 0:  # of what was charged by then
        assert "What follows is what its ledger holds so far." in (run / "report.html").read_text()
    audited = audit_path(run)
    assert not audited.finished and holds(audited.findings)  # what was charged by then still holds
    refused = consilium("run", "stroke", "--out", run)
    assert (refused.exit_code, "exists already" in refused.stderr) == (6, True)

    done = subprocess.run([*COMMAND, "--quiet", "--out", "again"], cwd=tmp_path, env=ENVIRONMENT)
    assert (done.returncode, status(again)) == (0, "complete")
    audited = audit_path(again)
    assert audited.finished and holds(audited.findings)
    assert not (again / "private" / "work").exists()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("number", "seen", "code", "more"),
    [
        (signal.SIGTERM, "enrol", 143, ()),
        pytest.param(signal.SIGINT, "train", 130, (), marks=pytest.mark.nightly),
        pytest.param(
            signal.SIGTERM, "train", 143, ("--engine", "ray"), marks=[pytest.mark.nightly, pytest.mark.ray], id="ray"
        ),
    ],
)
def test_a_signal_cleans_up(tmp_path: Path, number: int, seen: str, code: int, more: tuple[str, ...]) -> None:
    if more:
        pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    returned, said = ended(tmp_path, number, seen, *more)
    run = tmp_path / "run"
    assert (returned, status(run)) == (code, "interrupted"), said
    assert not (run / "private" / "work").exists()
    assert said.splitlines()[-1] == f"consilium: interrupted ({signal.Signals(number).name})"
    assert "Traceback" not in said
    for path in Path("/proc").glob("[0-9]*/cmdline"):  # all that was started has ended
        with contextlib.suppress(OSError):
            assert str(run / "private" / "work").encode() not in path.read_bytes()


@pytest.mark.timeout(1800)
def test_a_closed_terminal_is_no_failure(tmp_path: Path) -> None:
    """The terminal goes, and with it standard error: the progress that is drawn there fails, and is not the reason."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        hear()
        os.execve(sys.executable, [*COMMAND, "--out", "run"], ENVIRONMENT)

    def drain() -> None:
        with contextlib.suppress(OSError):
            while os.read(terminal, 4096):
                pass

    threading.Thread(target=drain, daemon=True).start()
    wait_for(tmp_path / "run", "train", lambda: os.waitpid(child, os.WNOHANG) == (0, 0))
    os.close(terminal)
    _, how = os.waitpid(child, 0)
    assert (os.waitstatus_to_exitcode(how), status(tmp_path / "run")) == (129, "interrupted")


def test_interrupted_while_it_is_compared_it_leaves_a_student(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is in its folder, and was told of, before anything is compared."""
    out = tmp_path / "run"

    def interrupted(*_: object) -> Any:
        (event,) = [event for event in read_events(out / EVENTS) if event.kind == "student-saved"]
        card = json.loads((out / "student" / "student.json").read_text())
        assert event.value == card["metrics"]["auc"]
        raise KeyboardInterrupt

    monkeypatch.setattr("consilium.simulations.analysis.analyse", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_scenario("stroke", load_scenario("stroke", SMALL), "local", 4, out)
    assert status(out) == "interrupted"
    assert not (out / SUMS).exists()
    model = load_model(out / "student" / MODEL_FILE)
    assert model.predict_proba(np.zeros((1, len(model.schema.features)))).shape == (1, 2)


def test_a_student_that_fails_leaves_its_answers_and_says_what_was_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of a private row")

    monkeypatch.setattr("consilium.student.run.train", fails)
    with pytest.raises(FailedAfterRelease, match=r"^ZeroDivisionError at .* 150 queries .* comes on top") as raised:
        run_scenario("stroke", load_scenario("stroke", SMALL), "local", 4, out)
    assert status(out) == "failed: ZeroDivisionError" and not (out / WORK).exists()
    assert "private row" not in str(raised.value)
    federation = json.loads((out / "manifest.json").read_text())["federation"]
    with contextlib.closing(Ledger(out / "ledger.db", federation, "")) as ledger:  # which checks its chain
        charged = [query_id for batch in ledger.batches() for query_id in batch.query_ids]
    assert pl.read_parquet(out / "labels.parquet").height == len(charged) == 150
    assert holds(audit_path(out).findings)


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
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)) == (terminate, signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGHUP, before)
