"""Charts as HTML: no scripts, no network, nothing that scales letters.

Positions are shares of the width, letters and marks are in pixels: a chart is as wide as its place, and its text is as
large on a telephone as on a screen. Colours are names that the
page's style gives for light, dark and print. Colour never carries a difference alone:
shape, dash, position or a written label says the same. Long series are thinned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from markupsafe import Markup, escape

LEFT, RIGHT, TOP, BOTTOM = 52, 14, 10, 46
"""Pixels around a panel, for the labels of its axes."""
ROW, FOOT = 24, 20
"""Pixels of a row of values: its height, and that of the ticks below."""
LOG_FROM = 20
"""An axis of positive numbers is logarithmic where the greatest is so many times the least."""
MOST_POINTS = 500
LOOKS = (
    "orange", "blue", "secret dashed", "ink dotted", "sky dashed", "grey", "orange dotted", "blue dashed",
    "secret dotted",
)  # fmt: skip
"""Of series in a panel: no two are told apart by colour alone."""
_STEPS = 3
Drawing = Markup
"""A chart: fits any width."""


@dataclass(frozen=True)
class Axis:
    """Where values lie along one side of a panel, from 0 to 1; `ticks` with the text of each.

    low, high : values at both ends, low < high; above 0 where `log`. title: text at the axis's end.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()
    title: str = ""
    log: bool = False

    def place(self, value: float) -> float:
        """The place of a value, which may lie outside."""
        low, high, value = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return (value - low) / (high - low)


@dataclass(frozen=True)
class Key:
    """One entry of a key: a sample in this look, and what it stands for."""

    look: str
    text: str
    shape: Literal["line", "square", "dot"] = "line"


@dataclass(frozen=True)
class ValueRow:
    """A line with one value: a dot with its interval, a diamond where `marked`, a bar from 0 where `bar` is its look.

    text: written behind it. other: a second value, drawn as a ring; `joined`: with a line between both. faint: grey,
    for what is not significant (the text says so too).
    """

    label: str
    value: float
    ends: tuple[float, float] | None
    text: str
    marked: bool = False
    faint: bool = False
    other: float | None = None
    joined: bool = False
    bar: str = ""


@dataclass(frozen=True)
class Series:
    """x float, y float in the order of x; look: one of `LOOKS`, or such a one with a width.

    ends: (low, high) or None of each point, or () where no point is drawn. line: whether points are joined.
    """

    name: str
    look: str
    x: Sequence[float] = field(repr=False)
    y: Sequence[float] = field(repr=False)
    ends: Sequence[tuple[float, float] | None] = field(repr=False, default=())
    line: bool = True


@dataclass(frozen=True)
class RuleAcross:
    """A line across a panel at a height; `label` stands on it, `key` in the key."""

    value: float
    look: str = "ink"
    label: str = ""
    key: str = ""


def element(name: str, *content: str, **attributes: object) -> Markup:
    """An element; an attribute `class_` is written class, `stroke_width` stroke-width, and None is left out.

    >>> element("rect", class_="mark blue", stroke_width=2, x="3%", y=None)
    Markup('<rect class="mark blue" stroke-width="2" x="3%"></rect>')
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(str(escape(part)) for part in content)
    return Markup(f"<{name}{written}>{inside}</{name}>")


def percent(share: float) -> str:
    """A place as a share of the width or height.

    >>> percent(0.12345), percent(1.0)
    ('12.35%', '100%')
    """
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def number(value: float) -> str:
    """Short, for ticks.

    >>> number(0.05), number(1200.0), number(0.30000000000000004), number(-0.5)
    ('0.05', '1,200', '0.3', '−0.5')
    """
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}").replace("-", "−")


def round_ticks(
    low: float, high: float, most: int, write: Callable[[float], str] = number
) -> tuple[tuple[float, str], ...]:
    """At most so many round numbers from `low` to `high`, with their text.

    >>> [text for _, text in round_ticks(0.0, 0.8, 5, "{:.1f}".format)]
    ['0.0', '0.2', '0.4', '0.6', '0.8']
    """
    span = max(high - low, 1e-12)
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(lead * power for lead in (1, 2, 5, 10, 20) if span / (lead * power) <= most - 1 + 1e-9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple((index * step, write(index * step)) for index in range(first, last + 1))


def log_ticks(
    low: float, high: float, most: int, write: Callable[[float], str] = number
) -> tuple[tuple[float, str], ...]:
    """1, 2 and 5 times powers of ten from `low` to `high`; fewer of them where these are more than `most`.

    >>> [text for _, text in log_ticks(7, 2000, 6, "{:g}".format)], [text for _, text in log_ticks(3, 4, 6, str)]
    (['10', '30', '100', '300', '1000'], ['3', '4'])
    """
    for leads in ((1, 2, 5), (1, 3), (1,)):
        values = [
            lead * 10.0**power
            for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for lead in leads
        ]
        inside = [value for value in values if low * 0.999 <= value <= high * 1.001]
        if 2 <= len(inside) <= most:
            return tuple((value, write(value)) for value in inside)
    return tuple((value, write(value)) for value in dict.fromkeys((low, high)))


def axis_over(
    values: Sequence[float],
    title: str = "",
    log: bool | None = None,
    most: int = 6,
    room: float = 0.0,
    write: Callable[[float], str] = number,
) -> Axis:
    """An axis with some room around these values, at least one. log: None decides by `LOG_FROM`. most: ticks.

    room: at least so much at both ends. Metrics between 0 and 1 have it, and no tick beyond these.
    """
    low, high = min(values), max(values)
    if log is None:
        log = low > 0 and high / low >= LOG_FROM
    if log:
        factor = max((high / low) ** 0.06, 1.05 + room)
        low, high = low / factor, high * factor
        return Axis(low, high, log_ticks(low, high, most, write), title, log=True)
    gap = max(0.06 * (high - low), room) or max(abs(high) * 0.1, 0.01)
    low, high = low - gap, high + gap
    ticks = round_ticks(low, high, most, write)
    return Axis(low, high, tuple(tick for tick in ticks if not room or 0 <= tick[0] <= 1), title)


SHARES = Axis(0, 1, tuple((index / 5, f"{index / 5:.1f}") for index in range(6)))
"""From 0 to 1; its title is added where it is used."""


def rows_axis(rows: Sequence[ValueRow], zero: bool = False, shares: bool = False) -> Axis:
    """The axis that all these rows fit in; shares: of values between 0 and 1."""
    ends = [end for row in rows for end in (row.value, row.other, *(row.ends or ())) if end is not None]
    write = "{:.2f}".format if shares else number
    return axis_over(
        [*ends, 0.0] if zero else ends, log=False, most=5 if shares else 4, room=0.02 * shares, write=write
    )


def rows_chart(
    title: str, rows: Sequence[ValueRow], axis: Axis | None = None, zero: bool = False, keys: Sequence[Key] = ()
) -> Drawing:
    """A value with its interval on each line, over one axis; at least one row. zero: a line at 0.

    axis: see `rows_axis`, where several charts share one.
    """
    axis = axis or rows_axis(rows, zero)
    lines = [_line_at(percent(axis.place(value))) for value, _ in axis.ticks]
    lines += [_line_at(percent(axis.place(0.0)), "zero")] if zero else []
    ticks = [
        element("text", text, class_="tick", x=percent(axis.place(value)), y="13", text_anchor="middle")
        for value, text in axis.ticks
    ]
    return _listed(title, rows, [[*lines, *_row_marks(row, axis)] for row in rows], ticks, keys)


def bars_chart(values: Mapping[str, tuple[float, str]], fills: Mapping[str, str] | None = None) -> Drawing:
    """One bar for each name, as long as its value (at least 0), with its text behind it."""
    most = max((value for value, _ in values.values()), default=0) or 1
    rows = [
        ValueRow(name, value, None, text, bar=(fills or {}).get(name, "fill blue"))
        for name, (value, text) in values.items()
    ]
    return _listed("", rows, [_row_marks(row, Axis(0, most)) for row in rows], (), (), "dots bars")


def _row_marks(row: ValueRow, axis: Axis) -> list[Markup]:
    place, middle = percent(axis.place(row.value)), ROW // 2
    if row.bar:
        return [element("rect", class_=f"mark {row.bar}", width=place, height=16, y=4, rx=2)]
    colour = "grey" if row.faint else "orange" if row.marked else "blue"
    marks = []
    if row.ends is not None:
        low, high = (percent(axis.place(end)) for end in row.ends)
        marks.append(element("line", class_=f"mark interval {colour}", x1=low, x2=high, y1=middle, y2=middle))
    if row.other is not None:
        ring = percent(axis.place(row.other))
        if row.joined:
            marks.append(element("line", class_="mark interval blue", x1=ring, x2=place, y1=middle, y2=middle))
        marks.append(element("circle", class_="mark ring blue", cx=ring, cy=middle, r=5))
    if row.marked:
        diamond = element("path", class_=f"mark fill {colour}", d="M0 -7 L7 0 L0 7 L-7 0 Z")
        return [*marks, element("svg", diamond, x=place, y=middle, overflow="visible")]
    return [*marks, element("circle", class_=f"mark fill {colour}", cx=place, cy=middle, r=5)]


def _listed(
    title: str,
    rows: Sequence[ValueRow],
    marks: Sequence[Sequence[Markup]],
    ticks: Sequence[Markup],
    keys: Sequence[Key],
    look: str = "dots",
) -> Drawing:
    """Lines with name, marks and number."""
    lines = [
        _line(row.label, drawn, ROW, row.text, "faint" if row.faint else "student" if row.marked else "")
        for row, drawn in zip(rows, marks, strict=True)
    ]
    foot = [_line("", ticks, FOOT, "", "")] if ticks else []
    head = [_above(title, keys)] if title or keys else []
    return element("div", *head, *lines, *foot, class_=look)


def _line(label: str, marks: Sequence[Markup], height: int, text: str, look: str) -> Markup:
    return element(
        "div",
        element("span", label, class_="name"),
        element("svg", *marks, class_="track", width="100%", height=height),
        element("span", text, class_="number"),
        class_=f"dot {look}".rstrip(),
    )


def lines_chart(
    series: Sequence[Series],
    titles: tuple[str, str],
    x: Axis | None = None,
    y: Axis | None = None,
    rules: Sequence[RuleAcross] = (),
    diagonal: str = "",
    height: int = 220,
    keys: Sequence[Key] | None = None,
) -> Drawing:
    """Lines with an interval at each point, those of several series a little beside each other; at least one point.

    titles: of both axes. x, y: in place of axes that fit the series. diagonal: what the line from corner to corner
    stands for; none where empty. keys: in place of one for each series that has a name.
    """
    across = x or axis_over([value for one in series for value in one.x], titles[0])
    up = y or values_axis(series, titles[1])
    marks = [_through([(0.0, 0.0), (1.0, 1.0)], "ink dotted")] if diagonal else []
    spread = [one for one in series if one.ends and one.line]
    for one in series:
        aside = 0.006 * (spread.index(one) - (len(spread) - 1) / 2) if one in spread else 0.0
        places = [(across.place(a) + aside, up.place(b)) for a, b in zip(one.x, one.y, strict=True)]
        marks += [_through(places, one.look)] if places and one.line else []
        colour = one.look.split()[0]
        for (left, tall), ends in zip(places, one.ends, strict=True) if one.ends else ():
            if ends is not None:
                marks.append(_whisker(left, [up.place(end) for end in ends], colour))
            marks.append(element("circle", class_=f"mark fill {colour}", cx=percent(left), cy=percent(1 - tall), r=4.5))
    marks += [mark for rule in rules for mark in _across(rule, up)]
    shown = [Key(one.look, one.name) for one in series if one.name] if keys is None else list(keys)
    shown += [Key(rule.look, rule.key) for rule in rules if rule.key]
    shown += [Key("ink dotted", diagonal)] if diagonal else []
    return _panel(across, up, height, marks, shown)


def values_axis(series: Sequence[Series], title: str, log: bool = False) -> Axis:
    """The vertical axis that all these series fit in."""
    ends = [end for one in series for pair in one.ends if pair is not None for end in pair]
    return axis_over([*ends, *(value for one in series for value in one.y)], title, log)


def cloud_chart(
    points: Sequence[tuple[float, float]],
    titles: tuple[str, str],
    log: bool | None = None,
    rules: Sequence[RuleAcross] = (),
    room: float = 0.0,
) -> Drawing:
    """A point for each pair, at least one. log: of the horizontal axis. room: of the vertical one, see `axis_over`."""
    across = axis_over([a for a, _ in points], titles[0], log)
    up = axis_over([*(b for _, b in points), *(rule.value for rule in rules)], titles[1], log=False, room=room)
    # points of no length with round ends: they stay round however wide the panel is
    path = " ".join(f"M{1000 * across.place(a):.1f} {1000 * (1 - up.place(b)):.1f}h0" for a, b in points)
    drawn = element("path", class_="mark points blue", d=path, vector_effect="non-scaling-stroke")
    marks = [*(mark for rule in rules for mark in _across(rule, up)), _stretched(drawn)]
    return _panel(across, up, 230, marks, [Key(rule.look, rule.key) for rule in rules if rule.key])


def histogram(shares: np.ndarray, yes: np.ndarray, titles: tuple[str, str], names: tuple[str, str]) -> Drawing:
    """How many lie where between 0 and 1, those of which `yes` holds below the others.

    shares float64 (n,) in 0..1, yes bool (n,); at least one. titles: of both axes. names: of those below and above.
    """
    low, step = bin_edges(shares)
    count = round((1 - low) / step)
    # a whole number of votes over a whole number of parties may fall a rounding error below its edge
    bins = np.minimum(np.floor((shares - low) / step + 1e-9), count - 1).astype(np.int64)
    totals = np.bincount(bins, minlength=count)
    below = np.bincount(bins, weights=yes, minlength=count).astype(np.int64)
    up = Axis(0, 1.02 * int(totals.max()), whole_ticks(int(totals.max())), titles[1])
    places = f".{1 if step < 0.01 else 0}%"
    ticks = tuple((value, format(value, places)) for value, _ in round_ticks(low, 1.0, 6, str))
    marks = []
    for index in np.flatnonzero(totals):
        for start, end, fill in ((0, below[index], "fill blue"), (below[index], totals[index], "fill grey")):
            top, foot = up.place(float(end)), up.place(float(start))
            if end > start:
                box = {"x": percent(index / count), "width": percent(0.94 / count)}
                marks.append(
                    element("rect", class_=f"mark {fill}", **box, y=percent(1 - top), height=percent(top - foot))
                )
    keys = [Key(f"mark {look}", name, "square") for look, name in zip(("fill blue", "fill grey"), names, strict=True)]
    return _panel(Axis(low, 1.0, ticks, titles[0]), up, 190, marks, keys)


def whole_ticks(last: int) -> tuple[tuple[float, str], ...]:
    """At most five whole numbers up to the last."""
    return tuple(tick for tick in round_ticks(0, last, 5, "{:,.0f}".format) if tick[0] == int(tick[0]))


def bin_edges(shares: np.ndarray) -> tuple[float, float]:
    """Left edge and width of about twenty bins up to 1.

    >>> bin_edges(np.array([0.52, 0.9])), bin_edges(np.array([0.13, 0.9])), bin_edges(np.array([1.0, 1.0]))
    ((0.5, 0.025), (0.1, 0.05), (0.9, 0.005))
    """
    least = float(shares.min())
    if least >= 0.9:
        return 0.9, 0.005
    step = 0.025 if least >= 0.5 else 0.05
    return min(round(float(np.floor(least / step + 1e-9)) * step, 6), round(1 - step, 6)), step


def thin(curve: np.ndarray) -> list[int]:
    """Indices of a curve's points to draw, at most `MOST_POINTS`, its first and last among them.

    A worst case that was evaluated at some queries stands for those before each: a curve with such steps is drawn
    through their ends, where it was evaluated, with straight lines between.

    >>> thin(np.array([1.0, 1.5, 2.0, 2.0, 2.5, 3.0, 3.0, 4.0, 4.0])), len(thin(np.arange(10_000.0)))
    ([0, 3, 6, 8], 500)
    """
    if not len(curve):
        return []
    flat = curve[1:] == curve[:-1]
    ends = np.flatnonzero(flat & ~np.r_[flat[1:], False]) + 1
    shown = np.unique(np.r_[0, ends, len(curve) - 1]) if len(ends) >= _STEPS else np.arange(len(curve))
    return shown[np.unique(np.linspace(0, len(shown) - 1, min(len(shown), MOST_POINTS)).round().astype(int))].tolist()


def _panel(x: Axis, y: Axis, height: int, marks: Sequence[Markup], keys: Sequence[Key]) -> Drawing:
    """A plot with two axes. The title of the vertical one stands above, where it is read like any other text."""
    svg = element("svg", *_grid(x, y), *marks, width="100%", height=height)
    place = element("div", svg, class_="panel", style=f"padding:{TOP}px {RIGHT}px {BOTTOM}px {LEFT}px;--h:{height}px")
    return _above(y.title, keys) + place


def _grid(x: Axis, y: Axis) -> list[Markup]:
    """Lines and labels of both axes, and the title of the horizontal one, in shares of the panel."""
    drawn: list[Markup] = []
    for value, text in y.ticks:
        place = percent(1 - y.place(value))
        drawn.append(element("line", class_="grid", x1="0", x2="100%", y1=place, y2=place))
        drawn.append(element("text", text, class_="tick", x="0", y=place, dx="-8", dy="4", text_anchor="end"))
    for value, text in x.ticks:
        place = percent(x.place(value))
        drawn.append(_line_at(place))
        drawn.append(element("text", text, class_="tick", x=place, y="100%", dy="18", text_anchor="middle"))
    if x.title:
        drawn.append(element("text", x.title, class_="title", x="50%", y="100%", dy="38", text_anchor="middle"))
    return drawn


def _above(title: str, keys: Sequence[Key]) -> Markup:
    samples = [
        element("span", element("svg", _sample(key), width=28 if key.shape == "line" else 14, height=14), key.text,
                class_="key")
        for key in keys
    ]  # fmt: skip
    return element("div", element("span", title, class_="axis"), *samples, class_="above")


def _sample(key: Key) -> Markup:
    if key.shape == "line":
        return element("line", class_=f"mark {key.look}", x1=1, x2=27, y1=7, y2=7)
    if key.shape == "dot":
        return element("circle", class_=f"mark {key.look}", cx=7, cy=7, r=5)
    return element("rect", class_=key.look, x=1, y=1, width=12, height=12)


def _through(places: Sequence[tuple[float, float]], look: str) -> Markup:
    """A line through places (shares of the panel, from its left and its foot)."""
    points = " ".join(f"{1000 * x:.1f},{1000 * (1 - y):.1f}" for x, y in places)
    return _stretched(element("polyline", class_=f"mark {look}", points=points, vector_effect="non-scaling-stroke"))


def _stretched(*drawn: Markup) -> Markup:
    """Marks without letters, over the whole panel."""
    return element("svg", *drawn, width="100%", height="100%", viewBox="0 0 1000 1000", preserveAspectRatio="none")


def _line_at(place: str, look: str = "grid") -> Markup:
    return element("line", class_=look, x1=place, x2=place, y1="0", y2="100%")


def _across(rule: RuleAcross, up: Axis) -> list[Markup]:
    place = percent(1 - up.place(rule.value))
    marks = [element("line", class_=f"mark {rule.look}", x1="0", x2="100%", y1=place, y2=place)]
    return [*marks, element("text", rule.label, class_="label", x="4", y=place, dy="-6")] if rule.label else marks


def _whisker(left: float, ends: Sequence[float], colour: str) -> Markup:
    place, (low, high) = percent(left), ends
    box = {"x1": place, "x2": place, "y1": percent(1 - low), "y2": percent(1 - high)}
    return element("line", class_=f"mark interval {colour}", **box)
