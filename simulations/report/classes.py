"""The fifth chapter: where the student is right and wrong, class by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from consilium.models.evaluation import BY_PREVALENCE
from consilium.report.charts import Line, lines
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
from consilium.report.words import STUDENT, plural, value_text, with_interval
from consilium.simulations.report.data import ReportData
from consilium.student.card import operating_words

FEW, LISTED = 4, 20
"""ROC curves that are drawn, and pairs of classes that are listed: the worst."""
Counts = Sequence[Sequence[float] | None]
"""Of each true class (None: it has no cases), how many are called each class: counts, or shares."""


def classes_part(data: ReportData) -> PagePart:
    """May be empty."""
    figures, noun = data.open_figures, data.release.noun
    by = " and class of the largest noisy count" * (noun != "label")
    told = f"Answered queries, by true class{by}."
    confusion = figures.get("student", {}).get("confusion")
    flagged = _operating_point(data)  # of two classes one threshold is published: other tables would be of another
    exhibits = [
        _roc(data),
        _calibration(data),
        flagged or recall_exhibit(data),
        _called(data, "confusion", f"What the {STUDENT} calls what", () if flagged else confusion, "Test cases."),
        _called(data, "label-confusion", f"What the released {plural(noun)} say", figures.get("labels"), told),
    ]
    return PagePart("classes", "Classes", without_blanks(exhibits))


def _called(data: ReportData, name: str, title: str, counts: Counts | None, words: str) -> Exhibit | None:
    rows = taken_for(counts or (), data.classes)
    if len(rows) == LISTED:
        words += f" Of {len(data.classes)} classes the {LISTED} pairs with the largest part of a class called another."
    table = Table(("true class", "called", "how much of it"), rows, frozenset((2,)), look="")
    return Exhibit(name, title, (words,), table=table) if rows else None


def taken_for(counts: Counts, names: Sequence[str]) -> tuple[TableLine, ...]:
    """The `LISTED` pairs of which most is called another class, as lines: class, the other, and how much.

    >>> lines = taken_for([[6, 2, 0], None, [0.0, 0.25, 0.75]], ["a", "b", "c"])
    >>> [(line.name, *(cell.text for cell in line.cells)) for line in lines]
    [('a', 'b', '2 of 8 (25%)'), ('c', 'b', '25%')]
    """
    wrong: list[tuple[float, int, int, str]] = []
    for true, row in enumerate(counts):
        for called, value in enumerate(row or ()):
            if row and value and called != true:
                share = value / sum(row)
                text = f"{value:,} of {sum(row):,} ({share:.0%})" if isinstance(value, int) else f"{share:.0%}"
                wrong.append((-share, true, called, text))
    return tuple(
        TableLine(names[true], (Cell(names[called]), Cell(text))) for _, true, called, text in sorted(wrong)[:LISTED]
    )


def recall_exhibit(data: ReportData) -> Exhibit | None:
    """What share of each class the student finds, the worst first."""
    recall: Mapping[str, float | None] = (data.student or {}).get("recall_per_class") or {}
    found = sorted((value, name) for name in data.classes if (value := recall.get(name)) is not None)
    ends = (data.open_figures.get("intervals") or {}).get("recall_per_class") or {}
    curves = data.open_figures.get("student", {}).get("roc") or []
    areas = {curve["name"]: with_interval(curve["auc"], curve["interval"]) for curve in curves if len(curves) > 1}
    counts: Mapping[str, int] = data.open_figures.get("test") or {}
    rows = []
    for value, name in found:
        cells = [str(counts.get(name, "–")), with_interval(value, ends.get(name)), areas.get(name, "–")]
        rows.append(TableLine(name, tuple(map(Cell, cells if areas else cells[:2]))))
    columns = ("class", "test cases", "found", "AUC against the rest")[: 4 if areas else 3]
    words = "Share of the test cases of a class that are called it (recall), with 95% intervals."
    table = Table(columns, tuple(rows), ALL_BUT_FIRST)
    return Exhibit("recall", "Found of each class", (words,), table=table) if rows else None


def _operating_point(data: ReportData) -> Exhibit | None:
    """What the published student flags, of two classes: the one threshold of the page. None where it has none."""
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
    words = f"{operating_words(point)} Test cases had no part in it; other thresholds are on the curve."
    return Exhibit("operating-point", "The operating point", (words,), table=table)


def _roc(data: ReportData) -> Exhibit | None:
    curves: list[dict[str, Any]] = data.open_figures.get("student", {}).get("roc") or []
    if not curves:
        return None
    drawn = sorted(curves, key=lambda curve: curve["auc"])[:FEW]
    words = (
        "Every threshold is a point: how many of the class are found, and how many of the others are flagged by"
        " mistake. Nearer to the upper left is better."
    )
    if len(curves) > 1:
        words += f" Of {len(curves)} classes, each against all others, the {len(drawn)} with the lowest AUC are drawn."
    names = [f"{curve['name']}: AUC {value_text(curve['auc'])}" for curve in drawn]
    steps = [np.linspace(0, 1, len(curve["found"])).tolist() for curve in drawn]
    series = [Line(name, x, curve["found"]) for name, x, curve in zip(names, steps, drawn, strict=True)]
    titles = ("false alarms: share of others flagged", "found: share of the class flagged")
    drawing = lines(series, titles, diagonal="by chance")
    chart = Chart(f"ROC curves: {'; '.join(names)}", (("", drawing),))
    return Exhibit("roc", f"How well the {STUDENT} ranks", (words,), chart=chart)


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
