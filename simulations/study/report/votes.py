"""What the teachers voted, what it cost to say it, who counted; and across data sets, what goes with success."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from consilium.report.charts import ValueRow, rows_chart
from consilium.report.exhibits import Cell, Exhibit, PagePart
from consilium.report.words import range_text, value_text
from consilium.simulations.artifact import Arrays
from consilium.simulations.study.report.methods import (
    ACROSS,
    LEAST_POINTS,
    as_part,
    as_picture,
    as_table,
    chosen,
    lines_picture,
    metric_tables,
)
from consilium.simulations.study.report.parties import GAIN, HOME, cross_site
from consilium.simulations.study.summaries.sentences import Going, goes_with, set_axis
from consilium.simulations.study.summaries.tidy import METRICS, metric_words, title
from consilium.simulations.study.summaries.view import Point, StudyView, over_seeds

METHOD = "teachers"
_INFLUENCE = ("winners_flipped", "labels_flipped", "auc_change", "accuracy_change", "students_trained")
_FIRST_OF_VOTES = (
    "consensus",
    "gap_p50",
    "ambiguity_10",
    "kappa",
    "kappa_fleiss",
    "plurality_right",
    "teacher_right_mean",
    "cross_site_accuracy_shift",
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


def votes_part(view: StudyView, matrices: Mapping[Point, Arrays]) -> PagePart | None:
    """None where nothing was measured of votes."""
    metrics = chosen(view.run_metrics(METHOD), _FIRST_OF_VOTES)
    about = (
        "votes",
        "How far the teachers agree",
        "Votes without noise, which no party and no guarantee releases; below each mean its interval.",
    )
    found: list = [*metric_tables(view, METHOD, metrics, about)]
    for axis in view.numeric_axes(LEAST_POINTS):
        for metric in [name for name in _FIRST_OF_VOTES if name in metrics]:
            picture = lines_picture(view, axis, [(METHOD, metric)], [metric_words(metric)], metric_words(metric))
            found += [picture] if picture is not None else []
    found += _by_class(view, METHOD, "Of the votes without noise, by true class; mean over seeds with its interval.")
    across = cross_site(view, matrices)
    found += [across] if across is not None else []
    return as_part("votes", "Votes", [], found) if found else None


def _by_class(view: StudyView, method: str, reading: str, folded: bool = False) -> list[Exhibit]:
    """Metrics by class of the teachers or of a method, a table for each metric; all but the first are folded."""
    frame = over_seeds(view.frame.filter((pl.col("method") == method) & (pl.col("metric") != "rows")), scope="class")
    found = []
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
        rows = tuple(
            (view.label(at), tuple(cells.get((*at, name), Cell("–")) for name in classes))
            for at in view.points
            if any((*at, name) in cells for name in classes)
        )
        found.append(
            as_table(
                f"class-{method}-{metric}".replace(" ", "-"),
                f"By class: {metric_words(metric)}" + ("" if method == METHOD else f" ({title(method)})"),
                reading,
                some,
                ("", *classes),
                rows,
                folded=folded or bool(found),
            )
        )
    return found


def privacy_part(view: StudyView) -> PagePart | None:
    """None where no method has a guarantee."""
    found = []
    for method in view.private:
        # how models were judged stands with the methods; influence and gain have parts of their own
        metrics = chosen(view.run_metrics(method), _FIRST_OF_COST, _elsewhere)
        about = (
            f"privacy-{method}".replace(" ", "-"),
            f"{title(method)}: what it promised and what it released",
            "epsilon is what is promised before the run, towards whoever gets what is released; worst case and data"
            " dependent are of what came out. A data-dependent epsilon may not be published.",
        )
        found += metric_tables(view, method, metrics, about, open_first=method == view.private[0])
        found += _by_class(view, method, "By true class; mean over seeds with its interval.", folded=True)
    return as_part("privacy", "Privacy", [], found) if found else None


def influence_part(view: StudyView) -> PagePart | None:
    """None where nothing was measured of single parties' influence."""
    found = []
    for method in view.methods:
        metrics = [name for name in view.run_metrics(method) if _is_influence(name)]
        about = (
            f"influence-{method}".replace(" ", "-"),
            f"{title(method)} without one of its parties",
            "From the recorded votes, with the same noise, and without training teachers anew.",
        )
        found += metric_tables(view, method, metrics, about)
    return as_part("influence", "What one party changes", [], found) if found else None


def _is_influence(metric: str) -> bool:
    return metric.startswith(_INFLUENCE)


def _elsewhere(metric: str) -> bool:
    return metric in METRICS or metric.startswith((GAIN, HOME)) or _is_influence(metric)


def across_part(view: StudyView) -> PagePart | None:
    """None without an axis along which enough data sets stand, or without measures of the division."""
    over = set_axis(view.frame, view.order)
    if over is None or view.metric is None:
        return None
    axis, points = over
    found = goes_with(view.frame, axis, view.metric, points)
    pictures = [
        _picture(view, axis, [each for each in found if each.against == against])
        for against in dict.fromkeys(each.against for each in found)
    ]
    if not pictures:
        return None
    sentence = (
        f"Rank correlations (Spearman) over the {len(points)} data sets of “{axis}”, each with the first of its"
        " divisions there, with their 95% intervals (Bonett and Wright). Exploratory: many properties and few data"
        " sets, which were not drawn by lot from anything. Nothing here is a cause."
    )
    return as_part("across", "Across data sets: what goes with success", [sentence], pictures)


def _picture(view: StudyView, axis: str, found: list[Going]) -> Exhibit:
    """Of one outcome."""
    ranked = sorted(found, key=lambda each: -abs(each.value))
    rows = [
        ValueRow(
            metric_words(each.property),
            each.value,
            (each.low, each.high),
            f"{value_text(each.value)} ({range_text(each.low, each.high)}), n {each.pairs}",
            faint=each.low <= 0 <= each.high,
        )
        for each in ranked
    ]
    method, against, metric = found[0].method, found[0].against, metric_words(view.metric or "")
    words = f"{title(method)}: {metric} reached"
    if against is not None:
        words = f"{title(against)} less {title(method)}: {metric} lost"
    return as_picture(
        "-".join(("across", *((against,) if against else ()), method)),
        words,
        f"Which properties of a division rise (right of the line) or fall (left) with it, over “{axis}”. Grey: the"
        " interval has 0 in it, so nothing is shown.",
        pl.DataFrame([each._asdict() for each in ranked]),
        f"Rank correlations of {len(rows)} properties with {words}.",
        (("", rows_chart("rank correlation", rows, zero=True)),),
    )
