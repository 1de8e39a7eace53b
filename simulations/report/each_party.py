"""What each party gains, and how good its teachers are: of a simulation, and secret."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from consilium.report.charts import Drawing, RuleAcross, ValueRow, cloud_chart, rows_axis, rows_chart
from consilium.report.exhibits import ALL_BUT_FIRST, Cell, Chart, Exhibit, PagePart, Table, TableLine, without_blanks
from consilium.report.words import many, plural, share_text, signed_text
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import ABSENT, METRICS, lead


def parties_part(data: ReportData) -> PagePart:
    """What each party gains, and how good its teachers are. All secret; may be empty."""
    title = f"What each {data.party_label} gains"
    return PagePart("parties-gain", title, without_blanks([_at_home(data), _sizes_and_quality(data)]), look="figures")


def _at_home(data: ReportData) -> Exhibit | None:
    gains = data.secret_figures.get("at_home", {})
    if not gains or ABSENT in gains:
        return None
    name, word = METRICS[gains["metric"]], data.party_label
    rows = [
        ValueRow(
            _sizes(group),
            group["student"],
            None,
            f"{signed_text(group['difference'])} ({signed_text(group['interval'][0])} to"
            f" {signed_text(group['interval'][1])})",
            marked=True,
            other=group["alone"],
            joined=True,
        )
        for group in gains["groups"]
    ]
    whole = gains["all"]
    small, weights = gains["too_small"], "pairs of rows of both classes" if gains["metric"] == "auc" else "rows"
    words = (
        f"{many(gains['judged'], word)}, evenly spread by size over the {gains['parties'] - small:,} with rows"
        f" enough to hold some out, on {whole['tested']:,} rows of their own. Ring: a model of the {word} alone,"
        " trained on two thirds of its rows and judged on the last third, in turn. Diamond: the student, on the same"
        f" rows. Each {word} weighs by its {weights}, so large ones count most. Behind each line: the"
        f" difference, with its 95% interval over {plural(word)} (bootstrap, 1,000 draws, seed {gains['seed']})."
        f" The student learnt from votes of teachers that saw these rows; one {word} moves it by little, by the"
        " guarantee itself."
    )
    values = "; ".join(f"{row.label}: alone {row.other:.3f}, student {row.value:.3f}" for row in rows)
    drawing = rows_chart(f"{name} on the {word}’s own rows, held out", rows, rows_axis(rows, shares=True))
    return Exhibit(
        "at-home",
        f"The student against a {word} alone, by size",
        (words,),
        chart=Chart(f"Pairs: {values}.", (("", drawing),)),
        secret=True,
        look="wide",
    )


def gain_at_home(data: ReportData) -> str:
    """What the student is worth on the parties' own rows, held out; empty where nobody knows. Secret."""
    gains = data.secret_figures.get("at_home", {})
    if not gains or ABSENT in gains:
        return ""
    word, whole, name = data.party_label, gains["all"], METRICS[gains["metric"]]
    low, high = whole["interval"]
    return (
        f"On its own rows a {word} has {name} {share_text(whole['student'])} by the student and"
        f" {share_text(whole['alone'])} by a model of its own: {signed_text(whole['difference'])}"
        f" ({signed_text(low)} to {signed_text(high)}), over {whole['tested']:,} held-out rows of"
        f" {many(whole['parties'], word)}. The student is at least as good at {whole['better']:,} of them."
    )


def _sizes(group: dict[str, Any]) -> str:
    low, high = group["rows_low"], group["rows_high"]
    return many(low, "row") if low == high else f"{low:,} to {high:,} rows"


MOST_POINTS, MOST_LISTED = 2_000, 1_000
"""Parties of a chart, and of a table: a page with more opens slowly, and nobody reads it."""


def _sizes_and_quality(data: ReportData) -> Exhibit | None:
    if not data.quality:
        return None
    metric = lead(data, data.student or {}) if any(item.auc is not None for item in data.quality) else "accuracy"
    points = [(item.rows, value) for item in data.quality if (value := getattr(item, metric)) is not None]
    student = (data.student or {}).get(metric)
    word, name = data.party_label, METRICS[metric]
    rows, values = [size for size, _ in points], [value for _, value in points]
    shown = points
    if len(points) > MOST_POINTS:
        lot = np.random.default_rng(0).choice(len(points), MOST_POINTS, replace=False)
        shown = [points[place] for place in np.sort(lot)]
    words = f"Each point is one {word}: how many rows it has, and how good its teachers are on the public test cases."
    if len(shown) < len(points):
        words += f" Drawn are {len(shown):,} of {len(points):,}, at random."
    words += " The line is the student." if student is not None else ""
    return Exhibit(
        "parties-by-size",
        f"{plural(word).capitalize()} by size and quality",
        (f"{words} Only a simulation can know this.",),
        chart=Chart(
            f"Scatter of {len(points)} {plural(word)}: {min(rows)} to {max(rows)} rows,"
            f" {name} {min(values):.3f} to {max(values):.3f}.",
            (("", parties_chart(shown, student, (f"rows of the {word} (logarithmic)", f"its teachers’ {name}"))),),
        ),
        secret=True,
    )


def parties_chart(points: Sequence[tuple[float, float]], student: float | None, titles: tuple[str, str]) -> Drawing:
    """Each party's rows and its teachers' mean quality, with the student's as a line; titles: of both axes."""
    rules = [] if student is None else [RuleAcross(student, "orange", key=f"student: {student:.3f}")]
    return cloud_chart(points, titles, log=True, rules=rules, room=0.02)


def every_party(data: ReportData) -> PagePart:
    """All parties by name. Secret; may be empty."""
    count, lines = many(len(data.quality), data.party_label), []
    for item in sorted(data.quality, key=lambda item: (-item.rows, item.party))[:MOST_LISTED]:
        lines.append(
            TableLine(item.party, (Cell(f"{item.rows:,}"), Cell(share_text(item.accuracy)), Cell(share_text(item.auc))))
        )
    which = f"All {count}" if len(lines) == len(data.quality) else f"The {len(lines):,} largest of {count}"
    words = f"{which}, largest first: name, rows, and how good its teachers are on the public test cases."
    table = Table((data.party_label, "rows", "accuracy", "AUC"), tuple(lines), ALL_BUT_FIRST, look="long")
    exhibits = (Exhibit("parties", which, (words,), table=table, secret=True),) if lines else ()
    return PagePart("every-party", f"Appendix: every {data.party_label}", exhibits)


def against_alone(data: ReportData) -> str:
    """The same on the public test cases, which are of others, with the interval; empty where nobody knows. Secret."""
    gain = data.secret_figures.get("alone")
    if not gain:
        return ""
    word, name = data.party_label, METRICS[gain["metric"]]
    (low, high), difference = gain["interval"], gain["difference"]
    how = "better" if low > 0 else "worse" if high < 0 else "not clearly better or worse"
    student = (data.student or {}).get(gain["metric"])
    values = [value for item in data.quality if (value := getattr(item, gain["metric"])) is not None]
    beaten = (
        f" It is ahead of {sum(value < student for value in values):,} of {len(values):,} of them."
        if student is not None and values
        else ""
    )
    blind = sum(value == 0.5 for value in values) if gain["metric"] == "auc" else 0
    constant = f" At {many(blind, word)} the own model ranks nobody (AUC 0.5)." if blind else ""
    return (
        f"On the public test cases, which are others’, it is {how} than the model of one {word}: {name}"
        f" {signed_text(difference)} ({signed_text(low)} to {signed_text(high)}) in the mean over the"
        f" {plural(word)}.{beaten}{constant}"
    )
