"""The fourth chapter: who was left out and why, and what each party gains. Secret."""

from __future__ import annotations

from dataclasses import asdict

import polars as pl

from consilium.report.charts import cloud
from consilium.report.exhibits import Cell, Chart, Exhibit, PagePart, Table, TableLine, without_blanks
from consilium.report.words import STUDENT, many, plural, upper_first
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import METRICS, leading

MOST_POINTS = 2_000
"""Parties of a chart: a page with more opens slowly."""


def parties_part(data: ReportData) -> PagePart:
    """Of published data only that nothing is told of them."""
    title = upper_first(plural(data.party_label))
    return PagePart("parties", title, without_blanks([_left_out(data), _gain(data)]))


def _left_out(data: ReportData) -> Exhibit:
    word, title = data.party_label, "Who was left out"
    if data.public:
        words = (
            f"Not shown, nor how many: that may follow from what the rows of a {word} are, and no guarantee covers it."
            f" {many(data.invited, word)} might have taken part."
        )
        return Exhibit("left-out", title, (words,))
    if not data.left_out:
        return Exhibit("left-out", title, (f"Nobody: every {word} took part in every stage.",), secret=True)
    lines = tuple(TableLine(item.party, (Cell(item.stage), Cell(item.reason))) for item in data.left_out)
    return Exhibit("left-out", title, table=Table((word, "stage", "reason"), lines), secret=True)


def _gain(data: ReportData) -> Exhibit | None:
    """A point for each party: what the student has more than its own model, against its rows; to download, by name."""
    word, student, at_home = data.party_label, data.student or {}, data.secret_figures.get("at_home") or {}
    metric = leading(student, len(data.classes))
    own = [(item.rows, getattr(item, metric)) for item in data.quality]
    on_public = [(rows, student[metric] - value) for rows, value in own if None not in (value, student.get(metric))]
    parts, words = [], [f"A point is a {word}: what the {STUDENT} has more than a model of its own rows alone."]
    if at_home.get("by_party"):
        words.append(
            f"Own rows: {at_home['judged']:,} evenly spread by size over the"
            f" {at_home['parties'] - at_home['too_small']:,} with rows enough to hold a third out in turn;"
            f" {at_home['too_small']:,} have too few. The {STUDENT} learnt from votes of teachers that saw these rows."
        )
    for where, measure, points in (
        ("on its own rows, held out", at_home.get("metric"), at_home.get("by_party", [])),
        ("on public test cases", metric, on_public),
    ):
        if points:
            step = -(-len(points) // MOST_POINTS)
            drawn = f" (one in {step} is drawn, by size)" if step > 1 else ""
            better = sum(gain >= 0 for _, gain in points)
            words.append(
                f"The {STUDENT} is at least as good {where} for {better:,} of {many(len(points), word)}{drawn}."
            )
            titles = (f"rows of the {word}", f"gain in {METRICS[str(measure)]}")
            parts.append((upper_first(where), cloud(sorted(points)[::step], titles, zero="no gain")))
    if not parts:
        return None
    words.append("Each by name, with rows, accuracy and AUC of its teachers on public test cases:")
    chart, listed = Chart(" ".join(words), tuple(parts)), pl.DataFrame([asdict(item) for item in data.quality])
    title = f"What each {word} gains, by size"
    return Exhibit("gain", title, (" ".join(words),), chart=chart, secret=True, data=listed)
