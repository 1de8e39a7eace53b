"""What came of a run: key figures, models beside each other, class by class, and what each party gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from markupsafe import Markup

from consilium.models.evaluation import BY_PREVALENCE
from consilium.protocol.releases import ReleaseKind
from consilium.report.charts import (
    SHARES,
    Axis,
    Drawing,
    Key,
    RuleAcross,
    Series,
    ValueRow,
    axis_over,
    bars_chart,
    cloud_chart,
    histogram,
    lines_chart,
    log_ticks,
    rows_axis,
    rows_chart,
)
from consilium.report.exhibits import Cell, Chart, Exhibit, PagePart, Table, TableLine, without_blanks
from consilium.report.glossary import term
from consilium.report.words import many, plural, range_text, share_text, signed_text, with_interval
from consilium.simulations.metrics import wilson
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import (
    ABSENT,
    METRICS,
    RIVALS,
    STUDENT_LABEL,
    ModelRow,
    against_rivals,
    alone,
    lead,
    model_rows,
    worth_explained,
    worth_sentence,
)
from consilium.simulations.report.subgroups import subgroups_exhibit
from consilium.student.card import labels_sentence, operating_words, spread_sentence

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
_NUMBERS = frozenset(range(1, 99))


def tiles(data: ReportData) -> Exhibit:
    """The key figures of the first screen."""
    queries, answers = len(data.answered), int(np.count_nonzero(data.answered))
    teachers = many(data.teachers, "teacher")
    lines = (
        _tile(plural(data.party_label), f"{data.parties:,}", f"invited, with {teachers}" if data.public else teachers),
        _tile(
            f"{plural(data.release.noun)} released",
            f"{answers:,}",
            f"of {queries:,} asked; at most {data.most_answers:,} of {data.most_queries:,} allowed",
        ),
        _student_tile(data),
        _labels_tile(data, answers),
    )
    return Exhibit("tiles", table=Table((), lines), look="tiles")


def _tile(label: str, value: str, note: str, look: str = "") -> TableLine:
    return TableLine(label, (Cell(value, note),), look)


def _student_tile(data: ReportData) -> TableLine:
    student, intervals = data.student or {}, data.open_figures.get("intervals") or {}
    first = lead(data, student)
    shown = first if student.get(first) is not None else "accuracy"
    notes = []
    if intervals.get(shown):
        low, high = intervals[shown]
        tested = sum((data.open_figures.get("test") or {}).values())
        notes.append(f"{share_text(low)} to {share_text(high)} (95%) on {many(tested, 'case')}")
    if (spread := data.noise_spread.get("metrics", {}).get(shown)) is not None:
        low, high = spread["interval"]
        notes.append(f"{share_text(low)} to {share_text(high)} (95%) over the noise")
    if data.student is None:
        notes.append("not evaluated")
    elif student.get("auc") is None:
        notes.append("no AUC: one class only among the test cases")
    elif shown != "auc":  # an accuracy beside the AUC would be of another operating point
        notes.append(f"AUC {with_interval(student['auc'], intervals.get('auc'))}")
    label = "student AUC" if shown == "auc" or data.student is None else "student accuracy"
    return _tile(label, share_text(student.get(shown)), "; ".join(notes) or "on public test cases", "accent")


def _labels_tile(data: ReportData, answers: int) -> TableLine:
    right = data.released_label_accuracy
    label = "largest noisy counts right" if data.release is ReleaseKind.COUNTS else "released labels right"
    if right is None or not answers:
        return _tile(label, "–", "nobody knows the truth" if answers else f"no {data.release.noun} to compare")
    low, high = wilson(right * answers, answers)
    return _tile(label, f"{right:.1%}", f"{low:.1%} to {high:.1%} (95%), against the public truth")


def worth_exhibits(data: ReportData) -> tuple[Exhibit, ...]:
    """What the student is worth, in words for everybody: to those whose patients taught it, then to others."""
    texts = {
        "gain": gain_at_home(data),
        "against-alone": against_alone(data),
        "against-rivals": against_rivals(data),
        "worth": worth_sentence(data.worth, "", data.release.noun) if data.worth else "",
        "labels-explained": labels_explained(data),
    }
    names = [name for name, text in texts.items() if text]
    return tuple(
        Exhibit(
            name,
            "What the student is worth" if name == names[0] else "",
            (texts[name],),
            secret=name not in ("worth", "labels-explained"),
        )
        for name in names
    )


def results_part(data: ReportData) -> PagePart:
    """What came out: models, what became of the queries, what more labels or another epsilon give."""
    models = model_rows(data)
    absent = {name: item[ABSENT] for name, item in data.baselines.items() if ABSENT in item}
    notes = [f"No {name.replace('_', ' ')}: {why}." for name, why in absent.items()]
    notes += [text for text in (labels_sentence(data.public_labels), spread_sentence(data.noise_spread)) if text]
    notes += [worth_explained(data.worth)] if data.worth else []
    exhibits = [
        _models_chart(data, models),
        _by_labels(data),
        _by_epsilon(data),
        _outcome(data),
        _consensus(data),
        Exhibit("nothing-asked", words=("No query was asked: there is no privacy curve and no consensus to show.",))
        if not len(data.answered)
        else None,
        _models_table(data, models) if models else Exhibit("no-models", words=("There are no results of a student.",)),
        Exhibit("notes", words=tuple(notes), look="small") if notes else None,
    ]
    measured = measured_on(data)
    return PagePart(
        "results", "What came out", without_blanks(exhibits), words=(measured,) if measured else (), look="figures"
    )


def _models_table(data: ReportData, models: Sequence[ModelRow]) -> Exhibit:
    lines = [
        TableLine(
            row.label, tuple(Cell(row.text(metric)) for metric in METRICS), "student" * (row.label == STUDENT_LABEL)
        )
        for row in models
    ]
    if spread := alone(data.baselines):
        name = f"one {data.party_label} alone, 10th to 90th percentile"
        lines.append(TableLine(name, tuple(Cell(spread[metric]) for metric in METRICS)))
    average = "" if data.public else " and of private rivals"
    caption = (
        "In parentheses 95% intervals over test cases: Wilson’s for shares, DeLong’s for AUC (on the logit scale). Of"
        f" labels by hand{average}, which are means over draws, the spread of the draws is in them. For labels by hand"
        " that is the spread of a single draw, which is what a person would have. Accuracy takes the likelier class of"
        " every model alike."
    )
    table = Table(("", *METRICS.values()), tuple(lines), _NUMBERS, caption=caption if data.open_figures else "")
    return Exhibit("models", "On public test cases, with 95% intervals", table=table, secret=not data.public)


def _models_chart(data: ReportData, models: Sequence[ModelRow]) -> Exhibit | None:
    metric = lead(data, data.student or {})
    name = METRICS[metric]
    rows = [
        ValueRow(row.label, value, row.interval(metric), row.text(metric), marked=row.label == STUDENT_LABEL)
        for row in models
        if (value := row.value(metric)) is not None
    ]
    if len(rows) < 2:
        return None
    drawing = rows_chart(f"{name} on public test cases", rows, rows_axis(rows, shares=True))
    texts = "; ".join(f"{row.label}: {name} {share_text(row.value)}" for row in rows)
    words = ["Further right is better."]
    words.append(
        f"Only the student (diamond) learnt from released {data.release.noun}s alone."
        if data.student is not None
        else "There is no student."
    )
    words += ["By hand: trained on true labels of public cases."] if data.worth is not None else []
    parties = plural(data.party_label)
    if not data.public:
        words.append(
            f"Mean teacher: what one of the {parties} has by itself. Plurality: all {parties} vote without noise."
            " Pooled: one model on all rows together."
        )
    labels = {row.label for row in models}
    if RIVALS["noisy_average"] in labels:
        words.append(
            f"Noisy average: the directions of the {parties}’ weights, averaged once with noise at the same guarantee;"
            " what is done to it afterwards is what does best on the pool’s true labels."
        )
    if RIVALS["private_gradient"] in labels:
        words.append(
            f"Private gradient descent: one linear model on the rows of all {parties}, by clipped gradients with noise"
            " at the same guarantee."
        )
    words.append(
        "Accuracy: share of the cases that are called right."
        if metric == "accuracy"
        else "AUC: of two cases of different classes, how often the right one is ranked higher; 0.5 is chance."
    )
    words.append("Bars are 95% intervals over test cases. The axis does not start at zero.")
    return Exhibit(
        "models-chart",
        "The student against what it could have been",
        (" ".join(words),),
        chart=Chart(f"Dots: {texts}.", (("", drawing),)),
        secret=not data.public,
        look="wide",
    )


def _outcome(data: ReportData) -> Exhibit:
    queries, answers = len(data.answered), int(np.count_nonzero(data.answered))
    abstained, never = queries - answers - data.reinforced, max(data.most_queries - queries, 0)
    does = (
        f"releases a {data.release.noun} for each of at most {many(data.most_queries, 'query')}."
        if not data.release.abstains
        else f"releases a label or abstains. The run ends when {many(data.most_queries, 'query')} are asked or"
        f" {many(data.most_answers, 'label')} are released."
    )
    return Exhibit(
        "outcome",
        "Answered or abstained",
        (Markup("The {} ({}) {}").format(term("mechanism"), data.mechanism, does),),
        chart=Chart(
            f"Bars: {answers} answered, {data.reinforced} predictions of the student confirmed, {abstained} abstained,"
            f" {never} never asked.",
            (("", outcome_chart(answers, abstained, never, data.reinforced)),),
        ),
    )


def outcome_chart(answered: int, abstained: int, not_asked: int, confirmed: int = 0) -> Drawing:
    """How many queries were answered, abstained from, or never asked although the budget allowed them.

    confirmed: the student's own predictions that interactive rounds reinforced; shown where there are any.
    """
    counts = {"answered": answered, **({"confirmed": confirmed} if confirmed else {}), "abstained": abstained}
    counts["never asked"] = not_asked
    total = max(sum(counts.values()), 1)
    fills = {"answered": "fill blue", "confirmed": "fill sky", "abstained": "fill grey", "never asked": "hollow"}
    return bars_chart({name: (count, f"{count:,} ({count / total:.0%})") for name, count in counts.items()}, fills)


def _consensus(data: ReportData) -> Exhibit | None:
    if not len(data.consensus):
        return None
    middle = f"{np.median(data.consensus):.0%}"
    titles = ("share of the votes for the top class", "queries")
    drawing = histogram(data.consensus, data.answered, titles, ("answered", "abstained"))
    return Exhibit(
        "consensus",
        f"How far the {plural(data.party_label)} agreed",
        (
            "Each query stands at the share of the votes that its most voted class got. On the left the votes are"
            f" split, on the right they are unanimous. Half of the queries lie at {middle} or above. A mechanism that"
            " answers where there is agreement abstains on the left. Large noise makes it abstain anywhere.",
        ),
        chart=Chart(
            f"Histogram of consensus over {len(data.consensus)} queries, median {middle}, answered and abstained.",
            (("", drawing),),
        ),
        secret=True,
    )


def _by_labels(data: ReportData) -> Exhibit | None:
    curve = data.open_figures.get("by_labels", {})
    points = curve.get("points") or []
    if len(points) < 2:
        return None
    name, last = METRICS[curve["metric"]], points[-1]
    gain, noun = last["value"] - points[-2]["value"], data.release.noun
    values = "; ".join(f"{share_text(point['value'])} at {point['labels']:,}" for point in points)
    drawing = learning_chart(points, "labels", (f"{noun}s (logarithmic)", f"{name} of the student"))
    return Exhibit(
        "by-labels",
        f"What more {noun}s give",
        (
            f"The same student, trained on the first so many of its {noun}s. From {points[-2]['labels']:,} to"
            f" {last['labels']:,} the {name} changes by {signed_text(gain)}. Where the curve is flat, more of the same"
            " would cost privacy and bring little. Bars are 95% intervals over test cases.",
        ),
        chart=Chart(f"Line: {name} {values}.", (("", drawing),)),
    )


def _by_epsilon(data: ReportData) -> Exhibit | None:
    curve = data.secret_figures.get("by_epsilon", {})
    points = [point for point in curve.get("points") or [] if math.isfinite(point["epsilon"])]
    if len(points) < 2:
        return None
    name, draws = METRICS[curve["metric"]], points[-1]["draws"]
    values = "; ".join(f"{share_text(point['value'])} at epsilon {point['epsilon']:.2g}" for point in points)
    drawing = learning_chart(points, "epsilon", ("epsilon guaranteed (logarithmic)", f"{name} of the student"))
    return Exhibit(
        "by-epsilon",
        "What a larger or smaller epsilon would give",
        (
            f"The same votes with other noise, and a student each time ({many(draws, 'draw')} of noise; their mean)."
            " The point in the middle is this run’s own guarantee; delta stays. Only a simulation can draw again."
            " Nothing of this is released, and choosing an epsilon by it would not be covered. Bars are 95% intervals"
            " over test cases and draws.",
        ),
        chart=Chart(f"Line: {name} {values}.", (("", drawing),)),
        secret=True,
    )


def learning_chart(points: Sequence[dict[str, Any]], over: str, titles: tuple[str, str]) -> Drawing:
    """A metric with its interval against "labels" or "epsilon", on a logarithmic axis; `titles` of both axes.

    points: `over`, value and interval of each, at least one.
    """
    places = [float(point[over]) for point in points]
    ends = [(point["interval"][0], point["interval"][1]) for point in points]
    values = [float(point["value"]) for point in points]
    low, high = min(places) / 1.25, max(places) * 1.25
    write = "{:,.0f}".format if over == "labels" else "{:.2g}".format
    ticks = tuple((place, write(place)) for place in places) if len(places) <= 5 else log_ticks(low, high, 5, write)
    y = axis_over([*values, *(end for pair in ends for end in pair)], titles[1], False, 5, 0.02, "{:.2f}".format)
    series = [Series("", "orange", places, values, ends)]
    return lines_chart(series, titles, Axis(low, high, ticks, titles[0], log=True), y, height=210)


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
        subgroups_exhibit(data),
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
        table=Table(columns, lines, _NUMBERS, look="cards span"),
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
    table = Table(("class", "mean", "rate"), tuple(lines), _NUMBERS, look="")
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
    areas = "; ".join(
        f"{curve['name']} AUC {share_text(curve['auc'])} ({range_text(*curve['interval'])})" for curve in curves
    )
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


def parties_part(data: ReportData) -> PagePart:
    """What each party gains, and how good its teachers are. All secret; may be empty."""
    title = f"What each {data.party_label} gains"
    return PagePart(
        "parties-gain",
        title,
        without_blanks([_at_home(data), _given_back(data), _sizes_and_quality(data)]),
        look="figures",
    )


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


_SIDES = {"alone": "a model of its rows alone", "student": "the student", "improved": "improved with both"}


def _given_back(data: ReportData) -> Exhibit | None:
    """What a party has of the student once it is brought to its own rows."""
    gains = data.secret_figures.get("at_home", {})
    back = gains.get("returned")  # a run of 0.9 does not say it
    if not back:
        return None
    word, name = data.party_label, METRICS[gains["metric"]]
    low, high = back["share_interval"]
    lines = tuple(
        TableLine(title, (Cell(f"{back['brier'][side]:.4f}"), Cell(share_text(back["points"][side]))))
        for side, title in _SIDES.items()
    )
    words = Markup(
        "At {}, by thirds of their own rows. The improved model is better than one of the {}’s rows alone at {:.0%} of"
        " them (95% interval {:.0%} to {:.0%}); in the mean its Brier score is lower by {} ({} to {}). Both are"
        " logistic models with the same priors. This costs no epsilon: each {} does it for itself, on what was"
        " published, and sends nothing back (<code>consilium party improve</code>)."
    ).format(
        many(back["parties"], word),
        word,
        back["share"],
        low,
        high,
        *map(signed_text, (back["gain"], *back["interval"])),
        word,
    )
    table = Table(("model", "Brier score at home", f"{name} at home"), lines, _NUMBERS)
    return Exhibit("given-back", f"What a {word} gets back", (words,), table=table, secret=True)


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
    table = Table((data.party_label, "rows", "accuracy", "AUC"), tuple(lines), _NUMBERS, look="long")
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


def labels_explained(data: ReportData) -> str:
    """How many released labels are right, beside what always naming the commonest class would give; or empty."""
    matrix: Sequence[Sequence[int]] = data.open_figures.get("labels") or []
    truth = [sum(row) for row in matrix]
    total = sum(truth)
    if not total:
        return ""
    right = sum(row[index] for index, row in enumerate(matrix))
    most = max(range(len(truth)), key=lambda index: truth[index])
    low, high = wilson(right, total)
    noun = "largest noisy counts" if data.release is ReleaseKind.COUNTS else "released labels"
    words = (
        f"Of {total:,} {noun} {right / total:.0%} are right (95% interval {low:.0%} to {high:.0%}, Wilson); always"
        f" naming “{data.classes[most]}” would be right for {truth[most] / total:.0%} of the same cases."
    )
    if right / total > truth[most] / total + 0.02:
        return words
    shares = [
        f"{row[index] / truth[index]:.0%} of “{data.classes[index]}”"
        for index, row in enumerate(matrix)
        if truth[index]
    ]
    balanced = sum(row[index] / truth[index] for index, row in enumerate(matrix) if truth[index]) / len(shares)
    listed = ", ".join(shares[:4]) + ("" if len(shares) <= 4 else f" and of {len(shares) - 4} more classes")
    extra = (
        " A student of histograms also learns from how far the counts lie apart, and not from the largest alone."
        if data.release is ReleaseKind.COUNTS
        else ""
    )
    return (
        f"{words} That does not make them worthless: the classes are not equally frequent, and who always names the"
        f" commonest never finds any other. The {noun} find {listed}: {balanced:.0%} in the mean over classes, where"
        f" the constant answer has {1 / len(shares):.0%}.{extra}{_auc_beside(data)}"
    )


def _auc_beside(data: ReportData) -> str:
    student = data.student or {}
    if lead(data, student) != "auc":
        return ""
    return f" The student that learnt from them reaches AUC {share_text(student['auc'])}; the constant answer 0.500."


def measured_on(data: ReportData) -> str:
    """What the figures were measured on, or empty."""
    counts: dict[str, int] = data.open_figures.get("test") or {}
    total = sum(counts.values())
    if not total:
        return ""
    if len(counts) > MOST:
        listed = f"{min(counts.values()):,} to {max(counts.values()):,} of each of {len(counts)} classes"
    else:
        listed = ", ".join(f"{count:,} “{name}”" for name, count in counts.items())
    return f"All figures of the student are measured on {many(total, 'public test case')}: {listed}."
