"""A value with its interval on each line, all over one axis; both are written out beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from consilium.simulations.report.charts.svg import Axis, element, percent
from consilium.simulations.study.report.charts.drawing import WIDTH, Drawing, Key, placed_keys, shown
from consilium.simulations.study.report.charts.panels import axis_over

ROW, FOOT = 24, 20
"""Pixels in height of a row, and of the ticks below."""
NAMES, NUMBERS = 190, 190
"""Pixels in width of names and numbers in a file."""


@dataclass(frozen=True)
class ForestRow:
    """One line: a dot, or a diamond where `marked`; text stands behind it. other: a ring, such as a floor.

    faint: drawn in grey, for what is not significant (the text says so too).
    """

    label: str
    value: float
    ends: tuple[float, float] | None
    text: str
    marked: bool = False
    faint: bool = False
    other: float | None = None


def forest_chart(
    title: str, rows: Sequence[ForestRow], axis: Axis | None = None, zero: bool = False, keys: Sequence[Key] = ()
) -> Drawing:
    """At least one row. axis: see `forest_axis`, where several charts share one; zero: a line at 0."""
    axis = axis or forest_axis(rows, zero)
    lines = [
        element("line", class_="grid", x1=place, x2=place, y1="0", y2="100%")
        for place in (percent(axis.at(value)) for value, _ in axis.ticks)
    ]
    if zero:
        place = percent(axis.at(0.0))
        lines.append(element("line", class_="zero", x1=place, x2=place, y1="0", y2="100%"))
    ticks = [
        element("text", text, class_="tick", x=percent(axis.at(value)), y="13", text_anchor="middle")
        for value, text in axis.ticks
    ]
    drawn = [[*lines, *_marks(row, axis)] for row in rows]
    html = [_line(row.label, marks, ROW, row.text, row) for row, marks in zip(rows, drawn, strict=True)]
    key = element("div", element("span", title, class_="axis"), *(shown(each) for each in keys), class_="above")
    page = element("div", key, *html, _line("", ticks, FOOT, "", None), class_="dots")
    heading = element("text", title, class_="axis", x=0, y=14)
    key_marks, top = placed_keys(keys, 22)
    inside, track = [heading, *key_marks], WIDTH - NAMES - NUMBERS
    for row, marks in zip(rows, drawn, strict=True):
        inside.append(element("text", row.label, class_="name", x=NAMES - 12, y=top + 16, text_anchor="end"))
        inside.append(element("svg", *marks, x=NAMES, y=top, width=track, height=ROW))
        inside.append(element("text", row.text, class_="number", x=NAMES + track + 12, y=top + 16))
        top += ROW
    inside.append(element("svg", *ticks, x=NAMES, y=top, width=track, height=FOOT))
    return Drawing(page, tuple(inside), top + FOOT)


def forest_axis(rows: Sequence[ForestRow], zero: bool = False) -> Axis:
    """The axis that all these rows fit in."""
    ends = [end for row in rows for end in (row.value, row.other, *(row.ends or ())) if end is not None]
    return axis_over([*ends, 0.0] if zero else ends, "", log=False, most=4)


def _marks(row: ForestRow, axis: Axis) -> list[Markup]:
    place, middle = percent(axis.at(row.value)), ROW // 2
    colour = "grey" if row.faint else "orange" if row.marked else "blue"
    marks = []
    if row.ends is not None:
        low, high = (percent(axis.at(end)) for end in row.ends)
        marks.append(element("line", class_=f"mark interval {colour}", x1=low, x2=high, y1=middle, y2=middle))
    if row.other is not None:
        ring = percent(axis.at(row.other))
        marks.append(element("circle", class_="mark ring blue", cx=ring, cy=middle, r=5))
    if row.marked:
        diamond = element("path", class_=f"mark fill {colour}", d="M0 -7 L7 0 L0 7 L-7 0 Z")
        marks.append(element("svg", diamond, x=place, y=middle, overflow="visible"))
    else:
        marks.append(element("circle", class_=f"mark fill {colour}", cx=place, cy=middle, r=5))
    return marks


def _line(label: str, marks: Sequence[Markup], height: int, text: str, row: ForestRow | None) -> Markup:
    look = "dot" if row is None or not (row.marked or row.faint) else "dot faint" if row.faint else "dot student"
    return element(
        "div",
        element("span", label, class_="name"),
        element("svg", *marks, class_="track", width="100%", height=height),
        element("span", text, class_="number"),
        class_=look,
    )
