"""The charts: what is drawn is what was given, in places that fit any width."""

from __future__ import annotations

import doctest
import re
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest

from consilium.simulations.report import guarantees, meaning, models, plain, tables, wording, worth
from consilium.simulations.report.charts import bars, curves, dots, svg

HOSTILE = "<script>alert(1)</script>\"'&"


def marks(drawn: str, name: str) -> list[dict[str, str]]:
    """Attributes of all elements of that name with the class `mark`, in order."""
    page = ElementTree.fromstring(f"<div>{drawn}</div>")  # also: it is well formed
    return [item.attrib for item in page.iter(name) if "mark" in item.get("class", "")]


def places(drawn: str) -> list[list[tuple[float, float]]]:
    """Of each line its points, as shares of the panel from its left and its foot."""
    found = [line["points"].split() for line in marks(drawn, "polyline")]
    return [[(float(x) / 1000, 1 - float(y) / 1000) for x, y in (pair.split(",") for pair in line)] for line in found]


def share(text: str) -> float:
    return float(text.removesuffix("%")) / 100


@pytest.mark.parametrize(
    "module", [bars, curves, dots, svg, guarantees, meaning, models, plain, tables, wording, worth]
)
def test_examples_in_the_text_are_true(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("parties", [3, 8, 200, 207])
def test_consensus_counts_every_query_once(parties: int) -> None:
    votes = np.arange((parties + 1) // 2, parties + 1)
    answered = votes % 3 == 0
    drawn = marks(bars.consensus_chart(votes / parties, answered), "rect")[2:]  # the first two are the key
    low, step = bars.bin_edges(votes / parties)
    count = round((1 - low) / step)
    of = {"blue": np.zeros(count), "grey": np.zeros(count)}
    for bar in drawn:
        of[bar["class"].split()[-1]][round(share(bar["x"]) * count)] = share(bar["height"])
    for colour, outcome in (("blue", answered), ("grey", ~answered)):
        index = np.minimum(np.floor((votes[outcome] / parties - low) / step + 1e-9), count - 1).astype(int)
        expected = np.bincount(index, minlength=count)
        unit = (of["blue"] + of["grey"]).max() / np.bincount(
            np.minimum(np.floor((votes / parties - low) / step + 1e-9), count - 1).astype(int)
        ).max()
        assert of[colour] / unit == pytest.approx(expected, abs=0.02)


def test_edges_belong_to_the_bin_on_their_right() -> None:
    """0.7 / 0.025 is 27.999... in floating point."""
    drawn = marks(bars.consensus_chart(np.array([0.5, 0.7, 0.7]), np.array([True, True, False])), "rect")[2:]
    assert [bar["x"] for bar in drawn] == ["0%", "40%", "40%"]


@pytest.mark.parametrize("length", [1, 2, 499, 500, 501, 10_000])
def test_thinning_keeps_both_ends(length: int) -> None:
    kept = curves.thin(np.arange(length, dtype=float))
    assert kept[0] == 0 and kept[-1] == length - 1
    assert len(kept) == min(length, curves.MOST_POINTS) == len(set(kept))
    assert curves.thin(np.zeros(0)) == []


def test_a_staircase_is_drawn_through_the_points_where_it_was_evaluated() -> None:
    stairs = np.repeat(np.arange(1.0, 6.0), 10)
    (line,) = places(curves.privacy_chart(stairs, None, np.inf, "unbounded", "1e-5"))
    assert [round(x * 50) for x, _ in line] == [1, 10, 20, 30, 40, 50]
    single = np.array([0.0, 1.0, 1.0, 2.0, 3.0])  # one flat place is what the curve does
    (line,) = places(curves.privacy_chart(single, None, np.inf, "unbounded", "1e-5"))
    assert len(line) == 5


def test_privacy_draws_the_secret_curve_only_if_given() -> None:
    worst, secret = np.linspace(0.1, 0.9, 2000), np.linspace(0.05, 0.31337, 2000)
    with_secret = curves.privacy_chart(worst, secret, 0.98, "0.980", "1e-5")
    without = curves.privacy_chart(worst, None, 0.98, "0.980", "1e-5")
    assert [len(places(drawn)) for drawn in (with_secret, without)] == [2, 1]
    assert places(with_secret)[1][-1] == (1, pytest.approx(0.31337 / (1.2 * 0.98), abs=1e-3))
    assert "do not publish" in with_secret and "do not publish" not in without
    assert "promised: at most 0.980" in without and "at delta 1e-5" in without


def test_no_promise_no_line() -> None:
    drawn = curves.privacy_chart(np.array([np.inf, np.inf]), None, np.inf, "unbounded", "1e-5")
    assert "promised" not in drawn and "inf" not in drawn and "nan" not in drawn.lower()
    assert places(drawn) == []


def test_dots_stand_at_their_values_with_their_intervals() -> None:
    drawn = dots.dots_chart("AUC", [dots.Dot("a", 0.6), dots.Dot("student", 0.7, (0.65, 0.8), student=True)])
    (circle,) = marks(drawn, "circle")
    (bar,) = marks(drawn, "line")
    low, at, high = share(circle["cx"]), share(bar["x1"]), share(bar["x2"])
    assert (at - low) / (high - low) == pytest.approx((0.65 - 0.6) / (0.8 - 0.6), abs=1e-3)
    assert "0.700 (0.650 to 0.800)" in drawn and ">0.600<" in drawn
    assert len(marks(drawn, "path")) == 1  # the diamond: not by its colour alone


@pytest.mark.parametrize(("low", "high"), [(0.119, 0.995), (0.9, 0.99), (0.985, 0.995), (0.0, 1.0), (1.0, 1.0)])
def test_no_tick_stands_above_one(low: float, high: float) -> None:
    drawn = dots.dots_chart("accuracy", [dots.Dot("a", low, note="-"), dots.Dot("b", high, note="-")])
    ticks = [float(text) for text in re.findall(r">(\d\.\d\d)<", drawn)]
    assert 1 <= len(ticks) <= 6 and min(ticks) >= 0 and max(ticks) <= 1
    assert all(0 <= share(circle["cx"]) <= 1 for circle in marks(drawn, "circle"))


def test_unanimous_votes_have_narrow_bins() -> None:
    drawn = bars.consensus_chart(np.array([0.976, 0.984, 1.0, 1.0]), np.array([True] * 4))
    labels = re.findall(r">(\d+(?:\.\d)?%)<", drawn)
    assert len(labels) == len(set(labels)) >= 4


def test_outcomes_are_written_out() -> None:
    drawn = bars.outcome_chart(1300, 500, 200)
    for text in ("1,300 (65%)", "500 (25%)", "200 (10%)", "never asked"):
        assert text in drawn
    assert [bar["width"] for bar in marks(drawn, "rect")] == ["100%", "38.46%", "15.38%"]
    assert ">0 (0%)<" in bars.outcome_chart(0, 0, 0)
    assert "confirmed" not in drawn and ">4 (40%)<" in bars.outcome_chart(3, 2, 1, 4)


def test_parties_of_one_size_can_be_drawn() -> None:
    (path,) = marks(curves.parties_chart([30, 30], [0.6, 0.6], None, ("rows", "AUC")), "path")
    assert path["d"].count("h0") == 2


@pytest.mark.parametrize("over", ["labels", "epsilon"])
def test_a_learning_curve_has_every_point_inside(over: str) -> None:
    points = [{over: at, "value": 0.6 + at / 1e4, "interval": [0.55, 0.65]} for at in (3, 30, 300, 2000)]
    (line,) = places(curves.learning_chart(points, over, ("x", "y")))  # pyright: ignore[reportArgumentType]
    assert len(line) == 4 and all(0 < x < 1 and 0 < y < 1 for x, y in line)
    steps = np.diff([x for x, _ in line])
    assert steps[0] == pytest.approx(steps[1], abs=2e-3)  # tenfold is tenfold


def test_several_curves_name_the_lowest() -> None:
    found = [{"name": name, "auc": auc, "found": [0.0, auc, 1.0]} for name, auc in (("a", 0.9), ("b", 0.6), ("c", 0.8))]
    drawn = curves.roc_chart(found)
    assert "lowest: b" in drawn and len(places(drawn)) == 4  # with that of chance
    assert "c: AUC 0.800" in curves.roc_chart(found[2:])


@pytest.mark.parametrize("length", [1, 10])
def test_a_calibration_curve_has_a_point_for_each_bin(length: int) -> None:
    bins = [{"mean": at / length, "rate": at / length, "interval": [0.0, 1.0]} for at in range(length)]
    assert len(marks(curves.calibration_chart(bins), "circle")) == length


def test_what_is_written_is_escaped() -> None:
    drawn = [
        dots.dots_chart(HOSTILE, [dots.Dot(HOSTILE, 0.5, note=HOSTILE)]),
        bars.bars_chart({HOSTILE: (1.0, HOSTILE)}),
        curves.roc_chart([{"name": HOSTILE, "auc": 0.5, "found": [0.0, 1.0]}]),
    ]
    for each in drawn:
        assert "<script" not in each
        assert HOSTILE in "".join(ElementTree.fromstring(f"<div>{each}</div>").itertext())


@pytest.mark.parametrize("values", [[0.5], [0.0, 1.0], [0.999, 1.0]])
def test_letters_are_never_scaled(values: list[float]) -> None:
    """A view box that stretches may hold lines alone."""
    drawn = dots.dots_chart("AUC", [dots.Dot(str(value), value) for value in values])
    drawn += curves.privacy_chart(np.array(values), None, 2.0, "2.000", "1e-5")
    page = ElementTree.fromstring(f"<div>{drawn}</div>")
    scaled = [item for item in page.iter("svg") if item.get("viewBox")]
    assert [text for item in scaled for text in item.iter("text")] == []
