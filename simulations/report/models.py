"""The models that a report compares, as rows; and what can be said of them class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from consilium.simulations.metrics import wilson
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.wording import share_text
from consilium.simulations.report.worth import hand_label_rows

STUDENT, SPREAD, ABSENT, MAJORITY = "student", "local_only", "absent", "majority"
STUDENT_LABEL = "student"
_LABELS = {
    MAJORITY: "majority class",
    "mean_teacher": "mean teacher",
    "noisy_average": "noisy average of weights",
    "plurality": "plurality, no noise",
    STUDENT: STUDENT_LABEL,
    "pooled": "pooled rows, not private",
}
METRIC_NAMES = ("accuracy", "auc")


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
        found = self.intervals.get(metric)
        return None if found is None else (found[0], found[1])

    def text(self, metric: str) -> str:
        """The metric with its interval in parentheses."""
        return with_interval(self.value(metric), self.interval(metric))

    def recall(self, name: str) -> str:
        """Recall of a class with its interval."""
        ends = (self.intervals.get("recall_per_class") or {}).get(name)
        return with_interval((self.metrics.get("recall_per_class") or {}).get(name), ends)


def with_interval(value: float | None, ends: Sequence[float] | None) -> str:
    """
    >>> with_interval(0.7713, [0.7493, 0.7919]), with_interval(0.5, None), with_interval(None, None)
    ('0.771 (0.749 to 0.792)', '0.500', '–')
    """
    if value is None or ends is None:
        return share_text(value)
    return f"{share_text(value)} ({share_text(ends[0])} to {share_text(ends[1])})"


def model_rows(data: ReportData, public: bool) -> list[ModelRow]:
    """In the order of the figure. What takes private rows is left out if `public`; the yardsticks that are public stay.

    These are the most frequent class of the public test cases, and labels by hand on public rows.
    """
    metrics = {} if public else {name: of for name, of in data.baselines.items() if name != SPREAD and ABSENT not in of}
    yardstick = public_majority(data)
    if yardstick is not None:
        metrics.pop(MAJORITY, None)
    if data.student is not None:
        metrics[STUDENT] = {**data.student, "intervals": data.open_figures.get("intervals")}
    order = [*_LABELS, *(name for name in metrics if name not in _LABELS)]
    rows = [_row(_LABELS.get(name, name), metrics[name]) for name in order if name in metrics]
    before = next((at for at, row in enumerate(rows) if row.label == STUDENT_LABEL), len(rows))
    by_hand = [_row(label, point) for label, point in hand_label_rows(data.worth)]
    return [*([yardstick] if yardstick else []), *rows[:before], *by_hand, *rows[before:]]


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
    return "auc" if metrics.get("auc") is not None and len(data.classes) == 2 else "accuracy"


def alone(baselines: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Accuracy and AUC of one party by itself, from the 10th to the 90th percentile of the parties; {} if unknown."""
    spread = baselines.get(SPREAD, {})
    if spread.get("accuracy") is None:
        return {}
    return {name: _range(spread[f"{name}_p10"], spread[f"{name}_p90"]) for name in METRIC_NAMES}


def _range(low: float | None, high: float | None) -> str:
    return "–" if low is None else f"{share_text(low)} to {share_text(high)}"


def _row(label: str, metrics: dict[str, Any]) -> ModelRow:
    return ModelRow(label, metrics, metrics.get("intervals") or {})
