"""Across data sets: which properties of a division go with what a private method reaches. Exploratory."""

from __future__ import annotations

import polars as pl

from consilium.simulations.study.report.charts.forest import ForestRow, forest_chart
from consilium.simulations.study.report.exhibits import PictureExhibit, Section
from consilium.simulations.study.summaries.sentences import Going, goes_with, set_axis
from consilium.simulations.study.summaries.tidy import metric_words, range_text, title, value_text
from consilium.simulations.study.summaries.view import StudyView


def across_section(view: StudyView) -> Section | None:
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
    return Section("across", "Across data sets: what goes with success", [sentence], pictures)


def _picture(view: StudyView, axis: str, found: list[Going]) -> PictureExhibit:
    """Of one outcome."""
    ranked = sorted(found, key=lambda each: -abs(each.value))
    rows = [
        ForestRow(
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
    return PictureExhibit(
        "-".join(("across", *((against,) if against else ()), method)),
        words,
        f"Which properties of a division rise (right of the line) or fall (left) with it, over “{axis}”. Grey: the"
        " interval has 0 in it, so nothing is shown.",
        pl.DataFrame([each._asdict() for each in ranked]),
        f"Rank correlations of {len(rows)} properties with {words}.",
        (("", forest_chart("rank correlation", rows, zero=True)),),
    )
