"""What is to be expected of a federation: ranges, the noise in plain numbers, and when to expect nothing."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from consilium.coordinator.config import Federation
from consilium.coordinator.planning.facts import PublicFacts
from consilium.coordinator.planning.features import FeatureMap
from consilium.coordinator.planning.rehearsal import Outcomes
from consilium.protocol.warnings.rows import caps_above_rows

COVERED = 0.95
"""Share of the tasks that a range holds, an equal share left out on each side. It was .9 until ranges held too few of
the real students on which the prior was chosen; docs/planning.md says how often it holds."""
MARGIN = 0.05
"""By so much a student must be better than guessing to be worth anything: AUC .55 finds next to nobody."""
LIKELY = 2 / 3
"""On this share of the tasks it must be: by chance alone a student of pure noise is on up to half of them."""
UNANIMOUS = 0.5
"""How far a vote on which all agree is from an undecided one of two classes, as a share of the votes."""


@dataclass(frozen=True)
class Interval:
    """Middle and ends of what came out on the tasks."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> Interval | None:
        """Of float64 (tasks,), NaN where there is no value; None where there is none at all."""
        known = values[~np.isnan(values)]
        if not len(known):
            return None
        low, median, high = np.quantile(known, [(1 - COVERED) / 2, 0.5, (1 + COVERED) / 2])
        return cls(float(low), float(median), float(high))

    def __str__(self) -> str:
        return f"{self.low:.2f} to {self.high:.2f}, median {self.median:.2f}"


@dataclass(frozen=True)
class NoiseInVotes:
    """The noise in plain numbers.

    on_count: standard deviation on one count of one query, in votes, of which each query has `votes`.
    directions: independent directions of the public rows, weighed by their size. on_share: standard deviation of the
    share of the votes that a linear student predicts from all answers together, about sqrt(directions sigma^2 /
    answers) / votes; a label tells less.
    """

    on_count: float
    votes: int
    directions: float
    on_share: float

    @classmethod
    def of(cls, federation: Federation, facts: PublicFacts, features: FeatureMap) -> NoiseInVotes | None:
        """Of a federation whose mechanism adds Gaussian noise to counts; None otherwise."""
        sigma = federation.mechanism.count_sigma(federation.givers(facts.parties)) or federation.event(0, 0).label_sigma
        if not sigma:
            return None
        sizes = features.linear(facts.rows).var(axis=0)
        directions = float(sizes.sum() ** 2 / max((sizes**2).sum(), 1e-300))
        answers = min(federation.caps.answers, facts.different)
        on_share = math.sqrt(directions * sigma**2 / answers) / facts.votes
        return cls(sigma, facts.votes, directions, on_share)


EXPECT_NOTHING = "expect-nothing"
"""Code of the caution that a student will hardly be better than guessing."""

STUDENT_UNTRIED = "student-untried"
"""The same of the students that a plan tries, where the file has another one."""


@dataclass(frozen=True)
class Caution:
    """Something to know before anything is spent. code: for programs. text: what, value, limit, what to do."""

    code: str
    text: str


@dataclass(frozen=True)
class StudentForecast:
    """Of one federation with one student. metric: of `student`, "auc" for two classes, "accuracy" for more.

    student, accuracy, labels_right: over the tasks; labels_right None where no label is released. guessing: what no
    student reaches in `metric`. better_than_guessing: share of the tasks on which the student is, by `MARGIN`.
    """

    source: str
    tasks: int
    metric: str
    student: Interval
    accuracy: Interval
    labels_right: Interval | None
    guessing: float
    better_than_guessing: float

    @classmethod
    def of(cls, outcomes: Outcomes, classes: int, source: str) -> StudentForecast:
        """From what came out on the tasks."""
        student, accuracy = Interval.of(outcomes.quality), Interval.of(outcomes.accuracy)
        if student is None or accuracy is None:
            raise ValueError("a forecast needs tasks")
        return cls(
            source=source,
            tasks=len(outcomes.quality),
            metric="auc" if classes == 2 else "accuracy",
            student=student,
            accuracy=accuracy,
            labels_right=Interval.of(outcomes.right),
            guessing=float(outcomes.floor.mean()),
            better_than_guessing=float((outcomes.quality > outcomes.floor + MARGIN).mean()),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "covered": COVERED}

    def lines(self) -> list[str]:
        """For people."""
        name = {"auc": "AUC", "accuracy": "accuracy"}[self.metric]
        lines = [f"student's {name} {self.student} (guessing: {self.guessing:.2f})"]
        if self.metric != "accuracy":
            lines.append(f"student's accuracy {self.accuracy}")
        if self.labels_right is not None:
            lines.append(f"share of labels right {self.labels_right}")
        return [*lines, f"ranges hold {COVERED:.0%} of {self.tasks} {self.source}"]


def _by_hand(facts: PublicFacts) -> str:
    return f", or label public rows: one label takes {facts.label_cost}" if facts.label_cost else ""


def cautions(
    forecast: StudentForecast,
    noise: NoiseInVotes | None,
    facts: PublicFacts,
    epsilon: float,
    queries: int,
    untried: str = "",
) -> list[Caution]:
    """What to say before anything is spent. queries: most that the caps allow. untried: the file's own trainer, where
    it is none of those that a plan tries."""
    unused = [Caution(each.code.value, each.text) for each in caps_above_rows(queries, facts.different)]
    if forecast.better_than_guessing >= LIKELY:
        return unused
    if untried:
        told = (
            f"with {facts.parties} parties at epsilon {epsilon:.3g} no linear or kernel student is better than"
            f" guessing by {MARGIN:g} on {1 - forecast.better_than_guessing:.0%} of the tasks. The file's own trainer,"
            f" {untried}, is not among those that a plan tries: this says nothing of it. Try it on labelled public rows"
        )
        return [Caution(STUDENT_UNTRIED, told), *unused]
    drowned = noise is not None and noise.on_share >= UNANIMOUS
    return [
        Caution(
            EXPECT_NOTHING,
            f"with {facts.parties} parties at epsilon {epsilon:.3g}"
            f"{' the noise is larger than any vote:' if drowned else ''} expect nothing: on"
            f" {1 - forecast.better_than_guessing:.0%} of the tasks the student is not better than guessing by"
            f" {MARGIN:g}, at most {1 - LIKELY:.0%} would do. Find more parties or raise epsilon{_by_hand(facts)}",
        ),
        *unused,
    ]
