"""A chart for the page and the same as a file: both of the same marks, which are placed in shares of their panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from markupsafe import Markup

from consilium.simulations.report.charts.svg import BOTTOM, LEFT, RIGHT, TOP, Axis, element, grid, panel

WIDTH = 760
"""Pixels of a file."""
LINE = 20
"""Pixels in height of a line of text."""
_LETTER = 6.6
"""Pixels in width of a letter, about, for keys that stand beside each other."""
STYLE = """
svg { overflow: visible; font-family: "Helvetica Neue", Arial, sans-serif; }
text { fill: #1d2733; font-size: 12.5px; } .title, .axis { fill: #4e5a68; font-size: 13px; }
.head { font-size: 15px; font-weight: 650; } .name { font-size: 12.5px; } .number { font-size: 12.5px; }
.grid { stroke: #e3e8ed; } .zero { stroke: #1d2733; stroke-width: 1.5; } .mark { fill: none; stroke-width: 2; }
.blue { stroke: #1f6391; } .sky { stroke: #4a89b8; } .orange { stroke: #b34700; } .secret { stroke: #9c2a4f; }
.ink { stroke: #1d2733; } .grey { stroke: #78858f; } .wide { stroke-width: 4; }
.dashed { stroke-dasharray: 7 4; } .dotted { stroke-dasharray: 2 4; } .mark.interval { stroke-width: 2.5; }
.mark.fill { stroke: none; } .fill.blue { fill: #1f6391; } .fill.sky { fill: #4a89b8; } .fill.orange { fill: #b34700; }
.fill.secret { fill: #9c2a4f; } .fill.ink { fill: #1d2733; } .fill.grey { fill: #78858f; }
.mark.ring { fill: #ffffff; } .mark.points { stroke-width: 6; stroke-linecap: round; stroke-opacity: .75; }
.heat0 { fill: #f7f9fb; } .heat1 { fill: #d9e6f0; } .heat2 { fill: #b0cde1; } .heat3 { fill: #7fadcd; }
.heat4 { fill: #4a89b8; } .heat5 { fill: #1f6391; } .heat6 { fill: #0e3654; } .outline { fill: none; stroke: #78858f; }
"""
"""Of files, which are light: the colours of the page by day."""


@dataclass(frozen=True)
class Key:
    """One entry of a key: a sample in this look, and what it stands for."""

    look: str
    text: str
    shape: Literal["line", "square", "dot"] = "line"


@dataclass(frozen=True)
class Drawing:
    """html: fits any width. inside, height: elements of a file that is `WIDTH` wide, and so many pixels high."""

    html: Markup
    inside: tuple[Markup, ...] = field(repr=False)
    height: int


def plot(x: Axis, y: Axis, height: int, marks: Sequence[Markup], keys: Sequence[Key] = ()) -> Drawing:
    """A panel with two axes; `marks` in shares of it."""
    html = panel(x, y, height, marks, [shown(key) for key in keys])
    key_marks, under = placed_keys(keys, LINE + 8)
    inside = element("svg", *grid(x, y), *marks, x=LEFT, y=under + TOP, width=WIDTH - LEFT - RIGHT, height=height)
    above = element("text", y.title, class_="axis", x=0, y=LINE - 6)
    return Drawing(html, (above, *key_marks, inside), under + TOP + height + BOTTOM)


def placed_keys(keys: Sequence[Key], top: int) -> tuple[list[Markup], int]:
    """The keys of a file from this height on, in as many lines as they need, and where these end."""
    drawn, left = [], 0.0
    for key in keys:
        wide = 40 + _LETTER * len(key.text)
        if left and left + wide > WIDTH:
            left, top = 0.0, top + LINE
        drawn.append(element("svg", _sample(key), x=round(left), y=top, width=28, height=14))
        drawn.append(element("text", key.text, x=round(left + (34 if key.shape == "line" else 20)), y=top + 11))
        left += wide + 10
    return drawn, top + (LINE if keys else 0)


def file(title: str, parts: Sequence[tuple[str, Drawing]]) -> str:
    """One SVG file of drawings below each other, each with its own title where it has one."""
    top, drawn = LINE + 16, [element("text", title, class_="head", x=0, y=LINE - 4)]
    for name, part in parts:
        if name:
            drawn.append(element("text", name, class_="name", x=0, y=top + LINE - 6, font_weight=600))
            top += LINE + 4
        drawn.append(element("svg", *part.inside, x=0, y=top, width=WIDTH, height=part.height))
        top += part.height + 18
    edge = 16
    paper = element("rect", width=WIDTH + 2 * edge, height=top + 2 * edge, fill="#ffffff")
    body = element("svg", *drawn, x=edge, y=edge, width=WIDTH, height=top)
    whole = element(
        "svg",
        element("title", title),
        element("style", Markup(STYLE)),
        paper,
        body,
        xmlns="http://www.w3.org/2000/svg",
        width=WIDTH + 2 * edge,
        height=top + 2 * edge,
        viewBox=f"0 0 {WIDTH + 2 * edge} {top + 2 * edge}",
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{whole}\n'


def shown(key: Key) -> Markup:
    """An entry of a key on the page."""
    wide = 28 if key.shape == "line" else 14
    return element("span", element("svg", _sample(key), width=wide, height=14), key.text, class_="key")


def _sample(key: Key) -> Markup:
    drawn = {
        "line": element("line", class_=f"mark {key.look}", x1=1, x2=27, y1=7, y2=7),
        "square": element("rect", class_=key.look, x=1, y=1, width=12, height=12),
        "dot": element("circle", class_=f"mark {key.look}", cx=7, cy=7, r=5),
    }
    return drawn[key.shape]
