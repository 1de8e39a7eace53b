"""Candidates tried on tasks: what a student would be worth, again and again; and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np

from consilium.coordinator.mechanisms import Drawn
from consilium.coordinator.planning.candidates import Candidate
from consilium.coordinator.planning.facts import PublicFacts
from consilium.coordinator.planning.tasks import PRIOR, FeatureMap, PublicTask, TaskMaker, TaskPrior
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import SeededNoise
from consilium.protocol.voting_rule import prevalence_of

_SCALES = np.geomspace(1e-6, 10.0, 15)
"""Prior variances of a weight, times the number of weights; the evidence of what was released chooses among them."""
_MISFITS = (0.0, 0.01, 0.05)
"""Variances of a share that the features do not explain, chosen in the same way."""


@dataclass(frozen=True)
class Learner:
    """A kind of student. trainer: its name in `[student.trainer]`. features: what it sees of rows.

    penalties: tried for students of labels, for all tasks alike, since they are written down before a run.
    settings: keys of `[student.trainer]` for a penalty.
    """

    trainer: str
    features: Callable[[FeatureMap, np.ndarray], np.ndarray]
    penalties: tuple[float, ...]
    settings: Callable[[FeatureMap, float], dict[str, Any]]

    def table(self, features: FeatureMap, penalty: float | None) -> dict[str, Any]:
        """The table `[student.trainer]`; None: the noise that is known says how much to trust."""
        return {"name": self.trainer, **({} if penalty is None else self.settings(features, penalty))}


LEARNERS = (
    Learner(
        "logistic_regression",
        FeatureMap.linear,
        (10.0, 40.0, 130.0, 400.0, 1300.0, 4000.0),
        # the curvature of the logistic loss is a quarter of the squared one's
        lambda _, penalty: {"C": round(4 / penalty, 4)},
    ),
    Learner(
        "kernel_ridge",
        FeatureMap.kernel,
        (0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
        lambda features, penalty: {"gamma": float(f"{features.gamma:.3g}"), "alpha": penalty},
    ),
)


@dataclass(frozen=True)
class Fitted:
    """The rows that are asked, as a singular value decomposition, and the judged rows in its terms.

    left: (n, p). values: (p,), above 0. judged: (m, p); prediction is `judged @ coefficients`.
    """

    left: np.ndarray = field(repr=False)
    values: np.ndarray = field(repr=False)
    judged: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, rows: np.ndarray, judged: np.ndarray) -> Fitted:
        """Of features (n, p) and (m, p)."""
        left, values, right = np.linalg.svd(rows, full_matrices=False)
        keep = values > 1e-9 * max(float(values.max(initial=0.0)), 1.0)
        return cls(left[:, keep], values[keep], judged @ right[keep].T)

    def from_labels(self, labels: np.ndarray, classes: int, penalties: Sequence[float]) -> Iterator[np.ndarray]:
        """Scores (m, classes) of the judged rows for each penalty, from labels int64 (n,), -1 where there is none."""
        known = labels >= 0
        if not known.any():
            yield from (np.zeros((len(self.judged), classes)) for _ in penalties)
            return
        targets = np.eye(classes)[labels[known]]
        mean = targets.mean(axis=0)
        if known.all():
            values, judged, projected = (
                self.values**2,
                self.judged,
                self.values[:, None] * (self.left.T @ (targets - mean)),
            )
        else:
            design = self.left[known] * self.values
            values, turn = np.linalg.eigh(design.T @ design)
            judged, projected = self.judged @ turn, turn.T @ (design.T @ (targets - mean))
        for penalty in penalties:
            yield mean + judged @ (projected / (values + penalty)[:, None])

    def from_shares(self, shares: np.ndarray, deviation: float) -> np.ndarray:
        """Scores (m, classes) of the judged rows, from noisy shares (n, classes) with this noise on each: the mean of
        the Gaussian posterior whose prior scale has the largest evidence.

        Without noise the shares of a row sum to 1; what they sum to beyond is noise, and taken out first.
        """
        classes = shares.shape[1]
        shares = shares - (shares.sum(axis=1, keepdims=True) - 1) / classes
        deviation *= np.sqrt((classes - 1) / classes)
        mean = shares.mean(axis=0)
        targets = shares - mean
        projected = self.left.T @ targets
        unexplained = float((targets**2).sum() - (projected**2).sum())
        free = (len(shares) - len(self.values)) * shares.shape[1]
        best, chosen = -np.inf, np.zeros(len(self.values))
        for misfit in _MISFITS:
            noise = max(deviation**2 + misfit, 1e-9)
            outside = -0.5 * (free * np.log(noise) + unexplained / noise)
            for scale in _SCALES:
                signal = self.values**2 * scale / len(self.values)
                total = signal + noise
                evidence = outside - 0.5 * float(
                    (shares.shape[1] * np.log(total) + (projected**2).sum(axis=1) / total).sum()
                )
                if evidence > best:
                    best, chosen = evidence, signal / total
        return mean + self.judged @ ((chosen / self.values)[:, None] * projected)


def auc(scores: np.ndarray, truth: np.ndarray) -> float:
    """Area under the curve of scores float64 (n,) for truth bool (n,); .5 where one class is missing.

    >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    positives = int(truth.sum())
    if positives in (0, len(truth)):
        return 0.5
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return float((ranks[truth].sum() - positives * (positives + 1) / 2) / (positives * (len(truth) - positives)))


@dataclass(frozen=True)
class Outcomes:
    """Of one candidate with one student on all tasks, float64 (tasks,) each.

    quality: AUC for two classes, accuracy for more. accuracy, right: shares of the judged rows that the student and
    the released labels get right, right NaN where no label was released. floor: what guessing reaches in quality.
    redrawn: quality with other noise on the same votes, float64 (tasks,); None where that was not tried.
    """

    candidate: Candidate
    trainer: dict[str, Any]
    quality: np.ndarray = field(repr=False)
    accuracy: np.ndarray = field(repr=False)
    right: np.ndarray = field(repr=False)
    floor: np.ndarray = field(repr=False)
    redrawn: np.ndarray | None = field(default=None, repr=False)

    @property
    def expected(self) -> float:
        """Mean quality."""
        return float(self.quality.mean())

    @property
    def noise_deviation(self) -> float | None:
        """Standard deviation of quality over noise alone, with the task and its votes as they are: half of the mean
        squared difference between two draws is its variance."""
        if self.redrawn is None:
            return None
        return float(np.sqrt(((self.quality - self.redrawn) ** 2).mean() / 2))


class Rehearsal:
    """The pool and the judged rows, made ready once for all tasks. judged: float64 (m, inputs)."""

    def __init__(self, features: FeatureMap, facts: PublicFacts, judged: np.ndarray) -> None:
        self._features, self._facts = features, facts
        self._seen = [
            (learner.features(features, facts.rows), learner.features(features, judged)) for learner in LEARNERS
        ]
        self._fitted: dict[tuple[int, int], Fitted] = {}

    def with_noise(self, best: Outcomes, tasks: Sequence[PublicTask]) -> Outcomes:
        """The same outcomes, with what other noise gives on the same tasks."""
        others = self.rehearse(best.candidate, tasks, _REDRAWN)
        (same,) = (other for other in others if other.trainer["name"] == best.trainer["name"])
        return replace(best, redrawn=same.quality)

    def rehearse(self, candidate: Candidate, tasks: Sequence[PublicTask], first_draw: int = 0) -> list[Outcomes]:
        """The candidate with each kind of student. first_draw: number of the noise on the first task."""
        qualities: dict[tuple[int, float | None], list[tuple[float, float]]] = {}
        right, floor = [], []
        sigma = candidate.mechanism.count_sigma(self._facts.parties)
        noise = sigma / (self._facts.votes * np.sqrt(2 * candidate.query_budget.queries))
        for number, task in enumerate(tasks):
            votes = task.votes[: candidate.query_budget.queries]
            whole = candidate.mechanism.draw(votes, SeededNoise(first_draw + number))
            drawn = whole.up_to(candidate.query_budget.answers)
            right.append(self._right(candidate, task, number))
            floor.append(_floor(task))
            for place, learner in enumerate(LEARNERS):
                fitted = self._of(place, len(votes))
                for penalty, scores in self._scores(learner, fitted, drawn, candidate, task.votes.shape[1]):
                    if self._facts.voting_rule == "class_shares":
                        scores = _by_prevalence(scores, noise)
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


def _by_prevalence(scores: np.ndarray, noise: float) -> np.ndarray:
    """Scores (m, 2) in the same order, the second the larger on as many rows as votes with this noise in their mean say
    (`prevalence_of`)."""
    second = scores[:, 1]
    prevalence = prevalence_of(float(second.mean()), noise)
    margin = second - np.quantile(second, 1 - prevalence)
    return np.stack([-margin, margin], axis=1)


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


FIRST_LOOK = 16
"""Tasks on which all candidates are tried."""
DRAWS = 120
"""Tasks on which the best ones are tried, and from which the forecast comes."""
FINALISTS = 4
SURE = 2.0
"""Standard errors of the mean difference on the first look, by which a voting rule must be better than the first."""
JUDGED = 800
"""Rows of the pool on which made-up students are judged."""

_SEED = 0x706C616E
_REDRAWN = 2_000_006
"""Number of the first noise with which the chosen candidate is tried once more."""


@dataclass(frozen=True)
class TaskSet:
    """Tasks, and the rows that judge them, float64 (m, inputs). source: where they come from, for people."""

    source: str
    judged: np.ndarray = field(repr=False)
    tasks: Sequence[PublicTask] = field(repr=False)


@dataclass(frozen=True)
class Entry:
    """One voting rule in the choice: what is known of a federation with it, its candidates and its tasks."""

    facts: PublicFacts
    tried: Sequence[Candidate] = field(repr=False)
    task_set: TaskSet = field(repr=False)


@dataclass(frozen=True)
class Ranking:
    """What was found: the best candidate, in which entry, and the best one there with another mechanism, None where
    there is none."""

    entry: Entry
    best: Outcomes
    runner_up: Outcomes | None


def made_up(facts: PublicFacts, features: FeatureMap, prior: TaskPrior = PRIOR, draws: int = DRAWS) -> TaskSet:
    """Tasks from the prior. They are a function of the facts: the same facts give the same plan."""
    judged = facts.rows[:JUDGED]
    maker = TaskMaker(facts, features, judged, prior)
    tasks = _Drawn(draws, lambda number: maker.draw(np.random.default_rng([_SEED, number])))
    return TaskSet("made-up tasks on the public rows", judged, tasks)


class _Drawn(Sequence[PublicTask]):
    """Tasks that are drawn when they are first looked at: most voting rules are out after the first look."""

    def __init__(self, count: int, draw: Callable[[int], PublicTask]) -> None:
        self._count, self._draw = count, draw
        self._tasks: dict[int, PublicTask] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> PublicTask: ...
    @overload
    def __getitem__(self, number: slice) -> list[PublicTask]: ...
    def __getitem__(self, number: int | slice) -> PublicTask | list[PublicTask]:
        if isinstance(number, slice):
            return [self[place] for place in range(*number.indices(self._count))]
        if not 0 <= number < self._count:
            raise IndexError(number)
        if number not in self._tasks:
            self._tasks[number] = self._draw(number)
        return self._tasks[number]


def ranked(
    features: FeatureMap, entries: Sequence[Entry], progress: Callable[[int, int], None] = lambda done, total: None
) -> Ranking:
    """Try all candidates of all entries on some tasks, and one entry's best on all. The larger mean quality is the
    better. The first entry stays unless another one's best is better by `SURE` standard errors: what made-up tasks
    leave out, like parties whose classes differ in frequency, is why it comes first."""
    total, done = sum(len(entry.tried) for entry in entries) + 1, 0
    first: list[tuple[Entry, Rehearsal, list[Outcomes]]] = []
    for entry in entries:
        stage, looks = Rehearsal(features, entry.facts, entry.task_set.judged), list[Outcomes]()
        for candidate in entry.tried:
            progress(done, total)
            looks += stage.rehearse(candidate, entry.task_set.tasks[:FIRST_LOOK])
            done += 1
        looks.sort(key=lambda outcomes: -outcomes.expected)
        first.append((entry, stage, looks))
    entry, stage, looks = first[0]
    for other in first[1:]:
        if _surely_better(other[2][0], looks[0]):
            entry, stage, looks = other
    progress(done, total)
    final = [outcomes for candidate in _distinct(looks) for outcomes in stage.rehearse(candidate, entry.task_set.tasks)]
    progress(total, total)
    final.sort(key=lambda outcomes: -outcomes.expected)
    best = final[0].candidate.mechanism.name
    others = [outcomes for outcomes in final if outcomes.candidate.mechanism.name != best]
    return Ranking(entry, stage.with_noise(final[0], entry.task_set.tasks), others[0] if others else None)


def _surely_better(one: Outcomes, other: Outcomes) -> bool:
    gain = one.quality - other.quality
    return float(gain.mean()) > SURE * float(gain.std(ddof=1)) / np.sqrt(len(gain))


def _distinct(looks: Iterable[Outcomes]) -> list[Candidate]:
    """The first few candidates, and the first one of every other mechanism."""
    chosen: list[Candidate] = []
    for outcomes in looks:
        candidate = outcomes.candidate
        known = {other.mechanism.name for other in chosen}
        if candidate not in chosen and (len(chosen) < FINALISTS or candidate.mechanism.name not in known):
            chosen.append(candidate)
    return chosen
