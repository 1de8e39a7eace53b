"""Elements of SVG and HTML as text, with everything escaped, and places along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

LEFT, RIGHT, TOP, BOTTOM = 52, 14, 10, 46
"""Pixels around a panel, for the labels of its axes."""


def element(name: str, *content: str, **attributes: object) -> Markup:
    """An element; an attribute `class_` is written class, `stroke_width` stroke-width, and None is left out.

    >>> element("rect", class_="mark blue", stroke_width=2, x="3%", y=None)
    Markup('<rect class="mark blue" stroke-width="2" x="3%"></rect>')
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(str(escape(part)) for part in content)
    return Markup(f"<{name}{told}>{inside}</{name}>")


def percent(share: float) -> str:
    """A place as a share of the width or height.

    >>> percent(0.12345), percent(1.0)
    ('12.35%', '100%')
    """
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True)
class Axis:
    """Where values lie along one side of a panel, from 0 to 1; `ticks` with the text of each.

    low, high : values at both ends, low < high; above 0 where `log`. end: text at the axis's end, its title.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()
    title: str = ""
    log: bool = field(default=False)

    def at(self, value: float) -> float:
        """The place of a value, which may lie outside."""
        low, high, value = (math.log(each) if self.log else each for each in (self.low, self.high, value))
        return (value - low) / (high - low)


def round_ticks(low: float, high: float, most: int, write: Callable[[float], str]) -> tuple[tuple[float, str], ...]:
    """At most so many round numbers from `low` to `high`, with their text.

    >>> [text for _, text in round_ticks(0.0, 0.8, 5, "{:.1f}".format)]
    ['0.0', '0.2', '0.4', '0.6', '0.8']
    """
    span = max(high - low, 1e-12)
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(lead * power for lead in (1, 2, 5, 10, 20) if span / (lead * power) <= most - 1 + 1e-9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple((index * step, write(index * step)) for index in range(first, last + 1))


def log_ticks(low: float, high: float, most: int, write: Callable[[float], str]) -> tuple[tuple[float, str], ...]:
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


def panel(x: Axis, y: Axis, height: int, marks: Sequence[Markup], key: Sequence[Markup] = ()) -> Markup:
    """A plot of so many pixels in height: grid, labels of both axes, and `marks` placed in shares of the panel.

    The title of the vertical axis stands above, where it is read like any other text; `key`: what is what, beside it.
    """
    svg = element("svg", *grid(x, y), *marks, width="100%", height=height)
    inside = element("div", svg, class_="panel", style=f"padding:{TOP}px {RIGHT}px {BOTTOM}px {LEFT}px;--h:{height}px")
    above = element("div", element("span", y.title, class_="axis"), *key, class_="above")
    return above + inside


def grid(x: Axis, y: Axis) -> list[Markup]:
    """Lines and labels of both axes, and the title of the horizontal one, in shares of the panel."""
    drawn: list[Markup] = []
    for value, text in y.ticks:
        place = percent(1 - y.at(value))
        drawn.append(element("line", class_="grid", x1="0", x2="100%", y1=place, y2=place))
        drawn.append(element("text", text, class_="tick", x="0", y=place, dx="-8", dy="4", text_anchor="end"))
    for value, text in x.ticks:
        place = percent(x.at(value))
        drawn.append(element("line", class_="grid", x1=place, x2=place, y1="0", y2="100%"))
        drawn.append(element("text", text, class_="tick", x=place, y="100%", dy="18", text_anchor="middle"))
    if x.title:
        drawn.append(element("text", x.title, class_="title", x="50%", y="100%", dy="38", text_anchor="middle"))
    return drawn


def line(places: Sequence[tuple[float, float]], class_: str) -> Markup:
    """A line through places (shares of the panel, from its left and its foot)."""
    points = " ".join(f"{1000 * x:.1f},{1000 * (1 - y):.1f}" for x, y in places)
    drawn = element("polyline", class_=f"mark {class_}", points=points, vector_effect="non-scaling-stroke")
    return element("svg", drawn, width="100%", height="100%", viewBox="0 0 1000 1000", preserveAspectRatio="none")


def sample(class_: str, text: str) -> Markup:
    """A line or a bar of the key, with what it stands for."""
    drawn = element("line", class_=f"mark {class_}", x1="1", x2="27", y1="7", y2="7")
    return element("span", element("svg", drawn, width=28, height=14), text, class_="key")


def swatch(class_: str, text: str) -> Markup:
    """A filled square of the key, with what it stands for."""
    drawn = element("rect", class_=f"mark {class_}", x="1", y="1", width="12", height="12")
    return element("span", element("svg", drawn, width=14, height=14), text, class_="key")
