"""Charts as SVG, drawn by matplotlib: no scripts, no network.

Letters stay text and colours are names that the page's style gives for light, dark and print. Colour never carries a
difference alone: shape, dash, place or a written label says the same. A chart is `WIDTH` points wide, so that its
letters can still be read on a telephone.
"""

from __future__ import annotations

import hashlib
import io
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT, ROW = 440, 250, 30
"""Points: of every chart; of a panel with two axes; of a line of `dots` or `bars`."""
LOG_FROM = 20
"""An axis of positive numbers is logarithmic where the greatest is so many times the least."""
LABEL = 22
"""Letters of a name before it is broken."""
Drawing = Markup
"""A chart: fits any width."""

INK, MUTED, GRID, PAPER = "#000001", "#000002", "#000003", "#000004"
BLUE, SKY, ORANGE, GREY, SECRET = "#000005", "#000006", "#000007", "#000008", "#000009"
_NAMES = {
    INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper", BLUE: "blue", SKY: "sky", ORANGE: "orange",
    GREY: "grey", SECRET: "secret",
}  # fmt: skip
"""Colours that stand for variables of the page's style."""
_LOOKS = (
    (ORANGE, "-", "o"), (BLUE, "-", "s"), (SECRET, "--", "^"), (INK, ":", "v"), (SKY, "--", "D"), (GREY, "-", "o"),
    (ORANGE, ":", "s"), (BLUE, "--", "^"), (SECRET, ":", "D"),
)  # fmt: skip
MOST_LINES = len(_LOOKS)
"""Of series in a panel: no two are told apart by colour alone."""
Ends = tuple[float, float]


@dataclass(frozen=True)
class Dot:
    """A line with one value: a dot with its interval, a diamond where `marked`, grey where `faint` (the text says why).

    text: written behind it.
    """

    label: str
    value: float
    ends: Ends | None
    text: str
    marked: bool = False
    faint: bool = False


@dataclass(frozen=True)
class Line:
    """x, y float in the order of x. ends: the interval of each point, or () where no point is drawn.

    joined: whether a line joins the points.
    """

    name: str
    x: Sequence[float] = field(repr=False)
    y: Sequence[float] = field(repr=False)
    ends: Sequence[Ends | None] = field(repr=False, default=())
    joined: bool = True


def limits(values: Sequence[float], within: Ends | None = None) -> Ends:
    """Both ends of an axis with some room around these values, at least one. within: what values can be.

    >>> limits([0.6, 0.8]), limits([0.97, 1.0], (0, 1))
    ((0.58, 0.82), (0.967, 1.0))
    """
    low, high = min(values), max(values)
    room = 0.1 * (high - low) or max(abs(high) * 0.1, 0.01)
    low, high = round(low - room, 12), round(high + room, 12)
    return (low, high) if within is None else (max(low, within[0]), min(high, within[1]))


def dots(rows: Sequence[Dot], title: str = "", axis: Ends | None = None, zero: bool = False) -> Drawing:
    """A value with its interval on each line; at least one row. title: of the axis. zero: a line at 0.

    axis: both ends of it, where several charts share one; else what fits.
    """
    values = [end for row in rows for end in (row.value, *(row.ends or ()))]
    with _drawn(ROW * (len(rows) + 1.6)) as (axes, done):
        axes.set_xlim(*(axis or limits([*values, 0.0] if zero else values)))
        if zero:
            axes.axvline(0, color=INK, linewidth=1)
        for place, row in enumerate(rows):
            colour = GREY if row.faint else ORANGE if row.marked else BLUE
            if row.ends is not None:
                axes.plot(row.ends, (place, place), color=colour, linewidth=2.2)
            axes.plot([row.value], [place], "D" if row.marked else "o", color=colour, markersize=7)
        _listed(axes, [row.label for row in rows], [row.text for row in rows])
        axes.set_xlabel(title)
        axes.grid(axis="x")
    return done()


def bars(values: Mapping[str, tuple[float, str]]) -> Drawing:
    """One bar for each name, as long as its value (at least 0), with its text behind it."""
    with _drawn(ROW * (len(values) + 0.3)) as (axes, done):
        axes.barh(range(len(values)), [value for value, _ in values.values()], 0.6, color=BLUE)
        axes.set_xlim(0, max((value for value, _ in values.values()), default=0) or 1)
        axes.set_xticks([])
        _listed(axes, list(values), [text for _, text in values.values()])
    return done()


def lines(
    series: Sequence[Line], titles: tuple[str, str], x: Ends | None = None, y: Ends | None = None,
    diagonal: str = "", log: bool | None = None, ticks: Sequence[float] = (),
) -> Drawing:  # fmt: skip
    """Lines with an interval at each point; at least one point, at most `MOST_LINES` series.

    titles: of both axes. x, y: ends of these, in place of what fits. diagonal: what the line from corner to corner
    stands for; none where empty. log: of the horizontal axis; None decides by `LOG_FROM`. ticks: of it, few.
    """
    with _drawn(HEIGHT) as (axes, done):
        places = [value for one in series for value in one.x]
        _scaled(axes, _logarithmic(places) if log is None else log)
        if diagonal:
            axes.plot((0, 1), (0, 1), color=INK, linestyle=":", label=diagonal)
        for one, (colour, dash, marker) in zip(series, _LOOKS, strict=False):
            if one.joined:
                axes.plot(one.x, one.y, dash, color=colour, label=one.name or "_")
            for place, value, ends in zip(one.x, one.y, one.ends, strict=True) if one.ends else ():
                if ends is not None:
                    axes.plot((place, place), ends, color=colour, linewidth=1.4)
                axes.plot([place], [value], marker, color=colour, markersize=6)
        _framed(axes, titles, x, y)
        if ticks:
            axes.set_xticks(ticks, [_number(value) for value in ticks])
    return done()


def cloud(points: Sequence[Ends], titles: tuple[str, str], y: Ends | None = None, zero: str = "") -> Drawing:
    """A point for each pair, at least one. zero: what a line across at 0 stands for; none where empty."""
    with _drawn(HEIGHT) as (axes, done):
        _scaled(axes, _logarithmic([across for across, _ in points]))
        if zero:
            axes.axhline(0, color=INK, linestyle=":", label=zero)
        axes.plot(*zip(*points, strict=True), "o", color=BLUE, markersize=4.5)
        _framed(axes, titles, None, y)
    return done()


def histogram(shares: np.ndarray, yes: np.ndarray, titles: tuple[str, str], names: tuple[str, str]) -> Drawing:
    """How many lie where between 0 and 1, those of which `yes` holds below the others.

    shares float64 (n,) in 0..1, yes bool (n,); at least one. titles: of both axes. names: of those below and above.
    """
    edges = np.linspace(min(float(np.floor(shares.min() * 20) / 20), 0.95), 1, 21)
    # a whole number of votes over a whole number of parties may fall a rounding error below its edge
    with _drawn(HEIGHT) as (axes, done):
        parts, looks = [shares[yes] + 1e-9, shares[~yes] + 1e-9], {"color": [BLUE, GREY], "label": names}
        axes.hist([np.minimum(part, 1.0) for part in parts], edges, stacked=True, rwidth=0.9, **looks)
        axes.yaxis.get_major_locator().set_params(integer=True)
        _framed(axes, titles, (float(edges[0]), 1.0), None)
    return done()


def _number(value: float) -> str:
    """
    >>> _number(0.25), _number(1200.0)
    ('0.25', '1,200')
    """
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _logarithmic(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) >= LOG_FROM


def _scaled(axes: Axes, log: bool) -> None:
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: _number(value))
        axes.set_xticks([], minor=True)


def _listed(axes: Axes, names: Sequence[str], texts: Sequence[str]) -> None:
    """Names on the left, texts on the right, the first above."""
    axes.set_yticks(range(len(names)), [textwrap.fill(name, LABEL) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    for place, text in enumerate(texts):
        axes.annotate(text, (1.02, place), xycoords=axes.get_yaxis_transform(), va="center", annotation_clip=False)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.spines[:].set_visible(False)


def _framed(axes: Axes, titles: tuple[str, str], x: Ends | None, y: Ends | None) -> None:
    axes.set_xlabel(titles[0])
    axes.set_title(titles[1], loc="left", color=MUTED)  # above, where it is read like any other text
    axes.grid(True)
    if x is not None:
        axes.set_xlim(*x)
    if y is not None:
        axes.set_ylim(*y)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False)


_STYLE: dict[str, Any] = {
    "svg.fonttype": "none", "font.size": 11, "axes.titlesize": 11, "legend.fontsize": 11, "text.color": INK,
    "axes.edgecolor": GRID, "axes.labelcolor": MUTED, "xtick.color": MUTED, "ytick.color": MUTED, "grid.color": GRID,
    "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 1.8,
    "figure.facecolor": "none", "axes.facecolor": "none", "svg.hashsalt": "consilium",
    "axes.formatter.useoffset": False, "axes.formatter.limits": (-4, 6),
}  # fmt: skip


@contextmanager
def _drawn(height: float) -> Iterator[tuple[Axes, Any]]:
    """Axes to draw on, of so many points in height, and what gives the drawing afterwards."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure((WIDTH / 72, height / 72), layout="constrained")
        FigureCanvasSVG(figure)
        drawn: list[Drawing] = []
        yield figure.add_subplot(), drawn.pop
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        drawn.append(_inline(buffer.getvalue()))


def _place(found: re.Match[str]) -> str:
    return f"{float(found[0]):.1f}".removesuffix(".0")


def _inline(svg: str) -> Drawing:
    """matplotlib's file as an element of a page, which gives the colours; no id of it is another chart's."""
    svg = svg[svg.index("<svg") :].strip()
    box = re.search(r'viewBox="[^"]+"', svg)
    own = hashlib.sha256(svg.encode()).hexdigest()[:6]
    svg = re.sub(r"<svg[^>]+>", f"<svg {box[0] if box else ''}>", svg, count=1)
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    used = set(re.findall(r'href="#([^"]+)"', svg))
    svg = re.sub(r' id="([^"]+)"', lambda found: f' id="{own}{found[1]}"' if found[1] in used else "", svg)
    svg = svg.replace('xlink:href="#', f'href="#{own}')
    svg = re.sub(r"<defs>\s*<(clipPath|style).*?</defs>", "", svg, flags=re.DOTALL)
    for colour, name in _NAMES.items():
        svg = svg.replace(colour, f"var(--{name})")
    svg = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", svg)
    svg = re.sub(r"<[^>]+>", lambda tag: re.sub(r"\d+\.\d{2,}", _place, tag[0]), svg)
    svg = re.sub(r' clip-path="[^"]+"', "", svg)  # nothing is drawn outside
    return Markup(re.sub(r">\s+<", "><", re.sub(r"\s*\n\s*", " ", svg)))
