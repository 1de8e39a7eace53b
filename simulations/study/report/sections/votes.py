"""What the teachers voted, what it cost to say it, and who counted."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from consilium.simulations.artifact import Arrays
from consilium.simulations.study.report.exhibits import Entry, Section, TableExhibit
from consilium.simulations.study.report.sections.division import cross_site
from consilium.simulations.study.report.sections.lines import lines_picture
from consilium.simulations.study.report.sections.methods import LEAST_POINTS
from consilium.simulations.study.report.sections.tables import ACROSS, chosen, metric_tables
from consilium.simulations.study.summaries.tidy import METRICS, metric_words, range_text, title, value_text
from consilium.simulations.study.summaries.view import Point, StudyView, over_seeds

METHOD = "teachers"
GAIN, HOME = "gain_", "home_"
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


def votes_section(view: StudyView, matrices: Mapping[Point, Arrays]) -> Section | None:
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
    return Section("votes", "Votes", [], found) if found else None


def _by_class(view: StudyView, method: str, reading: str, folded: bool = False) -> list[TableExhibit]:
    """Metrics by class of the teachers or of a method, a table for each metric; all but the first are folded."""
    frame = over_seeds(view.frame.filter((pl.col("method") == method) & (pl.col("metric") != "rows")), scope="class")
    found = []
    for metric in sorted(set(frame["metric"].to_list())):
        some = frame.filter(pl.col("metric") == metric)
        classes = list(dict.fromkeys(some["name"].to_list()))
        if len(classes) > 2 * ACROSS:
            continue
        cells = {
            (*(row[axis] for axis in view.axes), row["name"]): Entry(
                value_text(row["mean"]), range_text(row["low"], row["high"])
            )
            for row in some.iter_rows(named=True)
        }
        rows = tuple(
            (view.label(at), tuple(cells.get((*at, name), Entry("–")) for name in classes))
            for at in view.points
            if any((*at, name) in cells for name in classes)
        )
        found.append(
            TableExhibit(
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


def privacy_section(view: StudyView) -> Section | None:
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
    return Section("privacy", "Privacy", [], found) if found else None


def influence_section(view: StudyView) -> Section | None:
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
    return Section("influence", "What one party changes", [], found) if found else None


def _is_influence(metric: str) -> bool:
    return metric.startswith(_INFLUENCE)


def _elsewhere(metric: str) -> bool:
    return metric in METRICS or metric.startswith((GAIN, HOME)) or _is_influence(metric)
