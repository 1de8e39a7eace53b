"""The local engine: the real ServerApp and ClientApp on worker processes, with parties that fail as real ones do."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from flwr.app import Context, Message, RecordDict

import consilium
from consilium.coordinator.collection import exchange
from consilium.coordinator.collection.admission import Greeting
from consilium.coordinator.server_app import app
from consilium.protocol.errors import NotEnoughParties
from consilium.protocol.queries import canonical_queries
from consilium.protocol.records import to_record
from consilium.simulations.engines import local
from consilium.simulations.engines.block_server import server
from consilium.simulations.engines.flower import assign_message_id, assume_identity
from consilium.simulations.engines.local import RUN_ID, LocalGrid, run_local
from consilium.simulations.engines.process import Worker, running_workers
from tests.federation import make_config, make_homes, make_rows, vote_request
from tests.simulations.engines.test_blocks import block_up

ROOT = Path(consilium.__file__).parents[1]

SABOTAGE = """
import os, time
import consilium.party.node
modes = dict(part.split("=") for part in os.environ["SABOTAGE"].split())
real = consilium.party.node.PartyNode.vote
def vote(self, request):
    match modes.get(self.home.name):
        case "hang":
            open(os.environ["HANGING"], "w").close()
            time.sleep(3600)
        case "die":
            os._exit(9)
        case "raise":
            raise RuntimeError("patient 4711")
    return real(self, request)
consilium.party.node.PartyNode.vote = vote
"""


@pytest.fixture
def sabotaged(tmp_path: Path, monkeypatch):
    """Workers in which parties misbehave while voting."""
    folder = tmp_path / "site"
    folder.mkdir()
    # the worker imports consilium.party.client_app through this hook: python runs sitecustomize before anything else
    (folder / "sabotage.py").write_text(SABOTAGE)
    (folder / "sitecustomize.py").write_text("import os\nif os.environ.get('SABOTAGE'):\n    import sabotage\n")
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{ROOT}")
    monkeypatch.setenv("HANGING", str(tmp_path / "hanging"))

    def set_modes(**modes: str) -> None:
        monkeypatch.setenv("SABOTAGE", " ".join(f"{party}={mode}" for party, mode in modes.items()))

    return set_modes


def run(tmp_path: Path, parties: int = 5, in_blocks: bool = False, **changes) -> tuple[dict, list[dict]]:
    homes, nodes = make_homes(tmp_path / ("homes" if in_blocks else "parties"), parties), parties
    if in_blocks:
        nodes = len(block_up(homes, tmp_path / "parties"))
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    config = tmp_path / "federation.json"
    config.write_text(make_config(**changes).model_dump_json())
    run_config = {
        "federation-file": str(config),
        "run-dir": str(run_dir),
        "student": "simulation",
        "party-root": str(tmp_path / "parties"),
    }
    # the in-process student reads its rows from the run folder, as in any simulation
    import numpy as np

    from consilium.simulations.workspace import Workspace
    from tests.federation import FEATURES, make_rows

    space = Workspace(run_dir)
    space.work.mkdir(parents=True)
    x, y = make_rows(60, 3)
    np.savez(space.work / "public.npz", features=np.array(FEATURES), queries=x[:30], test_x=x[30:], test_y=y[30:])
    (space.work / "student.json").write_text(
        json.dumps({"spec": {"trainer": {"name": "logistic_regression", "C": 1.0}}, "seed": 0})
    )
    with running_workers(2) as workers, LocalGrid(RUN_ID, run_config, nodes, workers) as grid:
        run_local(run_config, grid, server if in_blocks else app)
    events = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    return json.loads((run_dir / "coordinator.json").read_text()), events


@pytest.mark.slow
def test_parties_that_hang_die_or_raise_are_left_out(tmp_path: Path, sabotaged, monkeypatch) -> None:
    """The coordinator's time for the votes is up when all but the one that hangs have been heard of, however long it
    took."""
    parties = 7

    def monotonic() -> float:
        log = tmp_path / "run" / "events.jsonl"
        voted = log.exists() and f'"stage": "vote", "done": {parties - 1}' in log.read_text()
        return time.monotonic() + (1e6 if voted else 0.0)

    monkeypatch.setattr(exchange, "time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep))
    sabotaged(p01="hang", p02="die", p03="raise")
    summary, events = run(tmp_path, parties)
    assert summary["parties_counted"] == [4]
    left = {event["party"]: event for event in events if event["event"] == "left-out"}
    assert {event["stage"] for event in left.values()} == {"vote"}
    for party, told in {"p01": "no answer within 250 s", "p02": "crashed", "p03": "internal"}.items():
        assert told in left.pop(party)["reason"]
    assert left == {}
    assert "4711" not in (tmp_path / "run" / "events.jsonl").read_text()


@pytest.mark.slow
def test_in_blocks_only_the_party_that_ends_its_process_is_left_out(tmp_path: Path, sabotaged) -> None:
    sabotaged(p02="die", p03="raise", p09="die")
    summary, events = run(tmp_path, 20, in_blocks=True)
    assert summary["parties_counted"] == [17]
    left = {event["party"]: event["reason"] for event in events if event["event"] == "left-out"}
    assert {party: reason.removeprefix("refused: ") for party, reason in left.items()} == {
        "p02": "node crashed",
        "p03": "internal-error",
        "p09": "node crashed",
    }
    assert "4711" not in (tmp_path / "run" / "events.jsonl").read_text()


@pytest.mark.slow
def test_too_few_left_is_an_error_and_nothing_is_charged(tmp_path: Path, sabotaged) -> None:
    sabotaged(p01="die")
    with pytest.raises(NotEnoughParties, match=r"4 parties after stage 'vote', at least 5.*1 x node crashed"):
        run(tmp_path, minimum_parties=5)
    failure = json.loads((tmp_path / "run" / "failure.json").read_text())
    assert failure["error"] == "NotEnoughParties"
    assert not (tmp_path / "run" / "coordinator.json").exists()
    import sqlite3

    with sqlite3.connect(tmp_path / "run" / "ledger.db") as ledger:
        assert ledger.execute("SELECT COUNT(*) FROM batches").fetchone() == (0,)


@pytest.mark.slow
def test_leaving_the_grid_while_a_party_hangs_ends_its_worker_once(tmp_path: Path, sabotaged, monkeypatch) -> None:
    """The thread that waits for the party and the one that leaves both want to end the worker."""
    sabotaged(p01="hang")
    make_homes(tmp_path / "parties", 2)
    assume_identity(RUN_ID, 1)
    request = to_record(vote_request(make_config(), canonical_queries(make_rows(4, 1)[0], 3)))
    handle = Worker.handle
    for seconds in (0.3, 3600.0):

        def at_most(worker: Worker, message: Message, context: Context, _: float, most: float = seconds):
            return handle(worker, message, context, most)

        monkeypatch.setattr(Worker, "handle", at_most)
        with (
            running_workers(2) as workers,
            LocalGrid(RUN_ID, {"party-root": str(tmp_path / "parties")}, 2, workers) as grid,
        ):
            first = list(workers)
            for node in grid.get_node_ids():
                grid.push_messages([Message(request, dst_node_id=node, message_type="query.vote", ttl=3600.0)])
            while workers == first if seconds < 1 else not (tmp_path / "hanging").exists():
                time.sleep(0.01)
        assert all(worker.gone for worker in workers)
        assert not [thread for thread in grid._threads if thread.is_alive()]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each process imports its own libraries")
def test_one_process_imports_and_the_others_are_its_forks_that_live_and_die_alone(tmp_path: Path) -> None:
    make_homes(tmp_path / "parties", 3)
    assume_identity(RUN_ID, 1)
    root = {"party-root": str(tmp_path / "parties")}
    hello = to_record(Greeting.of_empty("ab" * 32).request(make_config()))
    with running_workers(3) as workers, LocalGrid(RUN_ID, root, 3, list(workers)) as grid:

        def ask(worker: Worker, node: int) -> Message:
            message = Message(hello, dst_node_id=node, message_type="query.hello")
            assign_message_id(message)
            answer = worker.handle(message, grid._contexts[node], 250)
            assert answer is not None
            return answer[0]

        nodes = list(grid.get_node_ids())
        assert all(not ask(worker, node).has_error() for worker, node in zip(workers, nodes, strict=True))
        processes = [worker._pid for worker in workers]
        assert len(set(processes)) == 3
        parents = {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] for pid in processes[1:]}
        assert parents == {str(processes[0])}
        threads = [len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in processes]
        assert threads == [1, 1, 1]  # a fork takes along only the thread that forks
        for dead in (1, 0):  # a fork, then the one that it was forked from
            workers[dead].kill()
            with pytest.raises((EOFError, OSError)):
                ask(workers[dead], nodes[dead])
            assert not ask(workers[2], nodes[2]).has_error()
    for pid in processes:
        path = Path(f"/proc/{pid}/stat")
        while path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)


@pytest.mark.parametrize("moment", ["importing", "forked"])
def test_workers_that_were_never_given_work_are_ended_at_whatever_moment(moment: str) -> None:
    """A command that finds its input wrong ends them while they import, or when they are forked and nobody has heard
    of that: the one that the fork is of is dead by then."""
    workers = Worker.several(3)
    if moment == "forked":
        assert all(worker._connection.poll(250) for worker in workers)
    ending = threading.Thread(target=lambda: [worker.stop() for worker in workers], daemon=True)
    ending.start()
    ending.join(250)
    assert not ending.is_alive()
    assert all(worker.gone for worker in workers)


class Prompt:
    """A worker that answers at once; as many as it handled so far."""

    def __init__(self) -> None:
        self.handled = 0

    def handle(self, message: Message, context: Context, seconds: float):
        self.handled += 1
        return Message(RecordDict(), reply_to=message), None

    def kill(self) -> None:
        """There is no process."""


def asked_of(grid: LocalGrid, count: int, ttl: float) -> list[Message]:
    node = next(iter(grid.get_node_ids()))
    return [Message(RecordDict(), dst_node_id=node, message_type="query.vote", ttl=ttl) for _ in range(count)]


def test_workers_wait_while_nobody_pulls_and_every_reply_comes() -> None:
    assume_identity(RUN_ID, 1)
    worker, many = Prompt(), 3 * local.MOST_REPLIES
    with LocalGrid(RUN_ID, {}, 1, [worker]) as grid:  # pyright: ignore[reportArgumentType]
        ids = list(grid.push_messages(asked_of(grid, many, 3600.0)))
        while worker.handled <= local.MOST_REPLIES:
            time.sleep(0.01)
        time.sleep(0.2)
        assert worker.handled == local.MOST_REPLIES + 1  # one has its reply in hand
        found: list[str] = []
        while len(found) < many:
            found += [reply.metadata.reply_to_message_id for reply in grid.pull_messages(ids)]
    assert sorted(found) == sorted(ids)


def test_replies_that_nobody_waits_for_any_more_hold_nobody_up(monkeypatch) -> None:
    assume_identity(RUN_ID, 1)
    worker, later = Prompt(), [0.0]
    clock = SimpleNamespace(time=lambda: time.time() + later[0], monotonic=time.monotonic)
    monkeypatch.setattr(local, "time", clock)
    with LocalGrid(RUN_ID, {}, 1, [worker]) as grid:  # pyright: ignore[reportArgumentType]
        grid.push_messages(asked_of(grid, local.MOST_REPLIES, 3600.0))
        while worker.handled < local.MOST_REPLIES:
            time.sleep(0.01)
        later[0] = 7200.0
        (late,) = grid.send_and_receive(asked_of(grid, 1, 36000.0), timeout=250)
        assert late.has_content()


def test_leaving_the_grid_ends_a_worker_that_waits_for_room() -> None:
    assume_identity(RUN_ID, 1)
    worker = Prompt()
    with LocalGrid(RUN_ID, {}, 1, [worker]) as grid:  # pyright: ignore[reportArgumentType]
        grid.push_messages(asked_of(grid, 2 * local.MOST_REPLIES, 3600.0))
        while worker.handled <= local.MOST_REPLIES:
            time.sleep(0.01)
    assert not [thread for thread in grid._threads if thread.is_alive()]
