"""Noise on every count, and every query answered: GNMax, LNMax, and the noisy histogram itself."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np

from consilium.accounting import events, mechanisms
from consilium.coordinator.mechanisms.base import GAUSSIAN_STEP, LAPLACE_STEP, Drawn, Gamma, Mechanism, Sigma
from consilium.protocol.noise import NoiseSource


class _NoisyCounts(Mechanism):
    """What they have in common: noise on each count, then a decision on the noisy counts."""

    answers_all: ClassVar[bool] = True

    @abstractmethod
    def _noise(self, noise: NoiseSource, shape: tuple[int, ...]) -> np.ndarray:
        """Noise on every count, int64 of this shape."""

    def _decided(self, noisy: np.ndarray) -> Drawn:
        return Drawn.from_teachers(noisy.argmax(axis=1))

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """See `Mechanism.draw`; never abstains."""
        return self._decided(votes + self._noise(noise, votes.shape))


class GNMax(_NoisyCounts):
    """Label = argmax_j (n_j + N_Z(0, sigma^2)); every query is answered. `sigma`: of the noise on one count.

    Papernot et al. 2018, section 3.1.
    """

    ACCOUNTED: ClassVar[type[events.Mechanism]] = mechanisms.GNMax
    label_step: ClassVar[float] = GAUSSIAN_STEP

    name: Literal["gnmax"] = "gnmax"
    sigma: Sigma

    def _noise(self, noise: NoiseSource, shape: tuple[int, ...]) -> np.ndarray:
        return noise.gaussian(self.sigma, shape)

    def tops_up(self, round_: int) -> bool:
        return True

    def label_noise(self, parties: int) -> float:
        return self.sigma

    def describe(self) -> str:
        return f"GNMax, sigma {self.sigma:g}"


class NoisyHistogram(GNMax):
    """The student gets n_j + N_Z(0, sigma^2) for every class j of every query. `sigma`: of the noise on one count.

    It is what GNMax is charged for in the papers, and does not show. A student that learns from counts with known noise
    gets more out of the same charge than from their argmax.
    """

    ACCOUNTED: ClassVar[type[events.Mechanism]] = mechanisms.Histogram

    name: Literal["histogram"] = "histogram"  # pyright: ignore[reportIncompatibleVariableOverride]

    def _decided(self, noisy: np.ndarray) -> Drawn:
        return Drawn.from_counts(noisy)

    def count_sigma(self, parties: int) -> float:
        return self.sigma

    def describe(self) -> str:
        return f"noisy histogram, sigma {self.sigma:g}"


class LNMax(_NoisyCounts):
    """Label = argmax_j (n_j + Lap_Z(1/gamma)); every query is answered. `gamma`: inverse scale of one count's noise.

    Papernot et al. 2017, equation 1.
    """

    ACCOUNTED: ClassVar[type[events.Mechanism]] = mechanisms.LNMax
    label_step: ClassVar[float] = LAPLACE_STEP

    name: Literal["lnmax"] = "lnmax"
    gamma: Gamma

    def _noise(self, noise: NoiseSource, shape: tuple[int, ...]) -> np.ndarray:
        return noise.laplace(self.gamma, shape)

    def label_noise(self, parties: int) -> float:
        return math.sqrt(2) / self.gamma

    def describe(self) -> str:
        return f"LNMax, gamma {self.gamma:g}"
