"""What each party gains at home against being alone, and which parties lose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from consilium.simulations.study.report.charts.panels import cloud_chart
from consilium.simulations.study.report.exhibits import Entry, PictureExhibit, Section, TableExhibit
from consilium.simulations.study.report.sections.tables import chosen, figures_table, metric_tables
from consilium.simulations.study.report.sections.votes import GAIN, HOME
from consilium.simulations.study.summaries.sentences import ALONE, AT_HOME, party_gains, worst_decile
from consilium.simulations.study.summaries.tidy import metric_words, title, upper_first, value_text
from consilium.simulations.study.summaries.view import StudyView

DISTANCE, ROWS = "hellinger", "rows"
MOST_PANELS = 6
_FIRST = (
    "gain_accuracy",
    "gain_accuracy_better",
    "gain_accuracy_worse",
    "gain_accuracy_worst_decile",
    "gain_accuracy_worst_decile_floor",
    "gain_accuracy_gini",
    "gain_accuracy_gini_floor",
    "gain_auc",
)


def fairness_section(view: StudyView) -> Section | None:
    """None where parties were not judged at home, or not alone."""
    found: list[TableExhibit | PictureExhibit] = []
    method = view.reference
    if method is None or method == ALONE:
        return None
    metric = next((each for each in AT_HOME if party_gains(view.frame, method, each).height), None)
    if metric is None:
        return None
    gains = party_gains(view.frame, method, metric)
    for against, axis in ((DISTANCE, "Hellinger distance of its labels from all"), (ROWS, "rows of the party")):
        if gains[against].is_not_null().any():
            found.append(_cloud(view, gains.filter(pl.col(against).is_not_null()), (against, axis, metric)))
    found.append(_losers(view, method))
    for of in ("auc", "accuracy", "brier"):
        names = [name for name in view.methods if any((at, name, HOME + of) in view.means for at in view.points)]
        told = f"{upper_first(metric_words(HOME + of))}, all parties’ held-out rows"
        reading = (
            "Each row is judged by what its own party would use: its own teachers, or the one model of the method."
        )
        columns, headings = [(name, HOME + of) for name in names], [title(name) for name in names]
        table = figures_table(view, columns, (f"home-{of}", told, reading), headings, folded=True)
        found += [table] if table is not None else []
    gained = chosen([name for name in view.run_metrics(method) if name.startswith(GAIN)], _FIRST)
    about = (
        "gain",
        f"{title(method)} against local only, as measured in each cell",
        "Mean over seeds of what each cell measured.",
    )
    found += metric_tables(view, method, gained, about, open_first=False)
    sentence = (
        f"Each party’s own held-out rows judge {title(method)} and the party’s own teachers alike. Gain: how much"
        f" better {title(method)} is there, so that a party below the line would do better alone. A party’s value is"
        " its mean over the seeds in which it was a party."
    )
    return Section("fairness", "Who gains, and who loses", [sentence], found)


def _cloud(view: StudyView, gains: pl.DataFrame, about: tuple[str, str, str]) -> PictureExhibit:
    against, axis, metric = about
    parts = []
    for at in view.points:
        some = view.at(gains, at)
        if some.height and len(parts) < MOST_PANELS:
            pairs = list(zip(some[against].to_list(), some["gain"].to_list(), strict=True))
            titles = (axis, f"gain ({metric_words(metric)})")
            parts.append((view.label(at), cloud_chart(pairs, titles, against == ROWS, zero="no gain")))
    words = "distance" if against == DISTANCE else "size"
    judged = sum(bool(view.at(gains, at).height) for at in view.points)
    left = f" The first {len(parts)} of {judged} points." if judged > len(parts) else ""
    return PictureExhibit(
        f"gain-{words}",
        f"Gain by {words}",
        f"Each point is one party. Parties with few held-out rows scatter for that reason alone.{left}",
        gains,
        f"Scatter of parties’ gain in {metric_words(metric)} by {words}, {len(parts)} panels.",
        tuple(parts),
    )


def _losers(view: StudyView, method: str) -> TableExhibit:
    """By how many parties lose, and how much the worst tenth does."""
    rows, data = [], []
    for metric in AT_HOME:
        gains = party_gains(view.frame, method, metric)
        for at in view.points:
            found = np.array(view.at(gains, at)["gain"].to_list())
            if not len(found):
                continue
            label = view.label(at) + f", {metric_words(metric)}"
            lose, equal = int((found < -1e-12).sum()), int((np.abs(found) <= 1e-12).sum())
            figures = (len(found), lose, equal, float(found.mean()), float(np.median(found)), worst_decile(found))
            rows.append((label, (*(Entry(f"{count:,}") for count in figures[:3]), *_entries(figures[3:]))))
            data.append(dict(zip((*view.axes, "metric", *_COLUMNS), (*at, metric, *figures), strict=True)))
    return TableExhibit(
        "losers",
        "How many lose",
        f"Parties that {title(method)} serves worse than they serve themselves. Worst tenth: the mean gain of the"
        " tenth of the parties that gains least.",
        pl.DataFrame(data),
        ("", "parties judged", "lose", "no change", "mean gain", "median gain", "worst tenth"),
        tuple(rows),
    )


_COLUMNS = ("parties", "lose", "equal", "mean", "median", "worst_tenth")


def _entries(values: Sequence[float]) -> tuple[Entry, ...]:
    return tuple(Entry(value_text(value)) for value in values)
