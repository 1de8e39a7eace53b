"""The noise that a batch of queries was given, row by row, so that other votes can be given the very same.

A mechanism draws noise for all rows of a batch, and then, if it has a second step, for those that passed the first.
With one party less other rows pass, and by the order of the draws alone each row behind them would get another's noise:
all labels would seem to hang on that party. Here a row keeps its own. One that passes only without the party gets noise
of its own, with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from consilium.coordinator.mechanisms.base import Drawn, MechanismModel
from consilium.protocol.noise import NoiseSource, SeededNoise

_Law = Callable[[NoiseSource, tuple[int, ...]], np.ndarray]
"""Noise of one law and scale, of that shape, from a source."""
_Supply = Callable[[int, _Law, tuple[int, ...]], np.ndarray]
"""The number of a call, its law and shape -> what it is given."""


class RowNoise:
    """Of one batch. `drawn`: what the mechanism released from `votes` int64 (rows, classes) with the noise of `source`,
    which is spent by it. `probabilities`: the student's, float64 (rows, classes). `seed`: for rows that pass later.
    """

    def __init__(
        self, mechanism: MechanismModel, votes: np.ndarray, source: NoiseSource, probabilities: np.ndarray, seed: int
    ) -> None:
        self._mechanism, self._probabilities, self._seed, self._rows = mechanism, probabilities, seed, len(votes)
        calls: list[tuple[_Law, np.ndarray]] = []

        def recorded(number: int, law: _Law, shape: tuple[int, ...]) -> np.ndarray:
            calls.append((law, law(source, shape)))
            return calls[-1][1]

        self.drawn = mechanism.draw(votes, _Calls(recorded), probabilities)
        self._calls = [self._of_all(number, law, given) for number, (law, given) in enumerate(calls)]

    def given(self, votes: np.ndarray) -> Drawn:
        """What is released from other votes on the same rows, each row with the noise that it had.

        Who gets as far as a second step does not hang on the noise of that step, so a first draw finds out who does.
        """
        every = _Calls(self._recalled(np.ones(self._rows, dtype=bool)))
        drawn = self._mechanism.draw(votes, every, self._probabilities)
        if all(shape[0] == self._rows for shape in every.shapes):
            return drawn
        return self._mechanism.draw(votes, _Calls(self._recalled(drawn.answered)), self._probabilities)

    def _of_all(self, number: int, law: _Law, given: np.ndarray) -> np.ndarray:
        """Noise of one call for every row of the batch, from what the rows got that were answered."""
        if len(given) == self._rows:
            return given
        every = self._fresh(number, law, given.shape)
        every[self.drawn.answered] = given
        return every

    def _recalled(self, passed: np.ndarray) -> _Supply:
        """`passed` bool (rows,): whom a call is for that is not for every row."""

        def supply(number: int, law: _Law, shape: tuple[int, ...]) -> np.ndarray:
            known = number < len(self._calls)
            every = self._calls[number] if known else self._fresh(number, law, shape)
            return every if shape[0] == self._rows else every[passed][: shape[0]]

        return supply

    def _fresh(self, number: int, law: _Law, shape: tuple[int, ...]) -> np.ndarray:
        source = SeededNoise(int(np.random.SeedSequence([self._seed, number]).generate_state(1)[0]))
        return law(source, (self._rows, *shape[1:]))


class _Calls:
    """A source of noise that numbers its calls. shapes: what was asked for."""

    simulated = True

    def __init__(self, supply: _Supply) -> None:
        self._supply = supply
        self.shapes: list[tuple[int, ...]] = []

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.gaussian`."""
        return self._next(lambda source, of: source.gaussian(sigma, of), shape)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.laplace`."""
        return self._next(lambda source, of: source.laplace(gamma, of), shape)

    def _next(self, law: _Law, shape: tuple[int, ...]) -> np.ndarray:
        self.shapes.append(shape)
        return self._supply(len(self.shapes) - 1, law, shape)
