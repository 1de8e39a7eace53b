"""Who takes part in a simulation does not follow from time, and whoever is lost on Ray is asked again, or named; a run
on a Ray cluster that is there already, without root: two nodes of one machine."""

from __future__ import annotations

import json
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tomli_w
from flwr.app import RecordDict

from consilium.coordinator.collection.exchange import Failure, no_node, tell_left_out
from consilium.coordinator.events import EventLog
from consilium.coordinator.parts import Timeouts
from consilium.coordinator.verify import holds
from consilium.protocol.errors import EngineError
from consilium.protocol.messages import WireModel
from consilium.protocol.refusals import Refusal, Rule
from consilium.simulations.audit import audit_path
from consilium.simulations.divide import divide
from consilium.simulations.engines import ray
from consilium.simulations.engines.ray_app import HEARD, TRIES, SendsAgain
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from consilium.simulations.simulated import Population, SimulatedFederation
from tests.federation import make_config
from tests.simulations.methods.cases import few
from tests.simulations.study.tiny import SCENARIO, rows

ROOT = Path(__file__).resolve().parents[3]
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

    def exchange(
        self, requests: Mapping[int, WireModel], timeout: float, on_reply: Callable[[int, int], None]
    ) -> Iterator[tuple[int, RecordDict | Failure]]:
        for node in requests:
            yield node, self.replies[node].pop(0)


def test_who_is_lost_with_a_process_is_asked_again_and_refusals_are_not() -> None:
    """Nodes 0 to 3 answer in time, node 4 never does, and node 5 refuses."""
    told, lost, refused = list[tuple[int, int]](), no_node("error 0"), Failure.of(Refusal(rule=Rule.LEAST_ROWS))
    answers: dict[int, list[RecordDict | Failure]] = {node: [*[lost] * node, RecordDict()] for node in range(4)}
    transport = SendsAgain(Replies(answers | {4: [lost] * TRIES, 5: [refused]}))
    requests = dict.fromkeys(range(6), make_config().train_request())
    replies = list(transport.exchange(requests, 1.0, lambda *each: told.append(each)))
    assert sorted(node for node, reply in replies if not isinstance(reply, Failure)) == [0, 1, 2, 3]
    assert (replies[-1], dict(replies)[5]) == ((4, lost), refused)
    assert told == [(number, 6) for number in range(1, 7)]


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
    assert json.loads((tmp_path / "run" / "coordinator.json").read_text())["parties_counted"] == [len(parties)]
