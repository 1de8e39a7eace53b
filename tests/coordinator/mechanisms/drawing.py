"""One mechanism of each kind, noise that is none, and votes to draw labels from."""

from __future__ import annotations

import numpy as np

from consilium.accounting.events import Mechanism
from consilium.accounting.mechanisms import (
    Confident,
    Distributed,
    DistributedTwoPhase,
    GNMax,
    Histogram,
    Immutable,
    ImmutableGaussian,
    Interactive,
    LNMax,
)
from consilium.coordinator.draw import Drawn
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
    Histogram(sigma=3.0),
    Confident(threshold=6, sigma1=4.0, sigma2=3.0),
    Interactive(threshold=4, sigma1=4.0, sigma2=3.0, confidence=0.9),
    Immutable(gamma=0.3, constant=3),
    ImmutableGaussian(sigma=3.0, constant=3),
    Distributed(threshold=6, sigma=4.0, noise_shares=4),
    DistributedTwoPhase(threshold=6, sigma1=4.0, sigma2=3.5, noise_shares=3),
]
CLEAR = np.array([[18, 1, 1], [0, 19, 1], [1, 2, 17]])


def draw(mechanism: Mechanism, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
    """Draws with even probabilities where the mechanism needs some and none are given."""
    if mechanism.needs_probabilities and probabilities is None:
        probabilities = np.full(votes.shape, 1 / votes.shape[1])
    return mechanism.draw(votes, noise, probabilities)


class Parties:
    """Sums of these votes for a mechanism's `release`, and a record of what was asked: (positions, phase).

    failing : the phase in which the parties do not answer.
    """

    def __init__(self, votes: np.ndarray, failing: int = 0) -> None:
        self.votes, self.failing = votes, failing
        self.asked: list[tuple[list[int], int]] = []

    def __call__(self, positions: np.ndarray, phase: int) -> tuple[np.ndarray, int]:
        if phase == self.failing:
            raise NotEnoughParties(f"nobody answers in phase {phase}")
        self.asked.append((positions.tolist(), phase))
        return self.votes[positions], int(self.votes[:1].sum())


def release(mechanism: Mechanism, parties: Parties, room: int, noise: NoiseSource | None) -> Drawn:
    """What `draw` above draws, released."""
    queries, classes = parties.votes.shape
    p = np.full((queries, classes), 1 / classes) if mechanism.needs_probabilities else None
    return mechanism.release(parties, queries, room, noise, p)


def make_votes(queries: int, seed: int = 0, teachers: int = 12) -> np.ndarray:
    return np.random.default_rng(seed).multinomial(teachers, [0.2, 0.5, 0.3], size=queries).astype(np.int64)
