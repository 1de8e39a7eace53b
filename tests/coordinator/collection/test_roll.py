"""Where parties stand, from the events of a run: a table of what happens and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.events import Event, event_of, read_events
from consilium.coordinator.run_state import PartyState, RollEntry, RunState
from consilium.protocol.refusals import CURES, Rule


def event(kind: str, *names: str, **fields: Any) -> Event:
    found = event_of({"event": kind, "at": "12:00", **({"parties": list(names)} if names else {}), **fields})
    assert found is not None
    return found


def left_out(stage: str, reason: str, **fields: Any) -> Event:
    return event("left-out", party="a", stage=stage, reason=reason, **fields)


CONNECTED, ENROLLED, PART = event("connected", "a"), event("enrolled", "a"), event("takes-part", "a")
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
    "started anew": ([CONNECTED, PART, event("awaiting", "a")], "awaited, not connected"),
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


@pytest.mark.parametrize("torn", ["", '{"event": "takes-', "[1]\n", "\x00\n"])
def test_a_log_that_a_crash_broke_off_is_read_as_far_as_it_goes(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "events.jsonl"
    assert list(read_events(path)) == []
    path.write_text('{"event": "takes-part", "parties": ["a"]}\n' + torn)
    assert RunState.of(read_events(path)).roll["a"].state is PartyState.TAKES_PART


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
