"""One mechanism of each kind, noise that is none, and votes to draw labels from."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilium.accounting.events import Mechanism
from consilium.accounting.mechanisms import (
    Confident,
    Difference,
    GNMax,
    Histogram,
    Immutable,
    ImmutableGaussian,
    Interactive,
    LNMax,
)
from consilium.coordinator.collection.base import Counts
from consilium.coordinator.draw import Drawn, draw
from consilium.protocol.errors import NotEnoughParties
from consilium.protocol.noise import NoiseSource


class NoNoise:
    """Zero noise, and a record of what was asked for: (law, scale, shape)."""

    simulated = True

    def __init__(self) -> None:
        self.drawn: list[tuple[str, float, tuple[int, ...]]] = []

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        self.drawn.append(("gaussian", sigma, shape))
        return np.zeros(shape, dtype=np.int64)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        self.drawn.append(("laplace", gamma, shape))
        return np.zeros(shape, dtype=np.int64)


MECHANISMS: list[Mechanism] = [
    LNMax(gamma=0.3),
    GNMax(sigma=3.0),
    Difference(sigma=3.0),
    Histogram(sigma=3.0),
    Confident(threshold=6, sigma1=4.0, sigma2=3.0),
    Interactive(threshold=4, sigma1=4.0, sigma2=3.0, confidence=0.9),
    Immutable(gamma=0.3, constant=3),
    ImmutableGaussian(sigma=3.0, constant=3),
]
IN_SUMS = [each for each in MECHANISMS if each.name in ("gnmax", "histogram", "confident", "interactive")]
"""Those that have a law of counts that hold noise."""


def for_(mechanism: Mechanism, votes: Any) -> np.ndarray:
    """These votes, int64 (queries, 3); of a mechanism of two classes the first and the last are one."""
    votes = np.asarray(votes)
    return votes if mechanism.classes is None else np.stack((votes[:, 1], votes[:, 0] + votes[:, 2]), axis=1)


WINNERS = np.array([[18, 1, 1], [0, 19, 1], [1, 2, 17]])


class Sums:
    """Counts of these votes for `draw`, and a record of what was asked: (positions, round).

    sigma : what they hold. failing : the round in which the parties do not answer. teachers : of each row, left out
    that of the first.
    """

    def __init__(self, votes: np.ndarray, sigma: float = 0.0, failing: int = 0, teachers: int | None = None) -> None:
        self.votes, self.sigma, self.failing = votes, sigma, failing
        self.teachers = int(votes[:1].sum()) if teachers is None else teachers
        self.asked: list[tuple[list[int], int]] = []

    def __call__(self, round_: int, chosen: np.ndarray | None) -> Counts:
        if round_ == self.failing:
            raise NotEnoughParties(f"nobody answers in round {round_}")
        positions = np.arange(len(self.votes)) if chosen is None else chosen
        self.asked.append((positions.tolist(), round_))
        return Counts(self.votes[positions], ("p",), self.teachers, sigma=self.sigma)


def release(
    mechanism: Mechanism,
    sums: Sums | np.ndarray,
    noise: NoiseSource,
    probabilities: np.ndarray | None = None,
    room: int = 1_000_000,
) -> Drawn:
    """Drawn with even probabilities where the mechanism needs some and none are given."""
    sums = Sums(sums) if isinstance(sums, np.ndarray) else sums
    if mechanism.needs_probabilities and probabilities is None:
        probabilities = np.full(sums.votes.shape, 1 / sums.votes.shape[1])
    return draw(mechanism, sums, noise, room=room, probabilities=probabilities)


def make_votes(queries: int, seed: int = 0, teachers: int = 12) -> np.ndarray:
    return np.random.default_rng(seed).multinomial(teachers, [0.2, 0.5, 0.3], size=queries).astype(np.int64)
