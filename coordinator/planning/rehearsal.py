"""Candidates tried on tasks: what a student would be worth, again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.coordinator.mechanisms import Drawn
from consilium.coordinator.planning.candidates import Candidate
from consilium.coordinator.planning.facts import PublicFacts
from consilium.coordinator.planning.features import FeatureMap
from consilium.coordinator.planning.learners import LEARNERS, Fitted, Learner, auc
from consilium.coordinator.planning.prior import PublicTask
from consilium.protocol.labels.service import NO_LABEL
from consilium.protocol.noise import SeededNoise


@dataclass(frozen=True)
class Outcomes:
    """Of one candidate with one student on all tasks, float64 (tasks,) each.

    quality: AUC for two classes, accuracy for more. accuracy, right: shares of the judged rows that the student and
    the released labels get right, right NaN where no label was released. floor: what guessing reaches in quality.
    """

    candidate: Candidate
    trainer: dict[str, Any]
    quality: np.ndarray = field(repr=False)
    accuracy: np.ndarray = field(repr=False)
    right: np.ndarray = field(repr=False)
    floor: np.ndarray = field(repr=False)

    @property
    def expected(self) -> float:
        """Mean quality."""
        return float(self.quality.mean())


class Rehearsal:
    """The pool and the judged rows, made ready once for all tasks. judged: float64 (m, inputs)."""

    def __init__(self, features: FeatureMap, facts: PublicFacts, judged: np.ndarray) -> None:
        self._features, self._facts = features, facts
        self._seen = [
            (learner.features(features, facts.rows), learner.features(features, judged)) for learner in LEARNERS
        ]
        self._fitted: dict[tuple[int, int], Fitted] = {}

    def rehearse(self, candidate: Candidate, tasks: Sequence[PublicTask]) -> list[Outcomes]:
        """The candidate with each kind of student."""
        qualities: dict[tuple[int, float | None], list[tuple[float, float]]] = {}
        right, floor = [], []
        for number, task in enumerate(tasks):
            asked = task.votes[: candidate.caps.queries]
            drawn = candidate.mechanism.draw(asked, SeededNoise(number)).up_to(candidate.caps.answers)
            right.append(self._right(candidate, task, number))
            floor.append(_floor(task))
            for place, learner in enumerate(LEARNERS):
                fitted = self._of(place, len(asked))
                for penalty, scores in self._scores(learner, fitted, drawn, candidate, task.votes.shape[1]):
                    qualities.setdefault((place, penalty), []).append(_judged(scores, task))
        best = {}
        for (place, penalty), values in qualities.items():
            mean = np.mean([quality for quality, _ in values])
            if place not in best or mean > best[place][0]:
                best[place] = (mean, penalty, np.array(values))
        return [
            Outcomes(
                candidate,
                LEARNERS[place].table(self._features, penalty),
                values[:, 0],
                values[:, 1],
                np.array(right),
                np.array(floor),
            )
            for place, (_, penalty, values) in best.items()
        ]

    def _of(self, place: int, queries: int) -> Fitted:
        if (place, queries) not in self._fitted:
            rows, judged = self._seen[place]
            self._fitted[place, queries] = Fitted.of(rows[:queries], judged)
        return self._fitted[place, queries]

    def _scores(
        self, learner: Learner, fitted: Fitted, drawn: Drawn, candidate: Candidate, classes: int
    ) -> Iterator[tuple[float | None, np.ndarray]]:
        """A penalty, None where the noise itself says how much, and scores (judged, classes)."""
        if drawn.counts is None:
            labels = np.full(len(fitted.left), NO_LABEL)
            labels[: len(drawn.labels)] = drawn.labels  # none beyond the last answer that there is room for
            yield from zip(learner.penalties, fitted.from_labels(labels, classes, learner.penalties), strict=True)
        else:
            sigma, votes = candidate.mechanism.count_sigma(self._facts.parties), self._facts.votes
            yield None, fitted.from_shares(drawn.counts / votes, sigma / votes)

    def _right(self, candidate: Candidate, task: PublicTask, number: int) -> float:
        labels = candidate.mechanism.draw(task.judged_votes, SeededNoise(number + 1_000_003)).labels
        known = labels != NO_LABEL
        return float((labels[known] == task.truth[known]).mean()) if known.any() else float("nan")


def _judged(scores: np.ndarray, task: PublicTask) -> tuple[float, float]:
    truth = task.truth
    if task.picked is not None:
        scores, truth = scores[task.picked], truth[task.picked]
    accuracy = float((scores.argmax(axis=1) == truth).mean())
    return (auc(scores[:, 1], truth == 1) if scores.shape[1] == 2 else accuracy), accuracy


def _floor(task: PublicTask) -> float:
    if task.votes.shape[1] == 2:
        return 0.5
    return float(np.bincount(task.truth).max() / len(task.truth))
