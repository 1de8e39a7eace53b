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


def codes_of(classes: int) -> int:
    """Number of outcomes: none, a label, a label of the student's own, and "not asked any more"."""
    return 2 * classes + 2


def _coded(drawn: Drawn, classes: int) -> tuple[np.ndarray, np.ndarray]:
    outcomes = np.where(drawn.labels == NO_LABEL, 0, 1 + drawn.labels + classes * drawn.reinforced)
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
    outcomes, answered = np.empty((runs, queries), dtype=np.int16), np.empty((runs, queries), dtype=bool)
    if one_call:
        most = max(1, _NUMBERS // votes.size)
        for start in range(0, runs, most):
            part = slice(start, min(start + most, runs))
            times = (part.stop - start, 1)
            asked = None if said is None else np.tile(said, times)
            coded = _coded(mechanism.draw(np.tile(votes, times), noise, asked), classes)
            outcomes[part], answered[part] = (each.reshape(-1, queries) for each in coded)
    else:
        for run in range(runs):
            fresh = copy.deepcopy(mechanism)
            for call in layout.calls:
                asked = None if said is None else said[call]
                outcomes[run, call], answered[run, call] = _coded(fresh.draw(votes[call], noise, asked), classes)
    if layout.answered_cap < queries:
        before = answered.cumsum(axis=1) - answered
        outcomes[before >= layout.answered_cap] = codes_of(classes) - 1
    return outcomes
