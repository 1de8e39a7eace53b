"""Enrolment of a deployment: everybody is waited for, by name, nobody for ever, and whoever is late is let in."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.collection.admission import AGAIN, SOON, Admission, Greeting, Latecomers, assemble, train
from consilium.coordinator.events import event_of
from consilium.coordinator.run_state import PartyState, RunState
from consilium.protocol.messages import HelloRequest
from consilium.sums.terms import NO_LEDGER
from tests.federation import FakeTransport, drop, make_config, make_homes, with_field

CONFIG, EMPTY = make_config(), Greeting(lambda: NO_LEDGER)
NAMES = ("p00", "p01", "p02", "p03", "p04")


class Hall(FakeTransport):
    """Parties that come and go: the nodes in `there`, each registered under its own name."""

    def __init__(self, homes: list[Path], faults=None) -> None:
        super().__init__(homes, faults)
        self.there: set[int] = set()
        self.told_late: list[bool] = []

    def exchange(self, requests, timeout, on_reply):
        self.told_late += [request.late for request in requests.values() if isinstance(request, HelloRequest)]
        return super().exchange(requests, timeout, on_reply)

    def nodes(self) -> list[int]:
        return sorted(self.there)

    def names(self) -> Collection[str]:
        return NAMES

    def name(self, node: int) -> str | None:
        return NAMES[node]


class Clock:
    """Time that passes by sleeping; `then` happens at its moments, in seconds."""

    def __init__(self, **then: Callable[[], Any]) -> None:
        self.now = 0.0
        self.then = {float(at.removeprefix("at_")): what for at, what in then.items()}

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for at in [at for at in self.then if at <= self.now]:
            self.then.pop(at)()


def events(log) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(log._file.name).read_text().splitlines()]


@pytest.fixture(scope="module")
def at_home(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_homes(tmp_path_factory.mktemp("h"), 5)


@pytest.fixture
def hall(at_home: list[Path]) -> Hall:
    """Nobody is there yet."""
    return Hall(at_home)


def roll(log) -> RunState:
    return RunState.of(filter(None, map(event_of, events(log))), NAMES)


def admit(hall: Hall, log, clock: Clock, least: int = 3, patience: float = 300, until: float = 10_000):
    admission = Admission(hall, CONFIG, log, EMPTY, hall, clock=clock)
    found = assemble(admission, least, patience, log, lambda: clock.now >= until, clock, clock.sleep)
    return admission, [member.party for member in found]


def test_everybody_is_waited_for_however_fast_the_first_are(hall: Hall, log) -> None:
    first, more, last = (lambda: hall.there.update({0, 1, 2})), (lambda: hall.there.add(3)), (lambda: hall.there.add(4))
    clock = Clock(at_5=first, at_60=more, at_70=last)
    _, found = admit(hall, log, clock)
    assert found == list(NAMES)
    assert clock.now == 70


def test_who_is_missing_is_not_waited_for_longer_than_the_setting_says(hall: Hall, log) -> None:
    clock = Clock(at_4000=lambda: hall.there.update({0, 1, 3}))
    _, found = admit(hall, log, clock, patience=300)
    assert found == ["p00", "p01", "p03"]
    assert clock.now == 4300  # the time runs from when there were enough
    waited = [event for event in events(log) if event["event"] == "waiting"]
    told = [event["awaited"] for event in waited]
    assert (
        told == [list(NAMES)] * (told.index(["p02", "p04"])) + [["p02", "p04"]] * 5
    )  # when it changes, and each minute
    assert [event.get("at_most_seconds") for event in waited][-5:] == [300, 240, 180, 120, 60]
    assert not [event for event in events(log) if event["event"] == "failed"]


@pytest.mark.parametrize("there", [set(), {0, 1}])
def test_too_few_are_waited_for_without_end_and_without_a_failure(hall: Hall, log, there: set[int]) -> None:
    hall.there = there
    clock = Clock()
    _, found = admit(hall, log, clock, until=9000)  # and then it is to be closed
    assert (found, clock.now) == ([], 9000)
    assert sum(event["event"] == "waiting" for event in events(log)) == 150  # who is missing, each minute


def test_one_that_refuses_is_not_waited_for_and_is_asked_again(tmp_path: Path, log) -> None:
    homes = make_homes(tmp_path / "h", 5)
    settings = (homes[2] / "party.toml").read_text()
    (homes[2] / "party.toml").write_text(settings.replace("most_epsilon = inf", "most_epsilon = 0.1"))
    hall = Hall(homes)
    hall.there = {0, 1, 2, 3, 4}
    clock = Clock()
    admission, found = admit(hall, log, clock)
    assert found == ["p00", "p01", "p03", "p04"]
    assert clock.now == 0
    assert admission.failures["p02"].reason.startswith("refused: most-epsilon, requested ")
    assert admission.ask(late=True) == []
    clock.sleep(AGAIN.first)
    assert admission.ask(late=True) == []  # refuses once more, which is no news
    told = [event for event in events(log) if event["event"] == "left-out"]
    assert [event["party"] for event in told] == ["p02"]
    (homes[2] / "party.toml").write_text(settings)
    hall.parties[2] = Hall(homes).parties[2]
    clock.sleep(2 * AGAIN.first)
    assert [member.party for member in admission.ask(late=True)] == ["p02"]
    entry = roll(log).roll["p02"]
    assert (entry.state, entry.reason) == (PartyState.ENROLLED, "")


def test_one_that_is_silent_is_waited_for_and_asked_again_soon(hall: Hall, log) -> None:
    """A machine that is busy when it is asked has refused nothing."""
    hall.faults = {(2, "query.hello"): drop}
    hall.there = {0, 1, 2, 3, 4}
    clock = Clock(at_10=lambda: hall.faults.clear())
    admission, found = admit(hall, log, clock)
    assert found == list(NAMES)
    assert clock.now <= 10 + SOON.pause(2)
    assert admission.failures == {}
    waited = [event for event in events(log) if event["event"] == "waiting"]
    assert [(event["awaited"], event["refused"]) for event in waited] == [(["p02"], [])]


def test_one_that_was_away_is_asked_when_it_is_back(hall: Hall, log) -> None:
    hall.faults = {(2, "query.hello"): drop}
    hall.there = {0, 1, 2}
    admission = Admission(hall, CONFIG, log, EMPTY, hall, clock=Clock())
    assert [member.party for member in admission.ask()] == ["p00", "p01"]
    hall.faults = {}
    assert admission.ask() == []  # it is not due yet
    hall.there = {0, 1}
    admission.look()
    hall.there = {0, 1, 2}
    assert [member.party for member in admission.ask()] == ["p02"]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (drop, "no answer within 5 s"),
        (with_field("party", "p01"), "answers in another party's name than its key was registered for"),
        (with_field("teachers", 2), "offers 2 teachers, the federation asks 1"),
    ],
)
def test_who_is_left_out_is_left_out_under_its_own_name(hall: Hall, log, fault, why: str) -> None:
    """A node that claims another's name harms nobody but itself: its key tells who it is."""
    hall.faults = {(2, "query.hello"): fault}
    hall.there = {0, 1, 2, 3, 4}
    admission, found = admit(hall, log, Clock())
    assert found == ["p00", "p01", "p03", "p04"]
    assert {name: failure.reason for name, failure in admission.failures.items()} == {"p02": why}


def test_who_goes_while_others_are_awaited_is_no_member(hall: Hall, log) -> None:
    hall.there = {0, 1, 2, 3}
    _, found = admit(hall, log, Clock(at_20=lambda: hall.there.discard(1)), patience=100)
    assert found == ["p00", "p02", "p03"]
    assert [event["parties"] for event in events(log) if event["event"] == "lost"] == [["p01"]]


def test_a_late_party_is_told_so_trained_and_taken_once(tmp_path: Path, log) -> None:
    hall = Hall(make_homes(tmp_path / "h", 5), {(4, "train.teacher"): drop})
    hall.there = {0, 1, 2}
    clock = Clock()
    admission, _ = admit(hall, log, clock, patience=0)
    late = Latecomers(admission, hall, CONFIG, log)
    late.look()
    assert late.join([]) == [] and hall.told_late == [False] * 3
    hall.there = {0, 1, 2, 3, 4}
    late.look()
    assert [member.party for member in late.join([])] == ["p03"] and hall.told_late[3:] == [True] * 2
    assert late.join([]) == []
    assert "p04" not in admission.members  # it did not train, and is asked again
    assert admission.failures["p04"].reason == "no answer within 5 s"
    hall.faults = {}
    clock.sleep(AGAIN.pause(2))
    late.look()
    assert roll(log).roll["p04"].words == "late, takes part from the next questions on"
    assert [member.party for member in late.join([])] == ["p04"]
    assert roll(log).took_part == ["p03", "p04"]
    stages = [(event["stage"], event["total"]) for event in events(log) if event["event"] == "stage"]
    assert stages == [("enrol", 3)]  # what is done for late ones is no stage of a run that serves


def test_a_simulation_asks_once_and_leaves_both_claimants_out(homes, log) -> None:
    transport = FakeTransport(homes, {(1, "query.hello"): with_field("party", "p02")})
    admission = Admission(transport, CONFIG, log, EMPTY)
    members = admission.ask()
    assert [member.party for member in members] == ["p00", "p03", "p04"]
    assert train(transport, CONFIG, members, log).members == members
    assert not {"enrolled", "connected"} & {event["event"] for event in events(log)}  # names it has none to tell by
