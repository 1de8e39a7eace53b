"""The local engine: parties that stay with a worker, workers that die, and parties that fail as real ones do."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from flwr.app import Message, RecordDict

from consilium.coordinator.collection.exchange import FlowerTransport
from consilium.protocol.errors import NotEnoughParties
from consilium.simulations.beside import Finished, Task
from consilium.simulations.divide import Case, make_case
from consilium.simulations.engines import local
from consilium.simulations.engines.flower import FIRST_NODE
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


@pytest.mark.slow
@pytest.mark.parametrize("method", ["train", "vote"])
def test_a_worker_that_is_killed_costs_no_party_and_no_label(
    tmp_path: Path, sabotaged: Callable[..., None], method: str
) -> None:
    case = small()
    _, _, heard = run(case, tmp_path / "alone")
    sabotaged(**{f"{case.parties[5]}__{method}": "once"})
    word, left_out, again = run(case, tmp_path / "killed")
    assert (tmp_path / "flag").exists()
    assert (left_out, word["parties_counted"]) == ([], [len(case.parties)])
    labels = [pl.read_parquet(tmp_path / name / "labels.parquet") for name in ("alone", "killed")]
    assert labels[0].equals(labels[1])
    assert again.quality == heard.quality


@pytest.mark.slow
def test_only_who_ends_its_process_or_raises_is_left_out(tmp_path: Path, sabotaged: Callable[..., None]) -> None:
    case = small()
    first, second, third = case.parties[:3]
    sabotaged(**{f"{first}__train": "die", f"{second}__vote": "die", f"{third}__vote": "raise"})
    word, left_out, heard = run(case, tmp_path / "run")
    told = {(event["party"], event["stage"]): event["reason"] for event in left_out}
    assert told == {
        (first, "train"): "node crashed",
        (second, "vote"): "node crashed",
        (third, "vote"): "refused: internal-error",
    }
    assert word["parties_counted"] == [len(case.parties) - 3]
    assert set(heard.quality) == set(case.parties) - {first}
    assert "4711" not in (tmp_path / "run" / "events.jsonl").read_text()


@pytest.mark.slow
def test_too_few_left_is_an_error_and_nothing_is_charged(tmp_path: Path, sabotaged: Callable[..., None]) -> None:
    case = small("federation.minimum_parties=16")
    assert len(case.parties) == 16
    sabotaged(**{f"{case.parties[0]}__vote": "die"})
    with pytest.raises(NotEnoughParties, match=r"15 parties after stage 'vote', at least 16.*1 x node crashed"):
        run(case, tmp_path / "run")
    assert json.loads((tmp_path / "run" / "failure.json").read_text())["error"] == "NotEnoughParties"
    assert not (tmp_path / "run" / "coordinator.json").exists()
    with sqlite3.connect(tmp_path / "run" / "ledger.db") as ledger:
        assert ledger.execute("SELECT COUNT(*) FROM batches").fetchone() == (0,)


@pytest.mark.slow
def test_leaving_while_a_party_hangs_ends_its_worker(tmp_path: Path, sabotaged: Callable[..., None]) -> None:
    case = small()
    sabotaged(**{f"{case.parties[0]}__vote": "hang"})
    with running_workers(2) as workers:

        def leave() -> None:
            with LocalGrid(Population.of(case), workers) as grid:
                ran = threading.Thread(target=_ignoring, args=(case, grid, tmp_path), daemon=True)
                ran.start()
                while not (tmp_path / "flag").exists():
                    time.sleep(0.01)

        leaving = threading.Thread(target=leave, daemon=True)
        leaving.start()
        leaving.join(250)
        assert not leaving.is_alive()


def _ignoring(case: Case, grid: LocalGrid, folder: Path) -> None:
    SimulatedFederation.of(case).run(FlowerTransport(grid), folder)


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
with running_workers(3) as workers:
    first = [asked(worker).result for worker in workers]
    workers[1].kill()
    after = [getattr(asked(worker), "result", None) for worker in workers]
    pids = [worker._process.pid for worker in workers]
    print(json.dumps([first, after, [type(worker._process).__name__ for worker in workers], pids]), flush=True)
    os._exit(0)
"""
    for given, kind in (("none", "_Fork"), ("threads", "Popen")):
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


class Prompt(Worker):
    """Answers each message when it is listened to. handled: how many so far."""

    def __init__(self) -> None:
        self.handled = 0
        self._messages: list[Message] | None = []

    def begin(self, task: Task) -> bool:
        self._messages = list(task.arguments[0]) if task.function is local.answer else []
        return True

    def heard(self) -> Any:
        if not self._messages:
            return Finished(None)
        self.handled += 1
        return (Message(RecordDict(), reply_to=self._messages.pop(0)),)

    def kill(self) -> None:
        self._messages = None


@pytest.fixture
def prompt() -> tuple[Prompt, Population]:
    return Prompt(), Population.of(small())


def asked_of(count: int) -> list[Message]:
    return [Message(RecordDict(), dst_node_id=FIRST_NODE, message_type="query.vote", ttl=3600.0) for _ in range(count)]


def test_workers_wait_while_nobody_pulls_and_every_reply_comes(prompt: tuple[Prompt, Population]) -> None:
    (worker, population), many = prompt, 3 * local.MOST_REPLIES
    with LocalGrid(population, [worker]) as grid:
        ids = list(grid.push_messages(asked_of(many)))
        while worker.handled <= local.MOST_REPLIES:
            time.sleep(0.01)
        time.sleep(0.2)
        assert worker.handled == local.MOST_REPLIES + 1  # one has its reply in hand
        found: list[str] = []
        while len(found) < many:
            found += [reply.metadata.reply_to_message_id for reply in grid.pull_messages(ids)]
    assert sorted(found) == sorted(ids)


def test_leaving_the_grid_ends_a_worker_that_waits_for_room(prompt: tuple[Prompt, Population]) -> None:
    worker, population = prompt
    before = threading.active_count()
    with LocalGrid(population, [worker]) as grid:
        grid.push_messages(asked_of(2 * local.MOST_REPLIES))
        while worker.handled <= local.MOST_REPLIES:
            time.sleep(0.01)
    assert threading.active_count() == before
