"""What a student is worth in labels by hand: the block "worth" of a run's summary.

It is a function of the published student, of how many labels were released and asked for, and of public rows with their
true labels. So the guarantee of the labels covers it, and anybody with the truth of the public rows can compute it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from consilium.node.progress import HAND_LABELS
from consilium.protocol.labels.service import Progress, no_progress
from consilium.simulations.compare.break_even import LEVEL, break_even, most_tries
from consilium.simulations.compare.effort import MOST_DRAWS, most_plain_rows
from consilium.simulations.compare.hand_labels import HandLabels, PublicTruth
from consilium.simulations.population.specs import HandLabelMode
from consilium.student.config import StudentSpec

_PURPOSE = 0x776F727468


def worth(
    public: PublicTruth,
    student: np.ndarray,
    spec: StudentSpec,
    released: int,
    asked: np.ndarray,
    seed: int,
    mode: HandLabelMode,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """The block of a student with probabilities `student` float64 (test, classes).

    `released` labels it had, for the rows `asked` int64 (n,) of the pool, in its order. `mode` is not "none".

    Returns
    -------
    metric : what is compared. student : the student's. released, asked : the same trainer, or the plain one where that
        is better, on so many true labels, see `HandLabels.at`.
    hand_labels : the least number of true labels that reaches the student, see `break_even`; 0 where the fewest that
        were tried do, None where the most do not. low, high : its interval, likewise. level : the interval's.
    fewest, most, public_rows : labels that were tried at least and at most, and rows of the pool.
    trainer : which was the better near that number. draws : of labels, at each number where that takes no time.
    """
    by_hand = HandLabels(public, spec, asked, seed, mode)
    rows = len(public.labels)
    most = most_plain_rows(rows, by_hand.width, mode)
    scores = by_hand.score(student)
    tries = _Tries(by_hand, most_tries(most) + 2, progress)
    found = break_even(scores, tries.learnt, most, np.random.default_rng([seed, _PURPOSE]))
    points = {count: tries.at(count) for count in (released, len(asked))}
    tries.end()
    near = min(by_hand.better, key=lambda count: abs(math.log(count) - math.log(max(1.0, min(found.labels, most)))))
    return {
        "metric": by_hand.metric,
        "student": float(scores.mean()),
        "hand_labels": _number(found.labels),
        "low": _number(found.low),
        "high": _number(found.high),
        "level": LEVEL,
        "fewest": min(by_hand.better),
        "most": most,
        "public_rows": rows,
        "trainer": by_hand.better[near],
        "draws": MOST_DRAWS[mode],
        "released": points[released],
        "asked": points[len(asked)],
    }


class _Tries:
    """Tells how many numbers of labels were tried, of at most so many."""

    def __init__(self, by_hand: HandLabels, most: int, progress: Progress) -> None:
        self._by_hand, self._most, self._progress = by_hand, most, progress
        self._done = 0
        progress(HAND_LABELS, 0, most)

    def learnt(self, count: int) -> np.ndarray:
        """See `HandLabels.learnt`."""
        scores = self._by_hand.learnt(count)
        self._next()
        return scores

    def at(self, count: int) -> dict[str, Any]:
        """See `HandLabels.at`."""
        metrics = self._by_hand.at(count)
        self._next()
        return metrics

    def _next(self) -> None:
        self._done = min(self._done + 1, self._most - 1)
        self._progress(HAND_LABELS, self._done, self._most)

    def end(self) -> None:
        """All that was needed has been tried."""
        self._progress(HAND_LABELS, self._most, self._most)


def _number(labels: float) -> int | None:
    return None if math.isinf(labels) else int(labels)
