"""The fifth chapter: where the student is right and wrong, class by class, and how the parties vote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from consilium.models.evaluation import BY_PREVALENCE
from consilium.report.charts import Line, lines
from consilium.report.exhibits import ALL_BUT_FIRST, Cell, Chart, Exhibit, PagePart, Table, TableLine, without_blanks
from consilium.report.words import BY_HAND, PLURALITY, POOLED, STUDENT, plural, share_text, with_interval
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import Metrics, models_of
from consilium.student.card import operating_words

SHADES = 5
"""Steps of the ground of a cell, from nothing to the whole of its row."""
FEW = 4
"""Classes whose names stand above the columns of a matrix, and whose ROC curves are drawn; of more, numbers do, and the
lowest curves."""
MOST = 30
"""Classes that a matrix is drawn of: of more, nobody could read its cells, and pairs of classes are listed."""
LISTED = 20
"""Pairs, and classes of a table, where there are more than `MOST`."""
_SHARES = (0.0, 1.0)


def classes_part(data: ReportData) -> PagePart:
    """May be empty."""
    figures, noun, word = data.open_figures.get("student", {}), data.release.noun, data.party_label
    flagged = _operating_point(data)
    exhibits = [
        _roc(data),
        _calibration(data),
        # of two classes one threshold is published: a recall or a matrix would be of another
        flagged or recall_exhibit(data),
        None
        if flagged
        else _matrix(
            data, "confusion", f"What the {STUDENT} calls what", figures.get("confusion"), "Test cases, by true class."
        ),
        _matrix(
            data,
            "label-confusion",
            f"What the released {plural(noun)} say",
            data.open_figures.get("labels"),
            f"Answered queries, by true class{'' if noun == 'label' else ' and class of the largest noisy count'}.",
        ),
        _matrix(
            data,
            "votes",
            f"How the {plural(word)} vote",
            data.secret_figures.get("votes"),
            "Mean share of the votes that each class gets, by the true class of the query; exact, without noise.",
            secret=True,
        ),
        _probabilities(data),
    ]
    return PagePart("classes", "Classes", without_blanks(exhibits), look="columns broad")


def _matrix(
    data: ReportData,
    name: str,
    title: str,
    counts: Sequence[Sequence[float] | None] | None,
    words: str,
    secret: bool = False,
) -> Exhibit | None:
    """Shades by class; of more than `MOST` classes the pairs that are taken for each other most."""
    if len(data.classes) > MOST:
        rows = taken_for(counts or [], data.classes)
        words += f" Of {len(data.classes)} classes, the {len(rows)} pairs with the largest part of the true class."
        table = Table(("true class", "taken for", "how much of it"), rows, frozenset((2,)), look="")
    else:
        rows, short = matrix(counts or [], data.classes), len(data.classes) > FEW
        columns = [str(index + 1) for index in range(len(data.classes))] if short else data.classes
        headings = ("true class", *data.classes) if short else ()
        table = Table(("true class", *columns), rows, look=f"matrix{' many' * short}", headings=headings)
    return Exhibit(name, title, (words,), table=table, secret=secret) if rows else None


def matrix(counts: Sequence[Sequence[float] | None], names: Sequence[str]) -> tuple[TableLine, ...]:
    """A line for each true class, of counts, or of shares where these are no whole numbers; shades say how much of it.

    A row without any is left out.
    """
    short = len(names) > FEW
    return tuple(
        TableLine(
            f"{index + 1} {names[index]}" if short else names[index],
            tuple(
                Cell(
                    _written(value, short),
                    look=f"shade{min(SHADES, round(SHADES * value / sum(row)))}{' diagonal' * (column == index)}",
                )
                for column, value in enumerate(row)
            ),
        )
        for index, row in enumerate(counts)
        if row is not None and sum(row)
    )


def taken_for(counts: Sequence[Sequence[float] | None], names: Sequence[str]) -> tuple[TableLine, ...]:
    """The `LISTED` pairs of which most is called another class, as lines: class, the other, and how much.

    >>> names = [str(number) for number in range(31)]
    >>> lines = taken_for([[6, 2, *[0] * 29], None, [0.0, 0.25, 0.75, *[0.0] * 28]], names)
    >>> [(line.name, *(cell.text for cell in line.cells)) for line in lines]
    [('0', '1', '2 of 8'), ('2', '1', '25%')]
    """
    wrong = [
        (-value / sum(row), true, called)
        for true, row in enumerate(counts)
        for called, value in enumerate(row or ())
        if value and called != true and row
    ]
    rows = []
    for share, true, called in sorted(wrong)[:LISTED]:
        row = counts[true] or ()
        text = f"{row[called]:,} of {sum(row):,}" if isinstance(row[called], int) else f"{-share:.0%}"
        rows.append(TableLine(names[true], (Cell(names[called]), Cell(text))))
    return tuple(rows)


def _written(value: float, narrow: bool) -> str:
    """A count or a share; `narrow`: in four letters.

    >>> _written(1203, False), _written(1203, True), _written(41203, True), _written(0.516, True)
    ('1,203', '1203', '41k', '52%')
    """
    if not isinstance(value, int):
        return f"{value:.0%}"
    return f"{value:,}" if not narrow else f"{value}" if value < 10_000 else f"{value // 1000}k"


def recall_exhibit(data: ReportData) -> Exhibit | None:
    """What share of each class is called right, for the models that say most; None where nobody knows.

    Of more than `MOST` classes there are the `LISTED` that the first model finds least.
    """
    models = models_of(data)
    named = [next((name for name in models if word in name), "") for word in (STUDENT, BY_HAND, PLURALITY, POOLED)]
    shown = {name: models[name] for name in named if name and any(_recall(models[name], each) for each in data.classes)}
    if not shown:
        return None
    first, words = (
        next(iter(shown.values())),
        "Share of the test cases of a class that are called it (recall), with 95% intervals.",
    )
    names: Sequence[str] = data.classes
    if len(names) > MOST:
        found = {name: _recall(first, name) for name in names}
        least = set(
            sorted((name for name in names if found[name] is not None), key=lambda name: found[name] or 0)[:LISTED]
        )
        names = [name for name in names if name in least]
        words += f" Of the {len(data.classes)} classes the {len(names)} that the {STUDENT} finds least."
    curves = data.open_figures.get("student", {}).get("roc") or []
    areas = {curve["name"]: with_interval(curve["auc"], curve["interval"]) for curve in curves if len(data.classes) > 2}
    tested = data.open_figures.get("test") or {}
    rows = tuple(
        TableLine(
            name,
            (
                Cell(f"{tested[name]:,}" if name in tested else "–"),
                *(Cell(with_interval(_recall(of, name), _ends(of, name))) for of in shown.values()),
                *([Cell(areas.get(name, "–"))] if areas else []),
            ),
        )
        for name in names
    )
    columns = ("class", "test cases", *shown, *([f"{STUDENT}, AUC against the rest"] if areas else []))
    table = Table(columns, rows, ALL_BUT_FIRST, look="cards span")
    return Exhibit("recall", "Found of each class", (words,), table=table, secret=not data.public)


def _recall(metrics: Metrics, name: str) -> float | None:
    return (metrics.get("recall_per_class") or {}).get(name)


def _ends(metrics: Metrics, name: str) -> Sequence[float] | None:
    return ((metrics.get("intervals") or {}).get("recall_per_class") or {}).get(name)


def _probabilities(data: ReportData) -> Exhibit | None:
    """How far the student's probabilities are risks; None where it was not judged so."""
    student = data.student or {}
    if student.get("calibration_error") is None:
        return None
    means = student["mean_predicted"] if len(data.classes) <= MOST else {}
    rows = [
        TableLine(name, (Cell(share_text(mean)), Cell(share_text(student["rate"][name]))))
        for name, mean in means.items()
    ]
    for name, key in (("calibration error", "calibration_error"), ("Brier score", "brier")):
        rows.append(TableLine(name, (Cell(share_text(student[key]), span=2),)))
    words = "On public test cases. Calibration error: how far probabilities lie from rates, on average (0 is best)."
    table = Table(("class", "mean", "rate"), tuple(rows), ALL_BUT_FIRST, look="")
    return Exhibit("probabilities", f"The {STUDENT}’s probabilities", (words,), table=table)


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
    rows = tuple(TableLine(name, (Cell(share_text(point[name])), Cell(text))) for name, text in means.items())
    words = f"{operating_words(point)} Test cases had no part in it; other thresholds are on the curve."
    table = Table(("on test cases", "share", "which is"), rows, frozenset({1}), look="")
    return Exhibit("operating-point", "The operating point", (words,), table=table)


def _roc(data: ReportData) -> Exhibit | None:
    curves: list[Mapping[str, Any]] = data.open_figures.get("student", {}).get("roc") or []
    if not curves:
        return None
    drawn = sorted(curves, key=lambda curve: curve["auc"])[:FEW]
    words = (
        "Every threshold is a point: how many of the class are found, and how many of the others are flagged by"
        " mistake. Nearer to the upper left is better."
    )
    if len(curves) > 1:
        words += " Each class against all the others; the table has each class’s numbers."
    if len(drawn) < len(curves):
        words += f" Of {len(curves)} classes the {len(drawn)} with the lowest AUC are drawn."
    series = [
        Line(
            f"{each['name']}: AUC {share_text(each['auc'])}",
            np.linspace(0, 1, len(each["found"])).tolist(),
            each["found"],
        )
        for each in drawn
    ]
    titles = ("false alarms: share of others flagged", "found: share of the class flagged")
    drawing = lines(series, titles, _SHARES, _SHARES, diagonal="by chance", log=False)
    chart = Chart("; ".join(f"{curve['name']}: AUC {share_text(curve['auc'])}" for curve in drawn), (("", drawing),))
    return Exhibit("roc", f"How well the {STUDENT} ranks cases", (words,), chart=chart)


def _calibration(data: ReportData) -> Exhibit | None:
    bins = data.open_figures.get("student", {}).get("calibration") or []
    if not bins:
        return None
    by = ((data.student or {}).get("operating_point") or {}).get("by")
    shares = "" if by == BY_PREVALENCE else " Without a declared prevalence they are shares of votes, not risks."
    whose = f"of “{data.classes[1]}”" if len(data.classes) == 2 else "of the class that it calls"
    words = (
        f"Test cases in {len(bins)} groups of about {bins[0]['rows']:,}, by the probability {whose}. On the dotted line"
        f" it is so as often as the {STUDENT} says. Bars are 95% intervals (Wilson).{shares}"
    )
    ends = [(point["interval"][0], point["interval"][1]) for point in bins]
    points = Line("", [point["mean"] for point in bins], [point["rate"] for point in bins], ends, joined=False)
    titles = (f"probability that the {STUDENT} gives", "how often it is so")
    drawing = lines([points], titles, _SHARES, _SHARES, diagonal="as it should be", log=False)
    said = "; ".join(f"{point['mean']:.2f} said, {point['rate']:.2f} so" for point in bins)
    return Exhibit(
        "calibration", "Can its probabilities be read as risks?", (words,), chart=Chart(said, (("", drawing),))
    )
