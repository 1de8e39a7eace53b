"""What a student is worth in manual labels: a search over their number, an interval, and the block "worth".

It is a function of the published student, of how many labels were released and asked for, and of public rows with their
true labels. So the guarantee of the labels covers it, and anybody with the truth of the public rows can compute it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.protocol.label_source import Progress, no_progress
from consilium.report.progress import MANUAL_LABELS, stage
from consilium.simulations.methods.manual_labels import MOST_DRAWS, ManualLabels, PublicTruth
from consilium.simulations.population.specs import ManualLabelMode
from consilium.student.config import StudentSpec

FEWEST = 5
"""Manual labels that are tried at least. Where they do as well, the student is worth none."""
LEVEL = 0.95
_REPLICATES = 1000
_FINE, _COARSE = 1.1, 1.35
"""Ratio of neighbouring numbers at which the search for the number itself, and for its interval's ends, stops."""

Learnt = Callable[[int], np.ndarray]
"""How many labels -> float64 (draws, test): row scores (`row_scores`) of what was learnt, one line for each draw."""


@dataclass(frozen=True)
class BreakEven:
    """Manual labels that reach a student: 0 where the fewest that were tried do, inf where the most do not.

    low, high : with probability `LEVEL` the number lies between, see `break_even`.
    """

    labels: float
    low: float
    high: float


def break_even(student: np.ndarray, learnt: Learnt, most: int, generator: np.random.Generator) -> BreakEven:
    """The least number of labels, from `FEWEST` to `most`, whose mean metric over the draws is the student's.

    By bisection of its logarithm: the metric is taken to rise with the number (isotonic regression over all numbers
    that were tried), and between two of them with its logarithm.

    The interval is a bootstrap of what a person would meet: in each replicate the test rows are drawn anew, the same
    for the student and the others, and one draw of labels is followed instead of their mean. So it covers the luck of
    the labels, the student's and the person's, and of the test rows.

    Parameters
    ----------
    student : float64 (test,), row scores of the student. most : at least 1.
    """
    curve = _Curve(student, learnt, generator)
    fewest = min(FEWEST, most)
    curve.add(fewest)
    curve.add(most)
    while (between := curve.middle(curve.mean_crossing(), _FINE)) is not None:
        curve.add(between)
    ends = curve.interval()
    while (between := next(filter(None, (curve.middle(end, _COARSE) for end in ends)), None)) is not None:
        curve.add(between)
        ends = curve.interval()
    return BreakEven(*(_rounded(value, fewest) for value in (curve.mean_crossing(), *ends)))


def crossing(counts: np.ndarray, heights: np.ndarray, level: np.ndarray | float) -> np.ndarray:
    """Where rising curves reach a level: float64 (curves,) from the first count on, inf where they never do.

    `counts` ascending (n,), `heights` (curves, n), `level` (curves,) or one for all. Between counts a curve rises with
    their logarithm.

    >>> crossing(np.array([10, 1000]), np.array([[0.6, 0.8], [0.7, 0.8], [0.1, 0.2]]), 0.7).round(6).tolist()
    [100.0, 10.0, inf]
    """
    rising, level = isotonic(heights), np.broadcast_to(level, len(heights))
    reached = rising >= level[:, None] - 1e-9  # the same model, added up in another order
    place = reached.argmax(axis=1)
    curves, before = np.arange(len(heights)), np.maximum(place - 1, 0)
    low, high = rising[curves, before], rising[curves, place]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(place == 0, 0.0, (level - low) / (high - low))
    logs = np.log(counts)
    crossings = np.exp(logs[before] + share * (logs[place] - logs[before]))
    return np.where(reached.any(axis=1), np.clip(crossings, counts[before], counts[place]), np.inf)


def isotonic(heights: np.ndarray) -> np.ndarray:
    """The nearest rising curves (curves, n), by the largest of the smallest means (Robertson, Wright, Dykstra 1988).

    >>> isotonic(np.array([[1.0, 3.0, 2.0, 4.0]])).tolist()
    [[1.0, 2.5, 2.5, 4.0]]
    """
    size = heights.shape[1]
    sums = np.concatenate([np.zeros((len(heights), 1)), heights.cumsum(axis=1)], axis=1)
    first, last = np.arange(size)[:, None], np.arange(size)[None, :]
    means = np.where(first <= last, (sums[:, None, 1:] - sums[:, :-1, None]) / np.maximum(last - first + 1, 1), np.inf)
    smallest = np.minimum.accumulate(means[:, :, ::-1], axis=2)[:, :, ::-1]  # over all that end at or behind
    return np.stack([smallest[:, : place + 1, place].max(axis=1) for place in range(size)], axis=1)


@dataclass
class _Curve:
    """What was tried so far, with the metric of each draw in each replicate of the test rows."""

    student: np.ndarray
    learnt: Learnt
    generator: np.random.Generator
    means: dict[int, float] = field(default_factory=dict)
    drawn: dict[int, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = len(self.student)
        drawn = self.generator.integers(rows, size=(_REPLICATES, rows)) + rows * np.arange(_REPLICATES)[:, None]
        self.weights = np.bincount(drawn.ravel(), minlength=_REPLICATES * rows).reshape(-1, rows) / rows
        self.draw = self.generator.integers(2**31, size=_REPLICATES)

    def add(self, count: int) -> None:
        if count in self.means:
            return
        scores = self.learnt(count)
        self.means[count] = float(scores.mean())
        every = self.weights @ scores.T
        self.drawn[count] = every[np.arange(_REPLICATES), self.draw % len(scores)]

    def mean_crossing(self) -> float:
        counts = sorted(self.means)
        heights = np.array([[self.means[count] for count in counts]])
        return float(crossing(np.array(counts), heights, float(self.student.mean()))[0])

    def interval(self) -> tuple[float, float]:
        counts = sorted(self.drawn)
        heights = np.stack([self.drawn[count] for count in counts], axis=1)
        crossings = np.sort(crossing(np.array(counts), heights, self.weights @ self.student))
        outside = (1 - LEVEL) / 2 * _REPLICATES
        return float(crossings[math.floor(outside)]), float(crossings[-1 - math.floor(outside)])

    def middle(self, value: float, ratio: float) -> int | None:
        """What to try next: between the neighbours of `value`, where they are further apart than `ratio`."""
        counts = sorted(self.means)
        if not counts[0] < value <= counts[-1]:
            return None
        after = next(count for count in counts if count >= value)
        before = counts[counts.index(after) - 1]
        between = round(math.sqrt(before * after))
        return None if after <= before * ratio or between in (before, after) else between


def _rounded(value: float, fewest: int) -> float:
    return value if math.isinf(value) else float(0 if value <= fewest else round(value))


_PURPOSE = 0x776F727468


def labels_reaching(manual: ManualLabels, student: np.ndarray, seed: int) -> BreakEven:
    """How many manual labels reach a student with probabilities `student` float64 (test, classes)."""
    generator = np.random.default_rng([seed, _PURPOSE])
    return break_even(manual.score(student), manual.learnt, manual.most, generator)


def worth(
    public: PublicTruth,
    student: np.ndarray,
    spec: StudentSpec,
    released: int,
    queried: np.ndarray,
    seed: int,
    mode: ManualLabelMode,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """The block of a student with probabilities `student` float64 (test, classes).

    `released` labels it had, for the rows `queried` int64 (n,) of the pool, in its order. `mode` is not "none".

    Returns
    -------
    metric : what is compared. student : the student's. released, asked : the same trainer, or the plain one where that
        is better, on so many true labels, see `ManualLabels.metrics_of`.
    Where the student's own trainer is quick enough to be searched with, also:
    manual_labels : the least number of true labels that reaches the student, see `break_even`; 0 where the fewest that
        were tried do, None where the most do not. low, high : its interval, likewise. level : the interval's.
    fewest, most, public_rows : labels that were tried at least and at most, and rows of the pool.
    trainer : which was the better near that number. draws : of labels, at each number where that takes no time.
    """
    manual = ManualLabels(public, spec, queried, seed, mode)
    searched: dict[str, Any] = {}
    with stage(progress, MANUAL_LABELS):
        if manual.searches_own:  # the plain trainer alone would say that the student is worth more than it is
            even = labels_reaching(manual, student, seed)
            aim = math.log(max(1.0, min(even.labels, manual.most)))
            searched = {
                "manual_labels": _number(even.labels),
                "low": _number(even.low),
                "high": _number(even.high),
                "level": LEVEL,
                "fewest": min(manual.better),
                "most": manual.most,
                "trainer": manual.better[min(manual.better, key=lambda count: abs(math.log(count) - aim))],
                "draws": MOST_DRAWS[mode],
            }
        points = {count: manual.metrics_of(count) for count in {released, len(queried)}}  # once where all got labels
    return {
        "metric": manual.metric,
        "student": float(manual.score(student).mean()),
        **searched,
        "public_rows": len(public.labels),
        "released": points[released],
        "asked": points[len(queried)],
    }


def _number(labels: float) -> int | None:
    return None if math.isinf(labels) else int(labels)
