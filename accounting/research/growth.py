"""How epsilon grows with the queries asked, by every bound."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from consilium.accounting.curves.conversion import rdp_to_epsilon
from consilium.accounting.curves.orders import DEFAULT_ORDERS
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.label_costs import VoteBatch, exact_rdp, published_rdp, worst_case

MOST_POINTS = 60


class Growth(NamedTuple):
    """Epsilon after so many queries: int64 (points,) and three float64 (points,). All but the worst case is secret.

    worst_case : without numerical composition, so that at the last point it may lie a little above what is promised.

    published : None where the mechanism has no such bound.
    """

    asked: np.ndarray
    worst_case: np.ndarray
    exact: np.ndarray
    published: np.ndarray | None

    def __repr__(self) -> str:
        return f"Growth({self.asked.size} points, <secret>)"


def growth(promised: ReleaseEvent, event: ReleaseEvent, batch: VoteBatch, delta: float) -> Growth:
    """Epsilon at up to `MOST_POINTS` numbers of queries, in the order of the batch.

    promised : with the counts that were fixed before; after n queries at most n labels have left.
    """
    ends = np.unique(np.linspace(0, event.asked, min(event.asked, MOST_POINTS) + 1).round().astype(np.int64))
    curves: dict[str, list[np.ndarray]] = {"exact": [], "published": []}
    for start, end in pairwise(ends):
        part = _part(batch, slice(int(start), int(end)))
        here = event.with_counts(len(part.votes), len(part.votes))
        curves["exact"].append(exact_rdp(here, part))
        published = published_rdp(here, part)
        if published is not None:
            curves["published"].append(published)
    worst = [
        worst_case(promised.with_counts(int(n), min(int(n), promised.answered)), delta, numerical=False).epsilon
        for n in ends[1:]
    ]
    # as in `epsilon`: what holds for all votes holds for these
    ceiling = [worst_case(event.with_counts(int(n), int(n)), delta, numerical=False).epsilon for n in ends[1:]]
    return Growth(
        asked=ends[1:],
        worst_case=np.array(worst),
        exact=np.minimum(_epsilons(curves["exact"], delta), ceiling),
        published=_epsilons(curves["published"], delta) if curves["published"] else None,
    )


def _part(batch: VoteBatch, rows: slice) -> VoteBatch:
    predictions = None if batch.predictions is None else batch.predictions[rows]
    return VoteBatch(batch.votes[rows], batch.teachers, batch.weights[rows], predictions)


def _epsilons(curves: list[np.ndarray], delta: float) -> np.ndarray:
    return np.array([rdp_to_epsilon(curve, DEFAULT_ORDERS, delta).epsilon for curve in np.cumsum(curves, axis=0)])
