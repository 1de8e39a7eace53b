"""Warnings of a simulated run; teachers that are as good as none are counted, with the reason; and its event log as
what it says of progress: written, read while it is written, and shown."""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.collection.exchange import Failure, tell_left_out
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.events import Event, EventLog
from consilium.models.linear import ConstantTeacher, RidgeTeacher
from consilium.models.own_model import OwnClassifier
from consilium.protocol.refusals import Refusal, Rule
from consilium.report.progress import Display, stage
from consilium.report.warnings import RowFacts, StudentFacts, warnings_of
from consilium.simulations.analysis import counted_failures
from consilium.simulations.folder import absent, run_warnings
from consilium.simulations.progress import Recorder, Showing, following
from consilium.simulations.said import failure
from tests.federation import make_config
from tests.party.teachers.test_own_code import own_teachers, rows_of, stranger

SUMMARY: dict[str, Any] = {
    "parties_left_out_for_data": 0,
    "parties": 1000,
    "teachers": 1000,
    "queries": {"answered": 100},
    "student": {"accuracy": 0.8, "auc": 0.85, "recall_per_class": {"well": 0.8, "ill": 0.8}},
    "baselines": {"mean_teacher": {"accuracy": 0.7, "auc": 0.75}},
    "labels_alone": {},
}
CARD: dict[str, Any] = {"model": {"kind": "linear"}, "test": {"rows_per_class": {"well": 300, "ill": 300}}}
CONFIG = make_config(mechanism=GNMax(sigma=100.0), query_budget=QueryBudget(queries=100, answers=100))
AS_GOOD = {"rows": 9, "auc": 0.8, "student_above": {"metric": "auc", "difference": 0.0, "interval": [-0.1, 0.1]}}
LOOKED = RowFacts(public={"well": 300, "ill": 300}, askable=300, test=300, queries=100, different=300)


def changed(table: dict[str, Any], *path: str, to: object) -> dict[str, Any]:
    """A copy with one value replaced."""
    result = inner = deepcopy(table)
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return result


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("parties",), 1000, []),
        (("student", "accuracy"), 0.5, ["not-above-majority"]),
        (("student", "recall_per_class", "ill"), 0.01, ["class-not-found"]),
        (("parties_left_out_for_data",), 2, ["parties-left-out"]),
        (("parties_absent",), {"basel": "node crashed"}, ["parties-left-out"]),
        (("teachers_failed",), {"ValueError": 9}, ["teachers-failed"]),
        (("parties",), 20, ["little-information"]),
        (("labels_alone",), AS_GOOD, ["public-labels"]),
    ],
)
def test_warnings_from_the_summary(path: tuple[str, ...], value: object, expected: list[str]) -> None:
    assert codes(changed(SUMMARY, *path, to=value)) == expected


def codes(summary: dict[str, Any] = SUMMARY, card: dict[str, Any] = CARD) -> list[str]:
    """Codes of a run in which nothing else is wrong."""
    return [each["code"] for each in run_warnings(CONFIG, summary, card, LOOKED, "a year")]


def test_without_test_rows_that_is_said_and_what_came_out_stands_first() -> None:
    assert codes(changed(SUMMARY, "student", to=None), changed(CARD, "test", to=None)) == ["public-rows"]
    summary = changed(changed(SUMMARY, "parties", to=20), "student", "accuracy", to=0.5)
    assert codes(summary)[0] == "not-above-majority"
    assert codes(summary, changed(CARD, "model", "kind", to="constant"))[0] == "nothing-learnt"


def test_who_was_left_out_of_a_stage_is_named_with_the_first_reason(tmp_path: Path) -> None:
    """Not those whose data are the cause: that they are missing tells something about these."""
    refused, policy = (Failure.of(Refusal(rule=rule)) for rule in (Rule.LEAST_ROWS, Rule.POLICY))
    with closing(EventLog(tmp_path / "events.jsonl")) as log:
        tell_left_out(log, "train", {"basel": Failure("node crashed"), "zug": refused})
        tell_left_out(log, "vote", {"basel": Failure("malformed answer"), "aarau": policy})
    assert absent(tmp_path) == {"aarau": "refused: policy", "basel": "node crashed"}


X, Y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
SILENT = stranger("Raises", error="Odd", method="predict_proba", marked=True)


@pytest.mark.parametrize(
    ("teacher", "reason"),
    [
        (RidgeTeacher(1.0).fit(X, np.array([0, 0, 1, 1])), ""),
        (RidgeTeacher(1.0).fit(np.zeros((4, 2)), Y), "it says the same of every test row"),
        (ConstantTeacher.most_frequent(Y[:1]), "its rows have one class"),
        (ConstantTeacher.most_frequent(Y, "ValueError: few"), "ValueError: few"),
        (own_teachers(stranger("Raises"), rows_of())[0], "RuntimeError: PRIVATE"),
        (own_teachers(SILENT, rows_of())[0], "asked, it gives Odd"),
    ],
)
def test_each_kind_of_failure_has_its_reason(teacher: Any, reason: str) -> None:
    x = np.full((3, 3), 100.0) if isinstance(teacher, OwnClassifier) else X
    assert failure(teacher, teacher.predict_proba(x)).startswith(reason)


def test_errors_come_first_and_silence_is_told_where_it_is_half() -> None:
    one_class = "its rows have one class"
    assert counted_failures(Counter({one_class: 4, "E": 1}), 9) == {"E": 1}
    assert list(counted_failures(Counter({one_class: 5, "E": 1}), 9).items()) == [("E", 1), (one_class, 5)]
    student = StudentFacts(constant=False, metrics={"auc": 1.0}, teachers=9, failures={str(n): 1 for n in range(7)})
    (warning,) = warnings_of(student)
    assert "7 of 9 teachers" in warning["text"] and "4 and 2 more" in warning["text"]


AT = "2026-01-01T00:00:10.000+00:00"


class Calls(Display):
    """Remembers what it was told to show."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []

    def update(self, stage: str, done: int, total: int) -> None:
        self.made.append((stage, done, total))

    def say(self, text: str, warning: bool = False) -> None:
        self.made.append(("warning" if warning else "say", text))


EVENTS: list[tuple[dict[str, Any], tuple[Any, ...] | None]] = [
    ({"event": "stage", "stage": "train", "total": 3}, ("train", 0, 3)),
    ({"event": "progress", "stage": "train", "done": 1, "total": 3}, ("train", 1, 3)),
    (
        {"event": "left-out", "stage": "vote", "party": "ward-a", "reason": "no answer", "for_data": False},
        ("say", "ward-a left out of stage vote: no answer"),
    ),
    ({"event": "warned", "code": "few", "text": "few parties"}, ("warning", "few parties")),
    (
        {"event": "promised", "epsilon": None, "infinite": ["epsilon"], "delta": 1e-5, "unit": "party"},
        ("say", "promised before anything is asked: epsilon at most unbounded at delta 1e-05 towards whoever has the"
         " student, unit: a party"),
    ),
    (
        {"event": "released", "asked": 9, "answered": 9, "counted": 3, "release": "noisy counts"},
        ("say", "asked 9, released 9 noisy histograms, counted 3 parties"),
    ),
    (
        {"event": "student-saved", "metric": "AUC", "value": 0.7714, "epsilon": 0.79929, "delta": 1e-5},
        ("say", "the student is saved, AUC 0.771 on the public test rows, epsilon at most 0.800 at delta 1e-05 towards"
         " whoever has it; what follows compares it"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("event", "expected"), EVENTS, ids=[event["event"] for event, _ in EVENTS])
def test_events_as_they_are_shown(event: dict[str, Any], expected: tuple[Any, ...]) -> None:
    calls = Calls()
    Showing(calls)(Event(at=AT, seconds=0.1, **event))
    assert calls.made == [expected]


def test_who_is_connected_is_told_when_it_changes() -> None:
    show = Showing(calls := Calls())
    for connected in (0, 0, 1, 1, 1, 2):
        show(Event(event="waiting", at=AT, connected=connected, required=3))
    assert calls.made == [("say", f"parties connected: {count}, needed: 3") for count in range(3)]


def test_what_is_recorded_is_what_is_told(tmp_path: Path) -> None:
    events, calls = tmp_path / "events.jsonl", Calls()
    with following(events, Showing(calls)), closing(EventLog(events)) as opened:
        record = Recorder(opened)
        for done in range(3):
            record("baselines", done, 2)
        with stage(record, "report"):
            pass
    assert calls.made == [("baselines", done, 2) for done in range(3)] + [("report", done, 1) for done in range(2)]
    for line in events.read_text().splitlines():
        assert set(json.loads(line)) <= {"event", "at", "seconds", "stage", "done", "total"}


def test_a_display_that_fails_is_called_no_more_and_the_run_goes_on(tmp_path: Path) -> None:
    events, called = tmp_path / "events.jsonl", threading.Event()

    def fails(event: object) -> None:
        assert not called.is_set()
        called.set()
        raise KeyError("no such bar")

    told = pytest.warns(RuntimeWarning, match="progress is told no more: KeyError")
    with told, following(events, fails), closing(EventLog(events)) as opened:
        record = Recorder(opened)
        record("train", 0, 2)
        assert called.wait(60)
        record("train", 1, 2)
    assert len(events.read_text().splitlines()) == 2
