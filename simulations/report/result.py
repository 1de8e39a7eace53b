"""The second chapter: the student beside what it could have been, and what more labels or another epsilon give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from consilium.report.charts import Dot, Drawing, Line, dots, limits, lines
from consilium.report.disclosure import epsilon_text
from consilium.report.exhibits import ALL_BUT_FIRST, Cell, Chart, Exhibit, PagePart, Table, TableLine, without_blanks
from consilium.report.words import ALONE, STUDENT, many, plural, share_text, signed_text
from consilium.simulations.report.classes import MOST
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import (
    ABOVE,
    ABSENT,
    METRICS,
    RIVALS,
    SPREAD,
    Metrics,
    leading,
    metric_text,
    models_of,
)
from consilium.student.card import labels_sentence, spread_sentence

MOST_TICKS = 5


def result_part(data: ReportData) -> PagePart:
    """What came out, on public test cases."""
    models, metric = models_of(data), leading(data.student or {}, len(data.classes))
    exhibits = [
        _models(data, models, metric),
        _differences(data),
        _by_labels(data),
        _by_epsilon(data),
        _other_metric(data, models, "accuracy" if metric == "auc" else "auc"),
        _measured(data),
        _missing(data),
    ]
    return PagePart("result", "Result", without_blanks(exhibits), look="columns broad")


def _models(data: ReportData, models: Mapping[str, Metrics], metric: str) -> Exhibit:
    title = f"The {STUDENT} against what it could have been"
    rows = [
        Dot(name, of[metric], (of.get("intervals") or {}).get(metric), metric_text(of, metric), name == STUDENT)
        for name, of in models.items()
        if of.get(metric) is not None
    ]
    if not rows:
        return Exhibit("models", title, ("There are no results of a student.",))
    words = [f"Further right is better. The {STUDENT} (diamond) learnt from released {data.release.noun}s alone."]
    if not data.public:
        words.append(
            f"One party alone: the mean over the {plural(data.party_label)}. Plurality: all of them vote without noise."
            " Pooled: one model on all rows together."
        )
    if any(name in data.baselines for name in RIVALS):
        words.append("Private rivals keep the student’s guarantee and take no votes.")
    chart = Chart("; ".join(f"{row.label}: {row.text}" for row in rows), (("", dots(rows, METRICS[metric])),))
    return Exhibit("models", title, (" ".join(words),), chart=chart, secret=not data.public)


def _differences(data: ReportData) -> Exhibit | None:
    """What the student has more than others that keep rows private, on the same cases. Secret."""
    found = {f"{ALONE}, on public cases": data.secret_figures.get("alone")}
    at_home = data.secret_figures.get("at_home") or {}
    if "all" in at_home:
        found[f"{ALONE}, on its own rows"] = {**at_home["all"], "metric": at_home["metric"]}
    for name in RIVALS:
        if above := data.baselines.get(name, {}).get(ABOVE):
            (low, high), metric = above["interval"], above["metric"]
            found[RIVALS[name]] = {"metric": metric, "difference": -above["difference"], "interval": [-high, -low]}
    rows = [
        Dot(
            name,
            of["difference"],
            tuple(of["interval"]),
            f"{signed_text(of['difference'])} ({signed_text(of['interval'][0])} to {signed_text(of['interval'][1])})",
        )
        for name, of in found.items()
        if of
    ]
    if not rows:
        return None
    words = (
        f"Right of the line the {STUDENT} is better, case by case. 95% intervals over test cases, and over draws of a"
        f" rival’s noise; on own rows over {plural(data.party_label)}."
    )
    metric = METRICS[next(of for of in found.values() if of)["metric"]]
    drawing = dots(rows, f"{metric} of the {STUDENT} less that of the other", zero=True)
    chart = Chart("; ".join(f"{row.label}: {row.text}" for row in rows), (("", drawing),))
    return Exhibit("differences", f"What the {STUDENT} gains on each", (words,), chart=chart, secret=True)


def _by_labels(data: ReportData) -> Exhibit | None:
    curve = data.open_figures.get("by_labels", {})
    points = curve.get("points") or []
    if len(points) < 2:
        return None
    noun, gain = data.release.noun, points[-1]["value"] - points[-2]["value"]
    words = (
        f"The same {STUDENT}, trained on the first so many of its {noun}s. From {points[-2]['labels']:,} to"
        f" {points[-1]['labels']:,} the {METRICS[curve['metric']]} changes by {signed_text(gain)}. Where the curve is"
        " flat, more of the same would cost privacy and bring little. Bars are 95% intervals over test cases."
    )
    values = "; ".join(f"{share_text(point['value'])} at {point['labels']:,}" for point in points)
    return Exhibit(
        "by-labels",
        f"What more {noun}s give",
        (words,),
        chart=Chart(values, (("", curve_of(curve, points, "labels")),)),
    )


def _by_epsilon(data: ReportData) -> Exhibit | None:
    curve = data.secret_figures.get("by_epsilon", {})
    points = [point for point in curve.get("points") or [] if math.isfinite(point["epsilon"])]
    if len(points) < 2:
        return None
    words = (
        f"The same votes with other noise, and a {STUDENT} each time: the mean of {many(points[-1]['draws'], 'draw')}."
        " The point in the middle is this run’s own guarantee; delta stays. Nothing of this is released, and no"
        " guarantee would cover an epsilon that was chosen by it. Bars are 95% intervals over test cases and draws."
    )
    values = "; ".join(f"{share_text(point['value'])} at epsilon {epsilon_text(point['epsilon'])}" for point in points)
    chart = Chart(values, (("", curve_of(curve, points, "epsilon")),))
    return Exhibit("by-epsilon", "What another epsilon would give", (words,), chart=chart, secret=True)


def curve_of(curve: Mapping[str, Any], points: Sequence[Mapping[str, Any]], over: str) -> Drawing:
    """A metric with its intervals against "labels" or "epsilon" (logarithmic), of at least one point."""
    places, values = [float(point[over]) for point in points], [float(point["value"]) for point in points]
    ends = [(float(point["interval"][0]), float(point["interval"][1])) for point in points]
    y = limits([*values, *(end for pair in ends for end in pair)], (0, 1))
    ticks = places if len(places) <= MOST_TICKS else ()
    titles = (f"{over} (logarithmic)", f"{METRICS[curve['metric']]} of the {STUDENT}")
    return lines([Line("", places, values, ends)], titles, y=y, log=True, ticks=ticks)


def _other_metric(data: ReportData, models: Mapping[str, Metrics], metric: str) -> Exhibit | None:
    rows = tuple(
        TableLine(name, (Cell(metric_text(of, metric)),), "student" * (name == STUDENT))
        for name, of in models.items()
        if of.get(metric) is not None
    )
    if not rows:
        return None
    table = Table(("", METRICS[metric]), rows, ALL_BUT_FIRST)
    return Exhibit("other-metric", f"The same by {METRICS[metric]}", table=table, look="folded", secret=not data.public)


def _measured(data: ReportData) -> Exhibit:
    """On which cases, with which intervals, and what is not there."""
    counts: dict[str, int] = data.open_figures.get("test") or {}
    items = []
    if total := sum(counts.values()):
        each = ", ".join(f"{count:,} “{name}”" for name, count in counts.items())
        if len(counts) > MOST:
            each = f"{min(counts.values()):,} to {max(counts.values()):,} of each of {len(counts)} classes"
        items.append(f"All figures of the {STUDENT} are measured on {many(total, 'public test case')}: {each}.")
    items.append(
        "95% intervals are over test cases: Wilson’s for shares, DeLong’s for AUC (on the logit scale). Means over"
        " draws (manual labels, private rivals) have the spread of the draws in theirs. Accuracy takes the likelier"
        " class of every model alike."
    )
    spread = data.baselines.get(SPREAD, {})
    ranges = [
        f"{METRICS[metric]} {share_text(spread[f'{metric}_p10'])} to {share_text(spread[f'{metric}_p90'])}"
        for metric in METRICS
        if spread.get(f"{metric}_p10") is not None
    ]
    items += [f"{ALONE.capitalize()}, from the 10th to the 90th percentile: {', '.join(ranges)}."] if ranges else []
    if data.worth and "hand_labels" in data.worth:
        items.append(
            f"Worth in manual labels: how many of the {data.worth['public_rows']:,} public cases, drawn at random with"
            f" their true label, reach the {STUDENT}’s figure in the mean of up to {data.worth['draws']} draws. They"
            f" are learnt by the {STUDENT}’s own trainer or by ridge regression, whichever does better. In parentheses:"
            f" the {data.worth['level']:.0%} interval over draws and test cases. The guarantee covers it."
        )
    items += filter(None, (labels_sentence(data.public_labels), spread_sentence(data.noise_spread)))
    return Exhibit("measured", "How it was measured", items=tuple(items))


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
