"""Lines: how the privacy cost grows, what more labels or a larger epsilon give, ROC and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from markupsafe import Markup

from consilium.simulations.report.charts.svg import (
    Axis,
    element,
    line,
    log_ticks,
    panel,
    percent,
    round_ticks,
    sample,
)

MOST_POINTS = 500
_STEPS = 3
"""So many steps make a staircase; a single one is what the curve does."""
SECRET_CURVE = "data-dependent (secret: do not publish)"
_SHARES = tuple((index / 5, f"{index / 5:.1f}") for index in range(6))


def privacy_chart(
    spent: np.ndarray, data_dependent: np.ndarray | None, promised: float, promised_text: str, delta: str
) -> Markup:
    """Epsilon against queries asked, with the promise as a horizontal line.

    `spent`, `data_dependent` float64 (asked,), epsilon after each query; None leaves the secret curve out.
    `promised` may be +inf: then there is no line. `promised_text`, `delta`: as the rest of the report writes them.
    """
    curves = {"spent at the released counts": ("sky wide", spent)}
    if data_dependent is not None:
        curves[SECRET_CURVE] = ("secret dashed", data_dependent)
    finite = [float(curve[np.isfinite(curve)].max()) for _, curve in curves.values() if np.isfinite(curve).any()]
    highest = max([*finite, promised if np.isfinite(promised) else 0.0]) or 1.0
    last = max(len(spent), 2)
    whole = "{:,.0f}".format
    x = Axis(0, last, tuple(t for t in round_ticks(0, last, 5, whole) if t[0] == int(t[0])), "queries asked so far")
    y = Axis(0, 1.2 * highest, round_ticks(0, 1.2 * highest, 5, "{:.3g}".format), f"epsilon so far, at delta {delta}")
    marks, key = [], []
    for name, (look, curve) in curves.items():
        at = [index for index in thin(curve) if np.isfinite(curve[index])]
        if at:
            marks.append(line([(x.at(index + 1.0), y.at(float(curve[index]))) for index in at], look))
        key.append(sample(look, name))
    if np.isfinite(promised):
        place = percent(1 - y.at(promised))
        marks.append(element("line", class_="mark ink", x1="0", x2="100%", y1=place, y2=place))
        text = f"promised: at most {promised_text}"
        marks.append(element("text", text, class_="label", x="4", y=place, dy="-6"))
    return panel(x, y, 220, marks, key)


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
    kept = np.unique(np.r_[0, ends, len(curve) - 1]) if len(ends) >= _STEPS else np.arange(len(curve))
    return kept[np.unique(np.linspace(0, len(kept) - 1, min(len(kept), MOST_POINTS)).round().astype(int))].tolist()


def learning_chart(
    points: Sequence[dict[str, Any]], over: Literal["labels", "epsilon"], titles: tuple[str, str]
) -> Markup:
    """A metric with its interval against labels or epsilon, on a logarithmic axis; `titles` of both axes.

    points: `over`, value and interval of each, at least one.
    """
    at = [float(point[over]) for point in points]
    low, high = min(at) / 1.25, max(at) * 1.25
    ends = [end for point in points for end in (*point["interval"], point["value"])]
    room = max(0.1 * (max(ends) - min(ends)), 0.02)
    write = "{:,.0f}".format if over == "labels" else "{:.2g}".format
    ticks = tuple((value, write(value)) for value in at) if len(at) <= 5 else log_ticks(low, high, 5, write)
    x = Axis(low, high, ticks, titles[0], log=True)
    bottom, top = min(ends) - room, max(ends) + room
    y = Axis(bottom, top, tuple(t for t in round_ticks(bottom, top, 5, "{:.2f}".format) if 0 <= t[0] <= 1), titles[1])
    marks = [line([(x.at(float(point[over])), y.at(point["value"])) for point in points], "orange")]
    for point in points:
        marks += error_bar(x.at(float(point[over])), [y.at(end) for end in point["interval"]], y.at(point["value"]))
    return panel(x, y, 210, marks)


def error_bar(across: float, ends: Sequence[float], up: float) -> list[Markup]:
    """A vertical interval with its value, at shares of the panel."""
    place = percent(across)
    bar = element(
        "line", class_="mark interval orange", x1=place, x2=place, y1=percent(1 - ends[0]), y2=percent(1 - ends[1])
    )
    return [bar, element("circle", class_="mark fill orange", cx=place, cy=percent(1 - up), r=4.5)]


def roc_chart(curves: Sequence[dict[str, Any]]) -> Markup:
    """Recall against false alarms: the student's curves, the least of them dashed where there are several.

    curves: found, at false alarms in equal steps from 0 to 1, name and auc; at least one.
    """
    x = Axis(0, 1, _SHARES, "false alarms: share of others flagged")
    y = Axis(0, 1, _SHARES, "found: share of the class flagged")
    marks = [line([(0.0, 0.0), (1.0, 1.0)], "ink dotted")]
    least = min(curves, key=lambda curve: curve["auc"])
    for curve in sorted(curves, key=lambda curve: curve is least):
        steps = len(curve["found"]) - 1
        look = "orange" if len(curves) == 1 else "secret dashed" if curve is least else "blue"
        marks.append(line([(index / steps, found) for index, found in enumerate(curve["found"])], look))
    if len(curves) == 1:
        key = [sample("orange", f"{least['name']}: AUC {least['auc']:.3f}")]
    else:
        key = [sample("blue", "each class against the rest"), sample("secret dashed", f"lowest: {least['name']}")]
    return panel(x, y, 240, marks, [*key, sample("ink dotted", "by chance")])


def calibration_chart(bins: Sequence[dict[str, Any]]) -> Markup:
    """Rates against probabilities, with an interval for each bin: mean, rate, interval; at least one bin."""
    x = Axis(0, 1, _SHARES, "probability that the student gives")
    y = Axis(0, 1, _SHARES, "how often it is so")
    marks = [line([(0.0, 0.0), (1.0, 1.0)], "ink dotted")]
    for point in bins:
        marks += error_bar(x.at(point["mean"]), [y.at(end) for end in point["interval"]], y.at(point["rate"]))
    return panel(x, y, 240, marks, [sample("ink dotted", "as it should be")])


def parties_chart(
    rows: Sequence[int], quality: Sequence[float], student: float | None, titles: tuple[str, str]
) -> Markup:
    """Each party's rows and its teachers' mean quality, one point each, with the student's as a line.

    titles : of both axes.
    """
    low, high = 0.85 * min(rows), 1.15 * max(rows) + 1
    values = [*quality, *([] if student is None else [student])]
    room = max(0.06 * (max(values) - min(values)), 0.02)
    bottom, top = min(values) - room, max(values) + room
    x = Axis(low, high, log_ticks(low, high, 6, "{:,.0f}".format), titles[0], log=True)
    y = Axis(bottom, top, tuple(t for t in round_ticks(bottom, top, 5, "{:.2f}".format) if 0 <= t[0] <= 1), titles[1])
    places = [(x.at(size), y.at(value)) for size, value in zip(rows, quality, strict=True)]
    # points of no length with round ends: they stay round however wide the panel is
    path = " ".join(f"M{1000 * across:.1f} {1000 * (1 - up):.1f}h0" for across, up in places)
    drawn = element("path", class_="mark points blue", d=path, vector_effect="non-scaling-stroke")
    marks = [element("svg", drawn, width="100%", height="100%", viewBox="0 0 1000 1000", preserveAspectRatio="none")]
    key = []
    if student is not None:
        place = percent(1 - y.at(student))
        marks.append(element("line", class_="mark orange", x1="0", x2="100%", y1=place, y2=place))
        key = [sample("orange", f"student: {student:.3f}")]
    return panel(x, y, 230, marks, key)
