"""Mechanisms at three settings each, and bugs to plant in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilium.accounting.events import GNMaxEvent, ReleaseEvent
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.mechanisms import (
    Confident,
    Distributed,
    DistributedTwoPhase,
    Drawn,
    GNMax,
    Interactive,
    LNMax,
    Mechanism,
    NoisyHistogram,
)
from consilium.coordinator.mechanisms.base import stated
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import NoiseSource, SeededNoise

SOUND: tuple[Mechanism, ...] = (
    LNMax(gamma=0.02),
    LNMax(gamma=0.05),
    LNMax(gamma=0.2),
    GNMax(sigma=10.0),
    GNMax(sigma=40.0),
    GNMax(sigma=100.0),
    Confident(threshold=100, sigma1=40.0, sigma2=20.0),
    Confident(threshold=200, sigma1=150.0, sigma2=40.0),
    Confident(threshold=300, sigma1=20.0, sigma2=80.0),
    Interactive(threshold=100, sigma1=40.0, sigma2=20.0, confidence=0.9),
    Interactive(threshold=200, sigma1=150.0, sigma2=40.0, confidence=0.9),
    Interactive(threshold=300, sigma1=20.0, sigma2=80.0, confidence=0.5),
    Distributed(threshold=60, sigma=10.0, noise_shares=50),
    Distributed(threshold=100, sigma=40.0, noise_shares=100),
    Distributed(threshold=200, sigma=100.0, noise_shares=200),
    DistributedTwoPhase(threshold=100, sigma1=40.0, sigma2=20.0, noise_shares=100),
    DistributedTwoPhase(threshold=200, sigma1=150.0, sigma2=40.0, noise_shares=200),
    DistributedTwoPhase(threshold=300, sigma1=20.0, sigma2=80.0, noise_shares=100),
    NoisyHistogram(sigma=40.0),
)
"""Settings of the mechanisms that keep their promise."""


class WeakNoise:
    """Noise of another source with every scale multiplied by `share`: what is charged is not what is drawn."""

    simulated = True

    def __init__(self, source: NoiseSource, share: float) -> None:
        self._source, self._share = source, share

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        return self._source.gaussian(sigma * self._share, shape)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        return self._source.laplace(gamma / self._share, shape)


class RepeatedRow:
    """Draws one row of noise and uses it for every query of a call."""

    simulated = True

    def __init__(self, source: NoiseSource) -> None:
        self._source = source

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(self._source.gaussian(sigma, (1, *shape[1:])), shape) if shape[0] else np.zeros(shape)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(self._source.laplace(gamma, (1, *shape[1:])), shape)


@dataclass
class Planted:
    """A mechanism with a bug: everything but what is overridden is that of the sound one."""

    sound: Mechanism

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or name == "sound":
            raise AttributeError(name)
        return getattr(self.sound, name)

    def describe(self) -> str:
        return self.sound.describe()

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        return self.sound.draw(votes, noise, probabilities)

    def event(
        self, *, asked: int, answered: int, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int
    ) -> ReleaseEvent:
        return self.sound.event(
            asked=asked, answered=answered, unit=unit, neighbouring=neighbouring, teachers_per_party=teachers_per_party
        )


@dataclass
class TooLittleNoise(Planted):
    """Draws with half the sigma (or twice the gamma) that it is charged for."""

    share: float = 0.5

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        return self.sound.draw(votes, WeakNoise(noise, self.share), probabilities)


@dataclass
class ForgetsCheck(Planted):
    """Its event charges the labels and leaves out the threshold check, which every query pays."""

    def event(
        self, *, asked: int, answered: int, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int
    ) -> ReleaseEvent:
        sigma = float(self.sound.sigma2)  # pyright: ignore[reportAttributeAccessIssue]
        return GNMaxEvent(
            **stated(answered, answered, unit, neighbouring, teachers_per_party, Towards.STUDENT), sigma=sigma
        )


@dataclass
class ExactCheck(Planted):
    """Compares the exact top count with the threshold: the check has no noise."""

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        passed = votes.max(axis=1) >= float(self.sound.threshold)  # pyright: ignore[reportAttributeAccessIssue]
        sigma = float(self.sound.sigma2)  # pyright: ignore[reportAttributeAccessIssue]
        labels = (votes + noise.gaussian(sigma, votes.shape)).argmax(axis=1)
        return Drawn.from_teachers(np.where(passed, labels, NO_LABEL))


@dataclass
class SameNoiseInACall(Planted):
    """All queries of a call get the same noise."""

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        return self.sound.draw(votes, RepeatedRow(noise), probabilities)


class SameNoiseInEveryCall(Planted):
    """Draws noise once and uses it again in the next call, as a source that is seeded anew does."""

    def __init__(self, sound: Mechanism) -> None:
        super().__init__(sound)
        self.seed: int | None = None

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        if self.seed is None:
            self.seed = int(np.abs(noise.gaussian(1e5, (2,))) @ np.array([1, 1_000_003]))
        return self.sound.draw(votes, SeededNoise(self.seed), probabilities)


@dataclass
class SameNoiseOnEveryCount(Planted):
    """One number is added to all counts of a query, which changes no argmax: no noise at all."""

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        return Drawn.from_teachers(votes.argmax(axis=1))


@dataclass
class ChargesARecord(Planted):
    """A party with several teachers is charged as if one vote moved."""

    def event(
        self, *, asked: int, answered: int, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int
    ) -> ReleaseEvent:
        return self.sound.event(
            asked=asked, answered=answered, unit=Unit.RECORD, neighbouring=neighbouring, teachers_per_party=1
        )
