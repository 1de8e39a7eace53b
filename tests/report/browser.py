"""A real browser that looks at a page: what is on it, how large, in which colours, and what printing gives.

The page itself may not run anything, so the measuring script is put into a copy without that rule.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))), None)
WHY_NONE = "no chromium or chromium-headless-shell on the PATH"
IN_BROWSER = pytest.mark.skipif(BROWSER is None and os.environ.get("CI") != "true", reason=WHY_NONE)
"""Of tests that look at a page: without a browser they fail where CI=true, and are skipped at a developer's."""
_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000")
_RULE = '<meta http-equiv="Content-Security-Policy"'

_SCRIPT = r"""
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
function shown(element) { const box = element.getBoundingClientRect();
  return box.width > 1 && box.height > 1 && element.checkVisibility({ visibilityProperty: true }); }
const texts = [], marks = [], outside = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, element = node.parentElement, text = node.textContent.trim();
  if (!text || ['SCRIPT', 'STYLE'].includes(element.tagName) || !shown(element)) continue;
  const style = getComputedStyle(element), svg = element.namespaceURI.endsWith('svg');
  const matrix = svg ? element.getScreenCTM() : null, scale = matrix ? Math.hypot(matrix.a, matrix.b) : 1;
  const ink = over(parts(svg ? style.fill : style.color), ground(element));
  const size = parseFloat(style.fontSize) * scale;
  texts.push({ text: text.slice(0, 60), size, contrast: ratio(ink, ground(element)) });
  const box = element.getBoundingClientRect();
  if (box.right > innerWidth + 1 || box.left < -1) outside.push(text.slice(0, 60));
}
for (const element of document.querySelectorAll('.mark')) {
  const style = getComputedStyle(element), back = ground(element);
  const colour = style.stroke !== 'none' ? style.stroke : style.fill;
  const alpha = style.stroke !== 'none' ? Number(style.strokeOpacity) : Number(style.fillOpacity);
  const seen = over([...parts(colour).slice(0, 3), alpha], back);
  marks.push({ mark: element.getAttribute('class'), contrast: ratio(seen, back) });
}
const clipped = [...document.querySelectorAll('.table:not(.long), figure, .card')]
  .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent.trim().slice(0, 40));
const told = document.createElement('script');
told.type = 'application/json'; told.id = 'measured';
const width = document.documentElement.scrollWidth, inner = innerWidth;
told.textContent = JSON.stringify({ width, inner, texts, marks, outside, clipped }).replaceAll('<', '\\u003c');
document.body.append(told);
"""

_FRAME = """<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe style="width:{width}px;height:900px;border:0" srcdoc="{inside}"></iframe>
<script>onload = () => document.body.append(frames[0].document.getElementById("measured"));</script></body>"""
"""A window as narrow as a telephone: Chromium's own are 500 pixels at least, by now also without a screen."""


@dataclass(frozen=True)
class Measured:
    """width: of the page's content; inner: of the window. texts: text, size in pixels, contrast. marks: contrast of
    each. outside: texts that lie beyond the window. clipped: boxes whose content is wider than they are."""

    width: int
    inner: int
    texts: list[dict[str, Any]]
    marks: list[dict[str, Any]]
    outside: list[str]
    clipped: list[str]


def measure(html: str, width: int, dark: bool, folder: Path) -> Measured:
    """The page in a window of so many pixels."""
    assert html.count(_RULE) == 1
    page = folder / f"measured-{width}-{dark}.html"
    inside = html.replace(_RULE, '<meta name="was"').replace("</body>", f"<script>{_SCRIPT}</script></body>")
    page.write_text(_FRAME.format(width=width, inside=escape(inside)), encoding="utf-8")
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    told = browse(f"--window-size={max(width, 800)},1000", *scheme, "--dump-dom", page.as_uri())
    before = '<script type="application/json" id="measured">'
    return Measured(**json.loads(told[told.index(before) + len(before) :].split("</script>")[0]))


def printed(html: str, folder: Path) -> list[Any]:
    """The pages that printing gives, as `pypdf` reads them."""
    import pypdf

    page, pdf = folder / "printed.html", folder / "printed.pdf"
    page.write_text(html, encoding="utf-8")
    browse(f"--print-to-pdf={pdf}", "--no-pdf-header-footer", page.as_uri())
    return list(pypdf.PdfReader(io.BytesIO(pdf.read_bytes())).pages)


def extent(page: Any) -> tuple[float, float, float]:
    """Of the text on a printed page: its lowest place as a share from the top, and where its first and last column
    begin as shares from the left."""
    places: list[tuple[float, float]] = []

    def see(text: str, matrix: Any, at: Any, *_: Any) -> None:
        if text.strip():
            x, y = at[4], at[5]
            places.append((matrix[0] * x + matrix[2] * y + matrix[4], matrix[1] * x + matrix[3] * y + matrix[5]))

    page.extract_text(visitor_text=see)
    width, height = float(page.mediabox.width), float(page.mediabox.height)
    lowest = min((y for _, y in places), default=height)
    across = [x / width for x, _ in places] or [0.0]
    return 1 - lowest / height, min(across), max(across)


def browse(*arguments: str) -> str:
    """What the browser writes when it is given these options and an address."""
    assert BROWSER is not None, f"{WHY_NONE}: apt-get install chromium"
    done = subprocess.run([BROWSER, *_OPTIONS, *arguments], capture_output=True, text=True, check=True)
    return done.stdout
