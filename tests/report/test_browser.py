"""Pages in a real browser: all can be read at a desk, on a telephone, in the dark and on paper; nothing is fetched.

A page itself may not run anything, so the measuring script is put into a copy without that rule.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pypdf
import pytest

from consilium.report.charts import Dot, Line, cloud, dots, lines
from consilium.report.exhibits import (
    ALL_BUT_FIRST,
    Cell,
    Chart,
    Exhibit,
    Page,
    PagePart,
    Table,
    TableLine,
    as_html,
    pairs,
)
from consilium.simulations.report.build import render
from tests.simulations.report.cases import figured, run
from tests.simulations.study.made_up import MadeUp

BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None and os.environ.get("CI") != "true", reason="no chromium on the PATH")
LEAST_SIZE, LEAST_TEXT, LEAST_MARK = 10.5, 4.5, 3
"""Pixels; contrast of text and of marks (WCAG 2.2, level AA)."""
RULE = '<meta http-equiv="Content-Security-Policy"'
SCRIPT = r"""
function parts(text) { const found = text.match(/[\d.]+/g); return found ? found.map(Number) : [0, 0, 0, 0]; }
function over(front, back) { const a = front.length > 3 ? front[3] : 1;
  return [0, 1, 2].map(i => a * front[i] + (1 - a) * back[i]); }
function light(c) {
  const l = [0, 1, 2].map(i => c[i] / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * l[0] + .7152 * l[1] + .0722 * l[2]; }
function ratio(a, b) { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); }
function ground(element) {
  const stack = [];
  for (let at = element; at; at = at.parentElement) stack.push(parts(getComputedStyle(at).backgroundColor));
  return stack.reverse().reduce((back, front) => over(front, back), [255, 255, 255]);
}
function name(element) { return element.textContent.trim().slice(0, 60); }
const small = [], faint = [], outside = [], overlaps = [], all = [...document.querySelectorAll('body *')];
let texts = 0, marks = 0;
for (const element of all) {
  const box = element.getBoundingClientRect(), style = getComputedStyle(element);
  const own = [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  if (!own || ['SCRIPT', 'STYLE'].includes(element.tagName) || box.width <= 1 || !element.checkVisibility()) continue;
  texts += 1;
  const svg = element.tagName === 'text', scale = svg ? element.getScreenCTM().a : 1;
  const contrast = ratio(over(parts(svg ? style.fill : style.color), ground(element)), ground(element));
  if (parseFloat(style.fontSize) * scale < LEAST_SIZE) small.push(name(element));
  if (contrast < LEAST_TEXT) faint.push(name(element));
  if (box.right > innerWidth + 1 || box.left < -1) outside.push(name(element));
}
for (const mark of document.querySelectorAll('svg path:not([style*="--grid"])')) {
  const style = getComputedStyle(mark), colour = style.stroke === 'none' ? style.fill : style.stroke;
  if (colour === 'none') continue;
  marks += 1;
  if (ratio(parts(colour), ground(mark)) < LEAST_MARK) faint.push(mark.getAttribute('style'));
}
for (const svg of document.querySelectorAll('svg')) {
  const boxes = [...svg.querySelectorAll('text')].map(text => [name(text), text.getBoundingClientRect()]);
  boxes.forEach(([one, a], place) => boxes.slice(place + 1).forEach(([other, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    if (wide > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 5) overlaps.push(one + ' | ' + other);
  }));
}
const clipped = [...document.querySelectorAll('.table, figure, section, .banner')]
  .filter(each => each.scrollWidth > each.clientWidth + 1).map(name);
const fetched = performance.getEntriesByType('resource').map(each => each.name);
const told = document.createElement('script');
told.type = 'application/json'; told.id = 'told-by-script';
const wider = document.documentElement.scrollWidth - innerWidth;
told.textContent = JSON.stringify({ wrong: { wider, small, faint, outside, overlaps, clipped, fetched }, texts, marks })
  .replaceAll('<', '\\u003c');
document.body.append(told);
"""
FRAMES = """<!doctype html><meta charset="utf-8"><body style="margin:0">{frames}<script>
onload = () => document.querySelectorAll("iframe").forEach(
  each => document.body.append(each.contentDocument.getElementById("told-by-script")));
</script></body>"""
FRAME = '<iframe style="width:{width}px;height:900px;border:0" srcdoc="{inside}"></iframe>'
"""A window as narrow as a telephone: Chromium's own are 500 pixels at least, by now also without a screen."""
LONG = "Universitätsklinikum, Abteilung für Herzchirurgie und Neurologie"


def kit() -> str:
    """One of each, with long names and many rows."""
    rows = [Dot(f"{LONG} {place}", place / 9, (-0.2, 2), "0.123 (0.100 to 0.150); not s.") for place in range(12)]
    curves = [Line(f"{LONG} {place}", [1, 30, 900], [0.1, 0.2, place / 9], [(0.1, 0.3)] * 3) for place in range(9)]
    charts = {
        "dots": dots(rows, "AUC", (0, 1), zero=True),
        "lines": lines(curves, ("rows", "AUC"), diagonal=LONG), "cloud": cloud([(1, 2), (90, 3)], ("a", "b"), zero="0"),
    }  # fmt: skip
    text = (f"{LONG}. " * 9, "x" * 200)
    lined = tuple(TableLine(LONG, (Cell("0.123", "0.100 to 0.150; not significant"),) * 5) for _ in range(3))
    table = Table(("party", *["AUC of one party alone"] * 5), lined, ALL_BUT_FIRST)
    exhibits = [Exhibit(f"{look}-words", LONG, text, items=text, look=look) for look in ("warn", "secret", "open", "")]
    exhibits += [Exhibit(name, LONG, text, chart=Chart("-", (("", one),)), secret=True) for name, one in charts.items()]
    exhibits += [
        Exhibit("all", LONG, text, chart=Chart("-", tuple(charts.items())), data=pl.DataFrame({"a": [1]})),
        Exhibit("table", LONG, text, table),
        Exhibit("narrow", LONG, text, pairs([("sha256", "ab" * 32)])),
        Exhibit("folded", LONG, ("Read me folded.",), table, look="folded", secret=True),
    ]
    return as_html(Page("kit", LONG, [PagePart("one", LONG, tuple(exhibits), text)] * 2, text, footer=text))


@cache
def page(kind: str) -> str:
    if kind == "kit":
        return kit()
    if kind == "run":
        return render(figured(run(parties=60)))
    with TemporaryDirectory() as folder:
        out = Path(folder, "study.html")
        MadeUp(parties=30).draw(out)
        return out.read_text(encoding="utf-8")


def browse(*arguments: str) -> str:
    """What the browser writes when it is given these options and an address."""
    assert BROWSER is not None, "apt-get install chromium"
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000")
    return subprocess.run([BROWSER, *options, *arguments], capture_output=True, text=True, check=True).stdout


def measured(pages: Sequence[tuple[str, int]], dark: bool, folder: Path) -> list[dict[str, Any]]:
    """What is wrong with each page in a window of so many pixels, and how many texts and marks were looked at."""
    script, frames = SCRIPT, []
    for name in ("LEAST_SIZE", "LEAST_TEXT", "LEAST_MARK"):
        script = script.replace(name, str(globals()[name]))
    for html, width in pages:
        assert html.count(RULE) == 1
        inside = html.replace(RULE, '<meta name="was"').replace("<details", "<details open")
        inside = inside.replace("</body>", f"<script>{script}</script></body>")
        frames.append(FRAME.format(width=width, inside=escape(inside)))
    file = folder / "measured.html"
    file.write_text(FRAMES.format(frames="".join(frames)), encoding="utf-8")
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    told = browse("--window-size=1300,1000", *scheme, "--dump-dom", file.as_uri())
    before = '<script type="application/json" id="told-by-script">'
    return [json.loads(part.split("</script>")[0]) for part in told.split(before)[1:]]


KINDS = ("kit", "run", "study")
CHANGES = {
    "--muted: #4e5a68": ("--muted: #8e9aa8", "faint"),
    "--blue: #1f6391": ("--blue: #9dc3de", "faint"),
    "font-size: 11px": ("font-size: 6px", "small"),
    "font-size: 11px;": ("font-size: 40px;", "overlaps"),
    "main { max-width: 1080px;": ("main { width: 700px;", "wider"),
    "<h1>": ('<img src="https://127.0.0.1:9/a.png"><h1>', "fetched"),
}
"""What would be wrong, and which measure tells: the control."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[object, dict[str, Any]]:
    """All that is looked at, by two browsers: as the dark is the browser's."""
    folder = tmp_path_factory.mktemp("pages")
    light = measured(
        [(page(kind), 1200) for kind in KINDS]
        + [(page("kit").replace(before, after), 390) for before, (after, _) in CHANGES.items()],
        False,
        folder,
    )
    dark = measured([(page(kind), 390) for kind in KINDS], True, folder)
    names = [*((kind, False) for kind in KINDS), *CHANGES, *((kind, True) for kind in KINDS)]
    return dict(zip(names, [*light, *dark], strict=True))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_all_of_it_can_be_read(seen: dict[object, dict[str, Any]], kind: str, dark: bool) -> None:
    """At a desk, and in the dark on a telephone."""
    found = seen[kind, dark]
    assert {name: wrong for name, wrong in found["wrong"].items() if wrong} == {}
    assert found["texts"] > 150 and found["marks"] > 30


@pytest.mark.parametrize("change", CHANGES)
def test_what_would_be_wrong_is_found(seen: dict[object, dict[str, Any]], change: str) -> None:
    assert change in page("kit")
    assert seen[change]["wrong"][CHANGES[change][1]]


def test_paper_has_what_is_folded(tmp_path: Path) -> None:
    written, pdf = tmp_path / "printed.html", tmp_path / "printed.pdf"
    folded = PagePart("one", LONG, (Exhibit("folded", LONG, ("Read me folded.",), look="folded"),))
    written.write_text(as_html(Page("kit", LONG, [folded])), encoding="utf-8")
    browse(f"--print-to-pdf={pdf}", "--no-pdf-header-footer", written.as_uri())
    (printed,) = pypdf.PdfReader(pdf).pages
    assert "Read me folded." in " ".join(printed.extract_text().split())
