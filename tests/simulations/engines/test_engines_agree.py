"""The same seed gives the same votes, labels and student: of nodes in this process, in a study, on the local engine and
on Ray. Workers that die, parties that fail as real ones do, and whoever is lost on Ray, also on a cluster that is there
already."""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import tomli_w
from flwr.app import RecordDict

import consilium
from consilium.coordinator.collection.base import Queries
from consilium.coordinator.collection.exchange import Failure, FlowerTransport, no_node, tell_left_out
from consilium.coordinator.collection.means import Standing
from consilium.coordinator.collection.plaintext import kept_votes, vote_request
from consilium.coordinator.events import EventLog, read_events
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.parts import Timeouts
from consilium.coordinator.verify import holds
from consilium.models.devices import ONE_THREAD
from consilium.node.flower import flower_environment
from consilium.party.store import Store
from consilium.protocol.choices import counted
from consilium.protocol.errors import EngineError
from consilium.protocol.messages import WireModel
from consilium.protocol.queries import query_ids
from consilium.protocol.refusals import Refusal, Rule
from consilium.simulations.audit import audit_path
from consilium.simulations.divide import Case, divide, make_case
from consilium.simulations.engines import process, ray
from consilium.simulations.engines.local import LocalGrid
from consilium.simulations.engines.process import Finished, Worker, running_workers
from consilium.simulations.engines.ray import HEARD, TRIES, SendsAgain
from consilium.simulations.population.specs import SimulationSpec, why_untrainable
from consilium.simulations.run import Engine, run_scenario
from consilium.simulations.said import Heard
from consilium.simulations.scenario import load_scenario
from consilium.simulations.simulated import Population, SimulatedFederation
from consilium.simulations.vote import TeacherVotes, train_ensemble
from tests.federation import make_config
from tests.simulations.methods.cases import SEED, few
from tests.simulations.study.tiny import SCENARIO, rows

ROOT = Path(consilium.__file__).parents[1]
SABOTAGE = """
import os, signal, time
import consilium.party.node
from consilium.party.node import PartyNode
modes = dict(part.split("=") for part in os.environ["SABOTAGE"].split())

def spoiled(name):
    real = getattr(PartyNode, name)
    def method(self, request):
        mode, flag = modes.get(f"{self.settings.name}.{name}"), os.environ["FLAG"]
        if mode == "die" or mode == "once" and not os.path.exists(flag):
            open(flag, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "raise":
            raise RuntimeError("patient 4711")
        if mode == "hang":
            open(flag, "w").close()
            time.sleep(3600)
        return real(self, request)
    setattr(PartyNode, name, method)

spoiled("train"), spoiled("vote")
"""


@pytest.fixture
def sabotaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Workers in which parties misbehave; by party and method, how."""
    folder = tmp_path / "site"
    folder.mkdir()
    # python runs sitecustomize before anything else
    (folder / "sabotage.py").write_text(SABOTAGE)
    (folder / "sitecustomize.py").write_text("import os\nif os.environ.get('SABOTAGE'):\n    import sabotage\n")
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{ROOT}")
    monkeypatch.setenv("FLAG", str(tmp_path / "flag"))

    def set_modes(**modes: str) -> None:
        monkeypatch.setenv("SABOTAGE", " ".join(f"{name.replace('__', '.')}={mode}" for name, mode in modes.items()))

    return set_modes


def quiet(_: Path) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


# few hospitals, several teachers each that depend on their seeds, and equal scores that a lot decides
CHANGES = [
    "data.least_rows=180",
    "federation.minimum_parties=10",
    "federation.teachers_per_party=3",
    "federation.teacher={model='random_forest', trees=5}",
    "federation.voting_rule.rule=relative",
    "federation.mechanism={name='confident', threshold=20, sigma1=8.0, sigma2=8.0}",
    "federation.query_budget={queries=60, answers=40}",
    "simulation.manual_labels=none",
]


def run(out: Path, engine: Engine, *changes: str) -> tuple[dict[str, Any], pl.DataFrame]:
    """All that a run says but where and when; and what was released."""
    summary = run_scenario("stroke", load_scenario("stroke", [*CHANGES, *changes]), engine, SEED, out, quiet)
    told = {key: value for key, value in summary.items() if key not in ("engine", "seconds", "out")}
    return told, pl.read_parquet(out / "labels.parquet")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], pl.DataFrame]:
    out = tmp_path_factory.mktemp("engines") / "local"
    return out, *run(out, "local")


def test_parties_of_a_run_vote_as_those_of_a_study(local: tuple[Path, dict[str, Any], pl.DataFrame]) -> None:
    case = make_case(load_scenario("stroke", CHANGES), SEED, 0.0)
    votes, row = train_ensemble(case).pool, {query: row for row, query in enumerate(case.pool_ids)}
    (path,) = (local[0] / "private").glob("votes-*.npz")
    asked, kept = kept_votes(path, len(case.classes))
    rows = np.array([row[query] for query in asked])
    ids = query_ids(case.pool_x[rows])
    for index, party in enumerate(case.parties):
        mine = np.flatnonzero(votes.tied_party == index)
        ties = (votes.tied_teacher[mine], votes.tied_row[mine], votes.tied[mine])
        alone = TeacherVotes(votes.cast[[index]], np.zeros(len(mine), dtype=np.int32), *ties)
        of_study = alone.totals(rows, [party], case.config.digest(), ids, len(case.classes))
        np.testing.assert_array_equal(counted(kept[party], len(case.classes)), of_study)


def test_nodes_in_this_process_vote_as_over_flower(local: tuple[Path, dict[str, Any], pl.DataFrame]) -> None:
    case = make_case(load_scenario("stroke", CHANGES), SEED, 0.0)
    population, row = Population.of(case), {query: row for row, query in enumerate(case.pool_ids)}
    with closing(Ledger.in_memory(case.config)) as ledger:
        nodes = {party: population.party(index, Store.in_memory()) for index, party in enumerate(case.parties)}
        for node in nodes.values():
            node.hello(Standing(ledger).greeting(case.config))
            node.train(case.config.train_request())
        (path,) = (local[0] / "private").glob("votes-*.npz")
        asked, kept = kept_votes(path, len(case.classes))
        rows = case.pool_x[[row[query] for query in asked]]
        request = vote_request(case.config, Queries(rows), Standing(ledger))
        found = {party: node.vote(request).choices for party, node in nodes.items()}
        assert {*found} == {*kept}
        assert all(np.array_equal(choices, kept[party]) for party, choices in found.items())


@pytest.mark.ray
@pytest.mark.timeout(1200)
def test_local_and_ray_agree(tmp_path: Path, local: tuple[Path, dict[str, Any], pl.DataFrame]) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    told, labels = run(tmp_path / "ray", "ray")
    assert labels.equals(local[2])
    assert told == local[1]
    assert told["teachers"] == 3 * told["parties"] > 30
    assert json.loads((tmp_path / "ray" / "manifest.json").read_text())["status"] == "complete"
    assert not (tmp_path / "ray" / "private" / "work").exists()


@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.nightly])])
def test_hidden_votes_are_collected_on_every_engine(tmp_path: Path, engine: Engine) -> None:
    """The second aggregator, whose state is in files, and parties whose state is not."""
    few = ("federation.mechanism={name='gnmax', sigma=20}", "federation.query_budget={queries=20, answers=20}")
    _, labels = run(tmp_path / engine, engine, "federation.collection=verified", *few)
    assert len(labels) == 20
    assert not list((tmp_path / engine / "private").glob("votes-*.npz"))
    assert [finding for finding in audit_path(tmp_path / engine).findings if not finding.holds] == []


CONFIDENT = "federation.mechanism={name='confident', threshold=10, sigma1=20.0, sigma2=8.0}"


def small(*changes: str) -> Case:
    return make_case(few(CONFIDENT, "federation.query_budget={queries=20, answers=15}", *changes), SEED, 0.0)


def counted_in(run: Path) -> list[int]:
    """Parties in each sum."""
    return [event.counted for event in read_events(run / "events.jsonl") if event.kind == "released"]


def collected(case: Case, out: Path) -> tuple[list[dict[str, Any]], Heard]:
    """Those that were left out, and what teachers said."""
    out.mkdir()
    with running_workers(2) as workers, LocalGrid(Population.of(case), workers) as grid:
        heard = SimulatedFederation.of(case).run(FlowerTransport(grid), out)
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    left_out = [event for event in events if event["event"] == "left-out"]
    return left_out, heard


def test_a_worker_that_dies_ends_the_run_and_a_party_that_raises_is_left_out(
    tmp_path: Path, sabotaged: Callable[..., None]
) -> None:
    case = small()
    first, second = case.parties[:2]
    sabotaged(**{f"{first}__train": "raise"})
    left_out, heard = collected(case, tmp_path / "run")
    assert [(event["party"], event["stage"], event["reason"]) for event in left_out] == [
        (first, "train", "refused: internal-error")
    ]
    assert counted_in(tmp_path / "run") == [len(case.parties) - 1]
    assert set(heard.quality) == set(case.parties) - {first}
    assert "4711" not in (tmp_path / "run" / "events.jsonl").read_text()

    sabotaged(**{f"{second}__vote": "die"})
    with pytest.raises(EngineError, match="a worker process died"):
        collected(case, tmp_path / "killed")
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
from tests.simulations.engines.test_engines_agree import asked

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


MEMORY = 80_000_000
"""Bytes of each node's object store."""
GNMAX = "federation.mechanism={name='gnmax', sigma=8.0}"


def test_no_time_limit_leaves_a_party_out(tmp_path: Path) -> None:
    """Only stages in which parties are waited for are without limit."""
    scenario = few(GNMAX, *(f"federation.timeouts.{stage}=1e-9" for stage in ("enrol", "train", "vote", "secure")))
    summary = run_scenario("few", scenario, "local", 3, tmp_path / "run")
    assert summary["parties"] == len(divide(scenario, 3).parties) > 10
    assert "parties_absent" not in summary and holds(audit_path(tmp_path / "run").findings)
    patient, limits = Timeouts(train=1.0).patient(), Timeouts()
    assert min(patient.enrol, patient.train, patient.vote, patient.secure) > 10 * 86_400
    assert (patient.join, patient.student) == (limits.join, limits.student)


class Replies:
    """A transport whose nodes have these replies, one after the other."""

    def __init__(self, replies: dict[int, list[RecordDict | Failure]]) -> None:
        self.replies = replies

    def nodes(self) -> list[int]:
        return sorted(self.replies)

    def exchange(self, requests: Mapping[int, WireModel], timeout: float) -> Iterator[tuple[int, RecordDict | Failure]]:
        for node in requests:
            yield node, self.replies[node].pop(0)


def test_who_is_lost_with_a_process_is_asked_again_and_refusals_are_not() -> None:
    """Nodes 0 to 3 answer in time, node 4 never does, and node 5 refuses."""
    lost, refused = no_node("error 0"), Failure.of(Refusal(rule=Rule.LEAST_ROWS))
    answers: dict[int, list[RecordDict | Failure]] = {node: [*[lost] * node, RecordDict()] for node in range(4)}
    transport = SendsAgain(Replies(answers | {4: [lost] * TRIES, 5: [refused]}))
    requests = dict.fromkeys(range(6), make_config().train_request())
    replies = list(transport.exchange(requests, 1.0))
    assert sorted(node for node, reply in replies if not isinstance(reply, Failure)) == [0, 1, 2, 3]
    assert (replies[-1], dict(replies)[5]) == ((4, lost), refused)
    assert len(replies) == 6


@pytest.mark.parametrize(("lost", "ends"), [(1, False), (2, True)])
def test_a_run_on_ray_that_loses_more_than_one_in_a_hundred_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int, ends: bool
) -> None:
    many = ["data.partition=iid", "data.parties=150", "federation.minimum_parties=10"]
    case = divide(load_scenario("stroke", many), 0)

    def flwr_run(*_: object) -> int:
        with closing(EventLog(tmp_path / "events.jsonl")) as log:
            tell_left_out(log, "train", {f"party {number}": no_node("error 0") for number in range(lost)})
        (tmp_path / "coordinator.json").write_text("{}")
        (tmp_path / "work" / HEARD).write_bytes(pickle.dumps({}))
        return 0

    monkeypatch.setattr(ray, "flwr_run", flwr_run)
    monkeypatch.setattr(ray, "super_link", lambda *_: nullcontext("127.0.0.1:1"))
    with pytest.raises(EngineError, match=f"lost {lost} of 150 parties") if ends else nullcontext():
        assert ray.run_ray(SimulatedFederation.of(case), Population.of(case), tmp_path, tmp_path / "work") == {}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """In a folder of its own: Ray writes down where a cluster is, and whoever starts Ray beside it would join."""
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(dir="/tmp")  # short: paths of sockets end at 107 bytes
    monkeypatch.setenv("RAY_TMPDIR", folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # what is tested, and not what is installed
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": MEMORY})
    made.add_node(num_cpus=1, object_store_memory=MEMORY)
    yield made
    made.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.ray
@pytest.mark.nightly
@pytest.mark.parametrize("votes", ["plaintext", "verified"])
def test_a_run_on_a_cluster_is_that_of_the_local_engine(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch, votes: str
) -> None:
    rows().write_csv(tmp_path / "rows.csv")
    (tmp_path / "tiny.toml").write_text(tomli_w.dumps(SCENARIO))
    scenario = load_scenario(str(tmp_path / "tiny.toml"), [f"federation.collection={votes}"])
    run_scenario("tiny", scenario, "local", 0, tmp_path / "local")
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    run_scenario("tiny", scenario, "ray", 0, tmp_path / "far")
    labels = [pl.read_parquet(tmp_path / out / "labels.parquet") for out in ("local", "far")]
    assert labels[0].equals(labels[1])
    assert holds(audit_path(tmp_path / "far").findings)


@pytest.mark.ray
@pytest.mark.nightly
@pytest.mark.parametrize("method", ["train", "vote"])
def test_an_actor_that_is_killed_costs_no_party(tmp_path: Path, sabotaged: Callable[..., None], method: str) -> None:
    """Flower hands it every further message, and each is sent again."""
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    scenario = few(GNMAX)
    parties = divide(scenario, 3).parties
    sabotaged(**{f"{parties[5]}__{method}": "once"})
    summary = run_scenario("few", scenario, "ray", 3, tmp_path / "run")
    assert (tmp_path / "flag").exists()
    assert (summary["parties"], "parties_absent" in summary) == (len(parties), False)
    assert counted_in(tmp_path / "run") == [len(parties)]
