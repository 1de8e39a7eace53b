"""A deployed run on fake nodes: who comes late is in the next sum, and everybody is in the summary by name."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from consilium.accounting.mechanisms import Confident, GNMax
from consilium.coordinator.collection import admission
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.events import Event, EventLog, read_events
from consilium.coordinator.federation import FederationRun
from consilium.coordinator.parts import Timeouts
from consilium.coordinator.run_folders import conclude_unserved
from consilium.coordinator.run_state import RunState
from consilium.coordinator.served import least_parties
from consilium.protocol.label_source import LabelSource
from tests.coordinator.collection.test_admission import NAMES, Hall
from tests.federation import drop, make_config, make_homes, make_rows, make_secure, node_at

FEW = Confident(threshold=2, sigma1=2.0, sigma2=1.0)
WIDE = GNMax(sigma=4.0)
"""Each of four parties adds a share of at least variance 1."""
HANGS = 30.0
"""Seconds after which a run that waits for what never comes is given up; none of these takes one."""
SOON = Timeouts(enrol=HANGS, train=HANGS, vote=HANGS, secure=HANGS, student=HANGS, join=0.01)


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


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A run of five homes, of which those in `there` are connected at first; returns its summary, and the roll."""
    monkeypatch.setattr(admission, "LOOK_SECONDS", 0.02)

    def of(there: set[int], student: Callable[[LabelSource, Hall, Told], None], faults=None, masked=False, **changes):
        homes = make_homes(tmp_path / "homes", 5)
        keys = make_secure(homes, tmp_path) if masked else None
        roster = {"collection": "secure", "roster": keys.roster.digest, "noise_shares": 4} if keys else {}
        config = make_config(timeouts=SOON, mechanism=WIDE if keys else FEW, **roster, **changes)
        hall = Hall(homes, faults)
        hall.there = there
        log = Told(tmp_path / "events.jsonl")
        FederationRun(
            hall, config, tmp_path, log, lambda source: student(source, hall, log), keys or PLAINTEXT, nodes=hall
        ).run()
        log.close()
        roll = RunState.of(read_events(tmp_path / "events.jsonl"), NAMES).roll
        return {**json.loads((tmp_path / "coordinator.json").read_text()), "roll": roll}

    return of


@pytest.mark.parametrize("masked", [False, True])
def test_a_party_that_comes_late_is_in_the_next_sum(run, masked: bool) -> None:
    """One more alone, also under masks: what sums with noise in them tell together is charged."""
    first = 4 if masked else 3

    def student(source: LabelSource, hall: Hall, log: Told) -> None:
        source.ask(make_rows(5, 1)[0])
        hall.there = {*range(first + 1)}
        log.wait_for("late")
        source.ask(make_rows(5, 2)[0])

    summary = run({*range(first)}, student, masked=masked)
    assert summary["parties_counted"] == [first, first + 1]
    assert (summary["parties"], summary["teachers"]) == (list(NAMES[: first + 1]), first + 1)
    assert [summary["roll"][name].words for name in NAMES] == [
        *["takes part, connected, answered 10 queries"] * first,
        "takes part, connected, answered 5 queries",
        *["awaited, not connected"] * (4 - first),
    ]


def test_one_that_left_is_in_the_summary_and_a_refused_one_under_its_name(run) -> None:
    def student(source: LabelSource, hall: Hall, log: Told) -> None:
        source.ask(make_rows(5, 1)[0])
        hall.faults[0, "query.vote"] = drop
        source.ask(make_rows(5, 2)[0])

    summary = run({0, 1, 2, 3, 4}, student, {(4, "train.teacher"): drop})
    assert summary["parties"] == ["p00", "p01", "p02", "p03"]
    assert summary["roll"]["p00"].reason == "vote: no answer within 5 s"
    assert summary["roll"]["p04"].words == "left out: no answer within 5 s"


def swapped(hall: Hall, log: Told, home: Path, state: Path | None = None) -> None:
    """Party p00 is stopped, gets this state back, and is started."""
    hall.there = {1, 2, 3}
    log.wait_for("lost")
    hall.parties[0].store.close()
    if state is not None:
        shutil.rmtree(home)
        shutil.copytree(state, home)
    hall.parties[0] = node_at(home)
    hall.there = {0, 1, 2, 3}


def test_one_with_an_older_state_is_out_until_it_has_the_newest(run, tmp_path: Path) -> None:
    home, backup, newest = tmp_path / "homes" / "00000", tmp_path / "backup", tmp_path / "newest"

    def student(source: LabelSource, hall: Hall, log: Told) -> None:
        shutil.copytree(home, backup)
        source.ask(make_rows(5, 1)[0])
        shutil.copytree(home, newest)
        swapped(hall, log, home, backup)
        source.ask(make_rows(5, 2)[0])
        log.seen.clear()
        swapped(hall, log, home, newest)
        log.wait_for("late")
        source.ask(make_rows(5, 3)[0])

    summary = run({0, 1, 2, 3}, student, simulation=False, noise_seed=None)
    assert summary["parties_counted"] == [4, 3, 4]
    assert "its state went back" in (tmp_path / "events.jsonl").read_text()


def test_one_with_an_older_state_is_out_also_while_another_is_waited_for(run, tmp_path: Path) -> None:
    home, asked, go_on = tmp_path / "homes" / "00000", threading.Event(), threading.Event()

    def hang(reply):
        asked.set()
        assert go_on.wait(HANGS)
        return drop(reply)

    def student(source: LabelSource, hall: Hall, log: Told) -> None:
        shutil.copytree(home, tmp_path / "backup")
        source.ask(make_rows(5, 1)[0])
        hall.there = {0, 1, 2, 3, 4}
        assert asked.wait(HANGS)
        swapped(hall, log, home, tmp_path / "backup")
        source.ask(make_rows(5, 2)[0])
        go_on.set()

    faults = {(4, "query.hello"): hang}
    summary = run({0, 1, 2, 3}, student, faults, simulation=False, noise_seed=None)
    assert summary["parties_counted"] == [4, 3]


def test_one_with_its_own_state_stays(run, tmp_path: Path) -> None:
    def student(source: LabelSource, hall: Hall, log: Told) -> None:
        source.ask(make_rows(5, 1)[0])
        swapped(hall, log, tmp_path / "homes" / "00000")
        source.ask(make_rows(5, 2)[0])

    assert run({0, 1, 2, 3}, student)["parties_counted"] == [4, 4]
    assert "left-out" not in (tmp_path / "events.jsonl").read_text()


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


def test_closing_while_parties_are_awaited_closes(tmp_path: Path) -> None:
    hall = Hall(make_homes(tmp_path / "homes", 5))
    close = tmp_path / "close"
    close.touch()
    log = EventLog(tmp_path / "events.jsonl")
    FederationRun(hall, make_config(), tmp_path, log, lambda _: None, closing=close.exists, nodes=hall).run()
    log.close()
    summary = json.loads((tmp_path / "coordinator.json").read_text())
    assert (summary["asked"], summary["parties"], hall.requests) == (0, [], [])


def test_a_closing_without_anybody_keeps_who_took_part(run, tmp_path: Path) -> None:
    def student(source: LabelSource, hall: Hall, log: Told) -> None:
        source.ask(make_rows(5, 1)[0])

    summary = run({0, 1, 2}, student)
    (tmp_path / "coordinator.json").unlink()  # as if the process had been killed before
    again = conclude_unserved(make_config(timeouts=SOON, mechanism=FEW), tmp_path)
    assert again["parties"] == summary["parties"] == ["p00", "p01", "p02"]
    assert again["asked"] == 5
