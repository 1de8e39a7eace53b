"""The game that an audit plays: many runs of a mechanism under D and under D', seen as an outsider sees them."""

from __future__ import annotations

import copy
import math

import numpy as np

from consilium.coordinator.distinguish.pairs import Layout
from consilium.coordinator.mechanisms.base import Drawn, Mechanism
from consilium.protocol.labels.service import NO_LABEL
from consilium.protocol.noise import NoiseSource

_BLOCK = 1 << 16
_NUMBERS = 1 << 21


class PooledNoise:
    """Noise of another source, fetched in blocks and handed out number by number, each once.

    A run asks for little noise at a time, and there are many runs: a sampler that is set up for each call would be most
    of the cost. The numbers are independent, so handing them out in slices changes nothing.
    """

    def __init__(self, source: NoiseSource) -> None:
        self.simulated = source.simulated
        self._source = source
        self._pools: dict[tuple[str, float], np.ndarray] = {}

    def __repr__(self) -> str:
        return f"PooledNoise({self._source!r})"

    def _take(self, kind: str, scale: float, shape: tuple[int, ...]) -> np.ndarray:
        count = math.prod(shape)
        draw = getattr(self._source, kind)
        if count > _BLOCK:
            return draw(scale, shape)
        pool = self._pools.get((kind, scale))
        if pool is None or len(pool) < count:
            pool = draw(scale, (_BLOCK,))
        self._pools[kind, scale] = pool[count:]
        return pool[:count].reshape(shape)

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.gaussian`."""
        return self._take("gaussian", sigma, shape)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.laplace`."""
        return self._take("laplace", gamma, shape)


BINS = 24
"""Outcomes that a released histogram is sorted into."""
REACH = 2.5
"""Standard deviations around the middle of D and D' that they cover evenly; the two at the ends have the rest."""


def codes_of(classes: int, counts: bool = False) -> int:
    """Number of outcomes: none, a label, a label of the student's own, and "not asked any more".

    counts : histograms are released, and an outcome is none, where the histogram lies, or "not asked any more".
    """
    return BINS + 2 if counts else 2 * classes + 2


def _coded(drawn: Drawn, classes: int, middle: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """`middle` float64 (queries,): between D and D', of the difference of the first two counts, where votes move."""
    if drawn.counts is None:
        outcomes = np.where(drawn.labels == NO_LABEL, 0, 1 + drawn.labels + classes * drawn.reinforced)
    else:  # Gaussian noise of one width: the difference is all that tells D from D'
        away = (drawn.counts[:, 0] - drawn.counts[:, 1] - middle) / (math.sqrt(2) * sigma)
        outcomes = 1 + np.clip(np.floor((away / REACH + 1) / 2 * BINS), 0, BINS - 1)
    return outcomes.astype(np.int16), drawn.answered


def play(
    mechanism: Mechanism, votes: np.ndarray, layout: Layout, runs: int, noise: NoiseSource, *, one_call: bool = False
) -> np.ndarray:
    """Outcomes of `runs` runs on `votes` int64 (queries, classes): int16 (runs, queries), numbers below `codes_of`.

    Every run starts from a fresh copy of the mechanism, so runs are independent whatever it keeps within one. After
    the answer that uses up the cap, all further outcomes of a run are "not asked any more": a coordinator refuses them.

    one_call : draw many runs in one call of the mechanism. Much faster, and only right for mechanisms whose queries are
        known to be independent within a call; noise that is reused there would be shared by those runs.
    """
    queries, classes = votes.shape
    said = layout.probabilities
    between = (layout.d + layout.d_prime) / 2
    middle, sigma = between[:, 0] - between[:, 1], mechanism.count_sigma(1)
    outcomes, answered = np.empty((runs, queries), dtype=np.int16), np.empty((runs, queries), dtype=bool)
    if one_call:
        most = max(1, _NUMBERS // votes.size)
        for start in range(0, runs, most):
            part = slice(start, min(start + most, runs))
            times = (part.stop - start, 1)
            asked = None if said is None else np.tile(said, times)
            drawn = mechanism.draw(np.tile(votes, times), noise, asked)
            coded = _coded(drawn, classes, np.tile(middle, times[0]), sigma)
            outcomes[part], answered[part] = (each.reshape(-1, queries) for each in coded)
    else:
        for run in range(runs):
            fresh = copy.deepcopy(mechanism)
            for call in layout.calls:
                asked = None if said is None else said[call]
                outcomes[run, call], answered[run, call] = _coded(
                    fresh.draw(votes[call], noise, asked), classes, middle[call], sigma
                )
    if layout.answered_cap < queries:
        before = answered.cumsum(axis=1) - answered
        outcomes[before >= layout.answered_cap] = codes_of(classes, sigma > 0) - 1
    return outcomes
