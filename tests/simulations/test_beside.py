"""Work beside other work: a worker's result is that of doing it here, and what a worker cannot do is done here."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message, RecordDict

from consilium.models.keys import LogisticRegressionStudent
from consilium.report.progress import CURVES
from consilium.simulations.beside import Finished, Idle, Task, when_wanted
from consilium.simulations.divide import divide
from consilium.simulations.engines.flower import FIRST_NODE
from consilium.simulations.engines.local import LocalGrid
from consilium.simulations.engines.worker import running_workers
from consilium.simulations.learn import learning_curve
from consilium.simulations.scenario import load_scenario
from consilium.simulations.simulated import Population
from consilium.student.ask import Asked
from consilium.student.config import StudentSpec
from tests.simulations.methods.cases import made_up

SPEC = StudentSpec(trainer=LogisticRegressionStudent(C=1.0))
PUBLIC = made_up()
ARGUMENTS = (PUBLIC, SPEC, 0, Asked(2))
CURVE = {"metric": "auc", "points": []}
Told = list[tuple[str, int, int]]

LOWER = "federation.mechanism.threshold=20"


def fails_here(task: Task, progress: Any) -> Any:
    raise AssertionError("it was done here")


def told_and_result(begin: Any, function: Any = learning_curve, arguments: tuple[Any, ...] = ARGUMENTS) -> Any:
    told: Told = []
    pending = begin(function, *arguments)
    return told, pending.result(lambda *advance: told.append(advance))


def test_where_there_is_no_process_it_is_done_when_wanted() -> None:
    told, result = told_and_result(when_wanted)
    assert (told, result) == ([(CURVES, 0, 1), (CURVES, 1, 1)], CURVE)
    assert told_and_result(Idle([])) == (told, result)


def test_a_worker_finds_modules_beside_a_script_after_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_a_script.py").write_text("import json\n\n\ndef where(progress):\n    return json.__file__\n")
    (tmp_path / "json.py").write_text("raise SystemExit\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    task = Task(import_module("beside_a_script").where, ())
    with running_workers(1) as workers:
        assert workers[0].begin(task)
        assert workers[0].heard() == Finished(json.__file__)


def test_a_worker_does_it_after_the_grid_was_left_too(monkeypatch: pytest.MonkeyPatch) -> None:
    here, population = told_and_result(when_wanted), Population.of(divide(load_scenario("stroke"), 0))
    with running_workers(1) as workers:
        with LocalGrid(population, workers) as grid:
            asked = Message(RecordDict(), dst_node_id=FIRST_NODE, message_type="query.hello", ttl=3600.0)
            assert len(list(grid.send_and_receive([asked]))) == 1
        monkeypatch.setattr(Task, "run", fails_here)
        assert told_and_result(Idle(workers)) == here
        assert told_and_result(Idle(workers)) == here
        with pytest.raises(AssertionError, match="here"):  # the control; and a second task at once finds nobody idle
            told_and_result(when_wanted)
        begin = Idle(workers)
        first, second = begin(learning_curve, *ARGUMENTS), begin(learning_curve, *ARGUMENTS)
        assert first.result() == here[1]
        with pytest.raises(AssertionError, match="here"):
            second.result()


def test_a_worker_whose_task_nobody_waits_for_any_more_is_ended() -> None:
    """It would answer the next who asks it with what came of the task."""
    with running_workers(2) as workers:
        with Idle(workers) as begin:
            waited, _ = begin(learning_curve, *ARGUMENTS), begin(learning_curve, *ARGUMENTS)
            assert waited.result() == CURVE
        ended = [worker.gone for worker in workers]
        assert sorted(ended) == [False, True]


def test_what_a_worker_cannot_do_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_workers(1) as workers:
        assert told_and_result(Idle(workers), lambda progress: 7, ()) == ([], 7)  # no other process knows its name
        with pytest.raises(ValueError, match="invalid literal"):  # fails there and here
            told_and_result(Idle(workers), _number, ("x",))
        with monkeypatch.context() as patched:  # and the worker goes on
            patched.setattr(Task, "run", fails_here)
            assert told_and_result(Idle(workers))[1] == CURVE
        begin = Idle(workers)
        workers[0]._process.kill()
        assert told_and_result(begin)[1] == CURVE
        workers[0]._process.wait()
        assert told_and_result(Idle(workers))[1] == CURVE


def _number(text: str, progress: Any) -> int:
    return int(text)
