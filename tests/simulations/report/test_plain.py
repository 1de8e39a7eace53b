"""The box in plain words: who is protected from whom, and what the numbers of the student are worth."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from consilium.accounting.guarantees import Kind
from consilium.accounting.units import Towards, Unit
from consilium.protocol.releases import ReleaseKind
from consilium.report.exhibits import Exhibit
from consilium.simulations.report.build import render
from consilium.simulations.report.class_by_class import LISTED, matrix, recall_exhibit, taken_for
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.each_party import against_alone
from consilium.simulations.report.guarantees import guarantee_rows
from consilium.simulations.report.models import model_rows
from consilium.simulations.report.privacy import plain_part
from consilium.simulations.report.results import labels_explained
from tests.simulations.drawing import render_once
from tests.simulations.report.cases import DIGITS, Page, figured, guarantee, run


def box(data: ReportData) -> dict[str, Exhibit]:
    """The exhibits of the box by name."""
    return {item.name: item for item in plain_part(data, guarantee_rows(data.guarantees), ()).exhibits}


def level(data: ReportData) -> str:
    return plain_part(data, guarantee_rows(data.guarantees), ()).look.removeprefix("card ")


def lines(item: Exhibit) -> list[list[str]]:
    """Of its table the name and the text of each cell, line by line."""
    return (
        [[str(line.name), *(str(cell.text) for cell in line.cells)] for line in item.table.lines] if item.table else []
    )


def promised(epsilon: float, **change: Any) -> ReportData:
    data = run()
    values = guarantee(Kind.WORST_CASE, epsilon)
    return replace(data, guarantees={**data.guarantees, "guarantee": values}, **change)


@pytest.mark.parametrize(
    ("epsilon", "strength", "guess", "odds"),
    [
        (0.8, "strong", "69 in 100", "2.23 to 1"),
        (6.0, "weak", "998 in 1,000", "403.5 to 1"),
        (20.0, "weak", "may be right always", "485,"),
    ],
)
def test_epsilon_is_told_as_cases_and_odds(epsilon: float, strength: str, guess: str, odds: str) -> None:
    meaning = box(promised(epsilon))["meaning"]
    assert level(promised(epsilon)) == strength
    assert guess in meaning.words[0] and odds in meaning.words[0]
    assert meaning.words[0].startswith("Protected is one hospital, with all its records.")
    assert meaning.table is not None and "except with a chance of at most 1 in 1,000" in meaning.table.caption
    assert [before for before, _ in lines(meaning)] == ["1 in 100", "10 in 100", "90 in 100"]


def test_without_a_bound_no_number_is_told() -> None:
    exhibits = box(promised(float("inf")))
    assert level(promised(float("inf"))) == "none" and exhibits["meaning"].table is None
    assert lines(exhibits["audiences"])[0][-1] == "no limit"


@pytest.mark.parametrize("public", [False, True])
def test_seeded_noise_protects_nobody_and_says_what_would(public: bool) -> None:
    data = promised(0.8, seeded_noise=True)
    assert level(data) == "strong simulated"
    (verdict,) = box(data)["verdict"].words
    assert "Simulated: strong protection" in verdict and "it can be repeated, and protects nobody" in verdict
    text = " ".join(Page(render(data, public)).text.split())
    assert text.index("Simulated: strong protection") < text.index("0.800 at delta") < text.index("What that means")
    assert "69 in 100, were the noise real" in text
    assert "Simulated: no protection" in box(promised(float("inf"), seeded_noise=True))["verdict"].words[0]


TWO = {"nodes": {**guarantee(Kind.WORST_CASE, 1.2), "towards": Towards.COORDINATOR.value}}
"""Beside the student's promise."""
THE, NODES = "The guarantee", "The nodes’ guarantee"


@pytest.mark.parametrize(
    ("votes", "guarantees", "sees", "covers"),
    [
        ("plaintext", {}, "each hospital's votes, without noise", [THE, THE, "none"]),
        ("secure", TWO, "noisy sums of the votes", [THE, NODES, NODES]),
        ("verified", TWO, "noisy sums of the votes", [THE, THE, NODES, NODES]),
    ],
)
def test_each_audience_has_its_own_epsilon(votes: Any, guarantees: dict, sees: str, covers: list[str]) -> None:
    """By the name of the guarantee that covers it; its number stands once, in the table of guarantees."""
    data = run()
    shown = box(replace(data, collection=votes, guarantees={**data.guarantees, **guarantees}))
    numbers, stated = ({THE: "0.988", NODES: "1.200"}, dict(line[:2] for line in lines(shown["guarantee"])))
    assert all(numbers[name] in stated[name] for name in {*covers} & numbers.keys())
    rows = lines(shown["audiences"])
    assert [row[2] for row in rows] == covers[:1] + covers  # student and public have the same
    assert rows[3][1] == sees
    assert [row[0] for row in rows] == [
        "the student",
        "the public, which has the model",
        "the other hospitals",
        "the coordinator",
        "the second aggregator",
    ][: len(rows)]


@pytest.mark.parametrize("public", [False, True])
def test_who_is_not_protected_has_a_row(public: bool) -> None:
    """Patients of held-out hospitals, whom nothing protects, in both versions; nobody is where there is no bound."""
    real = replace(run(), seeded_noise=False)
    people = lines(box(real)["people"])
    assert [protected for _, protected, _ in people] == ["yes", "no", "in part"]
    assert "patients of held-out hospitals" in people[1][0]
    for nothing in (replace(run(), seeded_noise=True), promised(float("inf"))):
        assert [protected for _, protected, _ in lines(box(nothing)["people"])] == ["no"] * 3
    text = " ".join(Page(render(real, public)).text.split())
    for who, _, why in people:
        assert who in text and why in text


def test_a_release_of_counts_is_called_so_and_one_of_labels_is_not() -> None:
    for kind in ReleaseKind:
        text = " ".join(Page(render(replace(run(), release=kind))).text.split())
        assert kind.sentence in text
        assert ("No count is released" in text) == (kind is not ReleaseKind.COUNTS)
        assert ("14 noisy histograms were released" in text) == (kind is ReleaseKind.COUNTS)
        assert ("14 labels were released" in text) == (kind is not ReleaseKind.COUNTS)


@pytest.mark.parametrize(
    ("unit", "what"),
    [(Unit.PARTY, "one hospital, with all its records"), (Unit.RECORD, "one record (a single case) of one hospital")],
)
def test_what_is_protected_is_the_unit(unit: Unit, what: str) -> None:
    data = run()
    guarantees = {
        "guarantee": guarantee(Kind.WORST_CASE, 0.5, 4, unit),
        "spent": guarantee(Kind.WORST_CASE, 0.5, 4, unit),
        "guarantee_party": guarantee(Kind.WORST_CASE, 2.0, 4, Unit.PARTY),
    }
    exhibits = box(replace(data, guarantees=guarantees))
    assert what in exhibits["meaning"].words[0]
    assert "For a whole hospital it is less: a guess is right in 89 in 100." in exhibits["verdict"].words[0]
    assert "2.000" in lines(exhibits["guarantee"])[-1][1]


@pytest.mark.parametrize(
    ("labels", "said", "explained"),
    [
        ([[61, 60], [38, 141]], "67% are right (95% interval 62% to 72%, Wilson)", False),
        ([[30, 30], [38, 90]], "64% are right", True),
        ([[0, 31], [0, 69]], "69% are right", False),
    ],
)
def test_labels_beside_the_commonest_class(labels: list[list[int]], said: str, explained: bool) -> None:
    """It is explained where it would be misread: labels that are right no more often than the constant answer."""
    data = figured(run())
    told = labels_explained(replace(data, open_figures={**data.open_figures, "labels": labels}))
    assert said in told
    assert ("does not make them worthless" in told) == explained
    assert ("in the mean over classes" in told) == explained


@pytest.mark.parametrize(
    ("difference", "interval", "how"),
    [(0.12, [0.1, 0.14], "better"), (-0.12, [-0.14, -0.1], "worse"), (0.01, [-0.01, 0.03], "not clearly")],
)
def test_against_one_party_alone(difference: float, interval: list[float], how: str) -> None:
    data = figured(run())
    alone = {"metric": "auc", "difference": difference, "interval": interval}
    data = replace(data, secret_figures={**data.secret_figures, "alone": alone})
    assert f"is {how}" in against_alone(data)
    assert against_alone(data) in " ".join(render_once(data).split())
    assert "one hospital has by itself" not in render_once(data, public=True)


def test_the_private_majority_gives_way_to_the_public_one() -> None:
    before, after = model_rows(run()), model_rows(figured(run()))
    assert before[0].label == "majority class"
    assert after[0].label == "always “ill”"
    assert "majority class" not in [row.label for row in after]
    assert [row.label for row in model_rows(figured(run()).published())] == [
        "always “ill”", "17 labels by hand", "40 labels by hand", "student",
    ]  # fmt: skip


def test_ten_classes_have_an_area_each_and_narrow_numbers() -> None:
    data = figured(run(), DIGITS)
    recall = recall_exhibit(data, model_rows(data))
    assert recall is not None and recall.table is not None and len(recall.table.lines) == 10
    columns = recall.table.columns
    assert columns[2] == "student" and columns[-1] == "student, AUC against the rest"
    assert all(len(line.cells) == len(columns) - 1 for line in recall.table.lines)
    first, second = matrix([[12_345, 0]] * 2, ("a", "b"))[0].cells
    assert (first.text, first.look, second.look) == ("12,345", "shade5 diagonal", "shade0")


def test_of_many_classes_the_worst_are_listed_in_place_of_matrices() -> None:
    names = tuple(f"sign {number}" for number in range(40))
    data = figured(run(), names, rows=2000)
    exhibit = recall_exhibit(data, model_rows(data))
    assert exhibit is not None and len(lines(exhibit)) == LISTED
    recall = (data.student or {})["recall_per_class"]
    assert {name for name, *_ in lines(exhibit)} == set(sorted(names, key=lambda name: recall[name])[:LISTED])
    page = " ".join(render_once(data).split())
    assert "Of the 40 classes the 20 that the student finds least." in page
    for line in taken_for(data.open_figures["student"]["confusion"], names):
        called, text = (cell.text for cell in line.cells)
        assert f'{line.name}</th><td>{called}</td> <td class="n">{text}</td>' in page
    assert 'class="matrix' not in page
    assert "40, from sign 0 to sign 39" in page
    assert re.search(r"measured on 2,000 public test cases: \d+ to \d+ of each of 40 classes\.", page)
    assert 'id="votes"' in page and 'id="votes"' not in render_once(data, public=True)
