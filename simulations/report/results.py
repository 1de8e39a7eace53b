"""What came of a run: key figures, models beside each other, class by class, and what each party gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from consilium.protocol.releases import ReleaseKind
from consilium.report.charts import (
    Axis,
    Drawing,
    Series,
    ValueRow,
    axis_over,
    bars_chart,
    histogram,
    lines_chart,
    log_ticks,
    rows_axis,
    rows_chart,
)
from consilium.report.disclosure import epsilon_text
from consilium.report.exhibits import ALL_BUT_FIRST, Cell, Chart, Exhibit, PagePart, Table, TableLine, without_blanks
from consilium.report.glossary import term
from consilium.report.words import ALONE, many, plural, share_text, signed_text, upper_first, with_interval
from consilium.simulations.methods.relearnt import ON_PUBLIC_ROWS
from consilium.simulations.metrics import wilson
from consilium.simulations.report.class_by_class import MOST
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.each_party import against_alone, gain_at_home
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
from consilium.student.card import labels_sentence, spread_sentence


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
    notes += [worth_explained(data.worth)] if data.worth and "hand_labels" in data.worth else []
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
        name = f"{ALONE}, 10th to 90th percentile"
        lines.append(TableLine(name, tuple(Cell(spread[metric]) for metric in METRICS)))
    average = "" if data.public else " and of private rivals"
    caption = (
        "In parentheses 95% intervals over test cases: Wilson’s for shares, DeLong’s for AUC (on the logit scale). Of"
        f" labels by hand{average}, which are means over draws, the spread of the draws is in them. For labels by hand"
        " that is the spread of a single draw, which is what a person would have. Accuracy takes the likelier class of"
        " every model alike."
    )
    table = Table(("", *METRICS.values()), tuple(lines), ALL_BUT_FIRST, caption=caption if data.open_figures else "")
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
            f"{upper_first(ALONE)}: the mean over the {parties}. Plurality: all {parties} vote without noise."
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
    if labels & {label for name, label in RIVALS.items() if name.startswith(ON_PUBLIC_ROWS)}:
        words.append("On the public graph: that model labels the public rows, and the student's kind learns from them.")
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
    values = "; ".join(f"{share_text(point['value'])} at epsilon {epsilon_text(point['epsilon'])}" for point in points)
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
    if len(shares) < 2 or balanced <= 1 / len(shares) + 0.02:
        return f"{words} They tell no more than that.{extra}{_auc_beside(data)}"
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
