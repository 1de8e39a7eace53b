"""What chapters say: who is protected from whom, and what the numbers of the student are worth."""

from __future__ import annotations

import doctest
import re
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from consilium.accounting.guarantees import Kind
from consilium.accounting.units import Unit
from consilium.report.disclosure import in_plain_words
from consilium.report.exhibits import Exhibit
from consilium.report.words import MANUAL
from consilium.simulations.report import classes, guarantees, models
from consilium.simulations.report.build import render
from consilium.simulations.report.classes import recall_exhibit, taken_for
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.guarantees import guarantees_of
from consilium.simulations.report.models import models_of
from consilium.simulations.report.privacy import labels_explained, plain_part, privacy_part
from consilium.simulations.report.result import parties_part, result_part
from tests.simulations.report import cases as made
from tests.simulations.report.cases import DIGITS, Page, figured, guarantee, run


@pytest.mark.parametrize("module", [classes, guarantees, models])
def test_examples_in_the_text_are_true(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def box(data: ReportData) -> dict[str, Exhibit]:
    """The exhibits of the first chapter by name."""
    return {item.name: item for item in plain_part(data, guarantees_of(data.guarantees)).exhibits}


def level(data: ReportData) -> str:
    return plain_part(data, guarantees_of(data.guarantees)).look.removeprefix("card ")


def lines(item: Exhibit | None) -> list[list[str]]:
    """Of its table the name and the text of each cell, line by line."""
    assert item is not None and item.table is not None
    return [[str(line.name), *(str(cell.text) for cell in line.cells)] for line in item.table.lines]


def promised(epsilon: float, **change: Any) -> ReportData:
    data = run()
    return replace(data, guarantees={**data.guarantees, "guarantee": guarantee(Kind.WORST_CASE, epsilon)}, **change)


@pytest.mark.parametrize(
    ("epsilon", "strength", "guess"),
    [(0.8, "strong", "69 in 100"), (6.0, "weak", "998 in 1,000"), (20.0, "weak", "may be right always")],
)
def test_epsilon_is_told_as_cases(epsilon: float, strength: str, guess: str) -> None:
    said = box(promised(epsilon))["guarantee"].words
    assert level(promised(epsilon)) == strength
    assert guess in said[1] and "a whole party (a hospital with all its records)" in said[1]
    assert said[2].startswith("It holds for all released labels together, and for whatever anybody computes")


def test_without_a_bound_no_number_is_told() -> None:
    exhibits = box(promised(float("inf")))
    assert level(promised(float("inf"))) == "none"
    assert exhibits["guarantee"].words[1:] == (in_plain_words(float("inf"), 1e-5, "party"),)
    assert lines(exhibits["audiences"])[0][-1] == "no limit"


def test_seeded_noise_protects_nobody_and_says_what_would() -> None:
    data = promised(0.8, seeded_noise=True)
    assert level(data) == "strong simulated"
    (verdict,) = box(data)["verdict"].words
    assert "Simulated: strong protection" in verdict and "this protects nobody" in verdict
    assert "this protects nobody" not in box(promised(0.8))["verdict"].words[0]
    assert lines(box(data)["audiences"])[0][-1] == "69 in 100, were the noise real"
    assert "Simulated: no protection" in box(promised(float("inf"), seeded_noise=True))["verdict"].words[0]


def test_who_is_not_protected_has_a_row() -> None:
    """Patients of held-out hospitals, whom nothing protects; nobody is where there is no bound."""
    people = lines(box(run())["people"])
    assert [protected for _, protected, _ in people] == ["yes", "no", "in part"]
    assert "patients of held-out hospitals" in people[1][0]
    for nothing in (replace(run(), seeded_noise=True), promised(float("inf"))):
        assert [protected for _, protected, _ in lines(box(nothing)["people"])] == ["no"] * 3


@pytest.mark.parametrize(
    ("unit", "what"),
    [(Unit.PARTY, "a whole party (a hospital"), (Unit.RECORD, "one record (a single case at one party)")],
)
def test_what_is_protected_is_the_unit(unit: Unit, what: str) -> None:
    own = guarantee(Kind.WORST_CASE, 0.5, 4, unit)
    party = guarantee(Kind.WORST_CASE, 2.0, 4, Unit.PARTY)
    exhibits = box(replace(run(), guarantees={"guarantee": own, "spent": own, "guarantee_party": party}))
    assert what in exhibits["guarantee"].words[1] and what in lines(exhibits["people"])[0][2]
    assert "For a whole hospital it is less: a guess is right in 89 in 100." in exhibits["verdict"].words[0]
    assert "2.000" in lines(exhibits["guarantee"])[-1][1]


@pytest.mark.parametrize(
    ("labels", "said", "more"),
    [
        ([[61, 60], [38, 141]], "67% are right (95% interval 62% to 72%, Wilson)", False),
        ([[30, 30], [38, 90]], "64% are right", True),
        ([], "How many released labels are right, nobody can say.", False),
    ],
)
def test_labels_beside_the_commonest_class(labels: list[list[int]], said: str, more: bool) -> None:
    told = labels_explained(replace(figured(run()), open_figures={"labels": labels}))
    assert said in told
    assert ("they may say more" in told) == more


@pytest.mark.parametrize("parties", [4, 10, 207])
def test_every_query_is_counted_once_in_its_tenth(parties: int) -> None:
    votes = np.arange((parties + 1) // 2, parties + 1)
    data = replace(run(), consensus=(votes / parties).tolist(), answered=(votes % 3 == 0).tolist())
    part = privacy_part(data, guarantees_of(data.guarantees))
    (shown,) = [item for item in part.exhibits if item.name == "consensus"]
    assert shown.secret
    for name, *counts in lines(shown):
        here = [vote for vote in votes if min(10 * int(vote) // parties, 9) == int(name.split("0%")[0])]
        assert counts == [str(sum(vote % 3 == 0 for vote in here)), str(sum(vote % 3 != 0 for vote in here))]
    assert sum(int(count) for _, *counts in lines(shown) for count in counts) == len(votes)


def test_differences_are_the_students_less_the_others() -> None:
    data = figured(run())
    above = {"above_student": {"metric": "auc", "difference": 0.03, "interval": [0.01, 0.06]}}
    data = replace(data, baselines={**data.baselines, "noisy_average": {"auc": 0.79, **above}})
    (shown,) = [item for item in result_part(data).exhibits if item.name == "differences"]
    assert shown.secret and shown.chart is not None
    assert shown.chart.words == (
        "Difference in AUC: one party alone, on public cases +0.117 (+0.091 to +0.143); one party alone, on its own"
        " rows +0.117 (+0.051 to +0.177); noisy average −0.030 (−0.060 to −0.010)"
    )


def test_who_gains_is_counted_and_what_is_not_drawn_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    data = figured(run())
    auc = (data.student or {})["auc"]
    better = sum(item.auc <= auc for item in data.quality if item.auc is not None)
    said = f"at least as good on public test cases for {better} of {len(data.quality)} hospitals"
    (gain,) = [item for item in parties_part(data).exhibits if item.name == "gain"]
    assert gain.secret and f"{said}." in gain.words[0] and "held out for 1 of 2 hospitals." in gain.words[0]
    monkeypatch.setattr("consilium.simulations.report.result.MOST_POINTS", 5)
    (gain,) = [item for item in parties_part(data).exhibits if item.name == "gain"]
    assert f"{said} (one in 3 is drawn, by size)." in gain.words[0]


def test_the_private_majority_gives_way_to_the_public_one() -> None:
    data = run()
    assert "majority class" in models_of(data.student, data.baselines, None, {})
    data = figured(data)
    rate = (data.student or {})["rate"]
    most = f"always “{max(rate, key=rate.__getitem__)}”"
    models = models_of(data.student, data.baselines, data.worth, {})
    assert "majority class" not in models and models[most]["accuracy"] == max(rate.values())
    public = data.published()
    assert list(models_of(public.student, public.baselines, public.worth, {})) == [
        most, f"17 {MANUAL}", f"40 {MANUAL}", "student",
    ]  # fmt: skip


def test_of_many_classes_the_worst_are_listed() -> None:
    assert all(len(line) == 4 for line in lines(recall_exhibit(figured(run(), DIGITS))))
    names = tuple(f"sign {number}" for number in range(40))
    data = figured(run(), names, rows=2000)
    recall = (data.student or {})["recall_per_class"]
    assert [name for name, *_ in lines(recall_exhibit(data))] == sorted(names, key=lambda name: (recall[name], name))
    page = " ".join(render(data).split()).replace("> <", "><")
    assert "Of 40 classes, each against all others, the 4 with the lowest AUC are drawn." in page
    assert "Of 40 classes the 20 pairs with the largest part of a class called another." in page
    for line in taken_for(data.open_figures["student"]["confusion"], names):
        called, text = (cell.text for cell in line.cells)
        assert f'{line.name}</th><td>{called}</td><td class="n">{text}</td>' in page
    assert re.search(r"measured on 2,000 public test cases, \d+ to \d+ of each class\.", page)


class TestPublic:
    def test_holds_none_of_the_secrets_that_the_full_one_shows(self) -> None:
        data = figured(run())
        full, public = render(data), render(data, public=True)
        rounded = ["0.314", "0.954", f"{made.SECRET_AUC:.3f}", f"{made.SECRET_ACCURACY}", f"{made.SECRET_ROWS}"]
        rounded += [f"{made.SECRET_SHARE:.0%}<", f"{made.SECRET_GAIN:.3f}"]
        names = [item.party for item in data.quality] + [item.party for item in data.left_out]
        for secret in [*rounded, *names, made.SECRET_REASON, "do not publish", "not covered by the guarantee"]:
            assert secret in full, secret
            assert secret not in public, secret
        for name in ("consensus", "gain", "differences", "votes"):
            assert f'id="{name}"' in full, name
            assert f'id="{name}"' not in public, name
        for name in ("models", "roc", "calibration", "by-labels", "confusion", "label-confusion", "recall", "asked"):
            assert f'id="{name}"' in public, name

    def test_says_what_it_leaves_out(self) -> None:
        text = " ".join(Page(render(run(), public=True)).text.split())
        for what in ("epsilon that was spent", "how they voted", "models to compare with that use private rows"):
            assert what in text
        assert "Not shown, nor how many" in text and "13 hospitals might have taken part." in text

    @pytest.mark.parametrize("name", ["spent", "estimate"])
    def test_leaves_out_what_is_not_publishable_whatever_it_is_called(self, name: str) -> None:
        data = run()
        for kind in (Kind.REALISED, Kind.DATA_DEPENDENT, Kind.WORST_CASE):  # the control: as it is marked
            shown = replace(data, guarantees={**data.guarantees, name: guarantee(kind, 0.2718)})
            assert ("0.272" in render(shown, public=True)) == (kind is Kind.WORST_CASE)
        lie = {**guarantee(Kind.REALISED, 0.2718), "publishable": True}
        assert "0.272" not in render(replace(data, guarantees={**data.guarantees, name: lie}), public=True)
