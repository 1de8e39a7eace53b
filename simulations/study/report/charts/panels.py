"""Panels with two axes: lines with intervals, and clouds of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from consilium.simulations.report.charts.svg import Axis, element, line, log_ticks, percent, round_ticks
from consilium.simulations.study.report.charts.drawing import Drawing, Key, plot

LOOKS = (
    "orange",
    "blue",
    "secret dashed",
    "ink dotted",
    "sky dashed",
    "grey",
    "orange dotted",
    "blue dashed",
    "secret dotted",
)
"""Of series in a panel: no two are told apart by colour alone."""
HEIGHT = 220
LOG_FROM = 20
"""An axis of positive numbers is logarithmic where the greatest is so many times the least."""


@dataclass(frozen=True)
class Series:
    """x float, y float, ends (low, high) or None of each point, in the order of x; look: one of `LOOKS`."""

    name: str
    look: str
    x: Sequence[float] = field(repr=False)
    y: Sequence[float] = field(repr=False)
    ends: Sequence[tuple[float, float] | None] = field(repr=False)


def number(value: float) -> str:
    """Short, for ticks.

    >>> number(0.05), number(1200.0), number(0.30000000000000004), number(-0.5)
    ('0.05', '1,200', '0.3', '−0.5')
    """
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text.replace("-", "−")


def axis_over(values: Sequence[float], title: str, log: bool | None = None, room: float = 0.06, most: int = 6) -> Axis:
    """An axis with some room around these values, at least one; log: None decides by `LOG_FROM`; most: ticks."""
    low, high = min(values), max(values)
    if log is None:
        log = low > 0 and high / low >= LOG_FROM
    if log:
        factor = max((high / low) ** room, 1.05)
        low, high = low / factor, high * factor
        return Axis(low, high, log_ticks(low, high, most, number), title, log=True)
    gap = room * (high - low) or max(abs(high) * 0.1, 0.01)
    low, high = low - gap, high + gap
    return Axis(low, high, round_ticks(low, high, most, number), title)


def lines_chart(
    series: Sequence[Series],
    titles: tuple[str, str],
    y: Axis | None = None,
    points: bool = True,
    log: bool | None = None,
) -> Drawing:
    """Lines with an interval at each point, those of several series a little beside each other; at least one point.

    titles: of both axes. y: in place of one that fits these series, so that panels beside each other have the same.
    points: drawn, and moved aside; without them it is the line alone. log: of the horizontal axis, see `axis_over`.
    """
    across = axis_over([value for each in series for value in each.x], titles[0], log)
    up = y or values_axis(series, titles[1])
    marks: list[Markup] = []
    for index, each in enumerate(series):
        aside = 0.006 * (index - (len(series) - 1) / 2) if points else 0.0
        places = [(across.at(a) + aside, up.at(b)) for a, b in zip(each.x, each.y, strict=True)]
        marks.append(line(places, each.look))
        for (left, height), ends in zip(places, each.ends, strict=True) if points else ():
            if ends is not None:
                marks.append(_whisker(left, up.at(ends[0]), up.at(ends[1]), each.look))
            colour = each.look.split()[0]
            marks.append(element("circle", class_=f"mark fill {colour}", cx=percent(left), cy=percent(1 - height), r=4))
    return plot(across, up, HEIGHT, marks, [Key(each.look, each.name) for each in series])


def values_axis(series: Sequence[Series], title: str, log: bool = False) -> Axis:
    """The vertical axis that all these series fit in."""
    ends = [end for each in series for pair in each.ends if pair is not None for end in pair]
    return axis_over([*ends, *(value for each in series for value in each.y)], title, log)


def cloud_chart(
    points: Sequence[tuple[float, float]], titles: tuple[str, str], log: bool | None = None, zero: str = ""
) -> Drawing:
    """A point for each pair, at least one; zero: what stands at the line of 0, which is drawn where this is given."""
    across = axis_over([x for x, _ in points], titles[0], log)
    heights = [y for _, y in points]
    up = axis_over([*heights, 0.0] if zero else heights, titles[1], log=False)
    # points of no length with round ends: they stay round however wide the panel is
    path = " ".join(f"M{1000 * across.at(x):.1f} {1000 * (1 - up.at(y)):.1f}h0" for x, y in points)
    drawn = element("path", class_="mark points blue", d=path, vector_effect="non-scaling-stroke")
    marks = [element("svg", drawn, width="100%", height="100%", viewBox="0 0 1000 1000", preserveAspectRatio="none")]
    if zero:
        place = percent(1 - up.at(0.0))
        marks.insert(0, element("line", class_="mark ink", x1="0", x2="100%", y1=place, y2=place))
    return plot(across, up, HEIGHT, marks, [Key("ink", zero)] if zero else [])


def _whisker(left: float, low: float, high: float, look: str) -> Markup:
    place, colour = percent(left), look.split()[0]
    return element(
        "line", class_=f"mark {colour}", x1=place, x2=place, y1=percent(1 - low), y2=percent(1 - high), stroke_width=1.5
    )
