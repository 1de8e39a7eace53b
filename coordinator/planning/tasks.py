"""Made-up tasks on the real pool: what the rows may mean, and how teachers may see it. No labels, no votes of anybody.

A task is a random function of the public rows, linear and smooth, with a base rate and a separation. A teacher sees it
through a random change of its own, which stands for the few rows that it learned from, and all share one, which stands
for what no teacher of this kind learns. The ranges are declared here; the benchmark `forecast` says how often they
held."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit

from consilium.coordinator.planning.facts import PublicFacts
from consilium.protocol.voting_rule import HALF

MOST_COMPONENTS = 60
"""Principal components of the pool: what lies beyond is too little for a student that learns from noise."""
KERNEL_FEATURES = 120
"""Random Fourier features (Rahimi, Recht 2007) that stand for a kernel: finer structure is lost in the noise anyway."""

_LOT = 0x66656174


@dataclass(frozen=True)
class FeatureMap:
    """From rows float64 (n, inputs) to features, all centred on the pool.

    axes: (inputs, components). gamma: of the kernel exp(-gamma |a - b|^2). frequencies, phases: of its features.
    """

    centre: np.ndarray = field(repr=False)
    axes: np.ndarray = field(repr=False)
    gamma: float
    frequencies: np.ndarray = field(repr=False)
    phases: np.ndarray = field(repr=False)
    kernel_centre: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, rows: np.ndarray) -> FeatureMap:
        """Fitted to the pool. The kernel's width is the rows' own: exp(-1/2) between two at the mean distance."""
        centre = rows.mean(axis=0)
        centred = rows - centre
        values, vectors = np.linalg.eigh(centred.T @ centred / len(rows))
        keep = [index for index in np.argsort(-values)[:MOST_COMPONENTS] if values[index] > 1e-9 * max(values[-1], 1.0)]
        axes = vectors[:, keep] if keep else np.zeros((rows.shape[1], 1))
        gamma = 1 / (4 * max(float(values.sum()), 1e-9))
        generator = np.random.default_rng(_LOT)
        frequencies = np.sqrt(2 * gamma) * generator.standard_normal((axes.shape[1], KERNEL_FEATURES))
        phases = generator.uniform(0, 2 * np.pi, KERNEL_FEATURES)
        kernel_centre = _waves(centred @ axes, frequencies, phases).mean(axis=0)
        return cls(centre, axes, gamma, frequencies, phases, kernel_centre)

    def linear(self, rows: np.ndarray) -> np.ndarray:
        """Principal components (n, components), at their own scale."""
        return (rows - self.centre) @ self.axes

    def kernel(self, rows: np.ndarray) -> np.ndarray:
        """Features (n, KERNEL_FEATURES) whose products are about the kernel's values."""
        return _waves(self.linear(rows), self.frequencies, self.phases) - self.kernel_centre


def _waves(components: np.ndarray, frequencies: np.ndarray, phases: np.ndarray) -> np.ndarray:
    return np.sqrt(2 / len(phases)) * np.cos(components @ frequencies + phases)


_STEPS = 25
_POINTS = 300
_TEACHERS = 50
MOST_TEACHERS = 500
"""That are made up; more of them agree a little better with each other than a plan then says."""


@dataclass(frozen=True)
class PublicTask:
    """What parties might answer: on the pool, and on rows of which the truth is known (made up, or public labels).

    votes: int64 (rows, classes). judged_votes: int64 (judged, classes). truth: int64 (judged,). picked: int64, which of
    the judged rows count, some of them twice where they were drawn with replacement; None: each once.
    """

    votes: np.ndarray = field(repr=False)
    judged_votes: np.ndarray = field(repr=False)
    truth: np.ndarray = field(repr=False)
    picked: np.ndarray | None = field(default=None, repr=False)


@dataclass(frozen=True)
class TaskPrior:
    """Ranges from which tasks are drawn, each uniformly on the scale that is named.

    tilt: power of a component's size that its weight has: at 0 all components of the rows weigh alike, at 1 all
        features do, at more the few largest components are what counts.
    separation: AUC of the truth itself for two classes; for more, the share that the best guess gets right.
    rarest: share of the rarer of two classes, on a logarithmic scale.
    smooth: share of the function that is not linear.
    shared: how much of the teachers' common function is not the truth's, as a share of variance.
    teacher, teacher_tilt: size of a teacher's own change, in standard deviations of the function, on a logarithmic
        scale, where a party has one teacher: of k on shards of its rows it is sqrt(k) times as large; and its tilt.
    """

    tilt: tuple[float, float] = (1.0, 7.0)
    separation: tuple[float, float] = (0.5, 0.995)
    rarest: tuple[float, float] = (0.05, 0.5)
    smooth: tuple[float, float] = (0.0, 0.4)
    shared: tuple[float, float] = (0.0, 0.3)
    teacher: tuple[float, float] = (0.1, 8.0)
    teacher_tilt: tuple[float, float] = (0.0, 1.0)


PRIOR = TaskPrior()
"""What is declared."""


class TaskMaker:
    """Draws tasks on the pool of `facts`, and on `judged` rows of it, float64 (m, inputs)."""

    def __init__(self, facts: PublicFacts, features: FeatureMap, judged: np.ndarray, prior: TaskPrior) -> None:
        self._facts, self._prior = facts, prior
        self._asked = len(facts.rows)
        rows = np.concatenate([facts.rows, judged])
        linear, self._smooth = features.linear(rows), features.kernel(rows)
        self._scale = np.maximum(linear[: self._asked].std(axis=0), 1e-9)
        self._white = (linear / self._scale).astype(np.float32)

    def draw(self, generator: np.random.Generator) -> PublicTask:
        """One task."""
        prior, classes = self._prior, self._facts.classes
        smooth, shared = generator.uniform(*prior.smooth), generator.uniform(*prior.shared)
        tilt = generator.uniform(*prior.tilt)
        functions = 1 if classes == 2 else classes
        truth = self._functions(functions, smooth, tilt, generator)
        common = np.sqrt(1 - shared) * truth + np.sqrt(shared) * self._functions(functions, smooth, tilt, generator)
        noise = float(np.exp(generator.uniform(*np.log(prior.teacher))))
        separation = generator.uniform(*prior.separation)
        if classes == 2:
            rarest = float(np.exp(generator.uniform(*np.log(prior.rarest))))
            rate = rarest if generator.random() < 0.5 else 1 - rarest
            gain, level = _scaled(truth[: self._asked, 0], separation, rate)
            scores = np.column_stack([np.zeros(len(truth)), gain * truth[:, 0] + level])
            start = np.column_stack([np.zeros(len(truth)), gain * common[:, 0] + level])
            prevalence = np.array([1 - rate, rate])
        else:
            gain = _sharpened(truth[: self._asked], separation)
            scores, start = gain * truth, gain * common
            prevalence = np.full(classes, 1 / classes)
        if self._facts.voting_rule == "balanced":
            start = start - np.log(prevalence)
        drawn = (scores + generator.gumbel(size=scores.shape)).argmax(axis=1)
        rule, shards = self._facts.voting_rule, self._facts.teachers_per_party
        votes = self._votes(
            start,
            gain * noise * np.sqrt(shards),
            generator.uniform(*prior.teacher_tilt),
            {"relative": 0.5, "class_shares": (1 - HALF) / 2 + HALF * prevalence[1]}.get(rule),
            generator,
        )
        return PublicTask(votes[: self._asked], votes[self._asked :], drawn[self._asked :])

    def _functions(self, count: int, smooth: float, tilt: float, generator: np.random.Generator) -> np.ndarray:
        """Random functions (rows, count), each with mean 0 and variance 1 over the pool."""
        weights = generator.standard_normal((len(self._scale), count)) * (self._scale**tilt)[:, None]
        straight = _standard(self._white @ weights, self._asked)
        curved = _standard(self._smooth @ generator.standard_normal((self._smooth.shape[1], count)), self._asked)
        return _standard(np.sqrt(1 - smooth) * straight + np.sqrt(smooth) * curved, self._asked)

    def _votes(
        self, start: np.ndarray, noise: float, tilt: float, above: float | None, generator: np.random.Generator
    ) -> np.ndarray:
        """int64 (rows, classes): one vote of each teacher, which sees `start` and its own change of it.

        above: share of the pool that a teacher finds above its threshold, where it votes by one.
        """
        rows, classes = start.shape
        direction = self._scale**tilt / np.sqrt((self._scale ** (2 * tilt)).sum())
        votes = np.zeros((rows, classes), dtype=np.int64)
        # two classes differ by two independent changes, of which one would be enough
        noise = noise / np.sqrt(2) if classes == 2 else noise
        base = start.T.astype(np.float32)[:, :, None]
        count = min(self._facts.votes, MOST_TEACHERS)
        for first in range(0, count, _TEACHERS):
            teachers = min(_TEACHERS, count - first)
            weights = noise * generator.standard_normal((classes, len(direction), teachers)) * direction[:, None]
            level = noise * 0.3 * generator.standard_normal((classes, 1, teachers))
            scores = base + self._white @ weights.astype(np.float32) + level.astype(np.float32)
            if above is not None:
                scores = _against_thresholds(scores, self._asked, above)
            chosen = scores.argmax(axis=0)
            votes += np.stack([(chosen == label).sum(axis=1) for label in range(classes)], axis=1)
        if count == self._facts.votes:
            return votes
        votes = votes * self._facts.votes // count
        votes[:, 0] += self._facts.votes - votes.sum(axis=1)
        return votes


def _against_thresholds(scores: np.ndarray, pool: int, above: float) -> np.ndarray:
    """Scores (classes, rows, teachers) less each teacher's thresholds, which its scores of the first `pool` rows give:
    of two classes the share `above` of them is above the second's, of more a half above each."""
    scores = scores - scores.mean(axis=0)
    share = above if len(scores) == 2 else 0.5
    place = int((1 - share) * (pool - 1))
    if len(scores) > 2:
        return scores - np.partition(scores[:, :pool], place, axis=1)[:, place : place + 1]
    second = scores[1] - np.partition(scores[1, :pool], place, axis=0)[place]
    return np.stack([-second, second])


def _standard(functions: np.ndarray, rows: int) -> np.ndarray:
    pool = functions[:rows]
    return (functions - pool.mean(axis=0)) / np.maximum(pool.std(axis=0), 1e-9)


def _scaled(function: np.ndarray, auc: float, rate: float) -> tuple[float, float]:
    """Factor and level that make log-odds of a standard function (n,), with this AUC and this rate."""
    ordered = np.quantile(function, (np.arange(_POINTS) + 0.5) / _POINTS)

    def level_of(gain: float) -> float:
        low, high = -60.0, 60.0
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if expit(gain * ordered + middle).mean() < rate else (low, middle)
        return (low + high) / 2

    def separation(gain: float) -> float:
        p = expit(gain * ordered + level_of(gain))
        below = np.cumsum(1 - p) - (1 - p) / 2
        return float((p * below).sum() / (p.sum() * (1 - p).sum()))

    low, high = 0.0, 20.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if separation(middle) < auc else (low, middle)
    return high, level_of(high)


def _sharpened(functions: np.ndarray, accuracy: float) -> float:
    """Factor with which the likeliest class of a softmax is right so often, at most 50."""
    low, high = 0.0, 50.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        scaled = middle * functions
        shares = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        right = (1 / shares.sum(axis=1)).mean()
        low, high = (middle, high) if right < accuracy else (low, middle)
    return high
