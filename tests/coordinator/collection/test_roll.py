"""Where parties stand and what went wrong, from the events of a run: what happens and what is said of it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.events import AWAY_CURE, Event, EventLog, EventTail, event_of
from consilium.coordinator.run_state import NO_ANSWER, UNKNOWN, RollEntry, RunState
from consilium.protocol.refusals import CURES, Rule


def event(kind: str, *names: str, **fields: Any) -> Event:
    found = event_of({"event": kind, "at": "12:00", **({"parties": list(names)} if names else {}), **fields})
    assert found is not None
    return found


def left_out(stage: str, reason: str, **fields: Any) -> Event:
    return event("left-out", party="a", stage=stage, reason=reason, **fields)


CONNECTED, ENROLLED, PART = event("connected", "a"), event("enrolled", "a"), event("takes-part", "a")
BACK = PART, event("voted", "a", queries=1), ENROLLED
CASES = {
    "nothing": ([], "awaited, not connected"),
    "connected": ([CONNECTED], "awaited, connected"),
    "enrolled": ([CONNECTED, ENROLLED], "enrolled, connected"),
    "trained": ([CONNECTED, ENROLLED, PART], "takes part, connected, in no sum yet"),
    "in a sum": (
        [CONNECTED, ENROLLED, PART, event("voted", "a", queries=4)],
        "takes part, connected, answered 4 queries",
    ),
    "late": ([CONNECTED, ENROLLED, event("late", "a")], "late, takes part from the next questions on"),
    "taken in": ([CONNECTED, event("late", "a"), PART], "takes part, connected, in no sum yet"),
    "refused": (
        [CONNECTED, left_out("enrol", "refused: storage", rule="storage")],
        f"refused: storage. {CURES[Rule.STORAGE]}",
    ),
    "corrected": ([left_out("enrol", "refused: storage"), CONNECTED, ENROLLED], "enrolled, connected"),
    "silent": ([CONNECTED, left_out("train", "no answer within 60 s")], "left out: no answer within 60 s"),
    "missed one sum": (
        [CONNECTED, PART, event("voted", "a", queries=4), left_out("secure sum: masked", "no answer within 9 s")],
        "takes part, connected, last left out: secure sum: masked: no answer within 9 s, answered 4 queries",
    ),
    "at fault": (
        [CONNECTED, PART, event("excluded", party="a", reason="BadShare")],
        "left out: found at fault: BadShare",
    ),
    "started anew": ([CONNECTED, PART, event("awaiting", "a")], "awaited, not connected"),
    "back while it takes part": ([*BACK], "takes part, not connected now, answered 1 query"),
    "back after a restart": ([*BACK, event("awaiting", "a"), ENROLLED], "enrolled, not connected, answered 1 query"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_of_a_party(case: str) -> None:
    told, words = CASES[case]
    assert RunState.of(told, ["a"]).roll["a"].words == words


def test_everybody_who_ever_took_part_is_named_after_a_restart_too() -> None:
    first = [event("takes-part", "a", "b"), event("voted", "a", queries=4)]
    state = RunState.of([*first, event("awaiting", "a", "b", "c"), event("takes-part", "c")], ["a", "b", "c", "d"])
    assert state.took_part == ["a", "b", "c"]
    assert state.roll["a"].queries == 4
    assert state.roll["d"] == RollEntry()


def test_a_log_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = EventTail(path)
    assert tail.fresh() == []
    with closing(EventLog(path)) as log:
        log.write("stage", stage="enrol", total=3)
    with open(path, "a") as file:
        file.write('damaged\n[1]\n{"event": "serving", "at": "x", "address": "y"}\n{"event": "clo')
    assert [event.kind for event in tail.fresh()] == ["stage", "serving"]
    with open(path, "a") as file:
        file.write('sed", "asked": 1, "answered": 1}\n')
    assert [event.kind for event in tail.fresh()] == ["closed"]
    path.write_text('{"event": "stage", "stage": "enrol", "total": 3}\n')  # it was begun anew
    assert ([event.kind for event in tail.fresh()], tail.skipped) == (["stage"], 2)


SECOND = "aggregator board"
SERVES = event("second-aggregator", name="board", node=7)
SECONDS = {
    "connected": ([event("connected", "a", SECOND)], "connected"),
    "serves": ([event("connected", SECOND), SERVES], "connected, checks votes"),
    "gone": ([event("connected", SECOND), SERVES, event("lost", SECOND)], "away"),
    "back": ([SERVES, event("lost", SECOND), event("connected", SECOND)], "connected, checks votes"),
    "started anew": ([SERVES, event("awaiting", "a")], "away"),
}


@pytest.mark.parametrize("case", SECONDS)
def test_the_second_aggregator_is_no_party(case: str) -> None:
    told, words = SECONDS[case]
    state = RunState.of(told, ["a"])
    assert (state.second_words("board"), list(state.roll), state.took_part) == (words, ["a"], [])


def test_what_is_not_understood_changes_nothing() -> None:
    unknown = {}, {"event": "of a later version"}, {"event": "progress", "stage": "train"}, {"event": "failed"}
    found = (event_of({"at": "12:00", **each}) for each in unknown)
    state = RunState.of([event("stage", stage="enrol", total=9), *filter(None, found)])
    assert (state.stage, [*state.troubles]) == ("enrol", [])


AWAY = "2 parties after stage 'vote' (1 x away)"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (left_out("train", "refused: storage", rule="storage"), f". {CURES[Rule.STORAGE]}."),
        (left_out("train", "no answer within 250 s", silent=True), f". {NO_ANSWER}"),
        (left_out("train", "2 nodes claim this name"), f". {UNKNOWN}"),
        (left_out("train", ""), f". {UNKNOWN}"),
        # why a question was not answered is shown where it does not hang on votes, as whether a sum was in range does
        (event("not-answered", error="NotEnoughParties", reason=AWAY), AWAY_CURE),
        (
            event("not-answered", error="BadShare", reason="share 741 is out of range"),
            ". The event log of the run says more.",
        ),
    ],
)
def test_every_trouble_has_a_cure_and_tells_no_votes(told: Event, words: str) -> None:
    (trouble,) = RunState.of([told]).troubles
    assert trouble.endswith(words) and "741" not in trouble and "BadShare" not in trouble
    assert words != AWAY_CURE or AWAY in trouble
