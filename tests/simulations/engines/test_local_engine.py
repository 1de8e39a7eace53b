"""The local engine: parties that stay with a worker, workers that die, and parties that fail as real ones do."""

from __future__ import annotations

import _thread
import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.collection.exchange import FlowerTransport
from consilium.coordinator.events import read_events
from consilium.protocol.errors import EngineError
from consilium.simulations.beside import Task
from consilium.simulations.divide import Case, make_case
from consilium.simulations.engines.local import LocalGrid
from consilium.simulations.engines.process import Worker
from consilium.simulations.engines.worker import running_workers
from consilium.simulations.federation import SimulatedFederation
from consilium.simulations.said import Heard
from consilium.simulations.simulated import Population
from tests.simulations.methods.cases import SEED, few

CONFIDENT = "federation.mechanism={name='confident', threshold=10, sigma1=20.0, sigma2=8.0}"


def small(*changes: str) -> Case:
    return make_case(few(CONFIDENT, "federation.query_budget={queries=20, answers=15}", *changes), SEED, 0.0)


def run(case: Case, out: Path) -> tuple[dict[str, Any], list[dict[str, Any]], Heard]:
    """The coordinator's word, those that were left out, and what teachers said."""
    out.mkdir()
    with running_workers(2) as workers, LocalGrid(Population.of(case), workers) as grid:
        heard = SimulatedFederation.of(case).run(FlowerTransport(grid), out)
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    left_out = [event for event in events if event["event"] == "left-out"]
    return json.loads((out / "coordinator.json").read_text()), left_out, heard


def test_a_worker_that_dies_ends_the_run_and_a_party_that_raises_is_left_out(
    tmp_path: Path, sabotaged: Callable[..., None]
) -> None:
    case = small()
    first, second = case.parties[:2]
    sabotaged(**{f"{first}__train": "raise"})
    word, left_out, heard = run(case, tmp_path / "run")
    assert [(event["party"], event["stage"], event["reason"]) for event in left_out] == [
        (first, "train", "refused: internal-error")
    ]
    assert word["parties_counted"] == [len(case.parties) - 1]
    assert set(heard.quality) == set(case.parties) - {first}
    assert "4711" not in (tmp_path / "run" / "events.jsonl").read_text()

    sabotaged(**{f"{second}__vote": "die"})
    with pytest.raises(EngineError, match="a worker process died"):
        run(case, tmp_path / "killed")
    assert read_events(tmp_path / "killed" / "events.jsonl")[-1].error == "EngineError"
    assert not (tmp_path / "killed" / "coordinator.json").exists()
    with sqlite3.connect(tmp_path / "killed" / "ledger.db") as ledger:
        assert ledger.execute("SELECT COUNT(*) FROM batches").fetchone() == (0,)


def test_leaving_while_a_party_hangs_ends_its_worker(tmp_path: Path, sabotaged: Callable[..., None]) -> None:
    case = small()
    sabotaged(**{f"{case.parties[0]}__vote": "hang"})
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # xdist's processes ignore it
    with running_workers(2) as workers:
        threading.Thread(target=_interrupt, args=(tmp_path / "flag",), daemon=True).start()
        with pytest.raises(KeyboardInterrupt), LocalGrid(Population.of(case), workers) as grid:
            SimulatedFederation.of(case).run(FlowerTransport(grid), tmp_path)
        assert any(worker.gone for worker in workers)
    signal.signal(signal.SIGINT, before)


def _interrupt(flag: Path) -> None:
    while not flag.exists():
        time.sleep(0.01)
    _thread.interrupt_main()


def asked(worker: Worker) -> object:
    worker.begin(Task(bool, ()))
    return worker.heard()


def test_workers_are_forks_of_a_process_without_threads_and_live_and_die_alone() -> None:
    """The engine's process ends without a word, too: they do not outlive it."""
    program = """
import json, os, sys, threading
from consilium.simulations.engines.worker import running_workers
from tests.simulations.engines.test_local_engine import asked

if sys.argv[1] == "threads":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
if sys.argv[1] == "polars":
    import polars
with running_workers(3) as workers:
    first = [asked(worker).result for worker in workers]
    workers[1].stop()
    after = [getattr(asked(worker), "result", None) for worker in workers]
    pids = [worker._process.pid for worker in workers]
    print(json.dumps([first, after, [type(worker._process).__name__ for worker in workers], pids]), flush=True)
    os._exit(0)
"""
    for given, kind in (("none", "_Fork"), ("threads", "Popen"), ("polars", "Popen")):
        done = subprocess.run([sys.executable, "-c", program, given], capture_output=True, text=True, check=True)
        first, after, kinds, pids = json.loads(done.stdout)
        assert (first, after) == ([True] * 3, [True, None, True])
        assert set(kinds) == {kind if sys.platform == "linux" else "Popen"}
        for pid in pids:
            path = Path(f"/proc/{pid}/stat")
            while path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)


def test_workers_that_were_never_given_work_are_ended_while_they_import() -> None:
    """A command that finds its input wrong ends them so."""
    worker = Worker()
    worker.stop()
    worker.stop()
    assert worker.gone and asked(worker) is None
