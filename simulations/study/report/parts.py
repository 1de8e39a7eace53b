"""What parts of a study's page are made of: tables of figures by points, lines over an axis, rows with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from consilium.report.charts import LOOKS, Drawing, Series, ValueRow, axis_over, lines_chart, values_axis
from consilium.report.exhibits import Cell, Chart, Exhibit, PagePart, Table, TableLine
from consilium.report.words import range_text, upper_first, value_text
from consilium.simulations.study.summaries.tidy import ends_text, figure_text, metric_words, short
from consilium.simulations.study.summaries.view import Point, StudyView

ACROSS = 8
"""Columns of a table that can still be read."""
LEAST_POINTS = 3
"""Numbers on an axis that lines are drawn over, in place of the picture of all points."""
MOST_LINE_PANELS = 9

Column = tuple[str, str]
"""Method and metric."""


class About(NamedTuple):
    """Of a table or picture: its name in the page, its heading, and how it is read."""

    name: str
    heading: str
    reading: str


def as_part(name: str, heading: str, exhibits: Iterable[Exhibit | None], *sentences: str) -> PagePart | None:
    """A part of the page, without exhibits that are None; None where there is none at all."""
    shown = tuple(exhibit for exhibit in exhibits if exhibit is not None)
    return PagePart(f"part-{name}", heading, shown, sentences) if shown else None


def as_table(
    about: About,
    data: pl.DataFrame,
    columns: Sequence[str],
    rows: Iterable[tuple[str, Sequence[Cell]]],
    folded: bool = False,
) -> Exhibit:
    """Rows with a name each; data: the numbers shown, unrounded. Secret, as all figures of a study are."""
    lines = tuple(TableLine(label, tuple(cells)) for label, cells in rows)
    shown = Table(("", *columns), lines, frozenset(range(1, len(columns) + 1)), look="cards study")
    look = "folded" if folded else ""
    return Exhibit(about.name, about.heading, (about.reading,), table=shown, secret=True, look=look, data=data)


def as_picture(about: About, data: pl.DataFrame, words: str, charts: Sequence[tuple[str, Drawing]]) -> Exhibit:
    """Charts with the numbers shown, unrounded; words: what they show. Secret, as all figures of a study are."""
    chart = Chart(words, tuple(charts))
    return Exhibit(about.name, about.heading, (about.reading,), chart=chart, secret=True, look="wide", data=data)


def figures_table(
    view: StudyView, about: About, columns: Sequence[Column], headings: Sequence[str], folded: bool = False
) -> Exhibit | None:
    """Means over seeds with intervals: points that have any of it down, `columns` across; None where none has any."""
    points = [point for point in view.points if any((point, *column) in view.means for column in columns)]
    rows = [(view.label(point), [entry(view, point, *column) for column in columns]) for point in points]
    return as_table(about, means_data(view, points, columns), headings, rows, folded) if points else None


def means_data(view: StudyView, points: Sequence[Point], columns: Sequence[Column]) -> pl.DataFrame:
    """What such a table shows, one row for each figure."""
    keys = [(point, *column) for point in points for column in columns]
    shown = [*view.axes, "method", "metric", "mean", "low", "high", "seeds", "over"]
    rows = [{name: view.means[key][name] for name in shown} for key in keys if key in view.means]
    return pl.DataFrame(rows, infer_schema_length=None)


def metric_tables(
    view: StudyView, method: str, metrics: Sequence[str], about: About, open_first: bool = True
) -> list[Exhibit]:
    """Metrics of one method: the first ones across, and all others, folded, down, with points across.

    Points between which nothing of the method changes are one line.
    """
    there = [metric for metric in metrics if any((point, method, metric) in view.means for point in view.points)]
    points, axes = view.distinct(method)
    left = [axis for axis in view.axes if axis not in axes and len(view.order[axis]) > 1]
    about = about._replace(
        reading=about.reading + (f" The same at all values of {' and '.join(left)}." if left else "")
    )
    first, further = there[:ACROSS], there[ACROSS:]
    if not first:
        return []
    rows = [(view.label(point, axes), [entry(view, point, method, metric) for metric in first]) for point in points]
    data = means_data(view, view.points, [(method, metric) for metric in first])
    exhibits = [as_table(about, data, list(map(metric_words, first)), rows, folded=not open_first)]
    for start in range(0, len(points), ACROSS) if further else ():
        number, some = start // ACROSS + 1, points[start : start + ACROSS]
        heading = f"{about.heading}: all further figures{f' ({number})' if len(points) > ACROSS else ''}"
        data = means_data(view, some, [(method, metric) for metric in further])
        rows = [(metric_words(metric), [entry(view, point, method, metric) for point in some]) for metric in further]
        more = About(f"{about.name}-more-{number}", heading, about.reading)
        exhibits.append(as_table(more, data, [view.label(point, axes) for point in some], rows, folded=True))
    return exhibits


def chosen(names: Sequence[str], first: Sequence[str], unwanted: Callable[[str], bool] = lambda _: False) -> list[str]:
    """Those of `first` that are there, then the others in their order, without what is unwanted."""
    wanted = [name for name in names if not unwanted(name)]
    return [name for name in first if name in wanted] + [name for name in wanted if name not in first]


def entry(view: StudyView, point: Point, method: str, metric: str) -> Cell:
    """The mean over seeds with its interval, for a cell."""
    row = view.means.get((point, method, metric))
    if row is None:
        return Cell("–")
    return Cell(figure_text(metric, row["mean"]), ends_text(metric, row["low"], row["high"]))


def value_row(label: str, value: float, low: float | None, high: float | None, text: str = "", **look: Any) -> ValueRow:
    """A value with its interval; text: what stands beside it, the numbers themselves where it is empty."""
    ends = None if low is None or high is None else (low, high)
    shown = text or value_text(value)
    return ValueRow(label, value, ends, shown + (f" ({range_text(*ends)})" if ends else ""), **look)


def lines_picture(
    view: StudyView, axis: str, columns: Sequence[Column], names: Sequence[str], words: str, more: str = ""
) -> Exhibit | None:
    """One line for each column (method, metric) over this axis; words: what is drawn upwards."""
    others = [other for other in view.axes if other != axis and len(view.order[other]) > 1]
    place = view.axes.index(axis)
    groups: dict[Point, list[Point]] = {}
    for point in view.points:
        groups.setdefault((*point[:place], "", *point[place + 1 :]), []).append(point)
    panels: dict[Point, list[Series]] = {}
    for group in list(groups)[:MOST_LINE_PANELS]:
        series = [
            _series(view.means, place, groups[group], column, name, LOOKS[index % len(LOOKS)])
            for index, (column, name) in enumerate(zip(columns, names, strict=True))
        ]
        if there := [line for line in series if line.x]:
            panels[group] = there
    if not panels:
        return None
    log = True if axis in view.logarithmic else None
    up = values_axis([line for series in panels.values() for line in series], words)
    charts: list[tuple[str, Drawing]] = []
    for group, series in panels.items():
        over = axis_over([value for line in series for value in line.x], short(axis), log)
        label = view.label(group, others) if others else ""
        charts.append((label, lines_chart(series, (short(axis), words), over, up)))
    left = f" The first {MOST_LINE_PANELS} of {len(groups)} panels." if len(groups) > MOST_LINE_PANELS else ""
    about = About(
        f"lines-{short(axis)}-{words}".replace(" ", "-"),
        f"{upper_first(words)} along {short(axis)}",
        "Bars are 95% intervals over seeds and test rows together; lines stand a little beside each"
        f" other so that bars can be told apart.{left}{more}",
    )
    shown = [point for group in panels for point in groups[group]]
    alt = f"Lines of {words} over {short(axis)}: {', '.join(names)}; the download has the numbers."
    return as_picture(about, means_data(view, shown, columns), alt, charts)


def _series(
    means: Mapping[tuple[Point, str, str], Mapping[str, Any]],
    place: int,
    points: Sequence[Point],
    column: Column,
    name: str,
    look: str,
) -> Series:
    rows = [(float(point[place]), means[point, *column]) for point in points if (point, *column) in means]
    rows.sort(key=lambda row: row[0])
    ends = [None if row["low"] is None else (row["low"], row["high"]) for _, row in rows]
    return Series(name, look, [x for x, _ in rows], [row["mean"] for _, row in rows], ends)
