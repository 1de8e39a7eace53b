"""The kit of pages: charts hold each name and text, what is secret is on no published page, and all that shows exhibits
says the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from consilium.report import charts
from consilium.report.charts import MOST_LINES, Dot, Drawing, Line, cloud, dots, lines
from consilium.report.exhibits import Chart, Exhibit, Page, PagePart, as_html, as_text, pairs, published, style

HOSTILE = "<b>#000005 $x$ _y_ id=\"a\" 0.123456789 'z'&amp;"
LONG = "Universitätsklinikum, Abteilung für Herzchirurgie und Neurologie"
ROWS = [Dot(HOSTILE, 0.6, (0.5, 0.7), HOSTILE, marked=True), Dot("_b", 0.4, None, "0.400"), Dot(LONG, 0.5, None, LONG)]
SERIES = [Line(f"_{place} {HOSTILE}", [1.0, 30.0], [0.2, 0.3 + place / 90], [(0.1, 0.3), None]) for place in range(9)]


def drawn() -> dict[str, Drawing]:
    """One of each, at its most hostile."""
    return {
        "dots": dots(ROWS, HOSTILE, zero=True),
        "lines": lines(SERIES, (HOSTILE, HOSTILE), diagonal=HOSTILE),
        "cloud": cloud([(10.0, -0.1), (400.0, 0.3)], (HOSTILE, HOSTILE), zero=HOSTILE),
    }


def texts(drawing: Drawing) -> str:
    """All letters of a drawing in one line; what was broken into lines is together again."""
    return " ".join(text.strip() for text in ElementTree.fromstring(drawing).itertext() if text.strip())


def test_who_has_no_home_hears_nothing_of_caches() -> None:
    code = "from consilium.report.charts import Dot, dots; dots([Dot('a', 0.5, None, '')])"
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), "/proc/nowhere")
    ran = subprocess.run([sys.executable, "-c", code], env=os.environ | nowhere, capture_output=True, check=True)
    assert ran.stderr == b""


@pytest.mark.parametrize("kind", ["dots", "lines", "cloud"])
def test_a_chart_is_of_the_page_alone(kind: str) -> None:
    """Its letters are text as they were given, its colours the style's, its ids nobody's; equal input, equal bytes."""
    drawing = drawn()[kind]
    assert HOSTILE in texts(drawing) and "<b>" not in drawing
    tags = "".join(re.findall(r"<[^>]+>", drawing))
    assert not re.search(r"#|\bid=|href|font-family|rgb", tags)
    assert set(re.findall(r"(?:fill|stroke): ([a-z]+)[^(a-z]", tags)) <= {"none"}
    used = set(re.findall(r"var\((--\w+)\)", tags))
    light, dark = (set(re.findall(r"(--\w+):", block)) for block in style().split("prefers-color-scheme: dark"))
    assert used and used <= light and used <= dark
    assert drawing == drawn()[kind]


def test_every_name_is_there_whole_and_letters_that_no_page_may_hold_are_replaced() -> None:
    everything = drawn()
    for kind, expected in {"dots": ["_b", "0.400", LONG], "lines": [one.name for one in SERIES]}.items():
        assert all(text in texts(everything[kind]) for text in expected)
    assert "a\ufffdb\ufffd" in texts(dots([Dot("a\x07b\uffff", 1.0, None, "1")]))


def paths(drawing: Drawing, colour: str, width: str = "") -> list[list[tuple[float, float]]]:
    """Of the lines of a colour their points, as they stand on the page."""
    found = []
    for part in ElementTree.fromstring(drawing).iter("path"):
        look = part.get("style", "")
        if f"stroke: var(--{colour})" in look and "transform" not in part.attrib and width in look:
            numbers = [float(number) for number in re.findall(r"-?[\d.]+", part.get("d", ""))]
            found.append(list(zip(numbers[::2], numbers[1::2], strict=True)))
    return found


def test_values_stand_at_their_places() -> None:
    rows = [Dot("a", 0.5, (0.25, 0.75), "a"), Dot("b", 0.5, (-3.0, 9.0), "b")]
    half, whole = paths(dots(rows, axis=(0.0, 1.0)), "blue", "2.2")
    assert half[1][0] - half[0][0] == pytest.approx((whole[1][0] - whole[0][0]) / 2, abs=0.2)  # no end leaves the axis
    assert whole[0][0] > 0 and whole[1][0] < charts.WIDTH
    (line,) = paths(lines([Line("", [1.0, 10.0, 100.0], [0.2, 0.4, 0.3])], ("", "")), "orange")
    (x1, y1), (x2, y2), (x3, y3) = line
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)  # tenfold is tenfold
    assert y1 - y2 == pytest.approx(2 * (y1 - y3), abs=0.3)
    points = [(float(at), float(at)) for at in range(1, 401)]
    (drawing,) = paths(cloud(points, ("", ""), ""), "blue")
    assert len(drawing) == 800 and len(str(cloud(points, ("", ""), ""))) < 20_000


@pytest.mark.parametrize("values", [[0.5], [0.0, 0.0], [-1.0, 1.0], [1e-9, 1e9]])
def test_any_values_can_be_drawn(values: list[float]) -> None:
    low, high = charts.limits(values)
    assert low < min(values) and max(values) < high
    assert "5 %" in dots([Dot("a", value, (value, value), "5 %") for value in values])
    lines([Line("one", values, values, [None] * len(values))], ("", ""))
    cloud([(value, value) for value in values], ("", ""), "")


def test_lines_are_told_apart_without_colour() -> None:
    series = [Line(str(place), [1.0, 2.0], [0.1, 0.2]) for place in range(MOST_LINES)]
    looks = [look for look in re.findall(r'style="([^"]+)"', lines(series, ("", ""))) if "width: 1.8" in look]
    assert len(set(looks)) == MOST_LINES


OPEN = Exhibit("labels", "Labels", ("Released.",), items=(Markup("<b>14</b>"),))


@pytest.mark.parametrize("look", ["", "folded", "small", "numbered"])
@pytest.mark.parametrize("kind", ["table", "chart", "words"])
def test_a_published_page_holds_no_secret_exhibit_and_the_whole_one_marks_it(kind: str, look: str) -> None:
    shown = {"table": {"table": pairs([("a", 7)])}, "chart": {"chart": Chart("b", (("", dots(ROWS)),))}}
    secret = Exhibit("votes", "", ("Votes 0.31337",), secret=True, look=look, **shown.get(kind, {}))
    parts = (PagePart("one", "First", (OPEN, secret)), PagePart("two", "Private alone", (secret,)))
    whole, public = as_html(Page("", "t", parts)), as_html(Page("", "t", published(parts)))
    assert whole.count("0.31337") == whole.count("not covered by the guarantee") == 2
    assert "0.31337" not in public and "Private alone" not in public and "Labels" in public


def test_a_terminal_has_the_words_and_the_tables() -> None:
    secret = Exhibit("votes", "Votes", ("Exact.",), table=pairs([("a", 7)]), secret=True)
    picture = Exhibit("c", "Picture", chart=Chart("Dots: 0.6.", (("", dots(ROWS)),)))
    assert as_text([PagePart("one", "First", (OPEN, secret, picture))]).splitlines() == [
        "First", "  Labels", "    Released.", "    14", "  Votes [not covered by the guarantee]", "    Exact.",
        "    a  7", "  Picture", "    Dots: 0.6.",
    ]  # fmt: skip
