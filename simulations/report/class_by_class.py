"""Where a student is right and wrong: the matrix of the test, recall of each class, how the parties vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from consilium.models.evaluation import BY_PREVALENCE
from consilium.report.charts import SHARES, Drawing, Key, Series, lines_chart
from consilium.report.exhibits import ALL_BUT_FIRST, Cell, Chart, Exhibit, PagePart, Table, TableLine, without_blanks
from consilium.report.words import plural, share_text, with_interval
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import STUDENT_LABEL, ModelRow, model_rows
from consilium.student.card import operating_words

SHADES = 5
"""Steps of the ground of a cell, from nothing to the whole of its row."""
FEW = 4
"""Classes whose names stand above the columns of a matrix; of more, numbers do."""
MOST = 30
"""Classes that a matrix is drawn of: of more, nobody could read its cells, and pairs of classes are listed."""
LISTED = 20
"""Pairs, and classes of a table, where there are more than `MOST`."""
_IN_RECALL = (STUDENT_LABEL, "by hand", "plurality", "pooled")
_AREA = "student, AUC against the rest"


def classes_part(data: ReportData) -> PagePart:
    """Where the student is right and wrong, what the released labels say, and how the parties vote; may be empty."""
    student, noun, word = data.open_figures.get("student", {}), data.release.noun, data.party_label
    of_label = "label" if noun == "label" else "class of the largest noisy count"
    as_label = "label" if noun == "label" else "class as the largest noisy count"
    confusion, labels = student.get("confusion") or [], data.open_figures.get("labels") or []
    votes = data.secret_figures.get("votes") or []
    flagged = _operating_point(data)
    of_classes = [
        recall_exhibit(data, model_rows(data)),
        _matrix_exhibit(
            data,
            "confusion",
            confusion,
            ("What the student calls what", "Test cases of each true class, by the class that the student calls them."),
            ("What the student takes for something else", "test cases", "the test cases is called the other class"),
        ),
    ]
    exhibits = [
        _roc(data),
        _calibration(data),
        *([flagged] if flagged else of_classes),
        _matrix_exhibit(
            data,
            "label-confusion",
            labels,
            (f"What the released {plural(noun)} say", f"Answered queries of each true class, by the {of_label}."),
            (
                f"Where the released {plural(noun)} are wrong most",
                "queries",
                f"the answered queries has the other {as_label}",
            ),
        ),
        _matrix_exhibit(
            data,
            "votes",
            votes,
            (
                f"How the {plural(word)} vote",
                "Mean share of the votes that each class gets, by the true class of the query; exact, without noise.",
            ),
            (f"What the {plural(word)} take for something else", "of the votes", "the votes goes to the other class"),
            secret=True,
        ),
        _probabilities(data),
    ]
    look = "columns broad" if len(data.classes) > FEW else "columns"
    return PagePart("classes", "Class by class", without_blanks(exhibits), look=look)


def _matrix_exhibit(
    data: ReportData,
    name: str,
    counts: Sequence[Sequence[float] | None],
    titles: tuple[str, str],
    of_many: tuple[str, str, str],
    secret: bool = False,
) -> Exhibit | None:
    """Shades by class; of more than `MOST` classes the pairs with the largest part of what is wrong.

    titles: title and words. of_many: title, heading of the column, and what a part of which means.
    """
    if len(data.classes) > MOST:
        title, heading, wrong = of_many
        lines = taken_for(counts, data.classes)
        words = f"Of {len(data.classes)} classes the pairs of which the largest part of {wrong}."
        table = Table(("true class", "taken for", heading), lines, frozenset((2,)), look="")
    else:
        (title, words), lines = titles, matrix(counts, data.classes)
        short = len(data.classes) > FEW
        columns = [str(index + 1) for index in range(len(data.classes))] if short else list(data.classes)
        headings = ("true class", *data.classes) if short else ()
        table = Table(("true class", *columns), lines, look=f"matrix{' many' if short else ''}", headings=headings)
    return Exhibit(name, title, (words,), table=table, secret=secret) if lines else None


def matrix(counts: Sequence[Sequence[float] | None], names: Sequence[str]) -> tuple[TableLine, ...]:
    """A line for each true class, of counts, or of shares where these are no whole numbers; shades say how much of it.

    A row without any is left out.
    """
    lines, short = [], len(names) > FEW
    for index, row in enumerate(counts):
        total = sum(row) if row is not None else 0
        if row is None or not total:
            continue
        cells = tuple(
            Cell(
                _written(value, short),
                look=f"shade{min(SHADES, round(SHADES * value / total))}{' diagonal' if column == index else ''}",
            )
            for column, value in enumerate(row)
        )
        lines.append(TableLine(f"{index + 1} {names[index]}" if short else names[index], cells))
    return tuple(lines)


def taken_for(counts: Sequence[Sequence[float] | None], names: Sequence[str]) -> tuple[TableLine, ...]:
    """The `LISTED` pairs of which most is called another class, as lines: class, the other, and how much.

    >>> names = [str(number) for number in range(31)]
    >>> lines = taken_for([[6, 2, *[0] * 29], None, [0.0, 0.25, 0.75, *[0.0] * 28]], names)
    >>> [(line.name, *(cell.text for cell in line.cells)) for line in lines]
    [('0', '1', '2 of 8'), ('2', '1', '25%')]
    """
    wrong = [
        (value / sum(row), true, called)
        for true, row in enumerate(counts)
        for called, value in enumerate(row or ())
        if value and called != true and row
    ]
    lines = []
    for share, true, called in sorted(wrong, key=lambda pair: (-pair[0], *pair[1:]))[:LISTED]:
        row = counts[true] or ()
        whole = isinstance(row[called], int)
        text = f"{row[called]:,} of {sum(row):,}" if whole else f"{share:.0%}"
        lines.append(TableLine(names[true], (Cell(names[called]), Cell(text))))
    return tuple(lines)


def _written(value: float, narrow: bool) -> str:
    """A count or a share; `narrow`: in four letters.

    >>> _written(1203, False), _written(1203, True), _written(41203, True), _written(0.516, True)
    ('1,203', '1203', '41k', '52%')
    """
    if not isinstance(value, int):
        return f"{value:.0%}"
    return f"{value:,}" if not narrow else f"{value}" if value < 10_000 else f"{value // 1000}k"


def recall_exhibit(data: ReportData, models: Sequence[ModelRow]) -> Exhibit | None:
    """What share of each class is called right, for the models that say most; None where nobody knows.

    Of more than `MOST` classes there are the `LISTED` that the first model finds least.
    """
    matches = [next((row for row in models if word in row.label and _has_recall(row)), None) for word in _IN_RECALL]
    shown = [row for row in matches if row is not None]
    if not shown:
        return None
    areas, names = _areas(data), _least_recalled(data.classes, shown[0])
    tested: dict[str, Any] = data.open_figures.get("test") or {}
    lines = tuple(
        TableLine(
            name,
            (
                Cell(f"{tested[name]:,}" if name in tested else "–"),
                *(Cell(row.recall(name)) for row in shown),
                *([Cell(areas.get(name, "–"))] if areas else []),
            ),
        )
        for name in names
    )
    words = ["Share of the test cases of a class that are called it (recall), with 95% intervals"]
    if len(data.classes) > 2:
        words[0] += ", and how well the student tells it from all others (AUC)"
    words[0] += "."
    if len(names) < len(data.classes):
        words.append(f"Of the {len(data.classes)} classes the {len(names)} that the student finds least.")
    columns = ("class", "test cases", *(row.label for row in shown), *([_AREA] if areas else []))
    return Exhibit(
        "recall",
        "Found of each class",
        (" ".join(words),),
        table=Table(columns, lines, ALL_BUT_FIRST, look="cards span"),
        secret=not data.public,
    )


def _least_recalled(classes: Sequence[str], row: ModelRow) -> Sequence[str]:
    """All classes, or of many those that the model of this row finds least, in their order."""
    if len(classes) <= MOST:
        return classes
    recall = row.metrics.get("recall_per_class") or {}
    tested = [name for name in classes if recall.get(name) is not None]
    least = set(sorted(tested, key=lambda name: recall[name])[:LISTED])
    return [name for name in classes if name in least]


def _has_recall(row: ModelRow) -> bool:
    return any(value is not None for value in (row.metrics.get("recall_per_class") or {}).values())


def _areas(data: ReportData) -> dict[str, str]:
    """AUC of each class against the rest with its interval, where there are more than two."""
    curves = data.open_figures.get("student", {}).get("roc") or []
    if len(data.classes) < 3:
        return {}
    return {curve["name"]: with_interval(curve["auc"], curve["interval"]) for curve in curves}


def _probabilities(data: ReportData) -> Exhibit | None:
    """How far the student's probabilities are risks; None where it was not judged so."""
    student = data.student or {}
    if student.get("calibration_error") is None:
        return None
    lines = [
        TableLine(name, (Cell(share_text(mean)), Cell(share_text(student["rate"][name]))))
        for name, mean in student["mean_predicted"].items()
        if len(data.classes) <= MOST
    ]
    for name, key in (("calibration error", "calibration_error"), ("Brier score", "brier")):
        lines.append(TableLine(name, (Cell(share_text(student[key]), span=2),)))
    words = "On public test cases. Calibration error: how far probabilities lie from rates, on average (0 is best)."
    table = Table(("class", "mean", "rate"), tuple(lines), ALL_BUT_FIRST, look="")
    return Exhibit("probabilities", "The student’s probabilities", (words,), table=table)


def _operating_point(data: ReportData) -> Exhibit | None:
    """What the published student flags, of two classes: the one threshold of the page. None where it has none."""
    point = (data.student or {}).get("operating_point")
    if not point:
        return None
    shares = [(name, point[name]) for name in ("recall", "specificity", "precision", "flagged")]
    means = {
        "recall": f"of the “{point['class']}”, those flagged",
        "specificity": "of the others, those not flagged",
        "precision": f"of the flagged, those “{point['class']}”",
        "flagged": "of all test cases",
    }
    lines = tuple(TableLine(name, (Cell(share_text(share)), Cell(means[name]))) for name, share in shares)
    words = f"{operating_words(point)} Test cases had no part in it; other thresholds are on the curve."
    table = Table(("on test cases", "share", "which is"), lines, frozenset({1}), look="")
    return Exhibit("operating-point", "The operating point", (words,), table=table)


def _roc(data: ReportData) -> Exhibit | None:
    curves = data.open_figures.get("student", {}).get("roc") or []
    if not curves:
        return None
    areas = "; ".join(f"{curve['name']} AUC {with_interval(curve['auc'], curve['interval'])}" for curve in curves)
    several = "One curve for each class against all the others. The table below has each class’s numbers. "
    words = (
        f"{several if len(curves) > 1 else ''}Every threshold is a point: how many of the class are found, and how many"
        " of the others are flagged by mistake. Nearer to the upper left is better; the dotted line is chance."
        + (f" {areas}." if len(curves) == 1 else "")
    )
    chart = Chart(f"ROC curves: {areas}.", (("", roc_chart(curves)),))
    return Exhibit("roc", "How well the student ranks cases", (words,), chart=chart)


def roc_chart(curves: Sequence[dict[str, Any]]) -> Drawing:
    """Recall against false alarms: the student's curves, the least of them dashed where there are several.

    curves: found, at false alarms in equal steps from 0 to 1, name and auc; at least one.
    """
    least = min(curves, key=lambda curve: curve["auc"])
    series = []
    for curve in sorted(curves, key=lambda curve: curve is least):
        steps = len(curve["found"]) - 1
        look = "orange" if len(curves) == 1 else "secret dashed" if curve is least else "blue"
        series.append(Series("", look, [index / steps for index in range(steps + 1)], curve["found"]))
    keys = [Key("blue", "each class against the rest"), Key("secret dashed", f"lowest: {least['name']}")]
    if len(curves) == 1:
        keys = [Key("orange", f"{least['name']}: AUC {least['auc']:.3f}")]
    titles = ("false alarms: share of others flagged", "found: share of the class flagged")
    return _square(series, titles, "by chance", keys)


def _calibration(data: ReportData) -> Exhibit | None:
    bins = data.open_figures.get("student", {}).get("calibration") or []
    if not bins:
        return None
    by = ((data.student or {}).get("operating_point") or {}).get("by")
    shares = "" if by == BY_PREVALENCE else " Without a declared prevalence they are shares of votes, not risks."
    whose = f"of “{data.classes[1]}”" if len(data.classes) == 2 else "of the class that it calls"
    return Exhibit(
        "calibration",
        "Can its probabilities be read as risks?",
        (
            f"Test cases in {len(bins)} groups of about {bins[0]['rows']:,}, by the probability {whose}. On the dotted"
            f" line it is so as often as the student says. Bars are 95% intervals (Wilson).{shares}",
        ),
        chart=Chart(
            "Points: " + "; ".join(f"{point['mean']:.2f} said, {point['rate']:.2f} so" for point in bins) + ".",
            (("", calibration_chart(bins)),),
        ),
    )


def calibration_chart(bins: Sequence[dict[str, Any]]) -> Drawing:
    """Rates against probabilities, with an interval for each bin: mean, rate, interval; at least one bin."""
    rates = [point["rate"] for point in bins]
    ends = [(point["interval"][0], point["interval"][1]) for point in bins]
    series = [Series("", "orange", [point["mean"] for point in bins], rates, ends, line=False)]
    return _square(series, ("probability that the student gives", "how often it is so"), "as it should be")


def _square(
    series: Sequence[Series], titles: tuple[str, str], diagonal: str, keys: Sequence[Key] | None = None
) -> Drawing:
    """Shares against shares."""
    x, y = (replace(SHARES, title=title) for title in titles)
    return lines_chart(series, titles, x, y, diagonal=diagonal, height=240, keys=keys)
