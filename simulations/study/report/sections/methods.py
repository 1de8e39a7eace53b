"""Methods beside each other: means over seeds, and differences paired by seed."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from consilium.simulations.study.report.charts.forest import ForestRow, forest_axis, forest_chart
from consilium.simulations.study.report.exhibits import Entry, PictureExhibit, Section, TableExhibit
from consilium.simulations.study.report.sections.tables import ACROSS, figures_table, means_data
from consilium.simulations.study.summaries.differences import LEAST_BOOTSTRAP, paired
from consilium.simulations.study.summaries.tidy import title
from consilium.simulations.study.summaries.view import Point, StudyView
from consilium.simulations.study.summaries.words import (
    METRICS,
    metric_words,
    range_text,
    signed_text,
    upper_first,
    value_text,
)

LEAST_POINTS = 3
"""Numbers on an axis that lines are drawn over, in place of the picture of all points."""
MOST_PANELS = 12
"""Charts in one picture; of more points only these are drawn, and the table has all."""
WORTH, WORTH_ABOVE = "hand_labels", "hand_labels_above"
_NOT = "not significant"


def methods_section(view: StudyView) -> Section | None:
    """None where no method was judged by AUC or accuracy."""
    if view.metric is None:
        return None
    found: list[TableExhibit | PictureExhibit] = []
    for metric in METRICS:
        table = _means(view, metric)
        found += [table] if table is not None else []
    found.sort(key=lambda table: table.name != f"methods-{view.metric}")
    picture = _forest(view)
    found[1:1] = [*picture, *_differences(view), *_worth(view)]
    return Section(
        "methods",
        "Methods",
        [
            "Each value is a mean over seeds. Its interval (95%) is the wider of two: Student’s over seeds, and the"
            " mean of the cells’ own over test rows, which seeds that share test rows do not average out; the"
            " download says which."
        ],
        found,
    )


def judged(view: StudyView, metric: str) -> list[str]:
    """Methods that have this metric anywhere."""
    return [name for name in view.methods if any((at, name, metric) in view.means for at in view.points)]


def _means(view: StudyView, metric: str) -> TableExhibit | None:
    names = judged(view, metric)
    return figures_table(
        view,
        [(name, metric) for name in names],
        (
            f"methods-{metric}",
            f"{upper_first(metric_words(metric))} of each method",
            "On the public test rows; below each mean its interval."
            + (" Less is better." if metric in ("brier", "ece") else ""),
        ),
        [title(name) for name in names],
        folded=metric != view.metric,
    )


def _worth(view: StudyView) -> list[TableExhibit]:
    """How many labels by hand make as good a model."""
    columns = [(name, metric) for name in view.private for metric in (WORTH, WORTH_ABOVE)]
    there = [column for column in columns if any((at, *column) in view.means for at in view.points)]
    told = (
        "worth",
        "What the models are worth in labels by hand",
        "So many true labels of public rows, drawn by lot, give the student’s own trainer a model as good. “More"
        " than”: not even so many do; mean over the seeds of each kind.",
    )
    headings = [title(name) + (", more than" if metric == WORTH_ABOVE else "") for name, metric in there]
    table = figures_table(view, there, told, headings)
    return [table] if table is not None else []


def _forest(view: StudyView) -> list[PictureExhibit]:
    if view.numeric_axes(LEAST_POINTS):
        return []
    metric = view.metric or ""
    points = [at for at in view.points if any((at, name, metric) in view.means for name in view.methods)]
    shown = points[:MOST_PANELS]
    drawn = [(view.label(at), [_row(view, at, name, metric) for name in judged(view, metric)]) for at in shown]
    panels = [(label, [row for row in rows if row is not None]) for label, rows in drawn]
    if not panels:
        return []
    axis = forest_axis([row for _, rows in panels for row in rows])
    told = f" The first {len(shown)} of {len(points)} points; the table has all." if len(shown) < len(points) else ""
    data = means_data(view, shown, [(name, metric) for name in judged(view, metric)])
    parts = tuple((label, forest_chart(metric_words(metric), rows, axis)) for label, rows in panels)
    alt = f"{metric_words(metric)} of {len(judged(view, metric))} methods at {len(shown)} points, as in the table."
    reading = f"Diamonds: methods with a guarantee. One axis for all charts.{told}"
    return [
        PictureExhibit(
            "methods-picture",
            f"{upper_first(metric_words(metric))} of each method, as a picture",
            reading,
            data,
            alt,
            parts,
        )
    ]


def _row(view: StudyView, at: Point, name: str, metric: str) -> ForestRow | None:
    found = view.means.get((at, name, metric))
    if found is None:
        return None
    ends = None if found["low"] is None else (found["low"], found["high"])
    text = value_text(found["mean"]) + (f" ({range_text(*ends)})" if ends else "")
    return ForestRow(title(name), found["mean"], ends, text, marked=name in view.private)


def _differences(view: StudyView) -> list[TableExhibit]:
    """The table of paired differences, in parts of so many methods as can be read."""
    metric, reference = view.metric, view.reference
    if metric is None or reference is None:
        return []
    found = paired(view.frame, metric, reference)
    names = [name for name in view.methods if name in set(found["method"].to_list())]
    return [
        _difference_table(view, found, names[at : at + ACROSS], at // ACROSS) for at in range(0, len(names), ACROSS)
    ]


def _difference_table(view: StudyView, found: pl.DataFrame, names: Sequence[str], part: int) -> TableExhibit:
    cells = {(*(row[axis] for axis in view.axes), row["method"]): row for row in found.iter_rows(named=True)}
    rows = []
    for at in view.points:
        entries = [_difference(cells.get((*at, name))) for name in names]
        if any(entry.text != "–" for entry in entries):
            rows.append((view.label(at), tuple(entries)))
    reference = title(view.reference or "")
    fewest = min(found["seeds"].to_list())
    how = (
        f"bootstrap over seeds (10,000 draws, fixed lot, expanded percentiles) from {LEAST_BOOTSTRAP} seeds on,"
        " Student’s"
        " with fewer" + (f": here from {fewest} seeds" if fewest < LEAST_BOOTSTRAP else "")
    )
    reading = (
        f"What each method has more {metric_words(view.metric or '')} than {reference}, at the same seed. Interval"
        f" (95%): {how}. Significant: paired t-test with Holm’s correction for all {len(found)} comparisons, p below"
        " 0.05; what is not, is grey and says so. Intervals are not corrected, and are over seeds: new divisions,"
        " lots and noise."
    )
    name = "differences" + (f"-{part + 1}" if part else "")
    headings = ("", *(f"{title(each)}" for each in names))
    heading = f"Differences from {reference}" + (f", continued ({part + 1})" if part else "")
    return TableExhibit(
        name, heading, reading, found.filter(pl.col("method").is_in(list(names))), headings, tuple(rows)
    )


def _difference(row: dict | None) -> Entry:
    if row is None:
        return Entry("–")
    text = signed_text(row["difference"])
    under = range_text(row["low"], row["high"])
    if row["seeds"] < 2:
        return Entry(text, "one seed: not tested", faint=True)
    if row["p_holm"] is None:
        return Entry(text, "the same at every seed: not tested", faint=True)
    return Entry(text, under if row["significant"] else f"{under}; {_NOT}", faint=not row["significant"])
