"""Warnings after a run, from how its student did on labelled public rows, and what it could have been instead."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from consilium.protocol.warnings.kinds import RunWarning, WarningCode

LEAST_RECALL = 0.05
"""Below it a class is practically never found."""

MOST_NAMED = 5
"""Classes that are named, those that are found least: of 150 there may be dozens."""

LEAST_ROWS = 20
"""Test rows of a class from which on so low a recall is hardly chance: one of 0.2 finds none of 20 in 1 % of cases."""

Metric = Literal["auc", "accuracy"]


@dataclass(frozen=True)
class HandLabelled:
    """What the same number of public rows reach that are labelled by hand. labels: how many; reached: their metric.
    label_cost: what one label takes, as the scenario states it; empty where nobody does."""

    labels: int
    metric: Metric
    reached: float
    label_cost: str = ""


@dataclass(frozen=True)
class InPlace:
    """What a federation and its student have already, and need not be advised; None: whoever warns does not know.

    histogram: noisy counts are released. relative: teachers vote relative to their own scores. prevalence: the
    student knows the classes' shares, and has an operating point.
    """

    histogram: bool | None
    relative: bool | None
    prevalence: bool | None


OPERATING_POINT = "choose an operating point ([student] prevalence)"
RELATIVE = "have teachers vote relative to their own scores"
MORE = "find more parties"
WITHOUT = "do without"


def _sentence(*ways: tuple[str, bool | None]) -> str:
    """What to do, without a full stop: those ways that are not in place, one of which never is.

    >>> _sentence(("ask more", False), (RELATIVE, True), (WITHOUT, False))
    'Ask more, or do without'
    >>> _sentence((RELATIVE, None), (WITHOUT, False))
    'Have teachers vote relative to their own scores, if they do not yet, or do without'
    """
    left = [way if known is False else f"{way}, if they do not yet" for way, known in ways if known is not True]
    *others, last = left
    told = ", ".join([*others, f"or {last}"]) if others else last
    return told[0].upper() + told[1:]


@dataclass(frozen=True)
class Reached:
    """A finished student.

    in_place: what need not be advised. answered: labels that it got. constant: whether it says the same of every row.
    metrics: `accuracy`, `auc` and `recall_per_class` on test rows, None where there are none. rows: test rows of each
    class.
    mean_teacher: the same metrics of a party by itself, where a simulation knows them. hand_labels: see there.
    left_out: parties that took no part because of what their data hold.
    """

    in_place: InPlace
    answered: int
    constant: bool
    metrics: Mapping[str, Any] | None
    rows: Mapping[str, int] = field(default_factory=dict)
    mean_teacher: Mapping[str, Any] = field(default_factory=dict)
    hand_labels: HandLabelled | None = None
    left_out: int = 0


def after_run(reached: Reached) -> list[RunWarning]:
    """All that there is to warn of, the most important first."""
    kinds = (_learnt, _majority, _order, _hand_labels, _teacher, _recall, _left_out)
    return [warning for kind in kinds for warning in kind(reached)]


def chance_deviation(positive: int, negative: int) -> float:
    """Standard deviation of the AUC of a model that orders so many rows by chance (Mann, Whitney 1947).

    >>> round(chance_deviation(100, 100), 4)
    0.0409
    """
    return math.sqrt((positive + negative + 1) / (12 * positive * negative))


def _learnt(reached: Reached) -> Iterator[RunWarning]:
    if reached.constant:
        yield RunWarning(
            WarningCode.NOTHING_LEARNT,
            f"the student says the same of every row: its {reached.answered} answers have fewer than two classes. "
            + _sentence(
                ("ask more queries", False),
                ("lower the mechanism's threshold, if it has one", reached.in_place.histogram),
                (RELATIVE, reached.in_place.relative),
            ),
        )


def _majority(reached: Reached) -> Iterator[RunWarning]:
    accuracy, total = _value(reached.metrics, "accuracy"), sum(reached.rows.values())
    if accuracy is None or not total:
        return
    name = max(reached.rows, key=lambda each: reached.rows[each])
    share = reached.rows[name] / total
    ordered = _value(reached.metrics, "auc") is not None
    if accuracy <= share:
        yield RunWarning(
            WarningCode.NOT_ABOVE_MAJORITY,
            f"the student's accuracy {accuracy:.3f} is not above {share:.3f}, that of always saying {name!r}. "
            + ("Its order may still be of use: look at the AUC. " if ordered else "")
            + _sentence((OPERATING_POINT, reached.in_place.prevalence), (MORE, False)),
        )


def _order(reached: Reached) -> Iterator[RunWarning]:
    auc = _value(reached.metrics, "auc")
    if auc is None or len(reached.rows) != 2 or not all(reached.rows.values()):
        return
    deviation = chance_deviation(*reached.rows.values())
    if auc <= 0.5 + deviation:
        yield RunWarning(
            WarningCode.ORDER_BY_CHANCE,
            f"the student's AUC {auc:.3f} is not above 0.5 by more than one standard deviation of chance,"
            f" {deviation:.3f}: it orders cases by lot. Do not use it; find more parties or a larger epsilon",
        )


def _hand_labels(reached: Reached) -> Iterator[RunWarning]:
    other = reached.hand_labels
    own = None if other is None else _value(reached.metrics, other.metric)
    if other is not None and own is not None and own <= other.reached:
        yield RunWarning(
            WarningCode.NOT_ABOVE_HAND_LABELS,
            f"the student's {_WORDS[other.metric]} {own:.3f} is not above {other.reached:.3f}, which {other.labels}"
            f" public rows labelled by hand give: as many as were released. {_instead(other)}",
        )


def _instead(other: HandLabelled) -> str:
    if not other.label_cost:
        return "If labels can be had by hand, label public rows instead"
    return f"One such label takes {other.label_cost}: where that can be had, label public rows instead"


def _teacher(reached: Reached) -> Iterator[RunWarning]:
    metric: Metric = "auc" if len(reached.rows) == 2 and _value(reached.metrics, "auc") is not None else "accuracy"
    own, alone = _value(reached.metrics, metric), _value(reached.mean_teacher, metric)
    if own is not None and alone is not None and own < alone:
        yield RunWarning(
            WarningCode.BELOW_MEAN_TEACHER,
            f"the student's {_WORDS[metric]} {own:.3f} is below {alone:.3f}, what a party reaches by itself in the"
            " mean: a party gains nothing by taking part. "
            + _sentence(
                ("release histograms", reached.in_place.histogram), ("ask more queries", False), (WITHOUT, False)
            ),
        )


def _recall(reached: Reached) -> Iterator[RunWarning]:
    missed = {
        name: recall
        for name, recall in (reached.metrics or {}).get("recall_per_class", {}).items()
        if recall is not None and recall < LEAST_RECALL and reached.rows.get(name, 0) >= LEAST_ROWS
    }
    if missed:
        named = set(sorted(missed, key=lambda name: missed[name])[:MOST_NAMED])
        told = ", ".join(
            f"{name!r} {recall:.3f} of {reached.rows[name]} rows" for name, recall in missed.items() if name in named
        )
        told += f", and {len(missed) - MOST_NAMED} more classes" if len(missed) > MOST_NAMED else ""
        yield RunWarning(
            WarningCode.CLASS_NOT_FOUND,
            f"recall below {LEAST_RECALL:g}: {told}. The student practically never says so. "
            + _sentence(
                (OPERATING_POINT, reached.in_place.prevalence), (RELATIVE, reached.in_place.relative), (MORE, False)
            ),
        )


def _left_out(reached: Reached) -> Iterator[RunWarning]:
    if reached.left_out:
        count = f"{reached.left_out} {'party' if reached.left_out == 1 else 'parties'}"
        yield RunWarning(
            WarningCode.PARTIES_LEFT_OUT,
            f"{count} took no part because of what the data hold (limit 0): who takes part then tells about private"
            " data, and the study lacks them. Let tiny and single-class parties in; data.least_rows may be 1",
        )


_WORDS: dict[Metric, str] = {"auc": "AUC", "accuracy": "accuracy"}


def _value(metrics: Mapping[str, Any] | None, name: str) -> float | None:
    return None if metrics is None else metrics.get(name)
