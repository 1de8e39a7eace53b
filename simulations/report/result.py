"""The second chapter: the student beside what it could have been. The fourth: who was left out and why, and what each
party gains; of published data only that nothing is told of them."""

from __future__ import annotations

from dataclasses import asdict

import polars as pl

from consilium.report.charts import Dot, cloud, dots
from consilium.report.exhibits import Cell, Chart, Exhibit, PagePart, Table, TableLine, without_blanks
from consilium.report.words import ALONE, LABELS_ALONE, METRICS, STUDENT, many, plural, signed_text, upper_first
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import ABOVE, ABSENT, RIVALS, STUDENT_ABOVE, leading, metric_text, models_of
from consilium.student.card import labels_sentence

MOST_POINTS = 2_000
"""Parties of a chart: a page with more opens slowly."""


def result_part(data: ReportData) -> PagePart:
    """What came out, on public test cases."""
    exhibits = [_models(data), _differences(data), _measured(data), _missing(data)]
    return PagePart("result", "Result", without_blanks(exhibits))


def parties_part(data: ReportData) -> PagePart:
    """Of published data only that nothing is told of them."""
    title = upper_first(plural(data.party_label))
    return PagePart("parties", title, without_blanks([_left_out(data), _gain(data)]))


def _models(data: ReportData) -> Exhibit:
    judged = {**data.student, "intervals": data.open_figures.get("intervals")} if data.student else None
    models = models_of(judged, data.baselines, data.worth, data.labels_alone)
    metric = leading(judged or {}, len(data.classes))
    rows = [
        Dot(name, of[metric], (of.get("intervals") or {}).get(metric), metric_text(of, metric), name == STUDENT)
        for name, of in models.items()
        if of.get(metric) is not None
    ]
    title = f"The {STUDENT} against what it could have been"
    if not rows:
        return Exhibit("models", title, ("There are no results of a student.",))
    also = ", and was brought to public labels" if data.public_labels else " alone"
    words = f"The {STUDENT} (diamond) learnt from released {data.release.noun}s{also}."
    if STUDENT_ABOVE in data.labels_alone:
        words += f" {upper_first(LABELS_ALONE)}: {many(data.labels_alone['rows'], 'label')}, no votes and no epsilon."
    if not data.public:
        words += (
            f" {ALONE.capitalize()}: the mean over the {plural(data.party_label)}. Plurality: all vote without noise."
            " Pooled: one model on all rows together. Private rivals keep the student’s guarantee and take no votes."
        )
    chart = _dots(f"{METRICS[metric]} on public test cases", rows, METRICS[metric])
    return Exhibit("models", title, (words,), chart=chart, secret=not data.public)


def _dots(said: str, rows: list[Dot], title: str, zero: bool = False) -> Chart:
    return Chart(
        f"{said}: {'; '.join(f'{row.label} {row.text}' for row in rows)}", (("", dots(rows, title, zero=zero)),)
    )


def _differences(data: ReportData) -> Exhibit | None:
    """What the student has more than others that keep rows private, on the same cases. Secret."""
    at_home = data.secret_figures.get("at_home") or {}
    found = [
        (f"{ALONE}, on public cases", data.secret_figures.get("alone"), 1),
        (f"{ALONE}, on its own rows", {"metric": at_home.get("metric"), **at_home.get("all", {})}, 1),
        *((label, data.baselines.get(name, {}).get(ABOVE), -1) for name, label in RIVALS.items()),
    ]
    rows, metrics = [], []
    for name, of, sign in found:
        if of and "difference" in of:
            low, high = sorted(sign * end for end in of["interval"])
            more = sign * of["difference"]
            rows.append(
                Dot(name, more, (low, high), f"{signed_text(more)} ({signed_text(low)} to {signed_text(high)})")
            )
            metrics.append(METRICS[of["metric"]])
    if not rows:
        return None
    words = (
        f"{metrics[0]} of the {STUDENT} less that of the other, case by case: right of the line the {STUDENT} is"
        f" better. 95% intervals over test cases and draws of a rival’s noise; on own rows over"
        f" {plural(data.party_label)}."
    )
    chart = _dots(f"Difference in {metrics[0]}", rows, "difference", zero=True)
    return Exhibit("differences", f"What the {STUDENT} gains on each", (words,), chart=chart, secret=True)


def _measured(data: ReportData) -> Exhibit:
    counts: dict[str, int] = data.open_figures.get("test") or {}
    worth, items = data.worth or {}, []
    if total := sum(counts.values()):
        each = f"{min(counts.values()):,} to {max(counts.values()):,} of each class"
        items.append(f"All figures of the {STUDENT} are measured on {many(total, 'public test case')}, {each}.")
    items.append(
        "95% intervals are over test cases: Wilson’s for shares, DeLong’s for AUC (on the logit scale). Means over"
        " draws have the spread of the draws in theirs. Accuracy takes the likelier class of every model alike."
    )
    if "manual_labels" in worth:
        items.append(
            f"Worth in manual labels: how many of the {worth['public_rows']:,} public cases, drawn at random with their"
            f" true label, reach the {STUDENT}’s figure in the mean of {worth['draws']} draws, by its own trainer;"
            f" between the numbers tried by their logarithm. In parentheses: the {worth['level']:.0%} interval. The"
            " guarantee covers it."
        )
    if sentence := labels_sentence(data.public_labels):
        items.append(sentence)
    return Exhibit("measured", "How it was measured", tuple(items), look="folded")


def _missing(data: ReportData) -> Exhibit | None:
    """What nobody can show of this run, and why a figure is not there although the run is a simulation."""
    figures = {
        **{name.replace("_", " "): of for name, of in data.baselines.items()},
        LABELS_ALONE: data.labels_alone,
        f"gain of each {data.party_label} on its own rows": data.secret_figures.get("at_home", {}),
    }
    items = (*data.missing, *(f"No {name}: {of[ABSENT]}." for name, of in figures.items() if ABSENT in of))
    return Exhibit("not-shown", "What this report cannot show", items=items) if items else None


def _left_out(data: ReportData) -> Exhibit:
    word, words, table = data.party_label, "", None
    if data.public:
        words = (
            f"Not shown, nor how many: that may follow from what the rows of a {word} are, and no guarantee covers it."
            f" {many(data.invited, word)} might have taken part."
        )
    elif not data.left_out:
        words = f"Nobody: every {word} took part in every stage."
    else:
        rows = (TableLine(item.party, (Cell(item.stage), Cell(item.reason))) for item in data.left_out)
        table = Table((word, "stage", "reason"), tuple(rows))
    return Exhibit("left-out", "Who was left out", (words,) if words else (), table, secret=not data.public)


def _gain(data: ReportData) -> Exhibit | None:
    """A point for each party: what the student has more than its own model, against its rows; to download, by name."""
    at_home = data.secret_figures.get("at_home") or {}
    points, word, words, chart = at_home.get("by_party") or [], data.party_label, [], None
    if not points and not data.quality:
        return None
    if points:
        step, of_all = -(-len(points) // MOST_POINTS), many(len(points), word)
        drawn = f" (one in {step} is drawn, by size)" if step > 1 else ""
        words.append(
            f"A point is a {word}: what the {STUDENT} has more than a model of its own rows alone, on its own rows:"
            f" {at_home['judged']:,} evenly spread by size over the {at_home['parties'] - at_home['too_small']:,} with"
            f" rows enough to hold a third out in turn; {at_home['too_small']:,} have too few. The {STUDENT} learnt"
            " from votes of teachers that saw these rows. It is at least as good for"
            f" {sum(gain >= 0 for _, gain in points):,} of {of_all}{drawn}."
        )
        titles = f"rows of the {word}", f"gain in {METRICS[at_home['metric']]}"
        chart = Chart(words[0], (("", cloud(sorted(points)[::step], titles, "no gain")),))
    words.append("By name, with rows, and how good its teachers are on public test cases:")
    listed = pl.DataFrame([asdict(item) for item in data.quality])
    title = f"What each {word} gains, by size"
    return Exhibit("gain", title, (" ".join(words),), chart=chart, secret=True, data=listed)
