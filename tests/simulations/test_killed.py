"""A run that is killed, or fails, looks like none that is finished; what it released stays, and running again works.

Every moment is an event in the run's own log; no test waits for a number of seconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from consilium.coordinator.events import read_events
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.verify import holds
from consilium.models.published.model import MODEL_FILE, load_model
from consilium.protocol.errors import DataError, FailedAfterRelease
from consilium.simulations.analysis import Analysis
from consilium.simulations.audit import audit_path
from consilium.simulations.checksums import FILE
from consilium.simulations.council.runs import load_run
from consilium.simulations.progress import EVENTS
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from tests.command_line import consilium
from tests.simulations.engines.test_engines_agree import quiet
from tests.simulations.small import SMALL

ROOT = Path(__file__).resolve().parents[2]
CHANGES = [part for item in SMALL for part in ("--set", item)]
COMMAND = [sys.executable, "-m", "consilium", "run", "--seed", "4", *CHANGES]

Seen = Callable[[list[dict]], bool]


def stage(name: str) -> Seen:
    return lambda events: any(event["event"] == "stage" and event["stage"] == name for event in events)


def saved(events: list[dict]) -> bool:
    """The student is in its folder, and is being compared."""
    return any(event["event"] == "student-saved" for event in events)


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


def charged(run: Path) -> list[str]:
    """Queries in the ledger, whose chain is checked."""
    ledger = Ledger(run / "ledger.db", json.loads((run / "manifest.json").read_text())["federation"], "")
    try:
        return [query_id for batch in ledger.batches() for query_id in batch.query_ids]
    finally:
        ledger.close()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "seen", [pytest.param(stage("train"), marks=pytest.mark.nightly), saved], ids=["train", "saved"]
)
def test_killed_it_is_not_finished_and_another_run_is(tmp_path: Path, seen: Seen) -> None:
    run, again = tmp_path / "run", tmp_path / "again"
    process = subprocess.Popen(
        [*COMMAND, "--quiet", "--out", "run"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    wait_for(run, seen, lambda: process.poll() is None)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL

    assert status(run) == "running"
    for name in ("summary.json", "report.html", FILE):
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
    done = subprocess.run(
        [*COMMAND, "--quiet", "--out", "again"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert (done.returncode, status(again)) == (0, "complete")
    audited = audit_path(again)
    assert audited.finished and holds(audited.findings)
    assert not (again / "private" / "work").exists()


def test_interrupted_while_it_is_compared_it_leaves_a_student(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is in its folder, and was told of, before anything is compared."""
    out = tmp_path / "run"

    def interrupted(*_: object) -> Analysis:
        (event,) = [event for event in read_events(out / EVENTS) if event.kind == "student-saved"]
        card = json.loads((out / "student" / "student.json").read_text())
        assert event.value == card["metrics"]["auc"]
        raise KeyboardInterrupt

    monkeypatch.setattr("consilium.simulations.analysis.analyse", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_scenario("stroke", load_scenario("stroke", SMALL), "local", 4, out, quiet)
    assert status(out) == "interrupted"
    assert not (out / FILE).exists()
    model = load_model(out / "student" / MODEL_FILE)
    assert model.predict_proba(np.zeros((1, len(model.schema.features)))).shape == (1, 2)


def test_a_student_that_fails_leaves_its_answers_and_says_what_was_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of a private row")

    monkeypatch.setattr("consilium.student.learn.train", fails)
    with pytest.raises(FailedAfterRelease, match=r"^ZeroDivisionError at .* 150 queries .* comes on top") as raised:
        run_scenario("stroke", load_scenario("stroke", SMALL), "local", 4, out, quiet)
    assert status(out) == "failed: ZeroDivisionError"
    assert "private row" not in str(raised.value)
    assert pl.read_parquet(out / "labels.parquet").height == len(charged(out)) == 150
    assert holds(audit_path(out).findings)
