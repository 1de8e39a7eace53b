"""Who takes part in a simulation does not follow from time, and whoever is left out is named."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from flwr.app import RecordDict

from consilium.coordinator.collection.exchange import Failure, no_node, tell_left_out
from consilium.coordinator.events import EventLog
from consilium.coordinator.parts import Timeouts
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

TINY = [f"federation.timeouts.{stage}=1e-9" for stage in ("enrol", "train", "vote", "secure")]
SMALL = [
    "data.least_rows=150",
    "federation.minimum_parties=5",
    "federation.query_budget={queries=20, answers=20}",
    "federation.mechanism={name='histogram', sigma=20}",
    "simulation.manual_labels=none",
]


def test_no_time_limit_leaves_a_party_out(tmp_path: Path) -> None:
    scenario = load_scenario("stroke", [*SMALL, *TINY])
    parties = len(divide(scenario, 3).parties)
    summary = run_scenario("stroke", scenario, "local", 3, tmp_path / "run")
    assert summary["parties"] == parties > 10
    assert "parties_absent" not in summary
    assert [finding for finding in audit_path(tmp_path / "run").findings if not finding.holds] == []


def test_only_stages_in_which_parties_are_waited_for_are_without_limit() -> None:
    patient, limits = Timeouts(train=1.0).patient(), Timeouts()
    assert min(patient.enrol, patient.train, patient.vote, patient.secure) > 10 * 86_400
    assert (patient.join, patient.student) == (limits.join, limits.student)


class Lossy:
    """A transport whose nodes are lost at the first tries: by node, at how many."""

    def __init__(self, tries: dict[int, int]) -> None:
        self.tries = tries

    def nodes(self) -> list[int]:
        return sorted(self.tries)

    def exchange(
        self, requests: Mapping[int, WireModel], timeout: float, on_reply: Callable[[int, int], None]
    ) -> Iterator[tuple[int, RecordDict | Failure]]:
        for node in requests:
            self.tries[node] -= 1
            yield node, no_node("error 0") if self.tries[node] >= 0 else RecordDict()


def test_who_is_lost_with_a_process_is_asked_again_and_refusals_are_not() -> None:
    """Nodes 0 to 3 answer in time, node 4 never does."""
    told: list[tuple[int, int]] = []
    requests = dict.fromkeys(range(5), make_config().train_request())
    replies = list(SendsAgain(Lossy(dict(zip(range(5), [0, 1, 2, 3, TRIES], strict=True)))).exchange(
        requests, 1.0, lambda *each: told.append(each)
    ))  # fmt: skip
    assert [node for node, reply in replies if not isinstance(reply, Failure)] == [0, 1, 2, 3]
    assert replies[-1] == (4, no_node("error 0"))
    assert told == [(number, 5) for number in range(1, 6)]
    refused = Failure.of(Refusal(rule=Rule.LEAST_ROWS))
    once = SendsAgain(Refusing(refused))
    assert list(once.exchange({1: requests[0]}, 1.0, lambda *_: None)) == [(1, refused)]


class Refusing(Lossy):
    """Its node refuses, and may be asked once."""

    def __init__(self, refused: Failure) -> None:
        super().__init__({1: 1})
        self.refused = refused

    def exchange(
        self, requests: Mapping[int, WireModel], timeout: float, on_reply: Callable[[int, int], None]
    ) -> Iterator[tuple[int, RecordDict | Failure]]:
        self.tries[1] -= 1
        assert self.tries[1] >= 0
        yield 1, self.refused


@pytest.mark.parametrize(("lost", "ends"), [(1, False), (2, True)])
def test_a_run_on_ray_that_loses_more_than_one_in_a_hundred_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int, ends: bool
) -> None:
    case = divide(
        load_scenario("stroke", ["data.partition=iid", "data.parties=150", "federation.minimum_parties=10"]), 0
    )
    population, federation = Population.of(case), SimulatedFederation.of(case)

    def flwr_run(*_: object) -> int:
        with closing(EventLog(tmp_path / "events.jsonl")) as log:
            tell_left_out(log, "train", {f"party {number}": no_node("error 0") for number in range(lost)})
        (tmp_path / "coordinator.json").write_text("{}")
        (tmp_path / "work" / HEARD).write_bytes(pickle.dumps({}))
        return 0

    monkeypatch.setattr(ray, "flwr_run", flwr_run)
    monkeypatch.setattr(ray, "super_link", lambda *_: nullcontext("127.0.0.1:1"))
    with pytest.raises(EngineError, match=f"lost {lost} of 150 parties") if ends else nullcontext():
        assert ray.run_ray(federation, population, tmp_path, tmp_path / "work") == {}
