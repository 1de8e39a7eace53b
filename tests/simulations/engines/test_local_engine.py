"""The local engine: parties that stay with a worker, workers that die, and parties that fail as real
ones do. One thread in each process, and the caller's settings as they were."""

from __future__ import annotations

import _thread
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.collection.exchange import FlowerTransport
from consilium.coordinator.events import read_events
from consilium.models.devices import ONE_THREAD
from consilium.node.flower import flower_environment
from consilium.protocol.errors import EngineError
from consilium.simulations.divide import Case, make_case
from consilium.simulations.engines import process
from consilium.simulations.engines.local import LocalGrid
from consilium.simulations.engines.process import Finished, Worker, running_workers
from consilium.simulations.population.parties import why_untrainable
from consilium.simulations.population.specs import SimulationSpec
from consilium.simulations.said import Heard
from consilium.simulations.simulated import Population, SimulatedFederation
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
    worker.begin(bool)
    return worker.heard()


def test_workers_live_and_die_alone_and_not_longer_than_their_engine() -> None:
    """Its process ends without a word, too."""
    program = """
import json, os
from consilium.simulations.engines.process import running_workers
from tests.simulations.engines.test_local_engine import asked

with running_workers(3) as workers:
    first = [asked(worker).result for worker in workers]
    workers[1].stop()
    after = [getattr(asked(worker), "result", None) for worker in workers]
    print(json.dumps([first, after, [worker._process.pid for worker in workers]]), flush=True)
    os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, after, pids = json.loads(done.stdout)
    assert (first, after) == ([True] * 3, [True, None, True])
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


def test_a_worker_tells_what_comes_and_goes_on_after_what_it_cannot_do() -> None:
    """A function that it knows by no name, and one that fails."""
    with running_workers(1) as (worker,):
        assert worker.begin(int, "x") and worker.heard() is None
        assert not worker.begin(lambda tell: 7)
        assert worker.begin(why_untrainable, SimulationSpec(), None) and worker.heard() == Finished("")
        worker.stop()
        assert not worker.begin(bool) and worker.heard() is None


def test_a_worker_finds_modules_beside_a_script_after_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_a_script.py").write_text("import json\n\n\ndef where(progress):\n    return json.__file__\n")
    (tmp_path / "json.py").write_text("raise SystemExit\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    with running_workers(1) as workers:
        assert workers[0].begin(import_module("beside_a_script").where)
        assert workers[0].heard() == Finished(json.__file__)


def test_processes_train_with_one_thread_and_import_nothing_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = {}

    class Recorded:
        def __init__(self, command: list[str], env: dict[str, str], **_: object) -> None:
            started.update(command=command, env=env)
            self.pid = 1

    for name in ONE_THREAD:
        monkeypatch.setenv(name, "7")
    monkeypatch.setattr(process.subprocess, "Popen", Recorded)
    process.Worker()
    assert {name: started["env"][name] for name in ONE_THREAD} == ONE_THREAD
    assert started["command"][1:3] == ["-P", "-m"]
    flower = flower_environment(tmp_path / "home")
    assert {name: flower[name] for name in ONE_THREAD} == ONE_THREAD
    assert flower["PYTHONSAFEPATH"] == "1"
    assert {os.environ[name] for name in ONE_THREAD} == {"7"}
