"""What federated averaging would give with other learning rates and norms: to choose one before Flower runs it.

All trials and all parties of a round are trained together, by the same gradients, batches, lots and noise as in the run
itself: a trial differs from it by rounding alone, and takes a hundredth of its time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from consilium.simulations.methods.averaging import (
    AveragedNetwork,
    LocalTraining,
    Rounds,
    TrainingRows,
    batches_of,
    generator_of,
    lots_of,
    noise_of,
)
from consilium.simulations.methods.averaging_privacy import PartyPrivacy

_AT_ONCE = 4_000_000
"""Numbers of a step, over trials, parties, rows and units."""


class Trial(NamedTuple):
    """What is tried: a learning rate, and a promise with its norm."""

    learning_rate: float
    privacy: PartyPrivacy | None = None


def rehearse(
    parties: Sequence[TrainingRows],
    network: AveragedNetwork,
    training: LocalTraining,
    rounds: Rounds,
    seed: int,
    trials: Sequence[Trial],
) -> np.ndarray:
    """The model of each trial, float64 (trials, size), that `averaging.federate` gives with its learning rate in place
    of that in `training`, and with its privacy, but for rounding."""
    rehearsal = _Rehearsal(parties, network, training, rounds.proximal_mu or 0.0, seed, trials)
    lots, noise = lots_of(seed), noise_of(seed)
    models = np.tile(network.initial(seed), (len(trials), 1))
    deviations = [0.0 if privacy is None else privacy.noise_deviation(rounds.count, len(parties))
                  for _, privacy in trials]  # fmt: skip
    for number in range(1, rounds.count + 1):
        chosen = lots.sample(range(len(parties)), rounds.parties_in_each(len(parties)))
        models = models + rehearsal.step(models, chosen, number)
        if any(deviations):
            models = models + np.array(deviations)[:, None] * noise.standard_normal(network.size)
    return models


@dataclass
class _Rehearsal:
    parties: Sequence[TrainingRows]
    network: AveragedNetwork
    training: LocalTraining
    proximal_mu: float
    seed: int
    trials: Sequence[Trial]
    _first: np.ndarray = field(init=False)
    _x: np.ndarray = field(init=False)
    _wanted: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        sizes = [len(party.y) for party in self.parties]
        self._first = np.cumsum([0, *sizes[:-1]])
        self._x = np.concatenate([party.x for party in self.parties])
        self._wanted = np.eye(self.network.widths[-1])[np.concatenate([party.y for party in self.parties])]

    def step(self, models: np.ndarray, chosen: Sequence[int], number: int) -> np.ndarray:
        """What round `number` with these parties adds to each model, float64 (trials, size)."""
        total, weight = np.zeros_like(models), np.zeros((len(models), 1))
        for block in self._blocks(chosen):
            updates = self._trained(models, block, number) - models[:, None]
            failed = ~np.isfinite(updates).all(axis=2)
            updates[failed] = 0.0
            weights = np.array([len(self.parties[index].y) for index in block]) * ~failed
            for trial, (_, privacy) in enumerate(self.trials):
                if privacy is not None:  # all count the same, and where training failed there is an update all the same
                    norms = np.maximum(np.linalg.norm(updates[trial], axis=1), 1e-300)
                    updates[trial] *= np.minimum(1.0, privacy.clip / norms)[:, None]
                    weights[trial] = 1
            total += (weights[:, None] @ updates)[:, 0]
            weight += weights.sum(axis=1, keepdims=True)
        return np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)

    def _blocks(self, chosen: Sequence[int]) -> Iterator[list[int]]:
        """The parties, large ones first, as many at a time as are trained at once."""
        by_size = sorted(chosen, key=lambda index: -len(self.parties[index].y))
        one = len(self.trials) * max(self.training.batch, 1) * max(self.network.widths) + self.network.size
        size = max(1, _AT_ONCE // one)
        for start in range(0, len(by_size), size):
            yield by_size[start : start + size]

    def _trained(self, models: np.ndarray, block: Sequence[int], number: int) -> np.ndarray:
        """The block's models after local training, float64 (trials, parties, size)."""
        batches = [
            list(batches_of(len(self.parties[index].y), self.training, generator_of((self.seed, index, number))))
            for index in block
        ]
        trained = np.repeat(models[:, None], len(block), axis=1)
        rates = np.array([rate for rate, _ in self.trials])[:, None, None]
        with np.errstate(all="ignore"):  # what is not finite is left out by whoever adds up
            for step in range(max(map(len, batches))):
                active = [place for place, steps in enumerate(batches) if len(steps) > step]
                x, wanted, count = self._rows([(block[place], batches[place][step]) for place in active])
                now = trained[:, active]
                gradient = self.network.gradients(now, x, wanted, count)
                if self.proximal_mu:
                    gradient += self.proximal_mu * (now - models[:, None])
                trained[:, active] = now - rates * gradient
        return trained

    def _rows(self, batch: Sequence[tuple[int, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `AveragedNetwork.gradients`: one batch of each party, filled up to the longest."""
        longest = max(len(rows) for _, rows in batch)
        places, count = np.zeros((len(batch), longest), dtype=np.int64), np.full((len(batch), longest, 1), math.inf)
        for place, (index, rows) in enumerate(batch):
            places[place, : len(rows)] = self._first[index] + rows
            places[place, len(rows) :] = self._first[index]
            count[place, : len(rows)] = len(rows)
        return self._x[places].astype(np.float64), self._wanted[places], count
