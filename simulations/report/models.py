"""The models that a report compares, as rows; and what the student is worth in labels by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from consilium.report.words import (
    ALONE,
    BY_HAND,
    NOISY_AVERAGE,
    PLURALITY,
    POOLED,
    PRIVATE_GRADIENT,
    many,
    share_text,
    signed_text,
    with_interval,
)
from consilium.report.words import MAJORITY as MAJORITY_LABEL
from consilium.report.words import STUDENT as STUDENT_LABEL
from consilium.simulations.methods.relearnt import ON_PUBLIC_ROWS
from consilium.simulations.metrics import wilson
from consilium.simulations.report.data import ReportData

STUDENT, SPREAD, ABSENT, MAJORITY = "student", "local_only", "absent", "majority"
ABOVE = "above_student"
RIVALS = {"noisy_average": NOISY_AVERAGE, "private_gradient": PRIVATE_GRADIENT}
RIVALS |= {ON_PUBLIC_ROWS + name: f"{label} on the public graph" for name, label in RIVALS.items()}
"""Baselines that keep the guarantee of the student."""
LABELS = {
    MAJORITY: MAJORITY_LABEL,
    "mean_teacher": ALONE,
    STUDENT: STUDENT_LABEL,
    **RIVALS,
    "plurality": f"{PLURALITY} (not private)",
    "pooled": f"{POOLED} (not private)",
}
"""Rows of a table of models, in its order: names as in summary.json, and what they are called."""
METRICS = {"accuracy": "accuracy", "auc": "AUC"}
"""By which models are judged, with their words."""


@dataclass(frozen=True)
class ModelRow:
    """One model on the public test cases; metrics and intervals as `student.evaluation` and `metrics.intervals`."""

    label: str
    metrics: dict[str, Any] = field(repr=False)
    intervals: dict[str, Any] = field(repr=False)

    def value(self, metric: str) -> float | None:
        """The metric, or None."""
        return self.metrics.get(metric)

    def interval(self, metric: str) -> tuple[float, float] | None:
        """Its interval, or None where nobody computed one."""
        ends = self.intervals.get(metric)
        return None if ends is None else (ends[0], ends[1])

    def text(self, metric: str) -> str:
        """The metric with its interval in parentheses."""
        return with_interval(self.value(metric), self.interval(metric))

    def recall(self, name: str) -> str:
        """Recall of a class with its interval."""
        ends = (self.intervals.get("recall_per_class") or {}).get(name)
        return with_interval((self.metrics.get("recall_per_class") or {}).get(name), ends)


def model_rows(data: ReportData) -> list[ModelRow]:
    """In the order of the figure. Of published data there is nothing that takes private rows; public yardsticks stay.

    These are the most frequent class of the public test cases, and labels by hand on public rows.
    """
    metrics = {name: of for name, of in data.baselines.items() if name != SPREAD and ABSENT not in of}
    yardstick = public_majority(data)
    if yardstick is not None:
        metrics.pop(MAJORITY, None)
    if data.student is not None:
        metrics[STUDENT] = {**data.student, "intervals": data.open_figures.get("intervals")}
    order = [*LABELS, *(name for name in metrics if name not in LABELS)]
    rows = [_row(LABELS.get(name, name), metrics[name]) for name in order if name in metrics]
    before = next((index for index, row in enumerate(rows) if row.label == STUDENT_LABEL), len(rows))
    labelled = [_row(label, point) for label, point in hand_label_rows(data.worth)]
    return [*([yardstick] if yardstick else []), *rows[:before], *labelled, *rows[before:]]


def against_rivals(data: ReportData) -> str:
    """Which of all that have one guarantee did best, the student among them; empty where nobody knows. Secret."""
    compared = {name: metrics for name, metrics in data.baselines.items() if ABOVE in metrics}
    if not compared or data.student is None:
        return ""
    best = max(compared, key=lambda name: compared[name][ABOVE]["difference"])
    above = compared[best][ABOVE]
    (low, high), metric = above["interval"], above["metric"]
    student, rival = share_text(data.student[metric]), f"the {RIVALS[best]}"
    reached = f"{METRICS[metric]} {share_text(compared[best][metric])}"
    how = f"{signed_text(above['difference'])}, {signed_text(low)} to {signed_text(high)}"
    if low > 0:
        verdict = f"{rival} did better than this student: {reached} against {student}"
    elif high < 0:
        verdict = f"this student did best: {METRICS[metric]} {student}, and {rival} has {reached}"
    else:
        verdict = f"nothing is clearly better than this student ({METRICS[metric]} {student}): {rival} has {reached}"
    others = "" if len(compared) < 2 else f", the best of {len(compared)} rivals"
    return (
        f"At the same guarantee {verdict} ({how}{others}; 95% interval over test cases and draws of the"
        " rival’s noise). Rivals take no votes, and choose their settings on the public cases’ true labels."
    )


def public_majority(data: ReportData) -> ModelRow | None:
    """Who always names the most frequent class of the public test cases; None where their labels are not known."""
    counts: dict[str, int] = data.open_figures.get("test") or {}
    total = sum(counts.values())
    if not total:
        return None
    most = max(counts, key=lambda name: counts[name])
    recall = {name: float(name == most) if count else None for name, count in counts.items()}
    classes = sum(count > 0 for count in counts.values())
    metrics = {"accuracy": counts[most] / total, "auc": 0.5 if classes > 1 else None, "recall_per_class": recall}
    return ModelRow(f"always “{most}”", metrics, {"accuracy": wilson(counts[most], total)})


def lead(data: ReportData, metrics: dict[str, Any]) -> Literal["auc", "accuracy"]:
    """The number that is shown first: AUC says most about two classes, and next to nothing where there are many."""
    return leading(metrics, len(data.classes))


def leading(metrics: Mapping[str, Any], classes: int) -> Literal["auc", "accuracy"]:
    """As `lead`, of so many classes."""
    return "auc" if metrics.get("auc") is not None and classes == 2 else "accuracy"


def alone(baselines: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Accuracy and AUC of one party by itself, from the 10th to the 90th percentile of the parties; {} if unknown."""
    spread = baselines.get(SPREAD, {})
    if spread.get("accuracy") is None:
        return {}
    return {name: _range(spread[f"{name}_p10"], spread[f"{name}_p90"]) for name in METRICS}


def _range(low: float | None, high: float | None) -> str:
    return "–" if low is None else f"{share_text(low)} to {share_text(high)}"


def _row(label: str, metrics: dict[str, Any]) -> ModelRow:
    return ModelRow(label, metrics, metrics.get("intervals") or {})


def worth_sentence(worth: dict[str, Any], epsilon: str, release: str) -> str:
    """One or two sentences for somebody who knows what it takes to label a case.

    epsilon: as text, or empty where it stands beside it. release: what the student got for a query, as it is counted.
    """
    released, metric = worth["released"], worth["metric"]
    count, cost = released["labels"], worth["label_cost"]
    can_be_had = "" if cost else " where they can be had"
    takes = f"; one takes {cost}" if cost else ""
    at = f" at epsilon {epsilon}" if epsilon else ""
    reach = "reaches" if count == 1 else "reach"
    worth_it = f"This student is worth {in_labels(worth)}; " if "hand_labels" in worth else ""
    return (
        f"{worth_it}{many(count, release)} {'was' if count == 1 else 'were'} released"
        f"{at}. {by_hand(count)}{can_be_had} {reach} {METRICS[metric]} {share_text(released[metric])}{takes}."
    )


def worth_explained(worth: dict[str, Any]) -> str:
    """How the number was found."""
    draws, metric = worth["draws"], METRICS[worth["metric"]]
    return (
        f"Worth in labels by hand: how many of the {worth['public_rows']:,} public cases, drawn at random with"
        f" their true label, reach the student’s {metric} on the test cases: the mean of up to {draws} draws, by the"
        " student’s own trainer or by ridge regression, whichever does better there (a trainer that takes long is not"
        f" searched with). In parentheses the {worth['level']:.0%} interval over draws of labels and of test cases. It"
        " takes public rows, their true labels and the published student, so the guarantee covers it."
    )


def hand_label_rows(worth: dict[str, Any] | None) -> list[tuple[str, dict[str, Any]]]:
    """Labels and metrics of what as many labels by hand give, as were released and as were asked for."""
    if worth is None:
        return []
    points = {point["labels"]: point for point in (worth["released"], worth["asked"])}
    return [(by_hand(count), point) for count, point in points.items()]


def by_hand(count: int) -> str:
    """
    >>> by_hand(1), by_hand(1200)
    ('1 label by hand', '1,200 labels by hand')
    """
    return f"{count:,} {'label by hand' if count == 1 else BY_HAND}"


def in_labels(worth: dict[str, Any]) -> str:
    """
    >>> block = {"fewest": 5, "most": 900, "public_rows": 900, "hand_labels": 123, "low": 81, "high": 204}
    >>> in_labels(block)
    'about 120 labels by hand (81 to 200)'
    >>> in_labels({**block, "hand_labels": None, "high": None})
    'more than 900 labels by hand, all that there are (at least 81)'
    >>> in_labels({**block, "hand_labels": 0, "low": 0})
    'fewer than 5 labels by hand (0 to 200)'
    """
    labels, low, high = worth["hand_labels"], worth["low"], worth["high"]
    most = f"{worth['most']:,}"
    if labels is None:
        of_all = "all that there are" if worth["most"] == worth["public_rows"] else "the most that were tried"
        least = "" if low is None else f" (at least {_about(low)})"
        return f"more than {most} {BY_HAND}, {of_all}{least}"
    ends = f"({_about(low or 0)} to {f'more than {most}' if high is None else _about(high)})"
    if labels == 0:
        return f"fewer than {worth['fewest']} {BY_HAND} {ends}"
    return f"about {_about(labels)} {BY_HAND} {ends}"


def _about(count: int) -> str:
    """Two digits say all that is known.

    >>> _about(1234), _about(57), _about(0)
    ('1,200', '57', '0')
    """
    return f"{int(float(f'{count:.2g}')):,}"
