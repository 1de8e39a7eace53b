"""What the teachers voted, what it cost to say it, who counted; and across data sets, what goes with success."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from consilium.report.charts import rows_chart
from consilium.report.exhibits import Cell, Exhibit, PagePart
from consilium.report.words import range_text, value_text
from consilium.simulations.study.report.parties import GAIN, HOME
from consilium.simulations.study.report.parts import (
    ACROSS,
    LEAST_POINTS,
    About,
    as_part,
    as_picture,
    as_table,
    chosen,
    lines_picture,
    metric_tables,
    value_row,
)
from consilium.simulations.study.summaries.sentences import Going, goes_with, set_axis
from consilium.simulations.study.summaries.tidy import JUDGED, metric_words, title
from consilium.simulations.study.summaries.view import StudyView, over_seeds

METHOD = "teachers"
_INFLUENCE = "winners_flipped"
_FIRST_OF_VOTES = (
    "consensus",
    "gap_p50",
    "ambiguity_10",
    "kappa",
    "kappa_fleiss",
    "plurality_right",
    "teacher_right_mean",
)
_FIRST_OF_COST = (
    "epsilon",
    "delta",
    "epsilon_spent",
    "epsilon_data_dependent",
    "epsilon_sanitised",
    "asked",
    "answered",
    "labels_right",
    "labels_per_epsilon",
)


def votes_part(view: StudyView) -> PagePart | None:
    """None where nothing was measured of votes."""
    measured = [metric for metric in view.run_metrics(METHOD) if not metric.startswith(_INFLUENCE)]
    metrics = chosen(measured, _FIRST_OF_VOTES)
    about = About(
        "votes",
        "How far the teachers agree",
        "Votes without noise, which no party and no guarantee releases; below each mean its interval.",
    )
    drawn = [
        (axis, metric) for axis in view.numeric_axes(LEAST_POINTS) for metric in _FIRST_OF_VOTES if metric in metrics
    ]
    exhibits = [
        *metric_tables(view, METHOD, metrics, about),
        *(
            lines_picture(view, axis, [(METHOD, metric)], [metric_words(metric)], metric_words(metric))
            for axis, metric in drawn
        ),
        *_by_class(view, METHOD, "Of the votes without noise, by true class; mean over seeds with its interval."),
    ]
    return as_part("votes", "Votes", exhibits)


def _by_class(view: StudyView, method: str, reading: str, folded: bool = False) -> list[Exhibit]:
    """Metrics by class of the teachers or of a method, a table for each metric; all but the first are folded."""
    frame = over_seeds(view.frame.filter((pl.col("method") == method) & (pl.col("metric") != "rows")), scope="class")
    exhibits: list[Exhibit] = []
    for metric in sorted(set(frame["metric"].to_list())):
        some = frame.filter(pl.col("metric") == metric)
        classes = list(dict.fromkeys(some["name"].to_list()))
        if len(classes) > 2 * ACROSS:
            continue
        cells = {
            (*(row[axis] for axis in view.axes), row["name"]): Cell(
                value_text(row["mean"]), range_text(row["low"], row["high"])
            )
            for row in some.iter_rows(named=True)
        }
        rows = [
            (view.label(point), [cells.get((*point, name), Cell("–")) for name in classes])
            for point in view.points
            if any((*point, name) in cells for name in classes)
        ]
        heading = f"By class: {metric_words(metric)}" + ("" if method == METHOD else f" ({title(method)})")
        about = About(f"class-{method}-{metric}".replace(" ", "-"), heading, reading)
        exhibits.append(as_table(about, some, classes, rows, folded=folded or bool(exhibits)))
    return exhibits


def privacy_part(view: StudyView) -> PagePart | None:
    """None where no method has a guarantee."""
    exhibits = []
    for method in view.private:
        # how models were judged stands with the methods; gain has a part of its own
        metrics = chosen(view.run_metrics(method), _FIRST_OF_COST, _elsewhere)
        about = About(
            f"privacy-{method}".replace(" ", "-"),
            f"{title(method)}: what it promised and what it released",
            "epsilon is what is promised before the run, towards whoever gets what is released; worst case and data"
            " dependent are of what came out. A data-dependent epsilon may not be published.",
        )
        exhibits += metric_tables(view, method, metrics, about, open_first=method == view.private[0])
        exhibits += _by_class(view, method, "By true class; mean over seeds with its interval.", folded=True)
    return as_part("privacy", "Privacy", exhibits)


def influence_part(view: StudyView) -> PagePart | None:
    """None where nothing was measured of single parties' influence."""
    metrics = [name for name in view.run_metrics(METHOD) if name.startswith(_INFLUENCE)]
    about = About("influence", "Without one of the parties", "Rows whose winner is another, by the votes alone.")
    return as_part("influence", "What one party changes", metric_tables(view, METHOD, metrics, about))


def _elsewhere(metric: str) -> bool:
    return metric in JUDGED or metric.startswith((GAIN, HOME))


def across_part(view: StudyView) -> PagePart | None:
    """None without an axis along which enough data sets stand, or without measures of the division."""
    over = set_axis(view.frame, view.order)
    if over is None or view.metric is None:
        return None
    axis, points = over
    correlations = goes_with(view.frame, axis, view.metric, points)
    outcomes = dict.fromkeys(going.against for going in correlations)
    return as_part(
        "across",
        "Across data sets: what goes with success",
        [_across(view, axis, [going for going in correlations if going.against == against]) for against in outcomes],
        f"Rank correlations (Spearman) over the {len(points)} data sets of “{axis}”, each with the first of its"
        " divisions there, with their 95% intervals (Bonett and Wright). Exploratory: many properties and few data"
        " sets, which were not drawn by lot from anything. Nothing here is a cause.",
    )


def _across(view: StudyView, axis: str, correlations: Sequence[Going]) -> Exhibit:
    """Of one outcome."""
    ranked = sorted(correlations, key=lambda going: -abs(going.value))
    rows = []
    for going in ranked:
        row = value_row(
            metric_words(going.property), going.value, going.low, going.high, faint=going.low <= 0 <= going.high
        )
        rows.append(replace(row, text=f"{row.text}, n {going.pairs}"))
    method, against, metric = ranked[0].method, ranked[0].against, metric_words(view.metric or "")
    words = f"{title(method)}: {metric} reached"
    if against is not None:
        words = f"{title(against)} less {title(method)}: {metric} lost"
    about = About(
        "-".join(("across", *((against,) if against else ()), method)),
        words,
        f"Which properties of a division rise (right of the line) or fall (left) with it, over “{axis}”. Grey: the"
        " interval has 0 in it, so nothing is shown.",
    )
    data, alt = pl.DataFrame([going._asdict() for going in ranked]), f"Rank correlations of {len(rows)} properties"
    chart = rows_chart("rank correlation", rows, zero=True)
    return as_picture(about, data, f"{alt} with {words}.", [("", chart)])
