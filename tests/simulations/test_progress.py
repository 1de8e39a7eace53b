"""The event log as what it says of progress: written, read while it is written, and shown."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.events import Event, EventTail, event_of
from consilium.report.progress import Display, stage
from consilium.simulations.progress import Showing, following, recording

AT = "2026-01-01T00:00:10.000+00:00"


class Calls(Display):
    """Remembers what it was told to show."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []

    def update(self, stage: str, done: int, total: int) -> None:
        self.made.append(("update", stage, done, total))

    def say(self, text: str, warning: bool = False) -> None:
        self.made.append(("warning" if warning else "say", text))


PROMISED = "promised before anything is asked: epsilon at most"
OF_THE_STUDENT, OF_IT = "at delta 1e-05 towards whoever has the student", " towards whoever has it"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"event": "stage", "stage": "train", "total": 3}, [("update", "train", 0, 3)]),
        ({"event": "progress", "stage": "train", "done": 1, "total": 3}, [("update", "train", 1, 3)]),
        (
            {"event": "left-out", "stage": "vote", "party": "ward-a", "reason": "no answer", "for_data": False},
            [("say", "ward-a left out of stage vote: no answer")],
        ),
        ({"event": "warned", "code": "few", "text": "few parties"}, [("warning", "few parties")]),
        (
            {"event": "promised", "epsilon": None, "infinite": ["epsilon"], "delta": 1e-5, "unit": "party"},
            [("say", f"{PROMISED} unbounded {OF_THE_STUDENT}, unit: a party")],
        ),
        (
            {"event": "released", "asked": 9, "answered": 9, "counted": 3, "release": "noisy counts"},
            [("say", "asked 9, released 9 noisy histograms, counted 3 parties")],
        ),
        (
            {"event": "student-saved", "metric": "AUC", "value": 0.7714, "epsilon": 0.79929, "delta": 1e-5},
            [
                (
                    "say",
                    "the student is saved, AUC 0.771 on the public test rows, epsilon at most 0.800 at delta 1e-05"
                    f"{OF_IT}; what follows compares it",
                )
            ],
        ),
        ({"event": "of a later version", "votes": [1, 2]}, []),
    ],
    ids=lambda value: value.get("event") if isinstance(value, dict) else "",
)
def test_events_as_they_are_shown(event: dict[str, Any], expected: list[tuple[Any, ...]]) -> None:
    calls = Calls()
    shown = event_of({"at": AT, "seconds": 0.1, **event})
    if shown is not None:
        Showing(calls)(shown)
    assert calls.made == expected


def test_who_is_connected_is_told_when_it_changes() -> None:
    calls = Calls()
    show = Showing(calls)
    for connected in (0, 0, 1, 1, 1, 2):
        show(Event(event="waiting", at=AT, connected=connected, required=3))
    assert calls.made == [("say", f"parties connected: {count}, needed: 3") for count in range(3)]


def test_what_is_recorded_is_what_is_told(tmp_path: Path) -> None:
    events, calls = tmp_path / "events.jsonl", Calls()
    with following(events, Showing(calls)), recording(events) as record:
        for done in range(3):
            record("baselines", done, 2)
        with stage(record, "report"):
            pass
    told = [("baselines", 0, 2), ("baselines", 1, 2), ("baselines", 2, 2), ("report", 0, 1), ("report", 1, 1)]
    assert calls.made == [("update", *each) for each in told]
    for line in events.read_text().splitlines():
        assert set(json.loads(line)) <= {"event", "at", "seconds", "stage", "done", "total"}


def test_a_display_that_fails_is_called_no_more_and_the_run_goes_on(tmp_path: Path) -> None:
    events, called = tmp_path / "events.jsonl", threading.Event()

    def fails(event: object) -> None:
        assert not called.is_set()
        called.set()
        raise KeyError("no such bar")

    with (
        pytest.warns(RuntimeWarning, match="progress is told no more: KeyError"),
        following(events, fails),
        recording(events) as record,
    ):
        record("train", 0, 2)
        assert called.wait(60)
        record("train", 1, 2)
    assert len(events.read_text().splitlines()) == 2


def test_a_log_is_read_line_by_line_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    reader = EventTail(path)
    assert reader.fresh() == []  # not there yet
    whole = json.dumps({"event": "stage", "at": AT, "stage": "a", "total": 1}) + "\n"
    path.write_text(whole + whole[:20])
    assert [event.stage for event in reader.fresh()] == ["a"]
    with open(path, "a") as file:
        file.write(whole[20:])
    assert len(reader.fresh()) == 1
    # a crash broke a line off, another process's first line stands behind it; and lines that are no events
    with open(path, "a") as file:
        file.write('{"event": "sta' + whole + "[1]\n" + "\n" + '{"at": 3}\n' + whole)
    assert [event.kind for event in reader.fresh()] == ["stage"]
    assert reader.fresh() == []
