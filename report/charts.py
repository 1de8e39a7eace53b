"""Charts as SVG, drawn by matplotlib: no scripts, no network. Letters stay text and colours are names that the page's
style gives for light, dark and print. Colour never carries a difference alone: shape, dash, place or a written label
says the same. A chart is `WIDTH` points wide, so that its letters can still be read on a telephone."""

from __future__ import annotations

import io
import logging
import re
import textwrap
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
LOG_FROM, MOST_TICKS = 10, 5
"""An axis of positive numbers is logarithmic where the greatest is so many times the least. Values that are ticks."""
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
    """x, y float in the order of x. ends: the interval of each point, or () where no point is drawn."""

    name: str
    x: Sequence[float] = field(repr=False)
    y: Sequence[float] = field(repr=False)
    ends: Sequence[Ends | None] = field(repr=False, default=())


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
    """A value with its interval below each name, its text at the right; at least one row. title: of the axis. axis:
    both ends of it, where several charts share one; else what fits. What lies beyond is cut. zero: a line at 0."""
    values = [end for row in rows for end in (row.value, *(row.ends or ()))]
    ends = axis or limits([*values, 0.0] if zero else values)
    texts = [_broken(row.text, 200) for row in rows]
    longest = [max(map(len, text.split("\n"))) for text in texts]
    names = [_broken(row.label, WIDTH - LETTER * (most + 3)) for row, most in zip(rows, longest, strict=True)]
    pairs = list(zip(names, texts, strict=True))
    high = [LINE * (1 + max(text.count("\n") for text in pair)) for pair in pairs]
    places = np.cumsum([each + 22 for each in high]) - 14
    below, body, side = 36, float(places[-1]) + 12, 14  # points; at the sides half of a tick's letters
    with _drawn(body + below) as (figure, done):
        axes = figure.add_axes((side / WIDTH, below / (body + below), 1 - 2 * side / WIDTH, body / (body + below)))
        axes.set(xlim=ends, ylim=(body, 0), yticks=[], xlabel=title)
        axes.spines[:].set_visible(False)
        if zero:
            axes.vlines(0 * places, places - 9, places + 7, color=INK, linewidth=1)  # not through the names
        for place, each, (name, text), row in zip(places, high, pairs, rows, strict=True):
            at = {"xy": (0, place - each - 6), "xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
            axes.annotate(name, xytext=(-side, 0), va="top", **at)
            axes.annotate(text, xytext=(WIDTH - side, 0), ha="right", va="top", **at)
            colour = ORANGE if row.marked else BLUE
            if row.ends is not None:
                axes.plot(np.clip(row.ends, *ends), (place, place), color=colour, linewidth=2.2)
            axes.plot(np.clip([row.value], *ends), [place], "D" if row.marked else "o", color=colour, markersize=7)
        axes.locator_params(axis="x", nbins=6)
        axes.grid(axis="x")
    return done()


def lines(series: Sequence[Line], titles: tuple[str, str], y: Ends | None = None, diagonal: str = "") -> Drawing:
    """Lines with an interval at each point; at least one point, at most `MOST_LINES` series. titles: of both axes. y:
    ends of the vertical one, in place of what fits. diagonal: of two shares, what the line of equal ones means."""
    with _panel(titles) as (axes, key, done):
        for one, (colour, dash, marker) in zip(series, _LOOKS, strict=False):
            if bounded := [(place, *ends) for place, ends in zip(one.x, one.ends, strict=False) if ends is not None]:
                axes.vlines(*zip(*bounded, strict=True), color=colour, linewidth=1.4)
            marks = marker if one.ends else ""
            drawn = axes.plot(one.x, one.y, color=colour, linestyle=dash, marker=marks, markersize=6)
            key.append((drawn[0], one.name))
        if diagonal:
            key.append((axes.plot((0, 1), (0, 1), color=INK, linestyle=":")[0], diagonal))
            axes.set(xlim=(0, 1), ylim=(0, 1))
        else:
            _scaled(axes, [value for one in series for value in one.x])
        if y is not None:
            axes.set_ylim(*y)
    return done()


def cloud(points: Sequence[Ends], titles: tuple[str, str], zero: str) -> Drawing:
    """A point for each pair, at least one. zero: what a line across at 0 stands for."""
    with _panel(titles) as (axes, key, done):
        _scaled(axes, [across for across, _ in points])
        key.append((axes.axhline(0, color=INK, linestyle=":"), zero))
        # one path of lines without length, whose round ends are the points: a tenth of the bytes of so many marks
        path = np.array([place for point in points for place in (point, point, (np.nan, np.nan))])
        axes.plot(path[:, 0], path[:, 1], color=BLUE, linewidth=5, solid_capstyle="round")
    return done()


def _number(value: float) -> str:
    """
    >>> _number(0.25), _number(1200.0)
    ('0.25', '1,200')
    """
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _scaled(axes: Axes, values: Sequence[float]) -> None:
    """A horizontal axis, logarithmic where that shows more; a few different values are its ticks."""
    from matplotlib.ticker import LogLocator

    if min(values) > 0 and max(values) / min(values) >= LOG_FROM:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3) if max(values) / min(values) < 1000 else (1,)))
        axes.xaxis.set_major_formatter(lambda value, _: _number(value))
        axes.set_xticks([], minor=True)
    if len(different := sorted(set(values))) <= MOST_TICKS:
        axes.set_xticks(different, [_number(value) for value in different])


def _broken(text: str, room: float) -> str:
    """Text in lines of so many points.

    >>> _broken("private gradient descent", 100)
    'private gradient\\ndescent'
    """
    return textwrap.fill(text, max(int(room / LETTER), 6))


@contextmanager
def _panel(titles: tuple[str, str]) -> Iterator[tuple[Axes, list[tuple[Any, str]], Any]]:
    """Two axes, and a list for the key below them: what is drawn, and its name."""
    key: list[tuple[Any, str]] = []
    with _drawn(HEIGHT) as (figure, done):
        axes = figure.add_axes((0, 0, 1, 1))
        axes.locator_params(nbins=5)
        yield axes, key, done
        axes.set_xlabel(titles[0])
        # above, where it is read like any other text; places are given, as to look for them takes half of the time
        axes.set_title(titles[1], loc="left", color=MUTED, y=1.0)
        axes.grid(True)
        left, right, above, below, whole = 46, 14, 24, 40, HEIGHT  # points
        if shown := [(mark, _broken(name, WIDTH - 50)) for mark, name in key if name]:
            columns = 2 if max(len(name) for _, name in shown) <= 20 else 1
            figure.legend(*zip(*shown, strict=True), ncols=columns, loc="lower left", frameon=False, borderaxespad=0)
            room = (LINE + 3) * -(-sum(name.count("\n") + 1 for _, name in shown) // columns)
            below, whole = below + room, whole + room
        figure.set_figheight(whole / 72)
        high = (whole - above - below) / whole
        axes.set_position((left / WIDTH, below / whole, 1 - (left + right) / WIDTH, high))
        axes.xaxis.set_label_coords(0.5, -22 / (high * whole))
        axes.yaxis.set_label_coords(0, 0)


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
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # its caches are nobody's concern, nor a home that is none
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # matplotlib only measures letters; the browser has the fonts
        figure = Figure((WIDTH / 72, height / 72))
        drawn: list[Drawing] = []
        yield figure, drawn.pop
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer)  # draws once; `savefig` twice
        root = ElementTree.fromstring(_NO_LETTERS.sub("\ufffd", buffer.getvalue()))
        shapes = {f"#{shape.get('id')}": shape.get("d", "") for shape in root.iterfind(f".//{_SVG}defs/{_SVG}path")}
        inside = Markup("").join(_written(part, shapes) for part in root.iterfind(f"{_SVG}g"))
        drawn.append(Markup('<svg viewBox="{}">{}</svg>').format(root.get("viewBox", ""), inside))


_SVG = "{http://www.w3.org/2000/svg}"
_NO_LETTERS = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\ufffe\\uffff]")
"""What a name may hold and XML may not."""


def _written(part: ElementTree.Element, shapes: Mapping[str, str]) -> Markup:
    """A part of matplotlib's file as elements of a page, which gives the colours; without ids, so that none collide.
    shapes: of marks that are used several times."""
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
