"""The second chapter: the student beside what it could have been. The fourth: who was left out and why, and what each
party gains; of published data only that nothing is told of them. The fifth: the student class by class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import polars as pl

from consilium.models.evaluation import BY_PREVALENCE
from consilium.report.charts import Dot, Line, cloud, dots, lines
from consilium.report.exhibits import (
    ALL_BUT_FIRST,
    Cell,
    Chart,
    Exhibit,
    PagePart,
    Table,
    TableLine,
    pairs,
    without_blanks,
)
from consilium.report.words import (
    ALONE,
    LABELS_ALONE,
    METRICS,
    STUDENT,
    many,
    plural,
    signed_text,
    upper_first,
    value_text,
    with_interval,
)
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import ABOVE, ABSENT, RIVALS, STUDENT_ABOVE, leading, metric_text, models_of
from consilium.student.card import labels_sentence, operating_words

MOST_POINTS = 2_000  # parties of a chart: a page with more opens slowly


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
    told = "; ".join(f"{row.label} {row.text}" for row in rows)
    return Chart(f"{said}: {told}", (("", dots(rows, title, zero=zero)),))


def _differences(data: ReportData) -> Exhibit | None:
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
            told = f"{signed_text(more)} ({signed_text(low)} to {signed_text(high)})"
            rows.append(Dot(name, more, (low, high), told))
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
        rows = (TableLine(party, (Cell(stage), Cell(reason))) for party, stage, reason in data.left_out)
        table = Table((word, "stage", "reason"), tuple(rows))
    return Exhibit("left-out", "Who was left out", (words,) if words else (), table, secret=not data.public)


def _gain(data: ReportData) -> Exhibit | None:
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


def classes_part(data: ReportData) -> PagePart:
    """May be empty. Of two classes one threshold is published: recall would be of another."""
    exhibits = [_calibration(data), _operating_point(data) or recall_exhibit(data)]
    return PagePart("classes", "Classes", without_blanks(exhibits))


def recall_exhibit(data: ReportData) -> Exhibit | None:
    """What share of each class the student finds, the worst first."""
    recall: Mapping[str, float | None] = (data.student or {}).get("recall_per_class") or {}
    found = sorted((value, name) for name in data.classes if (value := recall.get(name)) is not None)
    ends = (data.open_figures.get("intervals") or {}).get("recall_per_class") or {}
    counts: Mapping[str, int] = data.open_figures.get("test") or {}
    rows = tuple(
        TableLine(name, (Cell(str(counts.get(name, "–"))), Cell(with_interval(value, ends.get(name)))))
        for value, name in found
    )
    words = "Share of the test cases of a class that are called it (recall), with 95% intervals."
    table = Table(("class", "test cases", "found"), rows, ALL_BUT_FIRST)
    return Exhibit("recall", "Found of each class", (words,), table=table) if rows else None


def _operating_point(data: ReportData) -> Exhibit | None:
    point = (data.student or {}).get("operating_point")
    if not point:
        return None
    means = {
        "recall": f"of the “{point['class']}”, those flagged",
        "specificity": "of the others, those not flagged",
        "precision": f"of the flagged, those “{point['class']}”",
        "flagged": "of all test cases",
    }
    rows = [(f"{name}, {text}", value_text(point[name])) for name, text in means.items()]
    table = replace(pairs(rows), numbers=frozenset({1}))  # which a telephone does not break
    words = f"{operating_words(point)} Test cases had no part in it."
    return Exhibit("operating-point", "The operating point", (words,), table=table)


def _calibration(data: ReportData) -> Exhibit | None:
    bins: list[dict[str, Any]] = data.open_figures.get("student", {}).get("calibration") or []
    student = data.student or {}
    if not bins:
        return None
    whose = f"of “{data.classes[1]}”" if len(data.classes) == 2 else "of the class that it calls"
    words = (
        f"Test cases in {len(bins)} groups of about {bins[0]['rows']:,}, by the probability {whose}. On the dotted line"
        f" it is so as often as the {STUDENT} says. Bars are 95% intervals (Wilson). Calibration error, the mean"
        f" distance from rates: {value_text(student.get('calibration_error'))}; Brier score:"
        f" {value_text(student.get('brier'))}."
    )
    if (student.get("operating_point") or {}).get("by") != BY_PREVALENCE:
        words += " Without a declared prevalence they are shares of votes, not risks."
    ends = [(point["interval"][0], point["interval"][1]) for point in bins]
    points = Line("", [point["mean"] for point in bins], [point["rate"] for point in bins], ends)
    titles = (f"probability that the {STUDENT} gives", "how often it is so")
    drawing = lines([points], titles, diagonal="as it should be")
    chart = Chart("; ".join(f"{point['mean']:.2f} said, {point['rate']:.2f} so" for point in bins), (("", drawing),))
    return Exhibit("calibration", "Can its probabilities be read as risks?", (words,), chart=chart)
