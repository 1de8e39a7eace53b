"""The charts of the report, each with its title, how to read it, and what it shows in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from consilium.simulations.report.charts import bars, curves, dots
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.guarantees import GuaranteeRow
from consilium.simulations.report.models import STUDENT_LABEL, ModelRow, lead
from consilium.simulations.report.wording import many, plural, share_text, signed

METRICS = {"accuracy": "accuracy", "auc": "AUC"}


@dataclass(frozen=True)
class Figure:
    """`chart` was made by `charts`; `alt` says what it shows, `reading` how to read it."""

    name: str
    title: str
    reading: str
    alt: str
    chart: Markup
    secret: bool = False
    wide: bool = False


def outcome_figures(data: ReportData, promised: GuaranteeRow, models: Sequence[ModelRow], public: bool) -> list[Figure]:
    """What came out: the models, what became of the queries, what more labels or a larger epsilon give."""
    found = [_models(data, models, public), _by_labels(data)]
    if not public:
        found += [_by_epsilon(data, promised)]
    found.append(_outcome(data))
    if not public:
        found.append(_consensus(data))
    return [figure for figure in found if figure is not None]


def student_figures(data: ReportData) -> list[Figure]:
    """Where the student is right: ROC and calibration, which the guarantee covers."""
    return [figure for figure in (_roc(data), _calibration(data)) if figure is not None]


def party_figures(data: ReportData) -> list[Figure]:
    """What each party gains, and how good its teachers are. All secret."""
    return [figure for figure in (_at_home(data), _parties(data)) if figure is not None]


def privacy_figure(data: ReportData, promised: GuaranteeRow) -> Figure | None:
    """How the cost grew; None where nothing was asked. Only for the version of the project."""
    if not len(data.answered):
        return None
    reading = "How the privacy cost grows with each query. " + (
        "There is no ceiling: the worst case is unbounded."
        if math.isinf(promised.epsilon)
        else "The line across is the ceiling that was fixed before anything was asked; what is spent at the released"
        " counts stays below it whatever the votes are. It is computed at some queries, with straight lines between."
    )
    secret = data.epsilon_data_dependent if len(data.epsilon_data_dependent) else None
    if secret is not None:
        reading += (
            " Neither curve may be published. The dashed one depends on the votes themselves; where it lies on the"
            " other, the votes gave nothing to save."
        )
    bound = "unbounded" if math.isinf(promised.epsilon) else f"at most {promised.epsilon_text}"
    return Figure(
        "privacy",
        "Privacy cost, query by query",
        reading,
        f"Lines: epsilon at delta {promised.delta_text} after each of {len(data.answered)} queries; promised: {bound}.",
        curves.privacy_chart(data.epsilon_spent, secret, promised.epsilon, promised.epsilon_text, promised.delta_text),
        secret=True,
    )


def _models(data: ReportData, models: Sequence[ModelRow], public: bool) -> Figure | None:
    panels, told = [], []
    for metric, name in METRICS.items():
        shown = [
            dots.Dot(row.label, value, row.interval(metric), student=row.label == STUDENT_LABEL)
            for row in models
            if (value := row.value(metric)) is not None
        ]
        if shown:
            panels.append(dots.dots_chart(f"{name} on public test cases", shown))
            told += [f"{dot.label}: {name} {share_text(dot.value)}" for dot in shown]
    if not panels or len(models) < 2:
        return None
    private = (
        f"Only the student (diamond) learnt from released {data.release.noun}s alone. "
        if data.student is not None
        else "There is no student. "
    )
    by_hand = "" if data.worth is None else "By hand: trained on true labels of public cases. "
    parties = plural(data.party_label)
    yardsticks = (
        f"Mean teacher: what one of the {parties} has by itself. Plurality: all {parties} vote without noise."
        " Pooled: one model on all rows together. "
    )
    if any(row.label.startswith("noisy average") for row in models):
        yardsticks += (
            f"Noisy average: the {parties}’ weights, averaged once with noise at the same epsilon, clipped as does best"
            " on the pool’s true labels. "
        )
    reading = (
        f"Further right is better. {private}{by_hand}{'' if public else yardsticks}Accuracy: share of the cases that"
        " are called right. AUC: of two cases of different classes, how often the right one is ranked higher; 0.5 is"
        " chance. Bars are 95% intervals over test cases. The axes do not start at zero."
    )
    return Figure(
        "models",
        "The student against what it could have been",
        reading,
        f"Dots: {'; '.join(told)}.",
        Markup("").join(panels),
        secret=not public,
        wide=True,
    )


def _outcome(data: ReportData) -> Figure:
    asked, answered = len(data.answered), int(np.count_nonzero(data.answered))
    abstained, never = asked - answered - data.reinforced, max(data.most_queries - asked, 0)
    does = (
        f"releases a {data.release.noun} for each of at most {many(data.most_queries, 'query')}."
        if not data.release.abstains
        else f"releases a label or abstains. The run ends when {many(data.most_queries, 'query')} are asked or"
        f" {many(data.most_answers, 'label')} are released."
    )
    return Figure(
        "outcome",
        "Answered or abstained",
        f"The mechanism ({data.mechanism}) {does}",
        f"Bars: {answered} answered, {data.reinforced} predictions of the student confirmed, {abstained} abstained,"
        f" {never} never asked.",
        bars.outcome_chart(answered, abstained, never, data.reinforced),
    )


def _consensus(data: ReportData) -> Figure | None:
    if not len(data.consensus):
        return None
    middle = f"{np.median(data.consensus):.0%}"
    return Figure(
        "consensus",
        f"How far the {plural(data.party_label)} agreed",
        "Each query stands at the share of the votes that its most voted class got: on the left the votes are split,"
        f" on the right they are unanimous. Half of the queries lie at {middle} or above. A mechanism that answers"
        " where there is agreement abstains on the left; large noise makes it abstain anywhere.",
        f"Histogram of consensus over {len(data.consensus)} queries, median {middle}, answered and abstained.",
        bars.consensus_chart(data.consensus, data.answered),
        secret=True,
    )


def _by_labels(data: ReportData) -> Figure | None:
    curve = data.open_figures.get("by_labels", {})
    points = curve.get("points") or []
    if len(points) < 2:
        return None
    name, last = METRICS[curve["metric"]], points[-1]
    gain = last["value"] - points[-2]["value"]
    return Figure(
        "by-labels",
        f"What more {data.release.noun}s give",
        f"The same student, trained on the first so many of its {data.release.noun}s. From {points[-2]['labels']:,} to"
        f" {last['labels']:,} the {name} changes by {signed(gain)}. Where the curve is flat, more of the same would"
        " cost privacy and bring little. Bars are 95% intervals over test cases.",
        f"Line: {name} " + "; ".join(f"{share_text(at['value'])} at {at['labels']:,}" for at in points) + ".",
        curves.learning_chart(points, "labels", (f"{data.release.noun}s (logarithmic)", f"{name} of the student")),
    )


def _by_epsilon(data: ReportData, promised: GuaranteeRow) -> Figure | None:
    curve = data.secret_figures.get("by_epsilon", {})
    points = [point for point in curve.get("points") or [] if math.isfinite(point["epsilon"])]
    if len(points) < 2:
        return None
    name = METRICS[curve["metric"]]
    draws = points[-1]["draws"]
    return Figure(
        "by-epsilon",
        "What a larger or smaller epsilon would give",
        f"The same votes with other noise, and a student each time ({many(draws, 'draw')} of noise; their mean)."
        f" This run promised {promised.epsilon_text}; delta is {promised.delta_text} throughout. Only a simulation can"
        " draw again: nothing of this is released, and choosing an epsilon by it would not be covered. Bars are 95%"
        " intervals over test cases and draws.",
        f"Line: {name} "
        + "; ".join(f"{share_text(at['value'])} at epsilon {at['epsilon']:.2g}" for at in points)
        + ".",
        curves.learning_chart(
            points,
            "epsilon",
            ("epsilon promised (logarithmic)", f"{name} of the student"),
        ),
        secret=True,
    )


def _roc(data: ReportData) -> Figure | None:
    found = data.open_figures.get("student", {}).get("roc") or []
    if not found:
        return None
    told = "; ".join(f"{curve['name']} AUC {share_text(curve['auc'])} ({_ends(curve['interval'])})" for curve in found)
    several = (
        "One curve for each class against all the others. The table below has each class’s numbers. "
        if len(found) > 1
        else ""
    )
    return Figure(
        "roc",
        "How well the student ranks cases",
        f"{several}Every threshold is a point: how many of the class are found, and how many of the others are flagged"
        f" by mistake. Nearer to the upper left is better; the dotted line is chance."
        + (f" {told}." if len(found) == 1 else ""),
        f"ROC curves: {told}.",
        curves.roc_chart(found),
    )


def _calibration(data: ReportData) -> Figure | None:
    found = data.open_figures.get("student", {}).get("calibration") or []
    if not found:
        return None
    whose = f"of “{data.classes[1]}”" if len(data.classes) == 2 else "of the class that it calls"
    return Figure(
        "calibration",
        "Can its probabilities be read as risks?",
        f"Test cases in {len(found)} groups of about {found[0]['rows']:,}, by the probability {whose}. On the dotted"
        " line it is so as often as the student says. Bars are 95% intervals (Wilson). Without a declared prevalence"
        " probabilities are shares of votes, and no risks.",
        "Points: " + "; ".join(f"{at['mean']:.2f} said, {at['rate']:.2f} so" for at in found) + ".",
        curves.calibration_chart(found),
    )


def _at_home(data: ReportData) -> Figure | None:
    found = data.secret_figures.get("at_home", {})
    if not found or "absent" in found:
        return None
    name, word = METRICS[found["metric"]], data.party_label
    shown = [
        dots.Dot(
            _sizes(group),
            group["student"],
            other=group["alone"],
            note=f"{signed(group['difference'])} ({signed(group['interval'][0])} to {signed(group['interval'][1])})",
        )
        for group in found["groups"]
    ]
    whole = found["all"]
    gains = "gains" if whole["difference"] >= 0 else "loses"
    reading = (
        f"{many(found['judged'], word)} of {found['parties']:,}, evenly spread over all sizes, on"
        f" {whole['tested']:,} rows of their own. Ring: a model of the {word} alone, trained on two thirds of its rows"
        " and judged on the last third, in turn. Diamond: the student, on the same rows. Behind each line: the"
        f" difference, with its 95% interval over {plural(word)} (bootstrap, 1,000 draws, seed {found['seed']})."
        f" All together a {word} {gains} {abs(whole['difference']):.3f}; the student is at least as good at"
        f" {whole['better']:,} of {whole['parties']:,}."
        + (
            f" {many(found['too_small'], word)} {'has' if found['too_small'] == 1 else 'have'} too few rows to hold"
            " any out."
            if found["too_small"]
            else ""
        )
        + " The student learnt from votes of teachers that saw these rows; one"
        f" {word} moves it by little, by the guarantee itself."
    )
    return Figure(
        "at-home",
        f"The student against a {word} alone, by size",
        reading,
        f"Pairs: {'; '.join(f'{dot.label}: alone {dot.other:.3f}, student {dot.value:.3f}' for dot in shown)}.",
        dots.dots_chart(f"{name} on the {word}’s own rows, held out", shown),
        secret=True,
        wide=True,
    )


def _sizes(group: dict[str, Any]) -> str:
    low, high = group["rows_low"], group["rows_high"]
    return many(low, "row") if low == high else f"{low:,} to {high:,} rows"


def _parties(data: ReportData) -> Figure | None:
    if not data.quality:
        return None
    metric = lead(data, data.student or {}) if any(item.auc is not None for item in data.quality) else "accuracy"
    shown = [(item.rows, value) for item in data.quality if (value := getattr(item, metric)) is not None]
    student = (data.student or {}).get(metric)
    word, name = data.party_label, METRICS[metric]
    rows, values = [size for size, _ in shown], [value for _, value in shown]
    beaten = "" if student is None else f" The line is the student: it beats {sum(v < student for v in values):,} of"
    return Figure(
        "parties",
        f"{plural(word).capitalize()} by size and quality",
        f"Each point is one {word}: how many rows it has, and how good its teachers are on the public test cases."
        + (beaten and f"{beaten} the {len(values):,} {plural(word)} shown.")
        + " Only a simulation can know this.",
        f"Scatter of {len(shown)} {plural(word)}: {min(rows)} to {max(rows)} rows,"
        f" {name} {min(values):.3f} to {max(values):.3f}.",
        curves.parties_chart(rows, values, student, (f"rows of the {word} (logarithmic)", f"its teachers’ {name}")),
        secret=True,
    )


def _ends(interval: Sequence[float]) -> str:
    return f"{interval[0]:.3f} to {interval[1]:.3f}"
