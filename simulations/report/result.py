"""The second chapter: the student beside what it could have been, and what more labels or another epsilon give."""

from __future__ import annotations

import math
from typing import Any

from consilium.report.charts import Dot, Line, dots, limits, lines
from consilium.report.exhibits import Chart, Exhibit, PagePart, without_blanks
from consilium.report.words import ALONE, STUDENT, many, plural, share_text, signed_text
from consilium.simulations.report.classes import MOST
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import ABOVE, ABSENT, METRICS, RIVALS, leading, metric_text, models_of
from consilium.student.card import labels_sentence, spread_sentence


def result_part(data: ReportData) -> PagePart:
    """What came out, on public test cases."""
    exhibits = [_models(data), _differences(data), _by_labels(data), _by_epsilon(data), _measured(data), _missing(data)]
    return PagePart("result", "Result", without_blanks(exhibits))


def _models(data: ReportData) -> Exhibit:
    models, metric = models_of(data), leading(data.student or {}, len(data.classes))
    title = f"The {STUDENT} against what it could have been"
    rows = [
        Dot(name, of[metric], (of.get("intervals") or {}).get(metric), metric_text(of, metric), name == STUDENT)
        for name, of in models.items()
        if of.get(metric) is not None
    ]
    if not rows:
        return Exhibit("models", title, ("There are no results of a student.",))
    words = f"The {STUDENT} (diamond) learnt from released {data.release.noun}s alone."
    if not data.public:
        words += (
            f" {ALONE.capitalize()}: the mean over the {plural(data.party_label)}. Plurality: all vote without noise."
            " Pooled: one model on all rows together. Private rivals keep the student’s guarantee and take no votes."
        )
    said = f"{METRICS[metric]} on public test cases: {'; '.join(f'{row.label} {row.text}' for row in rows)}"
    chart = Chart(said, (("", dots(rows, METRICS[metric])),))
    return Exhibit("models", title, (words,), chart=chart, secret=not data.public)


def _differences(data: ReportData) -> Exhibit | None:
    """What the student has more than others that keep rows private, on the same cases. Secret."""
    at_home = data.secret_figures.get("at_home") or {}
    found = {
        f"{ALONE}, on public cases": data.secret_figures.get("alone"),
        f"{ALONE}, on its own rows": {**at_home["all"], "metric": at_home["metric"]} if "all" in at_home else None,
    }
    for name in RIVALS:
        if above := data.baselines.get(name, {}).get(ABOVE):
            low, high = above["interval"]
            found[RIVALS[name]] = {**above, "difference": -above["difference"], "interval": (-high, -low)}
    rows = []
    for name, of in found.items():
        if of:
            low, high = of["interval"]
            text = f"{signed_text(of['difference'])} ({signed_text(low)} to {signed_text(high)})"
            rows.append(Dot(name, of["difference"], (low, high), text))
    if not rows:
        return None
    metric = METRICS[next(of for of in found.values() if of)["metric"]]
    words = (
        f"{metric} of the {STUDENT} less that of the other, case by case: right of the line the {STUDENT} is better."
        f" 95% intervals over test cases and draws of a rival’s noise; on own rows over {plural(data.party_label)}."
    )
    chart = Chart("; ".join(f"{row.label}: {row.text}" for row in rows), (("", dots(rows, "difference", zero=True)),))
    return Exhibit("differences", f"What the {STUDENT} gains on each", (words,), chart=chart, secret=True)


def _by_labels(data: ReportData) -> Exhibit | None:
    curve, noun = data.open_figures.get("by_labels", {}), data.release.noun
    points = curve.get("points") or []
    if len(points) < 2:
        return None
    words = (
        f"The same {STUDENT}, trained on the first so many of its {noun}s. The last step changes it by"
        f" {signed_text(points[-1]['value'] - points[-2]['value'])}. Where the curve is flat, more of the same would"
        " cost privacy and bring little. Bars are 95% intervals over test cases."
    )
    return Exhibit("by-labels", f"What more {noun}s give", (words,), chart=_curve(points, "labels", curve["metric"]))


def _by_epsilon(data: ReportData) -> Exhibit | None:
    """Secret."""
    curve = data.secret_figures.get("by_epsilon", {})
    points = [point for point in curve.get("points") or [] if math.isfinite(point["epsilon"])]
    if len(points) < 2:
        return None
    words = (
        f"The same votes with other noise, and a {STUDENT} each time: the mean of {many(points[-1]['draws'], 'draw')}."
        " The point in the middle is this run’s own guarantee. Nothing of this is released, and no guarantee would"
        " cover an epsilon that was chosen by it. Bars are 95% intervals over test cases and draws."
    )
    chart = _curve(points, "epsilon", curve["metric"])
    return Exhibit("by-epsilon", "What another epsilon would give", (words,), chart=chart, secret=True)


def _curve(points: list[dict[str, Any]], over: str, metric: str) -> Chart:
    """A metric with its intervals against "labels" or "epsilon"; `points`: at least one."""
    places, values = [float(point[over]) for point in points], [float(point["value"]) for point in points]
    ends = [(float(low), float(high)) for low, high in (point["interval"] for point in points)]
    titles = (over, f"{METRICS[metric]} of the {STUDENT}")
    y = limits([*values, *(end for pair in ends for end in pair)], (0, 1))
    drawing = lines([Line("", places, values, ends)], titles, y)
    said = (f"{share_text(value)} at {place:,.3g}" for place, value in zip(places, values, strict=True))
    return Chart(f"{titles[1]}: {'; '.join(said)}", (("", drawing),))


def _measured(data: ReportData) -> Exhibit:
    """On which cases, and with which intervals."""
    counts: dict[str, int] = data.open_figures.get("test") or {}
    worth, items = data.worth or {}, []
    if total := sum(counts.values()):
        each = ", ".join(f"{count:,} “{name}”" for name, count in counts.items())
        if len(counts) > MOST:
            each = f"{min(counts.values()):,} to {max(counts.values()):,} of each of {len(counts)} classes"
        items.append(f"All figures of the {STUDENT} are measured on {many(total, 'public test case')}: {each}.")
    items.append(
        "95% intervals are over test cases: Wilson’s for shares, DeLong’s for AUC (on the logit scale); means over draws"
        " have the spread of the draws in theirs. Accuracy takes the likelier class of every model alike."
    )
    if "manual_labels" in worth:
        items.append(
            f"Worth in manual labels: how many of the {worth['public_rows']:,} public cases, drawn at random with their"
            f" true label, reach the {STUDENT}’s figure in the mean of up to {worth['draws']} draws, by its own trainer"
            f" or ridge regression. In parentheses: the {worth['level']:.0%} interval. The guarantee covers it."
        )
    items += filter(None, (labels_sentence(data.public_labels), spread_sentence(data.noise_spread)))
    return Exhibit("measured", "How it was measured", tuple(items), look="folded")


def _missing(data: ReportData) -> Exhibit | None:
    """What nobody can show of this run, and why a figure is not there although the run is a simulation."""
    figures = {
        **{name.replace("_", " "): of for name, of in data.baselines.items()},
        "learning curve": data.open_figures.get("by_labels", {}),
        "curve by epsilon": data.secret_figures.get("by_epsilon", {}),
        f"gain of each {data.party_label} on its own rows": data.secret_figures.get("at_home", {}),
    }
    items = (*data.missing, *(f"No {name}: {of[ABSENT]}." for name, of in figures.items() if ABSENT in of))
    return Exhibit("not-shown", "What this report cannot show", items=items) if items else None
