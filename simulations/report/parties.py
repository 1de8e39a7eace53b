"""The fourth chapter: who was left out and why, what each party gains, and how good its teachers are. Nearly all
secret."""

from __future__ import annotations

from typing import Any

from consilium.report.charts import cloud
from consilium.report.exhibits import ALL_BUT_FIRST, Cell, Chart, Exhibit, PagePart, Table, TableLine, without_blanks
from consilium.report.words import STUDENT, many, plural, share_text, signed_text
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import METRICS, leading

MOST_POINTS, MOST_LISTED = 2_000, 1_000
"""Parties of a chart, and of a table: a page with more opens slowly, and nobody reads it."""


def parties_part(data: ReportData) -> PagePart:
    """Of published data only that nothing is told of them."""
    exhibits = [_left_out(data), _gain(data), _by_size(data), _every_party(data)]
    return PagePart("parties", f"The {plural(data.party_label)}", without_blanks(exhibits), look="columns broad")


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
    return Exhibit("left-out", title, table=Table((word, "stage", "reason"), lines, look="cards span"), secret=True)


def _gain(data: ReportData) -> Exhibit | None:
    """A point for each party: what the student has more than its own model, against its rows."""
    word, student, at_home = data.party_label, data.student or {}, data.secret_figures.get("at_home") or {}
    metric = leading(student, len(data.classes))
    gains = {"on public test cases": (metric, []), "on its own rows, held out": (at_home.get("metric"), [])}
    if student.get(metric) is not None:
        values = [(item.rows, getattr(item, metric)) for item in data.quality]
        gains["on public test cases"][1].extend(
            (rows, student[metric] - own) for rows, own in values if own is not None
        )
    gains["on its own rows, held out"][1].extend(at_home.get("by_party", ()))
    parts, words = [], [f"A point for each {word}: what the {STUDENT} has more than a model of its own rows."]
    for where, (measure, points) in gains.items():
        if not points:
            continue
        step = -(-len(points) // MOST_POINTS)
        drawn = sorted(points)[::step]
        if step > 1:
            words.append(f"Of {len(points):,} {where} one in {step} is drawn, by size.")
        better = sum(gain >= 0 for _, gain in points)
        words.append(f"{where.capitalize()} it is at least as good for {better:,} of {many(len(points), word)}.")
        titles = (f"rows of the {word}", f"gain in {METRICS[str(measure)]}")
        parts.append((where.capitalize(), cloud(drawn, titles, zero="no gain")))
    if not parts:
        return None
    chart = Chart(" ".join(words), tuple(parts))
    return Exhibit(
        "gain", f"What each {word} gains, by size", (" ".join(words),), chart=chart, secret=True, look="wide"
    )


def _by_size(data: ReportData) -> Exhibit | None:
    gains = data.secret_figures.get("at_home") or {}
    if "groups" not in gains:
        return None
    word, metric = data.party_label, METRICS[gains["metric"]]
    small = gains["too_small"]
    words = (
        f"{metric} of {many(gains['judged'], word)}, evenly spread by size over the {gains['parties'] - small:,} with"
        f" rows enough to hold some out; {small:,} have too few. Alone: a model of the {word}’s other rows, in"
        f" {gains['folds']} parts in turn. 95% intervals over {plural(word)} (bootstrap, seed {gains['seed']}). Each"
        f" weighs by its {'pairs of rows of both classes' if gains['metric'] == 'auc' else 'rows'}. The {STUDENT}"
        " learnt from votes of teachers that saw these rows; one of them moves it by little, by the guarantee itself."
    )
    lines = tuple(
        TableLine(
            "all" if group is gains["all"] else _rows(group),
            (
                Cell(share_text(group["alone"])),
                Cell(share_text(group["student"])),
                Cell(f"{signed_text(group['difference'])} ({' to '.join(map(signed_text, group['interval']))})"),
            ),
        )
        for group in (*gains["groups"], gains["all"])
    )
    table = Table(("rows", "alone", STUDENT, "gain"), lines, ALL_BUT_FIRST, look="cards span")
    return Exhibit("at-home", "On their own rows, by size", (words,), table=table, secret=True)


def _rows(group: dict[str, Any]) -> str:
    low, high = group["rows_low"], group["rows_high"]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _every_party(data: ReportData) -> Exhibit | None:
    if not data.quality:
        return None
    count = many(len(data.quality), data.party_label)
    items = sorted(data.quality, key=lambda item: (-item.rows, item.party))[:MOST_LISTED]
    lines = tuple(
        TableLine(item.party, (Cell(f"{item.rows:,}"), Cell(share_text(item.accuracy)), Cell(share_text(item.auc))))
        for item in items
    )
    which = f"All {count}" if len(items) == len(data.quality) else f"The {len(items):,} largest of {count}"
    words = f"{which}, largest first: name, rows, and how good its teachers are on the public test cases."
    table = Table((data.party_label, "rows", "accuracy", "AUC"), lines, ALL_BUT_FIRST, look="long")
    return Exhibit("every-party", f"Each {data.party_label}", (words,), table=table, secret=True)
