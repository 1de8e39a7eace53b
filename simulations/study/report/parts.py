"""What a study's page is made of: tables of figures by points, pictures of methods, tables of contrasts.

Every exhibit is secret, as all figures of a study are, and has the numbers shown, unrounded, for the download.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from consilium.report.charts import MOST_LINES, Dot, Drawing, Line, dots, limits, lines
from consilium.report.exhibits import Cell, Chart, Exhibit, Table, TableLine
from consilium.report.words import range_text, signed_text, upper_first, value_text
from consilium.simulations.study.summaries.questions import Family, Likeness, MeanContrast, contrast_frame
from consilium.simulations.study.summaries.tidy import as_number, ends_text, figure_text, metric_words, short, title
from consilium.simulations.study.summaries.view import Point, StudyView

ACROSS = 8
"""Figures across a table that can still be read."""
LEAST_POINTS = 3
"""Numbers on an axis that lines are drawn over, in place of the picture of all points."""
MOST_PANELS = 12
"""Charts in one picture; of more points only these are drawn, and the table has all."""
Column = tuple[str, str]
"""Method and metric."""


def as_table(
    name: str,
    heading: str,
    reading: str,
    data: pl.DataFrame,
    columns: Sequence[str],
    rows: Iterable[tuple[str, Sequence[Cell]]],
    folded: bool = False,
) -> Exhibit:
    """Rows with a name each."""
    lines = tuple(TableLine(label, tuple(cells)) for label, cells in rows)
    shown = Table(("", *columns), lines, frozenset(range(1, len(columns) + 1)), look="cards study")
    look = "folded" if folded else ""
    return Exhibit(name, heading, (reading,), table=shown, secret=True, look=look, data=data)


def figures_table(
    view: StudyView, name: str, heading: str, reading: str, columns: Sequence[Column], folded: bool = False
) -> Exhibit | None:
    """Means over seeds with intervals: points that have any of it down, methods across; None where none has any."""
    points = [point for point in view.points if any((point, *column) in view.means for column in columns)]
    there = [column for column in columns if any((point, *column) in view.means for point in points)]
    rows = [(view.label(point), [entry(view, point, *column) for column in there]) for point in points]
    headings = [title(method) + (", more than" if metric.endswith("_above") else "") for method, metric in there]
    return as_table(name, heading, reading, means_data(view, points, there), headings, rows, folded) if points else None


def metric_table(
    view: StudyView, name: str, heading: str, reading: str, method: str, metrics: Sequence[str], folded: bool = False
) -> Exhibit | None:
    """Metrics of one method across; None where it has none of them. Points between which nothing of the method changes
    are one line."""
    there = [metric for metric in metrics if any((point, method, metric) in view.means for point in view.points)]
    there = there[:ACROSS]
    if not there:
        return None
    points, axes = view.distinct(method)
    if left := [axis for axis in view.axes if axis not in axes and len(view.order[axis]) > 1]:
        reading += f" The same at all values of {' and '.join(left)}."
    rows = [(view.label(point, axes), [entry(view, point, method, metric) for metric in there]) for point in points]
    data = means_data(view, view.points, [(method, metric) for metric in there])
    return as_table(name, heading, reading, data, list(map(metric_words, there)), rows, folded)


def means_data(view: StudyView, points: Sequence[Point], columns: Sequence[Column]) -> pl.DataFrame:
    """What such a table shows, one row for each figure."""
    keys = [(point, *column) for point in points for column in columns]
    shown = [*view.axes, "method", "metric", "mean", "low", "high", "seeds", "over"]
    rows = [{name: view.means[key][name] for name in shown} for key in keys if key in view.means]
    return pl.DataFrame(rows, infer_schema_length=None)


def entry(view: StudyView, point: Point, method: str, metric: str) -> Cell:
    """The mean over seeds with its interval, for a cell."""
    row = view.means.get((point, method, metric))
    if row is None:
        return Cell("–")
    return Cell(figure_text(metric, row["mean"]), ends_text(metric, row["low"], row["high"]))


def judged(view: StudyView, metric: str) -> list[str]:
    """Methods that have this metric anywhere."""
    return [name for name in view.methods if any((point, name, metric) in view.means for point in view.points)]


def as_picture(
    view: StudyView, name: str, heading: str, reading: str, words: str, shown: Sequence[Point], names: Sequence[str],
    charts: Sequence[tuple[str, Drawing]],
) -> Exhibit:  # fmt: skip
    """Charts of the leading metric of these methods at these points; words: what they show."""
    data = means_data(view, shown, [(method, view.metric or "") for method in names])
    chart = Chart(words, tuple(charts))
    return Exhibit(name, heading, (reading,), chart=chart, secret=True, look="wide", data=data)


def methods_picture(view: StudyView) -> Exhibit | None:
    """All methods at each point with their intervals; None where lines over an axis say it, or nothing was judged."""
    if view.metric is None or view.numeric_axes(LEAST_POINTS):
        return None
    names, words = judged(view, view.metric), metric_words(view.metric)
    points = [point for point in view.points if any((point, name, view.metric) in view.means for name in names)]
    shown = points[:MOST_PANELS]
    panels: list[tuple[str, list[Dot]]] = []
    for point in shown:
        rows = []
        for name in names:
            if (mean := view.means.get((point, name, view.metric))) is None:
                continue
            ends = None if mean["low"] is None else (mean["low"], mean["high"])
            text = value_text(mean["mean"]) + (f" ({range_text(*ends)})" if ends else "")
            rows.append(Dot(title(name), mean["mean"], ends, text, marked=name in view.private))
        panels.append((view.label(point), rows))
    ends = [end for _, rows in panels for row in rows for end in (row.value, *(row.ends or ()))]
    axis = limits(ends, (0, 1))
    more = f" The first {len(shown)} of {len(points)} points; the table has all." if len(shown) < len(points) else ""
    return as_picture(
        view,
        "methods-picture",
        f"{upper_first(words)} of each method, as a picture",
        f"Diamonds: methods with a guarantee. One axis for all charts.{more}",
        f"{words} of {len(names)} methods at {len(shown)} points, as in the table.",
        shown,
        names,
        [(label, dots(rows, words, axis)) for label, rows in panels],
    )


def lines_picture(view: StudyView, axis: str) -> Exhibit:
    """The leading metric, which there is, over an axis of numbers: a line for each method, the reference first, so that
    it has the same colour in every picture."""
    metric, place = view.metric or "", view.axes.index(axis)
    names = sorted(judged(view, metric), key=lambda name: name != view.reference)
    drawn, words = names[:MOST_LINES], metric_words(metric)
    others = [other for other in view.axes if other != axis and len(view.order[other]) > 1]
    groups: dict[Point, list[Point]] = {}
    for point in view.points:
        groups.setdefault((*point[:place], "", *point[place + 1 :]), []).append(point)
    panels = {group: _series(view, place, groups[group], drawn) for group in list(groups)[:MOST_PANELS]}
    seen = [line for series in panels.values() for line in series]
    up = limits(
        [end for line in seen for ends in (line.ends, [(y, y) for y in line.y]) for end in sum(filter(None, ends), ())]
    )
    charts = []
    for group, series in panels.items():
        if series:
            label = view.label(group, others) if others else ""
            charts.append((label, lines(series, (short(axis), words), None, up)))
    left = f" The first {MOST_PANELS} of {len(groups)} panels." if len(groups) > MOST_PANELS else ""
    left += f" Of {len(names)} methods the first {len(drawn)}." if len(names) > len(drawn) else ""
    return as_picture(
        view,
        f"lines-{short(axis)}-{words}".replace(" ", "-"),
        f"{upper_first(words)} along {short(axis)}",
        "Bars are 95% intervals over seeds and test rows together; lines stand a little beside each other so that bars"
        f" can be told apart.{left}",
        f"Lines of {words} over {short(axis)}: {', '.join(map(title, drawn))}; the download has the numbers.",
        [point for group in panels for point in groups[group]],
        drawn,
        charts,
    )


def _series(view: StudyView, place: int, points: Sequence[Point], names: Sequence[str]) -> list[Line]:
    drawn = []
    for name in names:
        known = [(float(point[place]), view.means.get((point, name, view.metric or ""))) for point in points]
        rows = sorted(((x, row) for x, row in known if row is not None), key=lambda pair: pair[0])
        if rows:
            ends = [None if row["low"] is None else (row["low"], row["high"]) for _, row in rows]
            x, y = [x for x, _ in rows], [row["mean"] for _, row in rows]
            drawn.append(Line(title(name), x, y, ends))
    return drawn


TESTED = "Significant: p below 0.05 after Holm’s correction over the family. Intervals are not corrected."
_VERDICTS = {
    Likeness.TESTED: "not significant",
    Likeness.TOO_LITTLE: "the same at every seed: not tested",
    Likeness.REPEATED: "the same as above: counted once",
}


def contrast_entry(contrast: MeanContrast | None) -> Cell:
    """The difference, below it its interval, and what may be made of it."""
    if contrast is None:
        return Cell("–")
    text, interval = signed_text(contrast.difference), range_text(contrast.low, contrast.high)
    if contrast.significant:
        return Cell(text, interval)
    verdict = _VERDICTS.get(contrast.standing, contrast.standing.value)
    if contrast.standing is Likeness.TOO_LITTLE and contrast.seeds < 3:
        verdict = "fewer than 3 seeds: not tested"
    return Cell(text, "; ".join(part for part in (interval, verdict) if part), look="faint")


def differences_table(
    view: StudyView, name: str, heading: str, reading: str, family: Family, chosen: Callable[[MeanContrast], bool]
) -> Exhibit | None:
    """The chosen contrasts of a family between methods: points down, methods across; None where there are none."""
    cells = {(contrast.point, contrast.method): contrast for contrast in family.contrasts if chosen(contrast)}
    names = [method for method in view.methods if any((point, method) in cells for point in view.points)]
    points = [point for point in view.points if any((point, method) in cells for method in names)]
    rows = [(view.label(point), [contrast_entry(cells.get((point, method))) for method in names]) for point in points]
    data = contrast_frame(view, [(family, list(cells.values()))])
    return as_table(name, heading, reading, data, list(map(title, names)), rows) if names else None


def changes_table(view: StudyView, families: Sequence[Family]) -> Exhibit:
    """What other points of an axis change, a line for each contrast."""
    lines = [
        (f"{title(family.method)}: {_place(view, family, contrast)}", _contrast_cells(family, contrast))
        for family in families
        for contrast in family.contrasts
        if contrast.standing is not Likeness.REPEATED
    ]
    return as_table(
        "changes",
        "Other points of an axis in place of the natural one, or of the first",
        "Each line compares one method with itself, at the same seeds: the plurality without noise, and every method"
        f" with a guarantee. Difference in {metric_words(view.metric or '')}, with its interval (95%). {TESTED}"
        f" Families: {'; '.join(family.family for family in families)}.",
        contrast_frame(view, [(family, family.contrasts) for family in families]),
        ("difference", "p", "corrected p", "comparisons"),
        lines,
    )


def _place(view: StudyView, family: Family, contrast: MeanContrast) -> str:
    """Which point stands in place of which, and at which points of the further axes along which anything changes."""
    point = contrast.point[view.axes.index(family.axis)]
    others = [axis for axis in view.telling(family.method) if axis != family.axis and len(view.order[axis]) > 1]
    changed = f"{point} in place of {family.against}"
    if as_number(point) is not None:
        changed = f"{short(family.axis)} {changed}"
    return ", ".join([changed, *([view.label(contrast.point, others)] if others else [])])


def _contrast_cells(family: Family, contrast: MeanContrast) -> tuple[Cell, ...]:
    faint = "" if contrast.significant else "faint"
    p = [Cell("–" if value is None else f"{value:.2g}", look=faint) for value in (contrast.p, contrast.p_holm)]
    return (contrast_entry(contrast), *p, Cell(f"{len(family.tested)}" if contrast.p is not None else "–"))
