"""The charts: what is drawn is what was given."""

from __future__ import annotations

import doctest
import re
from typing import Any

import numpy as np
import pytest
import vl_convert

from consilium.simulations.report import charts, guarantees, wording
from tests.simulations.report.cases import metrics


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The data of each layer or panel that went to the renderer, in drawing order."""
    layers: list[dict[str, Any]] = []

    def collect(spec: Any) -> None:
        if isinstance(spec, dict):
            if "values" in spec.get("data", {}):
                layers.append(spec["data"]["values"])
            for value in spec.values():
                collect(value)
        elif isinstance(spec, list):
            for value in spec:
                collect(value)

    real = vl_convert.vegalite_to_svg

    def spy(spec: dict[str, Any]) -> str:
        collect(spec)
        return real(spec)

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", spy)
    return layers


@pytest.mark.parametrize("module", [charts, guarantees, wording])
def test_examples_in_the_text_are_true(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("parties", [3, 8, 200, 207])
def test_consensus_counts_every_query_once(parties: int, drawn: list[Any]) -> None:
    votes = np.arange((parties + 1) // 2, parties + 1)
    answered = votes % 3 == 0
    charts.consensus_chart(votes / parties, answered)
    bars, shares = drawn
    for outcome, expected in (("answered", answered.sum()), ("abstained", (~answered).sum())):
        assert sum(bar["count"] for bar in bars if bar["outcome"] == outcome) == expected
    for bar in shares:
        inside = (votes / parties >= bar["start"] - 1e-9) & (votes / parties < bar["end"] - 1e-9)
        if bar["end"] == 1:
            inside |= votes == parties
        assert bar["share"] == answered[inside].mean()


def test_edges_belong_to_the_bin_on_their_right(drawn: list[Any]) -> None:
    """0.7 / 0.025 is 27.999... in floating point."""
    charts.consensus_chart(np.array([0.5, 0.7, 0.7]), np.array([True, True, False]))
    assert [(bar["start"], bar["share"]) for bar in drawn[1]] == [(0.5, 1.0), (0.7, 0.5)]


@pytest.mark.parametrize("length", [1, 2, 499, 500, 501, 10_000])
def test_thinning_keeps_both_ends(length: int) -> None:
    kept = charts.thin(length)
    assert kept[0] == 0 and kept[-1] == length - 1
    assert len(kept) == min(length, charts.MOST_POINTS) == len(set(kept.tolist()))
    assert charts.thin(0).tolist() == []


def test_privacy_draws_the_secret_curve_only_if_given(drawn: list[Any]) -> None:
    worst, secret = np.linspace(0.1, 0.9, 2000), np.linspace(0.05, 0.31337, 2000)
    with_secret = charts.privacy_chart(worst, secret, 0.98, "0.980", "1e-5")
    assert drawn[0][-1] == {"queries": 2000, "epsilon": 0.31337, "curve": charts.SECRET_CURVE}
    drawn.clear()
    without = charts.privacy_chart(worst, None, 0.98, "0.980", "1e-5")
    assert drawn[0][-1] == {"queries": 2000, "epsilon": 0.9, "curve": "worst case"}
    assert "do not publish" in with_secret and "do not publish" not in without
    assert "promised before the run: at most 0.980" in without and "at delta 1e-5" in without


def test_no_promise_no_line() -> None:
    svg = charts.privacy_chart(np.array([np.inf, np.inf]), None, np.inf, "unbounded", "1e-5")
    assert "promised" not in svg and "Infinity" not in svg and "NaN" not in svg


def test_models_without_auc_have_one_panel() -> None:
    both = charts.models_chart([("a", metrics(0.61, 0.72)), ("student", metrics(0.63, 0.74))], "student")
    one = charts.models_chart([("a", metrics(0.61, None)), ("student", metrics(0.63, None))], "student")
    for number in ("0.610", "0.720", "0.630", "0.740"):
        assert f">{number}<" in both
    assert "AUC" in both and "AUC" not in one


@pytest.mark.parametrize(("low", "high"), [(0.119, 0.995), (0.9, 0.99), (0.985, 0.995), (0.0, 1.0), (1.0, 1.0)])
def test_no_tick_stands_above_one(low: float, high: float) -> None:
    svg = charts.models_chart([("a", metrics(low, None)), ("student", metrics(high, None))], "student")
    ticks = [float(text) for text in re.findall(r">(\d\.\d\d)<", svg)]
    assert 1 <= len(ticks) <= 7
    assert min(ticks) >= 0
    assert max(ticks) <= 1


def test_unanimous_votes_have_narrow_bins() -> None:
    svg = charts.consensus_chart(np.array([0.976, 0.984, 1.0, 1.0]), np.array([True] * 4))
    labels = re.findall(r">(\d+%)<", svg)
    assert len(labels) == len(set(labels)) + 1  # 100% is a share answered too


def test_outcomes_are_written_out() -> None:
    svg = charts.outcome_chart(1300, 500, 200)
    for text in ("1,300 (65%)", "500 (25%)", "200 (10%)", "never asked"):
        assert text in svg
    assert ">0 (0%)<" in charts.outcome_chart(0, 0, 0)


def test_the_same_chart_is_the_same_text_with_ids_of_its_own() -> None:
    """A page holds several charts, and the renderer counts ids through the life of the process."""
    svg = charts.outcome_chart(1, 2, 3)
    assert svg == charts.outcome_chart(1, 2, 3)
    assert 'id="outcome-0"' in svg and "url(#outcome-0)" in svg


def test_parties_of_one_size_can_be_drawn(drawn: list[Any]) -> None:
    charts.parties_chart([30, 30], [0.6, 0.6], "AUC", None, "site")
    assert drawn == [[{"rows": 30, "quality": 0.6}] * 2]


def test_confirmed_predictions_have_a_bar_of_their_own() -> None:
    assert "confirmed" not in charts.outcome_chart(3, 2, 1)
    svg = charts.outcome_chart(3, 2, 1, 4)
    assert "confirmed" in svg
    assert ">4 (40%)<" in svg
