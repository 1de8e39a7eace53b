"""Warnings: for each case one that fires and one, next to it, that does not; their words, and the numbers behind. What
a promise is said to mean is never less than what it allows."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.report.disclosure import in_plain_words, people, times_as_likely
from consilium.report.warnings import (
    CODES,
    SECRET,
    Expected,
    LabelFacts,
    RowFacts,
    StudentFacts,
    chance_deviation,
    publishable,
    warnings_of,
    well_formed,
)

QUIET = Expected(epsilon=1.0, delta=1e-5, unit="party", votes=1000)
SOUND = RowFacts(public={"well": 100, "ill": 100}, askable=100, test=100, queries=100, different=100)
METRICS = {"accuracy": 0.8, "auc": 0.82, "recall_per_class": {"well": 0.9, "ill": 0.4}}
GOOD = StudentFacts(constant=False, metrics=METRICS, rows={"well": 700, "ill": 300})
"""Of which there is nothing to warn of."""


def metrics(**changes: Any) -> dict[str, Any]:
    return {"metrics": {**METRICS, **changes}}


def beside(low: float, validated: float = 0.6) -> dict[str, Any]:
    """What labels of public rows give: the student has .02 more, at least `low`."""
    above = {"metric": "auc", "difference": 0.02, "interval": [low, 0.04]}
    told = {"metric": "auc", "interval": [validated, 0.9], "chance": 0.5}
    return {"beside": {"rows": 90, "auc": 0.7, "student_above": above, "cross_validated": told}}


LABELS = LabelFacts({"rows": 90, "cross_validated": {"metric": "auc", "interval": [0.501, 0.9], "chance": 0.5}})
AT_CHANCE = {"rows": 9, "cross_validated": {"metric": "accuracy", "interval": [0.3, 0.6], "chance": 0.3}}
MANY, MANY_ROWS = dict.fromkeys("abcdefg", 0.01), dict.fromkeys("abcdefg", 20)
CASES: list[tuple[str, Any, dict[str, Any], str]] = [
    ("large-epsilon", QUIET, {"epsilon": 26.2}, "epsilon is 26.200 at delta 1e-05 for each party, above 5: an outcome"),
    ("large-epsilon", QUIET, {"epsilon": math.inf}, "epsilon is unbounded"),
    ("large-epsilon", QUIET, {"epsilon_nodes": 5.01}, "epsilon towards the nodes that add votes up is 5.010"),
    ("", QUIET, {"epsilon": 5.0, "epsilon_nodes": 5.0}, ""),
    ("little-information", QUIET, {"signal": 2.99}, "epsilon 1.000 for each party drowns 1,000 votes"),
    ("", QUIET, {"signal": 3.0}, ""),
    ("halves-not-classes", QUIET, {"undeclared": True}, "no class shares are declared"),
    ("public-rows", SOUND, {"leaks": tuple("abcdefg")}, "column 'a', 'b', 'c', 'd', 'e' and 2 more says the label"),
    ("public-rows", SOUND, {"public": {"well": 200, "ill": 0}}, "no public row is 'ill', of 200"),
    ("", SOUND, {"public": {"well": 199, "ill": 1}}, ""),
    ("public-rows", SOUND, {"askable": 49, "queries": 49}, "49 public rows can be asked and 100 are the test set"),
    ("public-rows", SOUND, {"test": 49}, "100 public rows can be asked and 49 are the test set, below 50"),
    ("", SOUND, {"askable": 50, "test": 50}, ""),
    ("public-rows", SOUND, {"queries": 101}, "allows 101 queries, and 100 different public rows can be asked"),
    ("", SOUND, {"different": 101}, ""),
    ("public-rows", SOUND, {"queries": 101, "test": 49}, "(data.public). The query budget allows 101 queries"),
    ("rows-left-out", SOUND, {"left_out": {"without a label": 2}, "anew": "Do"}, "2 rows are left out: 2 without"),
    ("", SOUND, {"left_out": {"without a label": 0}}, ""),
    ("rows-left-out", SOUND, {"twice": 0.0101}, "1.0% of the private rows stand at a second party"),
    ("", SOUND, {"twice": 0.01}, ""),
    ("parties-left-out", SOUND, {"parties": 41, "too_small": 21, "least_rows": 20}, "20 of them take part: 21 have"),
    ("", SOUND, {"parties": 41, "too_small": 0}, ""),
    ("parties-left-out", GOOD, {"left_out": 1}, "1 party took no part because of what the data hold"),
    ("parties-left-out", GOOD, {"absent": {"basel": "crashed"}}, "1 party left out of a stage: basel (crashed)"),
    ("teachers-failed", GOOD, {"failures": {"E": 3}, "teachers": 4}, "3 of 4 teachers do not tell rows apart"),
    ("nothing-learnt", GOOD, {"constant": True}, "the student says the same of every row"),
    # by chance an AUC of 700 and 300 rows deviates by 0.0199
    ("nothing-learnt", GOOD, metrics(auc=0.519), "AUC 0.519 is not above 0.5 by more than one standard deviation"),
    ("", GOOD, metrics(auc=0.521), ""),
    ("", GOOD, metrics(auc=None), ""),
    ("", GOOD, {**metrics(auc=0.3, recall_per_class={}), "rows": {"a": 5, "b": 5, "c": 5}}, ""),
    ("", GOOD, {**metrics(auc=0.3, accuracy=None), "rows": {"well": 5, "ill": 0}}, ""),
    ("not-above-majority", GOOD, metrics(accuracy=0.7), "0.700 is not above 0.700, that of always saying 'well'"),
    ("", GOOD, metrics(accuracy=0.701), ""),
    ("public-rows", GOOD, {"metrics": {}}, "no labelled row judged the student"),
    ("", GOOD, {**metrics(accuracy=0.1), "rows": {}}, ""),
    ("", LABELS, beside(0.001, 0.5), ""),
    ("public-labels", LABELS, beside(0.0), "AUC 0.720 is not above 0.700 by more than chance, what the labels of 90"),
    ("public-labels", LABELS, beside(0.0), 'Use both (student.public_labels = "all"), or train on these labels and'),
    ("public-labels", LABELS, {**beside(0.0), "brought": True}, "to them. Train on these labels and spend no epsilon"),
    ("public-labels", LABELS, {**beside(0.0), "cost": "a year"}, "are assumed to be had, and one takes a year"),
    ("public-labels", LABELS, beside(0.0, 0.5), "no epsilon. The labels of 90 public rows do not tell each other"),
    ("public-labels", LABELS, {"beside": AT_CHANCE}, "accuracy 0.300 to 0.600 (95 %, chance 0.300)"),
    ("class-not-found", GOOD, metrics(recall_per_class={"well": 0.9, "ill": 0.049}), "'ill' 0.049 of 300 rows"),
    ("", GOOD, metrics(recall_per_class={"well": 0.9, "ill": 0.05}), ""),
    ("", GOOD, {**metrics(recall_per_class={"ill": 0.0}, accuracy=1), "rows": {"well": 700, "ill": 19}}, ""),
    ("", GOOD, {**metrics(recall_per_class={"ill": None}, accuracy=None), "rows": {"well": 700, "ill": 0}}, ""),
    ("class-not-found", GOOD, {**metrics(recall_per_class=MANY, accuracy=1), "rows": MANY_ROWS}, "and 2 more"),
]


@pytest.mark.parametrize(("code", "sound", "change", "told"), CASES)
def test_what_is_warned_of_and_in_which_words(code: str, sound: Any, change: dict[str, Any], told: str) -> None:
    """Each text has what, value, limit and what to do, without a full stop at its end."""
    assert warnings_of(sound) == []
    found = warnings_of(replace(sound, **change))
    assert [warning["code"] for warning in found] == ([code] if code else [])
    assert all(told in each["text"] and ". " in each["text"] and not each["text"].endswith(".") for each in found)


def test_a_code_stands_once_with_all_that_there_is_to_say_of_it() -> None:
    few, absent = replace(SOUND, parties=41, too_small=1), replace(GOOD, left_out=2, absent={"basel": "node crashed"})
    (warning,) = warnings_of(absent, few)
    assert re.search(r"2 parties took no .* 1 party left out .*\. The partition made 41 parties", warning["text"])


def test_every_code_has_a_case_and_is_documented() -> None:
    assert {code for code, *_ in CASES} == {"", *CODES}
    page = (Path(__file__).resolve().parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`[^|]+) \|", page.split("## Warnings")[1], re.MULTILINE)
    assert {code: "(project)" in cell for cell in cells for code in re.findall(r"`([a-z-]+)`", cell)} == {
        code: code in SECRET for code in CODES
    }


def test_what_private_rows_say_may_be_shown_to_nobody_else() -> None:
    kinds = {"one of private rows": [*SECRET], "one of public rows": [*CODES - SECRET]}
    assert len(kinds["one of private rows"]) == 4
    shown = publishable({"code": code, "text": kind} for kind, codes in kinds.items() for code in codes)
    assert {warning["text"] for warning in shown} == {"one of public rows"} and len(shown) == 7


NO_WARNINGS = [
    None, "text", 3, [3], [["code"]], [{"code": "large-epsilon"}], [{"code": "x", "text": ""}],
    [{"code": [], "text": ""}], [{"code": "large-epsilon", "text": 1}],
]  # fmt: skip


@pytest.mark.parametrize("value", NO_WARNINGS)
def test_what_is_no_warning_in_somebodys_file(value: object) -> None:
    assert well_formed(value) == []
    given = {"code": "large-epsilon", "text": "a", "more": 1}
    assert well_formed([given, value]) == [{"code": "large-epsilon", "text": "a"}]


def test_the_deviation_of_an_auc_by_chance() -> None:
    """Against permutations; five standard deviations of a standard deviation from 4,000 of them."""
    generator, ranks = np.random.default_rng(1), np.arange(1, 91)
    sums = np.array([generator.permutation(ranks)[:30].sum() for _ in range(4000)])
    aucs = (sums - 30 * 31 / 2) / (30 * 60)
    assert abs(aucs.std() / chance_deviation(30, 60) - 1) < 5 / math.sqrt(2 * 4000)


def test_without_protection_nobody_is_protected() -> None:
    assert [each.protected for each in people()] == ["yes", "no", "in part"]
    assert [each.protected for each in people(unprotected="seeded")] == ["no", "no", "no"]
    assert all(each.why for each in people("hospital", "hospitals", "one record"))


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.693, 1.0, 2.3025, 4.6, 5.0, 9.99, 13.8, 13.9, 40.0, 85.47, 1e4])
def test_a_factor_is_rounded_up_by_less_than_a_hundredth_and_a_large_one_to_a_power_of_ten(epsilon: float) -> None:
    told = times_as_likely(epsilon).removesuffix(" times").replace(",", "")
    if epsilon > 13.85:
        power = int(told.removeprefix("10^"))
        assert power - 1 <= epsilon / math.log(10) <= power
    else:
        assert math.exp(epsilon) <= float(told) + 1e-9 <= math.exp(epsilon) * 1.01


@pytest.mark.parametrize(
    ("unit", "neighbouring", "subject"),
    [
        ("party", "replace", "Other data of a whole party (a hospital with all its records) make no outcome"),
        ("record", "replace", "Other data of one record (a single case at one party) make no outcome"),
        ("patient", "add_or_remove", "Adding or removing one patient (all records at one party) makes no outcome"),
    ],
)
def test_it_is_said_of_the_unit(unit: str, neighbouring: str, subject: str) -> None:
    told = in_plain_words(1.0, 1e-6, unit, neighbouring)
    assert told.startswith(subject)
    assert "2.72 times as likely, plus a chance of 1e-06 (delta)" in told
    assert "right in at most 74 in 100 cases; a coin is in 50 in 100." in told
    assert "not private" in in_plain_words(math.inf, 1e-6, unit, neighbouring)
