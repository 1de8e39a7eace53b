"""Charts as SVG, drawn by matplotlib: no scripts, no network.

Letters stay text and colours are names that the page's style gives for light, dark and print. Colour never carries a
difference alone: shape, dash, place or a written label says the same. A chart is `WIDTH` points wide, so that its
letters can still be read on a telephone.
"""

from __future__ import annotations

import io
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT, LETTER, LINE = 336, 200, 6.2, 14
"""Points: of every chart; of a panel with two axes, without its key; of a letter's width; of a line of letters."""
LOG_FROM = 20
"""An axis of positive numbers is logarithmic where the greatest is so many times the least."""
Drawing = Markup
"""A chart: fits any width."""

INK, MUTED, GRID = "#000001", "#000002", "#000003"
BLUE, SKY, ORANGE, GREY, SECRET = "#000005", "#000006", "#000007", "#000008", "#000009"
_NAMES = {
    INK: "ink", MUTED: "muted", GRID: "grid", BLUE: "blue", SKY: "sky", ORANGE: "orange",
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
    """A line with one value: a dot with its interval, a diamond where `marked`. text: written at the right."""

    label: str
    value: float
    ends: Ends | None
    text: str
    marked: bool = False


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
    ((0.58, 0.82), (0.967, 1))
    """
    low, high = min(values), max(values)
    room = 0.1 * (high - low) or max(abs(high) * 0.1, 0.01)
    low, high = round(low - room, 12), round(high + room, 12)
    return (low, high) if within is None else (max(low, within[0]), min(high, within[1]))


def dots(rows: Sequence[Dot], title: str = "", axis: Ends | None = None, zero: bool = False) -> Drawing:
    """A value with its interval below each name; at least one row. title: of the axis. zero: a line at 0.

    axis: both ends of it, where several charts share one; else what fits. What lies beyond stands at its end.
    """
    values = [end for row in rows for end in (row.value, *(row.ends or ()))]
    ends = axis or limits([*values, 0.0] if zero else values)
    with _listed([row.label for row in rows], [row.text for row in rows], 36) as (axes, places, done):
        axes.set_xlim(*ends)
        if zero:
            axes.vlines(0 * places, places - 9, places + 7, color=INK, linewidth=1)  # not through the names
        for place, row in zip(places, rows, strict=True):
            colour = ORANGE if row.marked else BLUE
            if row.ends is not None:
                axes.plot(np.clip(row.ends, *ends), (place, place), color=colour, linewidth=2.2)
            axes.plot(np.clip([row.value], *ends), [place], "D" if row.marked else "o", color=colour, markersize=7)
        axes.set_xlabel(title)
        axes.locator_params(axis="x", nbins=6)
        axes.grid(axis="x")
    return done()


def bars(values: Mapping[str, tuple[float, str]]) -> Drawing:
    """One bar below each name, as long as its value (at least 0), with its text at the right; at least one."""
    with _listed(list(values), [text for _, text in values.values()], 0) as (axes, places, done):
        axes.barh(places, [value for value, _ in values.values()], 9, color=BLUE)
        axes.set_xlim(0, max(value for value, _ in values.values()) or 1)
        axes.set_xticks([])
    return done()


def lines(
    series: Sequence[Line], titles: tuple[str, str], x: Ends | None = None, y: Ends | None = None,
    diagonal: str = "", log: bool = False, ticks: Sequence[float] = (),
) -> Drawing:  # fmt: skip
    """Lines with an interval at each point; at least one point, at most `MOST_LINES` series.

    titles: of both axes. x, y: ends of these, in place of what fits. diagonal: what the line from corner to corner
    stands for; none where empty. log: of the horizontal axis, which `LOG_FROM` may decide too. ticks: of it, few.
    """
    with _panel(titles, x, y) as (axes, key, done):
        if log or x is None:
            _scaled(axes, [value for one in series for value in one.x], log)
        for one, (colour, dash, marker) in zip(series, _LOOKS, strict=False):
            if bounded := [(place, *ends) for place, ends in zip(one.x, one.ends, strict=False) if ends is not None]:
                axes.vlines(*zip(*bounded, strict=True), color=colour, linewidth=1.4)
            dash, marker = dash if one.joined else "", marker if one.ends else ""
            drawn = axes.plot(one.x, one.y, color=colour, linestyle=dash, marker=marker, markersize=6)
            key.append((*drawn, one.name))
        if diagonal:
            key.append((*axes.plot((0, 1), (0, 1), color=INK, linestyle=":"), diagonal))
        if ticks:
            axes.set_xticks(ticks, [_number(value) for value in ticks])
    return done()


def cloud(points: Sequence[Ends], titles: tuple[str, str], zero: str = "") -> Drawing:
    """A point for each pair, at least one. zero: what a line across at 0 stands for; none where empty."""
    with _panel(titles, None, None) as (axes, key, done):
        _scaled(axes, [across for across, _ in points])
        if zero:
            key.append((axes.axhline(0, color=INK, linestyle=":"), zero))
        # one path of lines without length, whose round ends are the points: a tenth of the bytes of so many marks
        path = np.array([place for point in points for place in (point, point, (np.nan, np.nan))])
        axes.plot(path[:, 0], path[:, 1], color=BLUE, linewidth=5, solid_capstyle="round")
    return done()


def histogram(shares: np.ndarray, yes: np.ndarray, titles: tuple[str, str], names: tuple[str, str]) -> Drawing:
    """How many lie where between 0 and 1, those of which `yes` holds below the others.

    shares float64 (n,) in 0..1, yes bool (n,); at least one. titles: of both axes. names: of those below and above.
    """
    from matplotlib.ticker import MaxNLocator

    edges = np.linspace(min(float(np.floor(shares.min() * 20) / 20), 0.95), 1, 21)
    with _panel(titles, (float(edges[0]), 1.0), None) as (axes, key, done):
        below = np.zeros(20)
        for part, colour, name in ((shares[yes], BLUE, names[0]), (shares[~yes], GREY, names[1])):
            # a whole number of votes over a whole number of parties may fall a rounding error below its edge
            counts = np.histogram(np.minimum(part + 1e-9, 1.0), edges)[0]
            full = counts > 0
            width = 0.9 * float(edges[1] - edges[0])
            bar = axes.bar(edges[:-1][full], counts[full], width, below[full], align="edge", color=colour)
            key.append((bar, name))
            below += counts
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return done()


def _number(value: float) -> str:
    """
    >>> _number(0.25), _number(1200.0)
    ('0.25', '1,200')
    """
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _scaled(axes: Axes, values: Sequence[float], log: bool = False) -> None:
    """A logarithmic axis where it is asked for, or shows more."""
    from matplotlib.ticker import LogLocator

    if log or (min(values) > 0 and max(values) / min(values) >= LOG_FROM):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3) if max(values) / min(values) < 1000 else (1,)))
        axes.xaxis.set_major_formatter(lambda value, _: _number(value))
        axes.set_xticks([], minor=True)


def _broken(text: str, room: float) -> str:
    """Text in lines of so many points. Letters of East Asia are twice as wide as others.

    >>> _broken("private gradient descent", 100)
    'private gradient\\ndescent'
    """
    wide = any(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return textwrap.fill(text, max(int(room / LETTER / (1 + wide)), 6))


@contextmanager
def _listed(names: Sequence[str], texts: Sequence[str], below: float) -> Iterator[tuple[Axes, np.ndarray, Any]]:
    """A line for each name, the first above: name at the left, text at the right, and room for what is drawn below.

    below: points for the axis. Gives axes whose vertical one is in points from above, and the place of each line.
    """
    side = 14 if below else 0  # half of a tick's letters
    texts = [_broken(text, 200) for text in texts]
    longest = [max(map(len, text.split("\n"))) for text in texts]
    names = [_broken(name, WIDTH - LETTER * (most + 3)) for name, most in zip(names, longest, strict=True)]
    pairs = list(zip(names, texts, strict=True))
    high = [LINE * (1 + max(text.count("\n") for text in pair)) for pair in pairs]
    places = np.cumsum([each + 22 for each in high]) - 14
    body = float(places[-1]) + 12
    with _drawn(body + below) as (figure, done):
        axes = figure.add_axes((side / WIDTH, below / (body + below), 1 - 2 * side / WIDTH, body / (body + below)))
        axes.set_ylim(body, 0)
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        for place, each, (name, text) in zip(places, high, pairs, strict=True):
            at = {"xy": (0, place - each - 6), "xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
            axes.annotate(name, xytext=(-side, 0), va="top", **at)
            axes.annotate(text, xytext=(WIDTH - side, 0), ha="right", va="top", **at)
        yield axes, places, done


@contextmanager
def _panel(titles: tuple[str, str], x: Ends | None, y: Ends | None) -> Iterator[tuple[Axes, list[Any], Any]]:
    """Two axes, and a list for the key below them: what is drawn, and its name."""
    key: list[tuple[Any, str]] = []
    with _drawn(HEIGHT) as (figure, done):
        figure.set_layout_engine("constrained")
        axes = figure.add_subplot()
        yield axes, key, done
        axes.set_xlabel(titles[0])
        axes.set_title(titles[1], loc="left", color=MUTED)  # above, where it is read like any other text
        axes.grid(True)
        if x is not None:
            axes.set_xlim(*x)
        if y is not None:
            axes.set_ylim(*y)
        if shown := [(mark, _broken(name, WIDTH - 50)) for mark, name in key if name]:
            columns = 2 if max(len(name) for _, name in shown) <= 20 else 1
            rows = sum(name.count("\n") + 1 for _, name in shown)
            figure.set_figheight((HEIGHT + (LINE + 3) * -(-rows // columns)) / 72)
            figure.legend(*zip(*shown, strict=True), ncols=columns, loc="outside lower left", frameon=False)


_STYLE: Any = {
    "svg.fonttype": "none", "text.parse_math": False, "path.simplify": False, "font.size": 11, "axes.titlesize": 11,
    "legend.fontsize": 11, "text.color": INK, "axes.edgecolor": GRID, "axes.labelcolor": MUTED, "xtick.color": MUTED,
    "ytick.color": MUTED, "grid.color": GRID, "xtick.bottom": False, "ytick.left": False, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 1.8, "figure.facecolor": "none",
    "axes.facecolor": "none", "axes.formatter.useoffset": False, "axes.formatter.limits": (-4, 6),
}  # fmt: skip


@contextmanager
def _drawn(height: float) -> Iterator[tuple[Figure, Any]]:
    """A figure of so many points in height, and what gives the drawing afterwards."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # matplotlib only measures letters; the browser has the fonts
        figure = Figure((WIDTH / 72, height / 72))
        FigureCanvasSVG(figure)
        drawn: list[Drawing] = []
        yield figure, drawn.pop
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg")
        root = ElementTree.fromstring(_NO_LETTERS.sub("\ufffd", buffer.getvalue()))
        shapes = {f"#{shape.get('id')}": shape.get("d", "") for shape in root.iterfind(f".//{_SVG}defs/{_SVG}path")}
        inside = Markup("").join(_written(part, shapes) for part in root.iterfind(f"{_SVG}g"))
        drawn.append(Markup('<svg viewBox="{}">{}</svg>').format(root.get("viewBox", ""), inside))


_SVG = "{http://www.w3.org/2000/svg}"
_NO_LETTERS = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\ufffe\\uffff]")
"""What a name may hold and XML may not."""


def _written(part: ElementTree.Element, shapes: Mapping[str, str]) -> Markup:
    """A part of matplotlib's file as elements of a page, which gives the colours; without ids, so that none collide.

    shapes: of marks that are used several times.
    """
    kind, given = part.tag.removeprefix(_SVG), dict(part.attrib)
    if kind in ("g", "defs"):
        return Markup("").join(_written(child, shapes) for child in part if kind == "g")
    if kind == "use":
        place = f"translate({given.pop('x')} {given.pop('y')})"
        kind, given = "path", {"d": shapes[given["{http://www.w3.org/1999/xlink}href"]], "transform": place, **given}
    kept = {name: given[name] for name in ("d", "x", "y", "transform", "style") if name in given}
    if kept.get("transform", "").startswith("rotate(-0 "):
        del kept["transform"]
    for colour, name in _NAMES.items():
        kept["style"] = kept.get("style", "").replace(colour, f"var(--{name})")
    kept["style"] = re.sub(r" font-family: [^;]+;|stroke-linejoin: miter;?", "", kept["style"])
    # a tenth of a point is enough
    short = {name: re.sub(r"\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}", kept[name]) for name in kept}
    attributes = Markup(" ").join(
        Markup('{}="{}"').format(name, " ".join(value.split())) for name, value in short.items()
    )
    return Markup("<{} {}>{}</{}>").format(Markup(kind), attributes, part.text or "", Markup(kind))
