"""Warnings of a simulated run, from its summary, its student's card and its event log."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.collection.exchange import Failure, tell_left_out
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.events import EventLog
from consilium.protocol.refusals import Refusal, Rule
from consilium.report.warnings import RowFacts
from consilium.simulations.summary import absent, run_warnings, stage_seconds
from tests.federation import make_config

SUMMARY: dict[str, Any] = {
    "parties_left_out_for_data": 0,
    "parties": 1000,
    "teachers": 1000,
    "queries": {"answered": 100},
    "student": {"accuracy": 0.8, "auc": 0.85, "recall_per_class": {"well": 0.8, "ill": 0.8}},
    "baselines": {"mean_teacher": {"accuracy": 0.7, "auc": 0.75}},
    "labels_alone": {},
    "worth": {"metric": "auc", "label_cost": "", "released": {"labels": 100, "auc": 0.84, "accuracy": 0.9}},
}
CARD: dict[str, Any] = {"model": {"kind": "linear"}, "test": {"rows_per_class": {"well": 300, "ill": 300}}}
CONFIG = make_config(mechanism=GNMax(sigma=100.0), query_budget=QueryBudget(queries=100, answers=100))
AS_GOOD = {"rows": 9, "auc": 0.8, "student_above": {"metric": "auc", "difference": 0.0, "interval": [-0.1, 0.1]}}
LOOKED = RowFacts(public={"well": 300, "ill": 300}, askable=300, test=300, queries=100, different=300)


def codes(summary: dict[str, Any] = SUMMARY, card: dict[str, Any] = CARD) -> list[str]:
    """Codes of a run in which nothing else is wrong."""
    return [each["code"] for each in run_warnings(CONFIG, summary, card, LOOKED, "a year")]


def changed(table: dict[str, Any], *path: str, to: object) -> dict[str, Any]:
    """A copy with one value replaced."""
    result = deepcopy(table)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return result


def test_nothing_to_warn_of() -> None:
    assert codes() == []


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("student", "accuracy"), 0.5, ["not-above-majority"]),
        (("student", "recall_per_class", "ill"), 0.01, ["class-not-found"]),
        (("parties_left_out_for_data",), 2, ["parties-left-out"]),
        (("parties_absent",), {"basel": "node crashed"}, ["parties-left-out"]),
        (("teachers_failed",), {"ValueError": 9}, ["teachers-failed"]),
        (("parties",), 20, ["little-information"]),
        (("labels_alone",), AS_GOOD, ["public-labels"]),
    ],
)
def test_from_the_summary(path: tuple[str, ...], value: object, expected: list[str]) -> None:
    assert codes(changed(SUMMARY, *path, to=value)) == expected


def test_who_was_left_out_of_a_stage_is_named_with_the_first_reason(tmp_path: Path) -> None:
    """Not those whose data are the cause: that they are missing tells something about these."""
    log = EventLog(tmp_path / "events.jsonl")
    refused = Failure.of(Refusal(rule=Rule.LEAST_ROWS))
    tell_left_out(log, "train", {"basel": Failure("node crashed"), "zug": refused})
    tell_left_out(log, "vote", {"basel": Failure("malformed answer"), "aarau": Failure.of(Refusal(rule=Rule.POLICY))})
    log.close()
    assert absent(tmp_path) == {"aarau": "refused: policy", "basel": "node crashed"}


def test_without_manual_labels_or_test_rows() -> None:
    summary = {key: value for key, value in SUMMARY.items() if key != "worth"}
    assert codes(changed(summary, "student", to=None), changed(CARD, "test", to=None)) == []


def test_what_came_out_stands_first() -> None:
    summary = changed(changed(SUMMARY, "parties", to=20), "student", "accuracy", to=0.5)
    assert codes(summary)[0] == "not-above-majority"
    assert codes(summary, changed(CARD, "model", "kind", to="constant"))[0] == "nothing-learnt"


seconds = st.floats(min_value=0, max_value=1e5)


def total_of(found: dict[str, float]) -> float:
    return sum(value for stage, value in found.items() if stage != "total")


@given(st.dictionaries(st.sampled_from(["enrol", "train", "vote", "student"]), seconds), seconds, seconds, seconds)
def test_they_add_up(coordinator: dict[str, float], between: float, prepare: float, analysis: float) -> None:
    engine = sum(coordinator.values()) + between
    found = stage_seconds(coordinator, prepare=prepare, engine=engine, analysis=analysis, report=1.0)
    assert list(found) == ["prepare", *coordinator, "engine", "analysis", "report", "total"]
    assert found["total"] == pytest.approx(total_of(found), abs=5e-4)
    assert found["total"] == pytest.approx(prepare + engine + analysis + 1.0, abs=6e-3)
