"""The charts: what is drawn is what was given, in places that fit any width.

Exhibits: what is secret never reaches a published page, and a terminal says what a page says.
"""

from __future__ import annotations

import doctest
import re
from dataclasses import replace
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest
from markupsafe import Markup

from consilium.accounting.guarantees import Kind
from consilium.report import charts, exhibits, page, words
from consilium.report.charts import (
    LOOKS,
    MOST_POINTS,
    Axis,
    Key,
    RuleAcross,
    Series,
    ValueRow,
    axis_over,
    bars_chart,
    bin_edges,
    cloud_chart,
    histogram,
    lines_chart,
    rows_axis,
    rows_chart,
    thin,
)
from consilium.report.exhibits import Cell, Chart, Exhibit, PagePart, Table, TableLine, as_text, published
from consilium.report.page import Page, as_html
from consilium.simulations.report import guarantees, meaning, models, privacy, results
from consilium.simulations.report.class_by_class import roc_chart
from consilium.simulations.report.guarantees import guarantee_rows
from consilium.simulations.report.privacy import privacy_curve
from consilium.simulations.report.results import learning_chart, outcome_chart
from tests.simulations.report.cases import guarantee, run

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


@pytest.mark.parametrize("module", [charts, exhibits, page, words, guarantees, meaning, models, privacy, results])
def test_examples_in_the_text_are_true(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def agreed(shares: np.ndarray, yes: np.ndarray) -> str:
    return str(histogram(shares, yes, ("share", "queries"), ("answered", "abstained")))


@pytest.mark.parametrize("parties", [3, 207])
def test_consensus_counts_every_query_once(parties: int) -> None:
    votes = np.arange((parties + 1) // 2, parties + 1)
    answered = votes % 3 == 0
    drawn = marks(agreed(votes / parties, answered), "rect")[2:]  # the first two are the key
    low, step = bin_edges(votes / parties)
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


@pytest.mark.parametrize("length", [1, 499, 501])
def test_thinning_keeps_both_ends(length: int) -> None:
    kept = thin(np.arange(length, dtype=float))
    assert kept[0] == 0 and kept[-1] == length - 1
    assert len(kept) == min(length, MOST_POINTS) == len(set(kept))
    assert thin(np.zeros(0)) == []


def curve(spent: np.ndarray, secret: np.ndarray | None, guaranteed: float) -> str:
    """The privacy curve of a run that spent so much."""
    none = np.zeros(0)
    data = replace(
        run(asked=len(spent)), epsilon_spent=spent, epsilon_data_dependent=none if secret is None else secret
    )
    claims = {**data.guarantees, "guarantee": guarantee(Kind.WORST_CASE, guaranteed)}
    drawn = privacy_curve(data, guarantee_rows(claims)["guarantee"])
    assert drawn.secret and drawn.chart is not None
    return str(drawn.chart.parts[0][1])


def test_a_staircase_is_drawn_through_the_points_where_it_was_evaluated() -> None:
    stairs = np.repeat(np.arange(1.0, 6.0), 10)
    (line,) = places(curve(stairs, None, np.inf))
    assert [round(x * 50) for x, _ in line] == [1, 10, 20, 30, 40, 50]
    (line,) = places(curve(np.array([0.0, 1.0, 1.0, 2.0, 3.0]), None, np.inf))  # one flat place is what the curve does
    assert len(line) == 5


def test_the_privacy_curve_has_the_secret_line_only_if_given() -> None:
    worst, secret = np.linspace(0.1, 0.9, 2000), np.linspace(0.05, 0.31337, 2000)
    with_secret, without = curve(worst, secret, 0.98), curve(worst, None, 0.98)
    assert [len(places(drawn)) for drawn in (with_secret, without)] == [2, 1]
    assert places(with_secret)[1][-1] == (1, pytest.approx(0.31337 / (1.2 * 0.98), abs=1e-3))
    assert "do not publish" in with_secret and "do not publish" not in without
    assert "the guarantee" in without and "at delta 1e-5" in without


@pytest.mark.parametrize(("low", "high"), [(0.119, 0.995), (0.985, 0.995), (1.0, 1.0)])
def test_no_tick_stands_above_one(low: float, high: float) -> None:
    rows = [ValueRow("a", low, None, "-"), ValueRow("b", high, None, "-")]
    drawn = str(rows_chart("accuracy", rows, rows_axis(rows, shares=True)))
    ticks = [float(text) for text in re.findall(r">(\d\.\d\d)<", drawn)]
    assert 1 <= len(ticks) <= 6 and min(ticks) >= 0 and max(ticks) <= 1
    assert all(0 <= share(circle["cx"]) <= 1 for circle in marks(drawn, "circle"))


def test_outcomes_are_written_out() -> None:
    drawn = str(outcome_chart(1300, 500, 200))
    for text in ("1,300 (65%)", "500 (25%)", "200 (10%)", "never asked"):
        assert text in drawn
    assert [bar["width"] for bar in marks(drawn, "rect")] == ["100%", "38.46%", "15.38%"]
    assert ">0 (0%)<" in outcome_chart(0, 0, 0)
    assert "confirmed" not in drawn and ">4 (40%)<" in outcome_chart(3, 2, 1, 4)


@pytest.mark.parametrize("over", ["labels", "epsilon"])
def test_a_learning_curve_has_every_point_inside(over: str) -> None:
    points = [{over: at, "value": 0.6 + at / 1e4, "interval": [0.55, 0.65]} for at in (3, 30, 300, 2000)]
    (line,) = places(str(learning_chart(points, over, ("x", "y"))))
    assert len(line) == 4 and all(0 < x < 1 and 0 < y < 1 for x, y in line)
    steps = np.diff([x for x, _ in line])
    assert steps[0] == pytest.approx(steps[1], abs=2e-3)  # tenfold is tenfold


def test_what_is_written_is_escaped() -> None:
    drawings = [
        rows_chart(HOSTILE, [ValueRow(HOSTILE, 0.5, None, HOSTILE)], keys=[Key("blue", HOSTILE)]),
        bars_chart({HOSTILE: (1.0, HOSTILE)}),
        roc_chart([{"name": HOSTILE, "auc": 0.5, "found": [0.0, 1.0]}]),
    ]
    for drawing in drawings:
        assert HOSTILE in "".join(ElementTree.fromstring(f"<div>{drawing}</div>").itertext())
        assert "<script" not in drawing


def test_lines_go_through_their_values_with_their_intervals() -> None:
    series = [Series("a", LOOKS[0], [1.0, 10.0, 100.0], [0.2, 0.4, 0.3], [(0.1, 0.3), None, (0.25, 0.35)])]
    axis = Axis(0.0, 0.5)
    across = axis_over([1.0, 10.0, 100.0], "")
    assert across.log
    drawn = str(lines_chart(series, ("x", "y"), y=axis))
    (line,) = places(drawn)
    assert [x for x, _ in line] == pytest.approx([across.place(value) for value in (1, 10, 100)], abs=1e-3)
    assert [y for _, y in line] == pytest.approx([0.4, 0.8, 0.6], abs=1e-3)
    bars = [each for each in marks(drawn, "line") if each.get("y1") != each.get("y2")]
    found = [(1 - share(each["y1"]), 1 - share(each["y2"])) for each in bars]
    assert found == [pytest.approx((0.2, 0.6)), pytest.approx((0.5, 0.7))]


def test_lines_are_told_apart_without_colour() -> None:
    assert len(set(LOOKS)) == len(LOOKS)
    colours = [look.split()[0] for look in LOOKS]
    for colour in set(colours):
        dashes = [look for look in LOOKS if look.split()[0] == colour]
        assert len(dashes) == len(set(dashes))
    shown = lines_chart([Series(look, look, [1.0, 2.0], [0.1, 0.2]) for look in LOOKS], ("", ""))
    assert all(f">{look}<" in str(shown) for look in LOOKS)


def test_a_cloud_has_its_points_and_its_zero() -> None:
    points = [(10.0, -0.1), (100.0, 0.3)]
    drawn = str(cloud_chart(points, ("rows", "gain"), True, [RuleAcross(0.0, key="no gain")]))
    (path,) = [each["d"] for each in marks(drawn, "path")]
    found = [tuple(float(part) / 1000 for part in pair.split(" ")) for pair in re.findall(r"M([\d.]+ [\d.]+)h0", path)]
    x, y = axis_over([10, 100], "", True), axis_over([-0.1, 0.3, 0.0], "", False)
    assert found == [pytest.approx((x.place(a), 1 - y.place(b)), abs=1e-3) for a, b in points]
    zero = [each for each in marks(drawn, "line") if each.get("x2") == "100%"]
    assert [share(each["y1"]) for each in zero] == [pytest.approx(1 - y.place(0.0), abs=1e-3)]
    assert "no gain" in drawn


def test_dots_stand_at_their_values_with_rings_and_words() -> None:
    rows = [
        ValueRow("a", 0.6, (0.5, 0.7), "0.600 (0.500 to 0.700)", marked=True),
        ValueRow("b", 0.4, None, "0.400", other=0.3),
        ValueRow("c", 0.2, (0.1, 0.3), "not significant", faint=True),
    ]
    axis = Axis(0.0, 1.0, ((0.5, "0.5"),))
    drawn = str(rows_chart("AUC", rows, axis, zero=True, keys=[Key("ring blue", "floor", "dot")]))
    circles = [each for each in marks(drawn, "circle") if "%" in each["cx"]]
    assert [share(each["cx"]) for each in circles] == [0.3, 0.4, 0.2]
    bars = [(share(each["x1"]), share(each["x2"])) for each in marks(drawn, "line")]
    assert bars == [(0.5, 0.7), (0.1, 0.3)]
    assert len(marks(drawn, "path")) == 1  # the diamond
    assert [each["class"] for each in marks(drawn, "circle")][-1] == "mark fill grey"
    assert all(text in drawn for text in ("0.600 (0.500 to 0.700)", "not significant", "floor"))


@pytest.mark.parametrize("values", [[0.0], [-1.0, 1.0], [1e-9, 1e9]])
def test_axes_hold_all_values_with_ticks(values: list[float]) -> None:
    axis = axis_over(values, "")
    assert all(0 < axis.place(value) < 1 for value in values)
    assert all(-1e-6 <= axis.place(value) <= 1 + 1e-6 for value, _ in axis.ticks) and len(axis.ticks) <= 8


SECRET = Exhibit(
    "votes", "Votes 0.31337", ("Exact.",), table=Table(("", "share"), (TableLine("a", (Cell("7"),)),)), secret=True
)
OPEN = Exhibit("labels", "Labels", ("Released.",), items=(Markup("<b>14</b>"),))
PARTS = (PagePart("one", "First", (OPEN, SECRET)), PagePart("two", "Private alone", (SECRET,)))


def test_a_published_page_holds_no_secret_exhibit_and_the_whole_one_marks_it() -> None:
    whole, public = as_html(Page("", "t", PARTS)), as_html(Page("", "t", published(PARTS)))
    assert "0.31337" in whole and "not covered by the guarantee" in whole
    assert "0.31337" not in public and "Private alone" not in public and "Labels" in public


def test_a_terminal_has_the_words_and_the_tables() -> None:
    picture = Chart("Dots: 0.6.", (("", rows_chart("AUC", [ValueRow("a", 0.6, None, "0.600")])),))
    lines = as_text([*PARTS, PagePart("three", "Third", (Exhibit("c", "Picture", chart=picture),))]).splitlines()
    assert lines[:6] == [
        "First", "  Labels", "    Released.", "    14", "  Votes 0.31337 [not covered by the guarantee]", "    Exact.",
    ]  # fmt: skip
    assert lines[-1] == "    Dots: 0.6."
