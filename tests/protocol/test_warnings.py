"""Warnings: for each code a case that fires and one, next to it, that does not; and the numbers behind them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from consilium.report.before_run import Expected, before_run
from consilium.report.row_warnings import RowFacts, of_rows
from consilium.report.student_warnings import (
    HandLabelled,
    InPlace,
    PrivateRival,
    StudentFacts,
    after_run,
    chance_deviation,
)
from consilium.report.warnings import SECRET, RunWarning, WarningCode, listed, publishable, well_formed

QUIET = Expected(epsilon=1.0, delta=1e-5, unit="party", votes=1000)
"""Nothing to warn of."""

METRICS = {"accuracy": 0.8, "auc": 0.82, "recall_per_class": {"well": 0.9, "ill": 0.4}}
NOTHING = InPlace(histogram=False, relative=False, prevalence=False)
GOOD = StudentFacts(in_place=NOTHING, constant=False, metrics=METRICS, rows={"well": 700, "ill": 300})


def codes(warnings: list[RunWarning]) -> list[str]:
    return [warning.code.value for warning in warnings]


def metrics(**changes: object) -> dict[str, object]:
    return {**METRICS, **changes}


BEFORE: dict[str, list[tuple[dict[str, object], bool]]] = {
    "large-epsilon": [
        ({"epsilon": 5.01}, True),
        ({"epsilon": 5.0}, False),
        ({"epsilon": math.inf}, True),
        ({"epsilon_nodes": 5.01}, True),
        ({"epsilon_nodes": 5.0}, False),
    ],
    "little-information": [({"signal": 2.99}, True), ({"signal": 3.0}, False)],
    "halves-not-classes": [({"undeclared": True}, True), ({"undeclared": False}, False)],
}


def moved(low: float = 0.7, alike: float = 0.5) -> dict[str, object]:
    """How far noise moves a student."""
    return {"metrics": {"auc": {"sd": 0.05, "interval": [low, 0.9]}}, "rank_correlation": alike, "agreement": 0.8}


AFTER: dict[str, list[tuple[dict[str, object], bool]]] = {
    "nothing-learnt": [({"constant": True}, True), ({"constant": False}, False)],
    "not-above-majority": [
        ({"metrics": metrics(accuracy=0.7)}, True),
        ({"metrics": metrics(accuracy=0.701)}, False),
        ({"metrics": None}, False),
        ({"metrics": metrics(accuracy=0.1), "rows": {}}, False),
    ],
    # by chance an AUC of 700 and 300 rows deviates by 0.0199
    "order-by-chance": [
        ({"metrics": metrics(auc=0.519)}, True),
        ({"metrics": metrics(auc=0.521)}, False),
        ({"metrics": metrics(auc=0.3)}, True),
        ({"metrics": metrics(auc=None)}, False),
        ({"metrics": metrics(auc=0.3), "rows": {"a": 5, "b": 5, "c": 5}}, False),
        ({"metrics": metrics(auc=0.3), "rows": {"well": 5, "ill": 0}}, False),
    ],
    "mostly-noise": [
        ({"noise_spread": moved(low=0.5)}, True),
        ({"noise_spread": moved(low=0.501)}, False),
        ({"noise_spread": moved(alike=0.499)}, True),
        ({"noise_spread": moved(alike=0.499), "constant": True}, False),
        ({"metrics": None, "noise_spread": {**moved(alike=0.499), "metrics": {}}}, True),
        ({"noise_spread": {"absent": "3 answers are too few to be halved"}}, False),
    ],
    "class-not-found": [
        ({"metrics": metrics(recall_per_class={"well": 0.9, "ill": 0.049})}, True),
        ({"metrics": metrics(recall_per_class={"well": 0.9, "ill": 0.05})}, False),
        ({"metrics": metrics(recall_per_class={"well": 0.9, "ill": 0.0}), "rows": {"well": 700, "ill": 19}}, False),
        ({"metrics": metrics(recall_per_class={"well": 0.9, "ill": None}), "rows": {"well": 700, "ill": 0}}, False),
    ],
    "not-above-hand-labels": [
        ({"hand_labels": HandLabelled(300, "auc", 0.82)}, True),
        ({"hand_labels": HandLabelled(300, "auc", 0.8199)}, False),
        ({"hand_labels": HandLabelled(300, "accuracy", 0.81)}, True),
        ({"hand_labels": None}, False),
    ],
    "below-private-rival": [
        ({"rival": PrivateRival("an average", "auc", 0.9, 0.08, 0.001, 0.16)}, True),
        ({"rival": PrivateRival("an average", "auc", 0.9, 0.08, 0.0, 0.16)}, False),
        ({"rival": PrivateRival("an average", "auc", 0.7, -0.1, -0.2, -0.05)}, False),
        ({"rival": PrivateRival("an average", "accuracy", 0.9, 0.1, 0.05, 0.15)}, True),
        ({"rival": None}, False),
    ],
    "below-one-party": [
        ({"mean_teacher": {"accuracy": 0.1, "auc": 0.821}}, True),
        ({"mean_teacher": {"accuracy": 0.9, "auc": 0.82}}, False),
        ({"mean_teacher": {"accuracy": 0.81, "auc": 0.5}, "rows": {"a": 5, "b": 5, "c": 5}}, True),
        ({"mean_teacher": {"accuracy": None, "auc": None}}, False),
        ({"mean_teacher": {}}, False),
    ],
    "not-analysed": [({"not_analysed": ("learning curves",)}, True), ({"not_analysed": ()}, False)],
    "parties-left-out": [
        ({"left_out": 1}, True),
        ({"left_out": 0, "absent": {}}, False),
        ({"absent": {"basel": "node crashed"}}, True),
    ],
}

SOUND = RowFacts(public={"well": 100, "ill": 100}, askable=100, test=100, queries=100, different=100)
ROWS: dict[str, list[tuple[dict[str, object], bool]]] = {
    "label-among-features": [({"leaks": ("died",)}, True), ({"leaks": ()}, False)],
    "class-not-public": [({"public": {"well": 200, "ill": 0}}, True), ({"public": {"well": 199, "ill": 1}}, False)],
    "few-public-rows": [({"askable": 49}, True), ({"test": 49}, True), ({"askable": 50, "test": 50}, False)],
    "budget-above-rows": [({"queries": 101}, True), ({"different": 99}, True), ({"different": 101}, False)],
    "rows-left-out": [({"left_out": {"without a label": 1}}, True), ({"left_out": {"without a label": 0}}, False)],
    "images-dark": [({"brightest": 4095 / 65535}, True), ({"brightest": 0.26}, False)],
    "spelled-twice": [({"spelled": {"7": "07"}}, True), ({"spelled": {}}, False)],
    "rows-twice": [({"twice": 0.0101}, True), ({"twice": 0.01}, False)],
    "parties-too-small": [({"parties": 41, "too_small": 1}, True), ({"parties": 41, "too_small": 0}, False)],
}


ADVISED: list[tuple[str, str, str, dict[str, object]]] = [
    ("nothing-learnt", "relative", "vote relative", {"constant": True}),
    ("not-above-majority", "prevalence", "operating point", {"metrics": metrics(accuracy=0.1)}),
    ("below-private-rival", "histogram", "noisy counts", {"rival": PrivateRival("it", "auc", 0.9, 0.1, 0.05, 0.2)}),
]


@pytest.mark.parametrize(("code", "key", "advice", "change"), ADVISED)
def test_what_is_in_place_is_not_advised(code: str, key: str, advice: str, change: dict) -> None:
    for known, advised in ((False, True), (None, True), (True, False)):
        found = after_run(replace(GOOD, **change, in_place=replace(NOTHING, **{key: known})))
        (text,) = [warning.text for warning in found if warning.code == code]
        assert (advice in text) == advised
        assert ("if they do not yet" in text) == (known is None)


@pytest.mark.parametrize(
    ("code", "change", "fires"), [(code, *case) for code, given in BEFORE.items() for case in given]
)
def test_before_a_run(code: str, change: dict, fires: bool) -> None:
    assert codes(before_run(QUIET)) == []
    assert (code in codes(before_run(replace(QUIET, **change)))) == fires


@pytest.mark.parametrize(
    ("code", "change", "fires"), [(code, *case) for code, given in AFTER.items() for case in given]
)
def test_after_a_run(code: str, change: dict, fires: bool) -> None:
    assert codes(after_run(GOOD)) == []
    assert (code in codes(after_run(replace(GOOD, **change)))) == fires


@pytest.mark.parametrize(("code", "change", "fires"), [(code, *case) for code, given in ROWS.items() for case in given])
def test_of_rows(code: str, change: dict, fires: bool) -> None:
    assert codes(of_rows(SOUND)) == []
    assert (code in codes(of_rows(replace(SOUND, **change)))) == fires


def test_every_code_has_cases_of_both_kinds() -> None:
    """Those of failed teachers are in tests/simulations/test_teacher_failures.py."""
    cases = {**BEFORE, **AFTER, **ROWS}
    assert sorted([*cases, WarningCode.TEACHERS_FAILED]) == sorted(WarningCode)
    assert all({fires for _, fires in given} == {True, False} for given in cases.values())


def test_every_code_is_documented() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`[^|]+) \|", page.split("## Warnings")[1], re.MULTILINE)
    listed = {code: "(project)" in cell for cell in cells for code in re.findall(r"`([a-z-]+)`", cell)}
    assert listed == {code: code in SECRET for code in WarningCode}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"epsilon": 26.2}, ["26.2", "1e-05", "party", "above 5"]),
        ({"epsilon": math.inf}, ["without bound"]),
        ({"signal": 1.44}, ["epsilon 1.0", "1,000 votes", "1.4 standard", "below 3", "expect nothing"]),
    ],
)
def test_a_text_has_value_limit_and_what_to_do(change: dict, told: list[str]) -> None:
    text = " ".join(warning.text for warning in before_run(replace(QUIET, **change)))
    for part in told:
        assert part in text, (part, text)


def test_what_may_be_shown_to_anybody() -> None:
    secret = RunWarning(WarningCode.BELOW_ONE_PARTY, "a")
    public = RunWarning(WarningCode.ORDER_BY_CHANCE, "b")
    assert (secret.public, public.public) == (False, True)
    assert publishable(listed([secret, public])) == [{"code": "order-by-chance", "text": "b"}]


NO_WARNINGS = [
    None,
    "text",
    3,
    [3],
    [["code"]],
    *([each] for each in ({"code": "large-epsilon"}, {"code": "x", "text": ""})),
]


@pytest.mark.parametrize("value", [*NO_WARNINGS, [{"code": [], "text": ""}], [{"code": "large-epsilon", "text": 1}]])
def test_what_is_no_warning_in_somebodys_file(value: object) -> None:
    assert well_formed(value) == []


def test_a_warning_in_somebodys_file() -> None:
    given = {"code": "large-epsilon", "text": "a", "more": 1}
    assert well_formed([given, 3]) == [{"code": "large-epsilon", "text": "a"}]


def test_the_deviation_of_an_auc_by_chance() -> None:
    """Against permutations; five standard deviations of a standard deviation from 4,000 of them."""
    generator, ranks = np.random.default_rng(1), np.arange(1, 91)
    sums = np.array([generator.permutation(ranks)[:30].sum() for _ in range(4000)])
    aucs = (sums - 30 * 31 / 2) / (30 * 60)
    assert abs(aucs.std() / chance_deviation(30, 60) - 1) < 5 / math.sqrt(2 * 4000)
