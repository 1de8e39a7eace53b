"""Models on one line each: a dot or diamond at its value, a bar for its interval, both written out beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from consilium.simulations.report.charts.svg import Axis, element, percent, round_ticks

ROW = 24
"""Pixels in height of a row."""


@dataclass(frozen=True)
class Dot:
    """One value with its interval, if there is one. student: drawn as a diamond, and bold.

    other: a second value, drawn as a ring, with a line from one to the other. note: written in place of the numbers.
    """

    label: str
    value: float
    interval: tuple[float, float] | None = None
    student: bool = False
    other: float | None = None
    note: str = ""


def dots_chart(title: str, dots: Sequence[Dot]) -> Markup:
    """Rows of dots over one axis that does not start at 0; at least one dot."""
    ends = [end for dot in dots for end in (dot.value, dot.other, *(dot.interval or ())) if end is not None]
    low, high = min(ends), max(ends)
    room = max(0.08 * (high - low), 0.02)
    axis = Axis(low - room, high + room)
    ticks = [(value, text) for value, text in round_ticks(axis.low, axis.high, 5, "{:.2f}".format) if 0 <= value <= 1]
    grid = [
        element("line", class_="grid", x1=place, x2=place, y1="0", y2="100%")
        for place in (percent(axis.at(value)) for value, _ in ticks)
    ]
    rows = [_row(dot, axis, grid) for dot in dots]
    labels = [
        element("text", text, class_="tick", x=percent(axis.at(value)), y="13", text_anchor="middle")
        for value, text in ticks
    ]
    foot = element(
        "div",
        element("span", class_="name"),
        element("svg", *labels, class_="track", width="100%", height=18),
        element("span", class_="number"),
        class_="dot",
    )
    return element("div", element("p", title, class_="axis"), *rows, foot, class_="dots")


def _row(dot: Dot, axis: Axis, grid: Sequence[Markup]) -> Markup:
    place, marks, middle = percent(axis.at(dot.value)), list(grid), ROW // 2
    colour = "orange" if dot.student else "blue"
    if dot.interval is not None:
        low, high = (percent(axis.at(end)) for end in dot.interval)
        marks.append(element("line", class_=f"mark interval {colour}", x1=low, x2=high, y1=middle, y2=middle))
    if dot.other is not None:
        ring = percent(axis.at(dot.other))
        marks.append(element("line", class_="mark interval blue", x1=ring, x2=place, y1=middle, y2=middle))
        marks.append(element("circle", class_="mark ring", cx=ring, cy=middle, r=5))
    if dot.student or dot.other is not None:
        diamond = element("path", class_="mark fill orange", d="M0 -7 L7 0 L0 7 L-7 0 Z")
        marks.append(element("svg", diamond, x=place, y=middle, overflow="visible"))
    else:
        marks.append(element("circle", class_="mark fill blue", cx=place, cy=middle, r=5))
    return element(
        "div",
        element("span", dot.label, class_="name"),
        element("svg", *marks, class_="track", width="100%", height=ROW),
        element("span", dot.note or _written(dot), class_="number"),
        class_="dot student" if dot.student else "dot",
    )


def _written(dot: Dot) -> str:
    if dot.interval is None:
        return f"{dot.value:.3f}"
    return f"{dot.value:.3f} ({dot.interval[0]:.3f} to {dot.interval[1]:.3f})"
