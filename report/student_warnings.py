"""What a run warns of once its student is trained: how it did, and what it could have been instead."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from consilium.report.warnings import RunWarning, WarningCode, all_of
from consilium.report.words import ALONE, many

LEAST_RECALL = 0.05
"""Below it a class is practically never found."""
LEAST_RANK_CORRELATION = 0.5
"""Of two students of the same votes with other noise: below it, the order is noise to a half and more."""
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
class PrivateRival:
    """The best of the private rivals of a simulation, at the guarantee of the student. above: by how much it is better
    than the student; low, high: the interval of that."""

    name: str
    metric: Metric
    reached: float
    above: float
    low: float
    high: float


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
    sentence = ", ".join([*others, f"or {last}"]) if others else last
    return sentence[0].upper() + sentence[1:]


@dataclass(frozen=True)
class StudentFacts:
    """A finished student.

    in_place: what need not be advised. constant: whether it says the same of every row.
    metrics: `accuracy`, `auc` and `recall_per_class` on test rows, None where there are none. rows: test rows of each
    class.
    mean_teacher: the same metrics of a party by itself, where a simulation knows them. hand_labels, rival: see there.
    left_out: parties that took no part because of what their data hold. absent: parties that were left out of a stage
    for another reason, and why. not_analysed: parts of a simulation's analysis
    that there was no time for. noise_spread: see `student.learn.spread_over_noise`.
    """

    in_place: InPlace
    constant: bool
    metrics: Mapping[str, Any] | None
    rows: Mapping[str, int] = field(default_factory=dict)
    mean_teacher: Mapping[str, Any] = field(default_factory=dict)
    hand_labels: HandLabelled | None = None
    rival: PrivateRival | None = None
    left_out: int = 0
    absent: Mapping[str, str] = field(default_factory=dict)
    not_analysed: tuple[str, ...] = ()
    noise_spread: Mapping[str, Any] = field(default_factory=dict)


def _learnt(student: StudentFacts) -> str | None:
    if student.constant:
        return "the student says the same of every row: what it learnt from has fewer than two classes. " + _sentence(
            ("ask more queries", False),
            ("lower the mechanism's threshold, if it has one", student.in_place.histogram),
            (RELATIVE, student.in_place.relative),
        )


def _majority(student: StudentFacts) -> str | None:
    accuracy, total = _value(student.metrics, "accuracy"), sum(student.rows.values())
    if accuracy is None or not total or student.constant:
        return None
    name = max(student.rows, key=lambda label: student.rows[label])
    share = student.rows[name] / total
    ordered = _value(student.metrics, "auc") is not None
    if accuracy <= share:
        return (
            f"the student's accuracy {accuracy:.3f} is not above {share:.3f}, that of always saying {name!r}. "
            + ("Its order may still be of use: look at the AUC. " if ordered else "")
            + _sentence((OPERATING_POINT, student.in_place.prevalence), (MORE, False))
        )


def _order(student: StudentFacts) -> str | None:
    auc = _value(student.metrics, "auc")
    if auc is None or len(student.rows) != 2 or not all(student.rows.values()):
        return None
    deviation = chance_deviation(*student.rows.values())
    if auc <= 0.5 + deviation:
        return (
            f"the student's AUC {auc:.3f} is not above 0.5 by more than one standard deviation of chance,"
            f" {deviation:.3f}: it orders cases by lot. Do not use it; find more parties or a larger epsilon"
        )


def _noise(student: StudentFacts) -> str | None:
    """Of a student that says the same of every row, `_learnt` says enough."""
    spread = student.noise_spread
    if student.constant or "rank_correlation" not in spread:
        return None
    auc, reached, alike = spread["metrics"].get("auc"), _value(student.metrics, "auc"), spread["rank_correlation"]
    if auc is not None and reached is not None and reached > 0.5 >= auc["interval"][0]:
        low, high = auc["interval"]
        text = (
            f"other noise of the same scale would move the student's AUC {reached:.3f} by a standard deviation of"
            f" {auc['sd']:.3f}: the 95 % interval over the noise, {low:.3f} to {high:.3f}, holds 0.5, which is chance"
        )
    elif alike < LEAST_RANK_CORRELATION:
        text = (
            "two students of the same votes with other noise would order the public rows with a rank correlation of"
            f" {alike:.2f}, below {LEAST_RANK_CORRELATION:g}: the order is mostly noise"
        )
    else:
        return None
    return f"{text}. {_sentence((MORE, False), ('take a larger epsilon', False), (WITHOUT, False))}"


def _hand_labels(student: StudentFacts) -> str | None:
    other = student.hand_labels
    reached = None if other is None else _value(student.metrics, other.metric)
    if other is not None and reached is not None and reached <= other.reached:
        return (
            f"the student's {_WORDS[other.metric]} {reached:.3f} is not above {other.reached:.3f}, which"
            f" {many(other.labels, 'public row')} labelled by hand give: as many as were released. {_instead(other)}"
        )


def _instead(other: HandLabelled) -> str:
    if not other.label_cost:
        return "If labels can be had by hand, label public rows instead"
    return f"One such label takes {other.label_cost}: where that can be had, label public rows instead"


def _rival(student: StudentFacts) -> str | None:
    rival = student.rival
    reached = None if rival is None else _value(student.metrics, rival.metric)
    if rival is not None and reached is not None and rival.low > 0:
        return (
            f"the student's {_WORDS[rival.metric]} {reached:.3f} is below {rival.reached:.3f}, which {rival.name}"
            f" reaches at the same guarantee (by {rival.above:.3f}, {rival.low:.3f} to {rival.high:.3f}). "
            + _sentence(
                ("use that where a linear model will do (a study compares it; no command publishes one)", False),
                ("release noisy counts", student.in_place.histogram),
                (RELATIVE, student.in_place.relative),
            )
        )


def _teacher(student: StudentFacts) -> str | None:
    metric: Metric = "auc" if len(student.rows) == 2 and _value(student.metrics, "auc") is not None else "accuracy"
    reached, alone = _value(student.metrics, metric), _value(student.mean_teacher, metric)
    if reached is not None and alone is not None and reached < alone:
        return (
            f"the student's {_WORDS[metric]} {reached:.3f} is below {alone:.3f}, that of {ALONE} in the mean: a party"
            " gains nothing by taking part. "
            + _sentence(
                ("release noisy counts", student.in_place.histogram), ("ask more queries", False), (WITHOUT, False)
            )
        )


def _recall(student: StudentFacts) -> str | None:
    missed = {
        name: recall
        for name, recall in (student.metrics or {}).get("recall_per_class", {}).items()
        if recall is not None and recall < LEAST_RECALL and student.rows.get(name, 0) >= LEAST_ROWS
    }
    if missed:
        named = set(sorted(missed, key=lambda name: missed[name])[:MOST_NAMED])
        classes = ", ".join(
            f"{name!r} {recall:.3f} of {student.rows[name]} rows" for name, recall in missed.items() if name in named
        )
        classes += f", and {len(missed) - MOST_NAMED} more classes" if len(missed) > MOST_NAMED else ""
        return f"recall below {LEAST_RECALL:g}: {classes}. The student practically never says so. " + _sentence(
            (OPERATING_POINT, student.in_place.prevalence), (RELATIVE, student.in_place.relative), (MORE, False)
        )


def _left_out(student: StudentFacts) -> str | None:
    return ". ".join(filter(None, (_left_out_for_data(student), _absent(student)))) or None


def _absent(student: StudentFacts) -> str | None:
    if student.absent:
        names = list(student.absent)
        some = ", ".join(f"{name} ({student.absent[name]})" for name in names[:MOST_NAMED])
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        count = f"{len(names)} {'party was' if len(names) == 1 else 'parties were'}"
        return (
            f"{count} left out of a stage: {some}{more}. What is said holds for the others. Find the cause in the"
            " report, under who was left out, and run it again"
        )


def _left_out_for_data(student: StudentFacts) -> str | None:
    if student.left_out:
        count = f"{student.left_out} {'party' if student.left_out == 1 else 'parties'}"
        return (
            f"{count} took no part because of what the data hold (limit 0): who takes part then tells about private"
            " data, and the study lacks them. Let tiny and single-class parties in; data.least_rows may be 1"
        )


def teachers_failed(failures: Mapping[str, int], teachers: int) -> str:
    """failures: of the teachers that say the same of every row, or had no answer for some, how many by the reason.

    >>> teachers_failed({"ValueError: too few rows": 3}, 4).split(":")[0]
    '3 of 4 teachers do not tell rows apart, or had no answer'
    """
    reasons = "; ".join(f"{count} of {teachers}: {reason}" for reason, count in list(failures.items())[:_REASONS])
    more = f"; and {len(failures) - _REASONS} other reasons" if len(failures) > _REASONS else ""
    return (
        f"{sum(failures.values())} of {teachers} teachers do not tell rows apart, or had no answer: {reasons}{more}."
        " What they say of such a row is the most frequent class of their own rows. Give them more rows, or another"
        " teacher"
    )


_REASONS = 3


def _not_analysed(student: StudentFacts) -> str | None:
    if student.not_analysed:
        return (
            f"{', '.join(student.not_analysed)}: left out, since simulation.analysis_seconds had passed. Raise it, or"
            " leave it out, and run the scenario again"
        )


_WORDS: dict[Metric, str] = {"auc": "AUC", "accuracy": "accuracy"}


def _value(metrics: Mapping[str, Any] | None, name: str) -> float | None:
    return None if metrics is None else metrics.get(name)


def chance_deviation(positive: int, negative: int) -> float:
    """Standard deviation of the AUC of a model that orders so many rows by chance (Mann, Whitney 1947).

    >>> round(chance_deviation(100, 100), 4)
    0.0409
    """
    return math.sqrt((positive + negative + 1) / (12 * positive * negative))


_AFTER: Mapping[WarningCode, Callable[[StudentFacts], str | None]] = {
    WarningCode.NOTHING_LEARNT: _learnt,
    WarningCode.NOT_ABOVE_MAJORITY: _majority,
    WarningCode.ORDER_BY_CHANCE: _order,
    WarningCode.MOSTLY_NOISE: _noise,
    WarningCode.NOT_ABOVE_HAND_LABELS: _hand_labels,
    WarningCode.BELOW_PRIVATE_RIVAL: _rival,
    WarningCode.BELOW_ONE_PARTY: _teacher,
    WarningCode.CLASS_NOT_FOUND: _recall,
    WarningCode.PARTIES_LEFT_OUT: _left_out,
    WarningCode.NOT_ANALYSED: _not_analysed,
}


def after_run(student: StudentFacts) -> list[RunWarning]:
    """All that there is to warn of once a student is trained, the most important first."""
    return all_of(_AFTER, student)
