"""The fourth chapter: who was left out and why, what each party gains, and how good its teachers are. Secret."""

from __future__ import annotations

from consilium.report.charts import cloud
from consilium.report.exhibits import ALL_BUT_FIRST, Cell, Chart, Exhibit, PagePart, Table, TableLine, without_blanks
from consilium.report.words import STUDENT, many, plural, share_text, upper_first
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import METRICS, leading

MOST_POINTS, MOST_LISTED = 2_000, 1_000
"""Parties of a chart, and of a table: a page with more opens slowly, and nobody reads it."""


def parties_part(data: ReportData) -> PagePart:
    """Of published data only that nothing is told of them."""
    title = upper_first(plural(data.party_label))
    return PagePart("parties", title, without_blanks([_left_out(data), _gain(data), _every_party(data)]))


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
    """A point for each party: what the student has more than its own model, against its rows."""
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
    chart = Chart(" ".join(words), tuple(parts))
    title = f"What each {word} gains, by size"
    return Exhibit("gain", title, (" ".join(words),), chart=chart, secret=True) if parts else None


def _every_party(data: ReportData) -> Exhibit | None:
    count = many(len(data.quality), data.party_label)
    items = sorted(data.quality, key=lambda item: (-item.rows, item.party))
    lines = tuple(
        TableLine(item.party, (Cell(f"{item.rows:,}"), Cell(share_text(item.accuracy)), Cell(share_text(item.auc))))
        for item in items[:MOST_LISTED]
    )
    which = f"All {count}" if len(lines) == len(items) else f"The {len(lines):,} largest of {count}"
    words = f"{which}, largest first: name, rows, and how good its teachers are on the public test cases."
    table = Table((data.party_label, "rows", "accuracy", "AUC"), lines, ALL_BUT_FIRST, look="long")
    return Exhibit("every-party", f"Each {data.party_label}", (words,), table=table, secret=True) if lines else None
