"""Warnings and seconds of a simulated run; teachers that are as good as none are counted, with the reason."""

from __future__ import annotations

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
from consilium.coordinator.events import EventLog
from consilium.models.own_model import OwnCodeTeacher
from consilium.models.teachers import ConstantTeacher, RidgeTeacher
from consilium.protocol.refusals import Refusal, Rule
from consilium.report.warnings import RowFacts, StudentFacts, warnings_of
from consilium.simulations.analysis import counted_failures
from consilium.simulations.said import failure
from consilium.simulations.summary import absent, run_warnings, stage_seconds
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


def test_without_test_rows_there_is_nothing_and_what_came_out_stands_first() -> None:
    assert codes(changed(SUMMARY, "student", to=None), changed(CARD, "test", to=None)) == []
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


def test_seconds_add_up() -> None:
    coordinator = {"enrol": 0.0004, "train": 12.3456, "vote": 0.0}
    found = stage_seconds(coordinator, prepare=1.0004, engine=99.9999, analysis=3.3333, report=1.0)
    assert list(found) == ["prepare", *coordinator, "engine", "analysis", "report", "total"]
    assert found["total"] == pytest.approx(sum(found.values()) - found["total"], abs=5e-4)
    assert found["total"] == pytest.approx(1.0004 + 99.9999 + 3.3333 + 1.0, abs=6e-3)


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
    x = np.full((3, 3), 100.0) if isinstance(teacher, OwnCodeTeacher) else X
    assert failure(teacher, teacher.predict_proba(x)).startswith(reason)


def test_errors_come_first_and_silence_is_told_where_it_is_half() -> None:
    one_class = "its rows have one class"
    assert counted_failures(Counter({one_class: 4, "E": 1}), 9) == {"E": 1}
    assert list(counted_failures(Counter({one_class: 5, "E": 1}), 9).items()) == [("E", 1), (one_class, 5)]
    student = StudentFacts(constant=False, metrics={}, teachers=9, failures={str(n): 1 for n in range(7)})
    (warning,) = warnings_of(student)
    assert "7 of 9 teachers" in warning["text"] and "4 and 2 more" in warning["text"]
