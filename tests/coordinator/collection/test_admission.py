"""Enrolment of a deployment: everybody is waited for, by name, nobody for ever, and whoever is late is let in; and
whole runs on fake nodes, in which parties come, go and come back."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consilium.accounting.mechanisms import Confident, GNMax
from consilium.coordinator.collection import admission
from consilium.coordinator.collection.admission import AGAIN, SOON, Admission, Registered, assemble
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.events import Event, EventLog, PartyState, RunState, read_events
from consilium.coordinator.federation import FederationRun, conclude_unserved
from consilium.coordinator.parts import Timeouts
from consilium.coordinator.served import least_parties
from consilium.protocol.label_source import LabelSource
from consilium.protocol.messages import HelloRequest
from tests.federation import (
    FakeTransport,
    drop,
    make_config,
    make_homes,
    make_rows,
    make_secure,
    node_at,
    standing,
    with_field,
)

CONFIG, STANDING = make_config(), standing()
NAMES = ("p00", "p01", "p02", "p03", "p04")


class Hall(FakeTransport):
    """Parties that come and go: the nodes in `there`, each registered under its own name."""

    def __init__(self, homes: list[Path], faults=None) -> None:
        super().__init__(homes, faults)
        self.there: set[int] = set()
        self.told_late: list[bool] = []

    def exchange(self, requests, timeout):
        self.told_late += [request.late for request in requests.values() if isinstance(request, HelloRequest)]
        return super().exchange(requests, timeout)

    def nodes(self) -> list[int]:
        return sorted(self.there)

    known = Registered(NAMES, dict(enumerate(NAMES)))


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


def events(log, *names: str) -> list[dict[str, Any]]:
    lines = map(json.loads, Path(log._file.name).read_text().splitlines())
    return [line for line in lines if not names or line["event"] in names]


@pytest.fixture(scope="module")
def at_home(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_homes(tmp_path_factory.mktemp("h"), 5)


@pytest.fixture
def hall(at_home: list[Path]) -> Hall:
    """Nobody is there yet."""
    return Hall(at_home)


def admit(hall: Hall, log, clock: Clock, least: int = 3, patience: float = 300, until: float = 10_000):
    admission = Admission(hall, CONFIG, log, STANDING, hall.known, clock=clock)
    found = assemble(admission, least, patience, lambda: clock.now >= until, clock, clock.sleep)
    return admission, [member.party for member in found]


def test_everybody_is_waited_for_however_fast_the_first_are(hall: Hall, log) -> None:
    first, more, last = (lambda: hall.there.update({0, 1, 2})), (lambda: hall.there.add(3)), (lambda: hall.there.add(4))
    clock = Clock(at_5=first, at_60=more, at_70=last)
    assert admit(hall, log, clock)[1] == list(NAMES) and clock.now == 70


def test_who_is_missing_is_not_waited_for_longer_than_the_setting_says(hall: Hall, log) -> None:
    """The time runs from when there were enough. Who is missing is told when it changes, and each minute."""
    clock = Clock(at_4000=lambda: hall.there.update({0, 1, 3}))
    assert admit(hall, log, clock, patience=300)[1] == ["p00", "p01", "p03"] and clock.now == 4300
    waited = events(log, "waiting")
    assert [event["awaited"] for event in waited] == [[*NAMES]] * (len(waited) - 5) + [["p02", "p04"]] * 5
    assert [event.get("at_most_seconds") for event in waited][-5:] == [300, 240, 180, 120, 60]
    assert not events(log, "failed")


@pytest.mark.parametrize("there", [set(), {0, 1}])
def test_too_few_are_waited_for_without_end_and_without_a_failure(hall: Hall, log, there: set[int]) -> None:
    hall.there, clock = there, Clock()
    assert (admit(hall, log, clock, until=9000)[1], clock.now) == ([], 9000)  # and then it is to be closed
    assert len(events(log, "waiting")) == 150


def test_one_that_refuses_is_not_waited_for_and_is_asked_again(tmp_path: Path, log) -> None:
    homes = make_homes(tmp_path / "h", 5)
    settings = (homes[2] / "party.toml").read_text()
    (homes[2] / "party.toml").write_text(settings.replace("most_epsilon = inf", "most_epsilon = 0.1"))
    hall, clock = Hall(homes), Clock()
    hall.there = {0, 1, 2, 3, 4}
    admission, found = admit(hall, log, clock)
    assert found == ["p00", "p01", "p03", "p04"] and clock.now == 0
    assert admission.failures["p02"].reason.startswith("refused: most-epsilon, requested ")
    assert admission.ask(late=True) == []
    clock.sleep(AGAIN.first)
    assert admission.ask(late=True) == []  # refuses once more, which is no news
    assert [event["party"] for event in events(log, "left-out")] == ["p02"]
    (homes[2] / "party.toml").write_text(settings)
    hall.parties[2] = Hall(homes).parties[2]
    clock.sleep(2 * AGAIN.first)
    assert [member.party for member in admission.ask(late=True)] == ["p02"]
    entry = RunState.of(read_events(Path(log._file.name)), NAMES).roll["p02"]
    assert (entry.state, entry.reason) == (PartyState.ENROLLED, "")


def test_one_that_is_silent_is_waited_for_and_asked_again_soon(hall: Hall, log) -> None:
    """A machine that is busy when it is asked has refused nothing."""
    hall.faults, hall.there = {(2, "query.hello"): drop}, {0, 1, 2, 3, 4}
    clock = Clock(at_10=lambda: hall.faults.clear())
    admission, found = admit(hall, log, clock)
    assert found == list(NAMES) and clock.now <= 10 + SOON.pause(2) and admission.failures == {}
    assert [(event["awaited"], event["refused"]) for event in events(log, "waiting")] == [(["p02"], [])]


def test_one_that_was_away_is_asked_when_it_is_back(hall: Hall, log) -> None:
    hall.faults, hall.there = {(2, "query.hello"): drop}, {0, 1, 2}
    admission = Admission(hall, CONFIG, log, STANDING, hall.known, clock=Clock())
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
    hall.faults, hall.there = {(2, "query.hello"): fault}, {0, 1, 2, 3, 4}
    admission, found = admit(hall, log, Clock())
    assert found == ["p00", "p01", "p03", "p04"]
    assert {name: failure.reason for name, failure in admission.failures.items()} == {"p02": why}


def test_a_registered_node_that_is_no_party_is_no_member_whatever_it_says(hall: Hall, log) -> None:
    """The second aggregator's key is known, too."""
    hall.known = hall.known._replace(parties=NAMES[:4])
    hall.there = {0, 1, 2, 3, 4}
    assert admit(hall, log, Clock())[1] == [*NAMES[:4]]


def test_who_goes_while_others_are_awaited_is_no_member(hall: Hall, log) -> None:
    hall.there = {0, 1, 2, 3}
    assert admit(hall, log, Clock(at_20=lambda: hall.there.discard(1)), patience=100)[1] == ["p00", "p02", "p03"]
    assert [event["parties"] for event in events(log, "lost")] == [["p01"]]


# Whole runs.

FEW = Confident(threshold=2, sigma1=2.0, sigma2=1.0)
WIDE = GNMax(sigma=4.0)
"""Each of four parties adds a share of at least variance 1."""
HANGS = 30.0
"""Seconds after which a run that waits for what never comes is given up; none of these takes one."""
SHORT = Timeouts(enrol=HANGS, train=HANGS, vote=HANGS, secure=HANGS, student=HANGS, join=0.01)


class Told(EventLog):
    """An event log that lets the test wait for an event."""

    def __init__(self, path: Path) -> None:
        self.seen: list[str] = []
        self._changed = threading.Condition()
        super().__init__(path, self._hear)

    def _hear(self, event: Event) -> None:
        with self._changed:
            self.seen.append(event.kind)
            self._changed.notify_all()

    def wait_for(self, event: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: event in self.seen, HANGS), f"no event {event!r}"


def ask(source: LabelSource, seed: int) -> None:
    source.ask(make_rows(5, seed)[0])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A run of five homes, of which those in `there` are connected at first; returns its summary, and the roll."""
    monkeypatch.setattr(admission, "LOOK_SECONDS", 0.02)

    def of(there: set[int], student: Callable[[LabelSource, Hall, Told], None], faults=None, masked=False, **changes):
        homes = make_homes(tmp_path / "homes", 5)
        keys = make_secure(homes, tmp_path) if masked else None
        roster = {"collection": "secure", "roster": keys.roster.digest, "noise_shares": 4} if keys else {}
        config = make_config(timeouts=SHORT, mechanism=WIDE if keys else FEW, **roster, **changes)
        hall = Hall(homes, faults)
        hall.there = there
        log = Told(tmp_path / "events.jsonl")
        FederationRun(
            hall, config, tmp_path, log, lambda source: student(source, hall, log), keys or PLAINTEXT, nodes=hall.known
        ).run()
        log.close()
        happened = read_events(tmp_path / "events.jsonl")
        counted = [event.counted for event in happened if event.kind == "released"]
        summary = json.loads((tmp_path / "coordinator.json").read_text())
        return {**summary, "counted": counted, "roll": RunState.of(happened, NAMES).roll}

    return of


@pytest.mark.parametrize("masked", [False, True])
def test_a_party_that_comes_late_is_told_so_trained_and_in_the_next_sum(run, masked: bool) -> None:
    """One more alone, also under masks: what sums with noise in them tell together is charged. What is done for it is
    no stage of a run that serves."""
    first = 4 if masked else 3

    def student(source: LabelSource, hall: Hall, log: Told) -> None:
        ask(source, 1)
        assert not any(hall.told_late)
        log.seen.clear()
        hall.there = {*range(first + 1)}
        log.wait_for("takes-part")
        assert hall.told_late[first:] == [True]
        ask(source, 2)
        assert [event["total"] for event in events(log, "stage") if event["stage"] == "enrol"] == [first]

    summary = run({*range(first)}, student, masked=masked)
    assert summary["counted"] == [first, first + 1]
    assert (summary["parties"], summary["teachers"]) == (list(NAMES[: first + 1]), first + 1)
    assert [summary["roll"][name].words for name in NAMES] == [
        *["takes part, connected, answered 10 queries"] * first,
        "takes part, connected, answered 5 queries",
        *["awaited, not connected"] * (4 - first),
    ]


def test_one_that_left_is_in_the_summary_and_a_refused_one_under_its_name(run) -> None:
    def student(source: LabelSource, hall: Hall, log: Told) -> None:
        ask(source, 1)
        hall.faults[0, "query.vote"] = drop
        ask(source, 2)

    summary = run({0, 1, 2, 3, 4}, student, {(4, "train.teacher"): drop})
    assert summary["parties"] == ["p00", "p01", "p02", "p03"]
    assert summary["roll"]["p00"].reason == "vote: no answer within 5 s"
    assert summary["roll"]["p04"].words == "left out: no answer within 5 s"


class TestReturned:
    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        return tmp_path / "homes" / "00000"

    def _swap(self, hall: Hall, log: Told, home: Path, backup: Path | None) -> None:
        """Party p00 is stopped, its files may be those of a backup, and it is started."""
        hall.there = {1, 2, 3}
        log.wait_for("lost")
        hall.parties[0].store.close()
        if backup is not None:
            shutil.rmtree(home)
            shutil.copytree(backup, home)
        hall.parties[0] = node_at(home)
        hall.there = {0, 1, 2, 3}

    def test_one_with_an_older_state_is_out_until_it_has_the_newest(self, run, tmp_path: Path, home: Path) -> None:
        older, newest = tmp_path / "older", tmp_path / "newest"

        def student(source: LabelSource, hall: Hall, log: Told) -> None:
            shutil.copytree(home, older)
            ask(source, 1)
            self._swap(hall, log, home, None)
            ask(source, 4)
            assert "left-out" not in log.seen, "with its own state it stays"
            shutil.copytree(home, newest)
            log.seen.clear()
            self._swap(hall, log, home, older)
            ask(source, 2)
            log.seen.clear()
            self._swap(hall, log, home, newest)
            log.wait_for("takes-part")
            ask(source, 3)

        summary = run({0, 1, 2, 3}, student, simulation=False, noise_seed=None)
        assert summary["counted"] == [4, 4, 3, 4]
        assert "its state went back" in (tmp_path / "events.jsonl").read_text()

    def test_one_with_an_older_state_is_out_also_while_another_is_waited_for(self, run, tmp_path, home: Path) -> None:
        asked, go_on = threading.Event(), threading.Event()

        def hang(reply):
            asked.set()
            assert go_on.wait(HANGS)
            return drop(reply)

        def student(source: LabelSource, hall: Hall, log: Told) -> None:
            shutil.copytree(home, tmp_path / "older")
            ask(source, 1)
            hall.there = {0, 1, 2, 3, 4}
            assert asked.wait(HANGS)
            self._swap(hall, log, home, tmp_path / "older")
            ask(source, 2)
            go_on.set()

        summary = run({0, 1, 2, 3}, student, {(4, "query.hello"): hang}, simulation=False, noise_seed=None)
        assert summary["counted"] == [4, 3]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mechanism": FEW, "minimum_parties": 2}, 2),
        ({"mechanism": FEW, "minimum_parties": 5}, 5),
        ({"minimum_parties": 2}, 4),  # below its threshold of 4 votes nothing could be answered
        ({"minimum_parties": 2, "teachers_per_party": 3}, 2),
    ],
)
def test_fewer_are_waited_for_than_which_nothing_could_be_answered(changes: dict, expected: int) -> None:
    assert least_parties(make_config(**changes), None) == expected


def test_a_secure_federation_needs_as_many_as_its_sums(tmp_path: Path) -> None:
    keys = make_secure(make_homes(tmp_path / "homes", 5), tmp_path)
    config = make_config(collection="secure", roster=keys.roster.digest, minimum_parties=2)
    assert (least_parties(config, keys.roster), keys.roster.least) == (4, 4)


def test_closing_while_parties_are_awaited_closes(hall: Hall, tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    FederationRun(hall, CONFIG, tmp_path, log, lambda _: None, closing=lambda: True, nodes=hall.known).run()
    log.close()
    summary = json.loads((tmp_path / "coordinator.json").read_text())
    assert (summary["asked"], summary["parties"], hall.requests) == (0, [], [])


def test_a_closing_without_anybody_keeps_who_took_part(run, tmp_path: Path) -> None:
    summary = run({0, 1, 2}, lambda source, *_: ask(source, 1))
    (tmp_path / "coordinator.json").unlink()  # as if the process had been killed before
    again = conclude_unserved(make_config(timeouts=SHORT, mechanism=FEW), tmp_path)
    assert again["parties"] == summary["parties"] == ["p00", "p01", "p02"] and again["asked"] == 5
