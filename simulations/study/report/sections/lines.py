"""Lines over an axis of numbers, with intervals over seeds; a panel for each point of a second axis."""

from __future__ import annotations

from collections.abc import Sequence

from consilium.simulations.study.report.charts.panels import LOOKS, Series, lines_chart, values_axis
from consilium.simulations.study.report.exhibits import PictureExhibit, Section
from consilium.simulations.study.report.sections.methods import LEAST_POINTS, judged
from consilium.simulations.study.report.sections.tables import Column, means_data
from consilium.simulations.study.summaries.tidy import metric_words, short, title, upper_first
from consilium.simulations.study.summaries.view import Point, StudyView

MOST_PANELS = 9


def lines_section(view: StudyView) -> Section | None:
    """None without an axis of at least `LEAST_POINTS` numbers, or a metric."""
    metric = view.metric
    if metric is None:
        return None
    # the reference first: it has the same colour in every picture
    names = sorted(judged(view, metric), key=lambda name: name != view.reference)
    found = []
    for axis in view.numeric_axes(LEAST_POINTS):
        columns = [(name, metric) for name in names[: len(LOOKS)]]
        more = f" Of {len(names)} methods the first {len(LOOKS)}." if len(names) > len(LOOKS) else ""
        picture = lines_picture(view, axis, columns, [title(name) for name, _ in columns], metric_words(metric), more)
        found += [picture] if picture is not None else []
    return Section("lines", "Along an axis", [], found) if found else None


def lines_picture(
    view: StudyView, axis: str, columns: Sequence[Column], names: Sequence[str], words: str, more: str = ""
) -> PictureExhibit | None:
    """One line for each column (method, metric) over this axis; words: what is drawn upwards."""
    others = [other for other in view.axes if other != axis and len(view.order[other]) > 1]
    place = view.axes.index(axis)
    groups: dict[Point, list[Point]] = {}
    for at in view.points:
        groups.setdefault((*at[:place], "", *at[place + 1 :]), []).append(at)
    panels = {}
    for group, points in list(groups.items())[:MOST_PANELS]:
        series = [
            _series(view, place, points, column, name, index)
            for index, (column, name) in enumerate(zip(columns, names, strict=True))
        ]
        there = [each for each in series if each.x]
        if there:
            panels[group] = there
    if not panels:
        return None
    log = True if axis in view.logarithmic else None
    up = values_axis([each for series in panels.values() for each in series], words)
    parts = tuple(
        (view.label(group, others) if others else "", lines_chart(series, (short(axis), words), up, log=log))
        for group, series in panels.items()
    )
    left = f" The first {MOST_PANELS} of {len(groups)} panels." if len(groups) > MOST_PANELS else ""
    shown = [at for group in panels for at in groups[group]]
    return PictureExhibit(
        f"lines-{short(axis)}-{words}".replace(" ", "-"),
        f"{upper_first(words)} along {short(axis)}",
        "Bars are 95% intervals over seeds and test rows together; lines stand a little beside each"
        f" other so that bars can be told apart.{left}{more}",
        means_data(view, shown, columns),
        f"Lines of {words} over {short(axis)}: {', '.join(names)}; the download has the numbers.",
        parts,
    )


def _series(view: StudyView, place: int, points: Sequence[Point], column: Column, name: str, index: int) -> Series:
    rows = [(float(at[place]), view.means[at, *column]) for at in points if (at, *column) in view.means]
    rows.sort(key=lambda row: row[0])
    return Series(
        name,
        LOOKS[index % len(LOOKS)],
        [x for x, _ in rows],
        [row["mean"] for _, row in rows],
        [None if row["low"] is None else (row["low"], row["high"]) for _, row in rows],
    )
