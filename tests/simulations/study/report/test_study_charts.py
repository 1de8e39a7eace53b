"""Charts of a study: marks stand at their values, on the page and in the file alike."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from consilium.simulations.report.charts.svg import Axis
from consilium.simulations.study.report.build import page_template
from consilium.simulations.study.report.charts.drawing import STYLE, Drawing, Key, file
from consilium.simulations.study.report.charts.forest import ForestRow, forest_chart
from consilium.simulations.study.report.charts.heat import SHADES, heat_chart
from consilium.simulations.study.report.charts.panels import LOOKS, Series, axis_over, cloud_chart, lines_chart
from tests.simulations.report.test_charts import marks, places, share

HOSTILE = "<script>alert(1)</script>\"'&"


def both(found: Drawing) -> list[str]:
    """The chart as HTML, and as a file without its heading."""
    plain = file("title", [("", found)]).split("?>", 1)[1].replace(' xmlns="http://www.w3.org/2000/svg"', "")
    return [str(found.html), plain]


def test_lines_go_through_their_values_with_their_intervals() -> None:
    series = [Series("a", LOOKS[0], [1.0, 10.0, 100.0], [0.2, 0.4, 0.3], [(0.1, 0.3), None, (0.25, 0.35)])]
    axis = Axis(0.0, 0.5)
    across = axis_over([1.0, 10.0, 100.0], "")
    assert across.log
    for drawn in both(lines_chart(series, ("x", "y"), axis)):
        (line,) = places(drawn)
        assert [x for x, _ in line] == pytest.approx([across.at(value) for value in (1, 10, 100)], abs=1e-3)
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
    shown = lines_chart([Series(look, look, [1.0, 2.0], [0.1, 0.2], [None, None]) for look in LOOKS], ("", ""))
    assert all(f">{look}<" in str(shown.html) for look in LOOKS)


def test_a_cloud_has_its_points_and_its_zero() -> None:
    points = [(10.0, -0.1), (100.0, 0.3)]
    for drawn in both(cloud_chart(points, ("rows", "gain"), log=True, zero="no gain")):
        (path,) = [each["d"] for each in marks(drawn, "path")]
        found = [
            tuple(float(part) / 1000 for part in pair.split(" ")) for pair in re.findall(r"M([\d.]+ [\d.]+)h0", path)
        ]
        x, y = axis_over([10, 100], "", True), axis_over([-0.1, 0.3, 0.0], "", False)
        assert found == [pytest.approx((x.at(a), 1 - y.at(b)), abs=1e-3) for a, b in points]
        zero = [each for each in marks(drawn, "line") if each.get("x2") == "100%"]
        assert [share(each["y1"]) for each in zero] == [pytest.approx(1 - y.at(0.0), abs=1e-3)]
        assert "no gain" in drawn


def test_dots_stand_at_their_values_with_rings_and_words() -> None:
    rows = [
        ForestRow("a", 0.6, (0.5, 0.7), "0.600 (0.500 to 0.700)", marked=True),
        ForestRow("b", 0.4, None, "0.400", other=0.3),
        ForestRow("c", 0.2, (0.1, 0.3), "not significant", faint=True),
    ]
    axis = Axis(0.0, 1.0, ((0.5, "0.5"),))
    for drawn in both(forest_chart("AUC", rows, axis, zero=True, keys=[Key("ring blue", "floor", "dot")])):
        circles = [each for each in marks(drawn, "circle") if "%" in each["cx"]]
        assert [share(each["cx"]) for each in circles] == [0.3, 0.4, 0.2]
        bars = [(share(each["x1"]), share(each["x2"])) for each in marks(drawn, "line")]
        assert bars == [(0.5, 0.7), (0.1, 0.3)]
        assert len(marks(drawn, "path")) == 1  # the diamond
        assert [each["class"] for each in marks(drawn, "circle")][-1] == "mark fill grey"
        assert all(text in drawn for text in ("0.600 (0.500 to 0.700)", "not significant", "floor"))


def cells(drawn: str, rows: int, columns: int) -> np.ndarray:
    """The shade of each cell; -1 where there is none."""
    shades = np.full((rows, columns), -1)
    for level, path in re.findall(r'<path class="heat(\d)" d="([^"]*)"', drawn):
        for x, y, wide in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v", path):
            first, count = round(float(x) / 1000 * columns), round(float(wide) / 1000 * columns)
            row = round(float(y) / 1000 * rows)
            assert (shades[row, first : first + count] == -1).all()
            shades[row, first : first + count] = int(level)
    return shades


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 2), (120, 10), (60, 60)])
def test_each_cell_of_a_matrix_has_its_shade(rows: int, columns: int) -> None:
    values = np.random.default_rng(rows).random((rows, columns))
    values[0, 0] = np.nan if values.size > 1 else 0.5
    for drawn in both(heat_chart(values, (), ("x", "y"), (0.0, 1.0))):
        expected = np.where(np.isnan(values), -1, np.floor(np.nan_to_num(values) * SHADES))
        assert (cells(drawn, rows, columns) == expected).all()


@pytest.mark.parametrize("values", [np.full((2, 2), 0.5), np.array([[np.nan, 1.0]]), np.full((1, 1), np.nan)])
def test_a_matrix_that_does_not_vary_is_drawn(values: np.ndarray) -> None:
    drawn = str(heat_chart(values, ("a",) * values.shape[1], ("x", "y")).html)
    assert "nan" not in drawn.lower()
    assert (cells(drawn, *values.shape) >= 0).sum() == np.isfinite(values).sum()


def test_long_names_of_columns_are_numbered() -> None:
    drawn = str(heat_chart(np.ones((2, 3)), ["a very long name of a class indeed"] * 3, ("", "")).html)
    assert ">3<" in drawn and "very long" not in drawn


@pytest.mark.parametrize("values", [[0.0], [5.0], [-1.0, 1.0], [0.05, 100.0], [1e-9, 1e9]])
def test_axes_hold_all_values_with_ticks(values: list[float]) -> None:
    axis = axis_over(values, "")
    assert all(0 < axis.at(value) < 1 for value in values)
    assert all(-1e-6 <= axis.at(value) <= 1 + 1e-6 for value, _ in axis.ticks) and len(axis.ticks) <= 8


def test_names_in_files_are_text() -> None:
    row = ForestRow(HOSTILE, 0.5, None, HOSTILE)
    text = file(HOSTILE, [(HOSTILE, forest_chart(HOSTILE, [row], keys=[Key("blue", HOSTILE)]))])
    assert "<script" not in text
    ElementTree.fromstring(text)


def test_files_have_the_colours_of_the_page_by_day() -> None:
    environment = page_template().environment
    sources = [environment.loader.get_source(environment, name)[0] for name in ("style.css.j2", "study.css.j2")]  # pyright: ignore
    day = {}
    for source in sources:
        day |= dict(re.findall(r"--(\w+): (#\w+)", source.split("@media screen")[0]))
    stroked = dict(re.findall(r"\.(blue|sky|orange|secret|ink|grey) \{ stroke: (#\w+)", STYLE))
    filled = dict(re.findall(r"\.(?:fill\.)?(blue|sky|orange|secret|ink|grey|heat\d) \{ fill: (#\w+)", STYLE))
    assert len(stroked) == 6 and len(filled) == 13
    assert stroked == {name: day[name] for name in stroked}
    assert filled == {name: day[name] for name in filled}
