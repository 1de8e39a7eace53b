"""What the event log says: stage, troubles with a cure for each rule; damaged lines change nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.events import AWAY_CURE, EventLog, EventTail, event_of
from consilium.coordinator.run_state import NO_ANSWER, UNKNOWN, RunState
from consilium.protocol.refusals import CURES, Rule

AT = {"at": "2026-11-23T01:00:00.000+00:00"}


def after(*events: dict) -> RunState:
    return RunState.of(filter(None, (event_of({**AT, **event}) for event in events)))


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"event": "of a later version", "votes": [1, 2]},
        {"event": "progress", "stage": "train"},
        {"event": "failed"},
    ],
)
def test_what_is_not_understood_changes_little(event: dict) -> None:
    state = after({"event": "stage", "stage": "enrol", "total": 9}, event)
    assert not state.troubles
    assert state.stage in ("enrol", "failed")


@pytest.mark.parametrize(
    ("why", "cure"),
    [
        ({"reason": "refused: storage", "rule": "storage"}, f"{CURES[Rule.STORAGE]}."),
        ({"reason": "refused: most-queries", "rule": "most-queries"}, f"{CURES[Rule.MOST_QUERIES]}."),
        ({"reason": "no answer within 250 s", "silent": True}, NO_ANSWER),
        ({"reason": "2 nodes claim this name"}, UNKNOWN),
        ({"reason": ""}, UNKNOWN),
    ],
)
def test_every_trouble_has_a_cure(why: dict[str, Any], cure: str) -> None:
    (trouble,) = after({"event": "left-out", "party": "ward-a", "stage": "train", **why}).troubles
    assert trouble.endswith(f". {cure}")


def test_why_a_question_was_not_answered_is_not_shown() -> None:
    """It may hang on votes: whether a sum was in range, how many answers are left."""
    (trouble,) = after(
        {"event": "not-answered", "error": "BadShare", "reason": "share 741 is out of range", "asked": 1}
    ).troubles
    assert "741" not in trouble and "BadShare" not in trouble


def test_a_log_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = EventTail(path)
    assert tail.fresh() == []
    log = EventLog(path)
    log.write("stage", stage="enrol", total=3)
    assert [event.kind for event in tail.fresh()] == ["stage"]
    assert tail.fresh() == []
    with open(path, "a") as file:
        file.write('damaged\n[1]\n{"event": "serving", "at": "x", "address": "y"}\n{"event": "clo')
    assert [event.kind for event in tail.fresh()] == ["serving"]
    with open(path, "a") as file:
        file.write('sed", "asked": 1, "answered": 1}\n')
    assert [event.kind for event in tail.fresh()] == ["closed"]
    path.write_text(json.dumps({"event": "stage", "stage": "enrol", "total": 3}) + "\n")
    assert [event.kind for event in tail.fresh()] == ["stage"]
    assert tail.skipped == 2


def test_who_was_away_when_a_question_failed_is_shown_with_what_to_do() -> None:
    event = {
        "event": "not-answered",
        "error": "NotEnoughParties",
        "reason": "2 parties after stage 'vote' (1 x away)",
        "asked": 1,
    }
    (trouble,) = after(event).troubles
    assert "2 parties after stage 'vote' (1 x away)" in trouble and trouble.endswith(AWAY_CURE)


def test_a_party_that_comes_back_while_it_takes_part_goes_on_with_it() -> None:
    parties = {"parties": ["bern"]}
    back = [
        {"event": "takes-part", **parties},
        {"event": "voted", "queries": 1, **parties},
        {"event": "enrolled", **parties},
    ]
    assert after(*back).roll["bern"].words == "takes part, not connected now, answered 1 query"
    # a coordinator that starts again awaits everybody anew
    assert after(*back, {"event": "awaiting", **parties}, back[-1]).roll["bern"].words.startswith("enrolled")
