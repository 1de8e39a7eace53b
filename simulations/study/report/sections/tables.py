"""Tables of figures with points down and metrics or methods across."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from consilium.simulations.study.report.exhibits import Entry, TableExhibit
from consilium.simulations.study.summaries.tidy import ends_text, figure_text, metric_words
from consilium.simulations.study.summaries.view import Point, StudyView

ACROSS = 8
"""Columns of a table that can still be read."""

Column = tuple[str, str]
"""Method and metric."""


def figures_table(
    view: StudyView,
    columns: Sequence[Column],
    about: tuple[str, str, str],
    headings: Sequence[str],
    folded: bool = False,
) -> TableExhibit | None:
    """Means over seeds with intervals: points that have any of it down, `columns` across.

    about: name, title, how to read it. None where no point has any of it.
    """
    points = [at for at in view.points if any((at, *column) in view.means for column in columns)]
    if not points:
        return None
    rows = tuple((view.label(at), tuple(entry(view, at, *column) for column in columns)) for at in points)
    return TableExhibit(*about, means_data(view, points, columns), ("", *headings), rows, folded)


def alike(view: StudyView, axes: Sequence[str]) -> str:
    """What is said where a table or picture leaves axes out, since nothing in it changes along them."""
    left = [axis for axis in view.axes if axis not in axes and len(view.order[axis]) > 1]
    return f" The same at all values of {' and '.join(left)}." if left else ""


def means_data(view: StudyView, points: Sequence[Point], columns: Sequence[Column]) -> pl.DataFrame:
    """What such a table shows, one row for each figure."""
    rows = [
        view.means[at, method, metric]
        for at in points
        for method, metric in columns
        if (at, method, metric) in view.means
    ]
    shown = [*view.axes, "method", "metric", "mean", "low", "high", "seeds", "over"]
    return pl.DataFrame([{name: row[name] for name in shown} for row in rows], infer_schema_length=None)


def metric_tables(
    view: StudyView, method: str, metrics: Sequence[str], about: tuple[str, str, str], open_first: bool = True
) -> list[TableExhibit]:
    """Metrics of one method: the first ones across, and all others, folded, down, with points across.

    Points between which nothing of the method changes are one line.
    """
    there = [metric for metric in metrics if any((at, method, metric) in view.means for at in view.points)]
    points, axes = view.distinct(method)
    name, title, reading = about[0], about[1], about[2] + alike(view, axes)
    first, further = there[:ACROSS], there[ACROSS:]
    if not first:
        return []
    rows = tuple((view.label(at, axes), tuple(entry(view, at, method, metric) for metric in first)) for at in points)
    headings = ("", *(metric_words(metric) for metric in first))
    data = means_data(view, view.points, [(method, metric) for metric in first])
    found = [TableExhibit(name, title, reading, data, headings, rows, folded=not open_first)]
    for index in range(0, len(points), ACROSS) if further else ():
        some, part = points[index : index + ACROSS], f" ({index // ACROSS + 1})" if len(points) > ACROSS else ""
        down = tuple(
            (metric_words(metric), tuple(entry(view, at, method, metric) for at in some)) for metric in further
        )
        found.append(
            TableExhibit(
                f"{name}-more-{index // ACROSS + 1}",
                f"{title}: all further figures{part}",
                reading,
                means_data(view, some, [(method, metric) for metric in further]),
                ("", *(view.label(at, axes) for at in some)),
                down,
                folded=True,
            )
        )
    return found


def chosen(names: Sequence[str], first: Sequence[str], unwanted: Callable[[str], bool] = lambda _: False) -> list[str]:
    """Those of `first` that are there, then the others in their order, without what is unwanted."""
    kept = [name for name in names if not unwanted(name)]
    return [name for name in first if name in kept] + [name for name in kept if name not in first]


def entry(view: StudyView, at: Point, method: str, metric: str) -> Entry:
    """The mean over seeds with its interval, for a cell."""
    row = view.means.get((at, method, metric))
    if row is None:
        return Entry("–")
    return Entry(figure_text(metric, row["mean"]), ends_text(metric, row["low"], row["high"]))
