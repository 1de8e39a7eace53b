"""What a student is worth in labels by hand: the block "worth" of a run's summary.

It is a function of the published student, of how many labels were released and asked for, and of public rows with their
true labels. So the guarantee of the labels covers it, and anybody with the truth of the public rows can compute it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from consilium.simulations.compare.break_even import LEVEL, break_even
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
    found = break_even(scores, by_hand.learnt, most, np.random.default_rng([seed, _PURPOSE]))
    points = {count: by_hand.at(count) for count in (released, len(asked))}
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


def _number(labels: float) -> int | None:
    return None if math.isinf(labels) else int(labels)
