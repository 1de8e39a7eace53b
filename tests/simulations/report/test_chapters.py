"""What chapters say: who is protected from whom, what epsilon means for mechanisms that have exactly it, and what the
numbers of the student are worth. And the file: written whole or not at all, its data read back as they were."""

from __future__ import annotations

import doctest
import math
import os
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from consilium.accounting.guarantees import Kind
from consilium.accounting.units import Unit
from consilium.protocol.errors import PathError, StorageError
from consilium.report.disclosure import in_plain_words, out_of, surest_guess
from consilium.report.exhibits import Exhibit
from consilium.report.words import MANUAL
from consilium.simulations.report import models, privacy
from consilium.simulations.report.build import render, write_report
from consilium.simulations.report.data import ReportData, load_report_data, save_report_data
from consilium.simulations.report.models import models_of
from consilium.simulations.report.privacy import MODERATE, STRONG, guarantees_of, labels_explained, plain_part
from consilium.simulations.report.result import parties_part, recall_exhibit, result_part
from tests.simulations.report import cases as made
from tests.simulations.report.cases import Page, figured, guarantee, run


@pytest.mark.parametrize("module", [models, privacy])
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


def test_who_is_not_protected_has_a_row_and_seeded_noise_and_no_bound_protect_nobody() -> None:
    """Nor anything patients of held-out hospitals."""
    people = lines(box(run())["people"])
    assert [protected for _, protected, _ in people] == ["yes", "no", "in part"]
    assert "patients of held-out hospitals" in people[1][0]
    seeded, unbounded = promised(0.8, seeded_noise=True), promised(float("inf"))
    for nothing in (seeded, unbounded):
        assert [protected for _, protected, _ in lines(box(nothing)["people"])] == ["no"] * 3
    assert (level(unbounded), level(seeded)) == ("none", "strong simulated")
    assert box(unbounded)["guarantee"].words[1:] == (in_plain_words(float("inf"), 1e-5, "party"),)
    assert lines(box(unbounded)["audiences"])[0][-1] == "no limit"
    assert lines(box(seeded)["audiences"])[0][-1] == "69 in 100, were the noise real"
    (verdict,) = box(seeded)["verdict"].words
    assert "Simulated: strong protection" in verdict and "this protects nobody" in verdict
    assert "this protects nobody" not in box(promised(0.8))["verdict"].words[0]
    assert "Simulated: no protection" in box(promised(float("inf"), seeded_noise=True))["verdict"].words[0]


@pytest.mark.parametrize(
    ("unit", "what", "epsilon", "guess"),
    [
        (Unit.PARTY, "a whole party (a hospital", 2.0, "is right in 89 in 100"),
        (Unit.RECORD, "one record (a single case at one party)", 77.0, "may be right always"),
    ],
)
def test_what_is_protected_is_the_unit(unit: Unit, what: str, epsilon: float, guess: str) -> None:
    own, party = guarantee(Kind.WORST_CASE, 0.5, 4, unit), guarantee(Kind.WORST_CASE, epsilon, 4, Unit.PARTY)
    exhibits = box(replace(run(), guarantees={"guarantee": own, "spent": own, "guarantee_party": party}))
    assert what in exhibits["guarantee"].words[1] and what in lines(exhibits["people"])[0][2]
    assert f"For a whole hospital it is less: a guess {guess}." in exhibits["verdict"].words[0]
    assert f"{epsilon:.3f}" in lines(exhibits["guarantee"])[-1][1]


PROMISES = [(0.0, 0.0), (0.3, 1e-5), (0.8, 1e-5), (1.0, 1e-2), (3.0, 1e-6), (8.0, 0.0)]


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
def test_the_best_guess_against_the_leakiest_mechanism_is_right_as_often_as_is_said(
    epsilon: float, delta: float
) -> None:
    """Two laws of four outputs that reach the promise at every threshold (Kairouz, Oh, Viswanath 2015, section 3.1)."""
    rest, ratio = (1 - delta) / (1 + math.exp(epsilon)), math.exp(epsilon)
    best = np.maximum([delta, rest * ratio, rest, 0.0], [0.0, rest, rest * ratio, delta]).sum() / 2
    assert surest_guess(epsilon, delta) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("share", [0.5, 0.6899, 0.69, 0.98999, 0.99, 0.9999999, 1.0])
def test_what_is_said_is_never_less_than_what_may_be(share: float) -> None:
    told = out_of(share)
    cases, base = (1.0, 1.0) if told == "always" else (float(part.replace(",", "")) for part in told.split(" in "))
    assert share - 1e-9 <= cases / base
    assert (told == "always") == (share > 0.999999)


@pytest.mark.parametrize(
    ("epsilon", "delta", "expected", "reason"),
    [
        (STRONG, 1e-5, "strong", "at most 1"),
        (STRONG + 1e-9, 1e-5, "moderate", "above 1 and at most 3"),
        (MODERATE + 1e-9, 1e-5, "weak", "19 to 1"),
        (math.inf, 1e-5, "none", "No number bounds"),
        (0.1, 1e-2, "weak", "name one of them outright"),
        (0.1, 1e-4, "moderate", "above 0.01"),
    ],
)
def test_a_verdict_has_a_level_and_its_reason_first(epsilon: float, delta: float, expected: str, reason: str) -> None:
    found, reasons = privacy.verdict(epsilon, delta, 371, "hospital")
    assert found == expected and reason in reasons[0]


def test_delta_is_of_the_unit() -> None:
    """Of records there are more than parties: a product with these would be too small."""
    for unit in Unit:
        assert f"is 1e-5 for each {unit}" in privacy.verdict(0.5, 1e-5, 24, "hospital", unit)[1][-1]
        among = "24 hospitals" if unit is Unit.PARTY else f"at least 24 {unit}s"
        assert all(among in privacy.verdict(0.5, delta, 24, "hospital", unit)[1][0] for delta in (1e-3, 0.05))


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"right": 202, "of_class": [121, 179]}, "67% are right (95% interval 62% to 72%, Wilson)"),
        ({"right": 120, "of_class": [60, 128]}, "64% are right"),
        ({}, "How many released labels are right, nobody can say."),
    ],
)
def test_labels_beside_the_commonest_class(labels: dict[str, Any], said: str) -> None:
    assert said in labels_explained(replace(figured(run()), open_figures={"labels": labels}))


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
    for most, more in ((2000, ""), (1, " (one in 2 is drawn, by size)")):
        monkeypatch.setattr("consilium.simulations.report.result.MOST_POINTS", most)
        (gain,) = [item for item in parties_part(figured(run())).exhibits if item.name == "gain"]
        assert gain.secret and f"It is at least as good for 1 of 2 hospitals{more}. By name" in gain.words[0]
    assert gain.data is not None and len(gain.data) == len(run().quality)


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


def test_of_many_classes_the_worst_found_is_first() -> None:
    names = tuple(f"sign {number}" for number in range(40))
    data = figured(run(), names, rows=2000)
    recall = (data.student or {})["recall_per_class"]
    assert [name for name, *_ in lines(recall_exhibit(data))] == sorted(names, key=lambda name: (recall[name], name))
    page = " ".join(render(data).split()).replace("> <", "><")
    assert re.search(r"measured on 2,000 public test cases, \d+ to \d+ of each class\.", page)


class TestPublic:
    def test_holds_none_of_the_secrets_that_the_full_one_shows(self) -> None:
        data = figured(run())
        full, public = render(data), render(data, public=True)
        rounded = ["0.314", "0.954", f"{made.SECRET_AUC:.3f}", f"{made.SECRET_ACCURACY}", f"{made.SECRET_ROWS}"]
        rounded += [f"{made.SECRET_GAIN:.3f}"]
        names = [item.party for item in data.quality] + [party for party, *_ in data.left_out]
        for secret in [*rounded, *names, made.SECRET_REASON, "do not publish", "not covered by the guarantee"]:
            assert secret in full, secret
            assert secret not in public, secret
        for name in ("spent", "gain", "differences"):
            assert f'id="{name}"' in full, name
            assert f'id="{name}"' not in public, name
        for name in ("models", "calibration", "recall", "asked"):
            assert f'id="{name}"' in public, name

    def test_says_what_it_leaves_out(self) -> None:
        text = " ".join(Page(render(run(), public=True)).text.split())
        for what in ("epsilon that was spent", "by name", "models to compare with that use private rows"):
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


def test_figures_come_back_from_the_disk_as_they_were(tmp_path: Path) -> None:
    data = figured(run(), made.DIGITS)
    save_report_data(data, tmp_path)
    for public in (False, True):
        assert render(load_report_data(tmp_path), public) == render(data, public)


def test_a_page_is_written_as_render_gives_it_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, data = tmp_path / "report.html", run()
    for public in (False, True):
        write_report(data, path, public=public)
        assert path.read_text(encoding="utf-8") == render(data, public)
    with pytest.raises(PathError, match=r"cannot write .*gone"):
        write_report(data, tmp_path / "gone" / "report.html")
    path.write_text("old", encoding="utf-8")

    def full(_: int) -> None:
        assert path.read_text(encoding="utf-8") == "old"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        write_report(data, path)
    assert path.read_text(encoding="utf-8") == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
