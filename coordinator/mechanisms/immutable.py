"""The immutable noisy argmax of the near-zero-cost paper, with Laplace or Gaussian noise. NOT private, with either."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from consilium.accounting import events, mechanisms
from consilium.accounting.curves.immutable import claimed_epsilon, claimed_epsilon_gaussian
from consilium.coordinator.mechanisms.base import Drawn, Gamma, Mechanism, Sigma, Votes
from consilium.protocol.noise import NoiseSource

Constant = Annotated[Votes, Field(description="votes that are added to the largest count")]
Unsafe = Annotated[Literal[True], Field(description="must be said, since it is not private at all")]


class _Raised(Mechanism):
    """What both have in common: a constant on the largest count, and nothing that bounds the cost."""

    answers_all: ClassVar[bool] = True
    private: ClassVar[bool] = False

    @property
    def _added(self) -> int:
        """The constant."""
        raise NotImplementedError

    def _noise(self, noise: NoiseSource, shape: tuple[int, ...]) -> np.ndarray:
        """Noise on every count, int64 of this shape."""
        raise NotImplementedError

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """See `Mechanism.draw`; never abstains."""
        raised = votes + self._noise(noise, votes.shape)
        raised[np.arange(len(votes)), votes.argmax(axis=1)] += self._added
        return Drawn.from_teachers(raised.argmax(axis=1))

    def label_noise(self, parties: int) -> None:
        """See `Mechanism.label_noise`: the constant puts the exact winner above the noise."""
        return None


class Immutable(_Raised):
    """Adds `constant` to the largest count, then Lap_Z(1/gamma) to every count, and returns the largest. NOT private.

    Its paper charges the noise alone, as if neighbouring histograms stayed neighbours after the constant was added.
    They do not: (126, 125) becomes (126 + c, 125), its neighbour (125, 126) becomes (125, 126 + c), and the answers are
    class 0 and class 1 unless noise bridges a gap of c + 1. The true epsilon of one query is about (c + 1) gamma and
    grows with c without bound; with c far above 1/gamma, as recommended, this is the noiseless plurality. No worst case
    exists, so every event of it costs infinity (`curves.immutable` has the claim).

    It is here to be studied and to be caught by an audit. `unsafe_not_private` must be set to true, so that nobody runs
    it without having read the word. The sound form of the idea is a test of
    stability with noise of its own (Thakurta, Smith 2013), which costs a delta for every query.
    """

    ACCOUNTED: ClassVar[type[events.Mechanism]] = mechanisms.Immutable

    name: Literal["immutable"] = "immutable"
    gamma: Gamma
    constant: Constant
    unsafe_not_private: Unsafe

    @property
    def _added(self) -> int:
        return self.constant

    def _noise(self, noise: NoiseSource, shape: tuple[int, ...]) -> np.ndarray:
        return noise.laplace(self.gamma, shape)

    def claimed_epsilon(self, asked: int, delta: float) -> float:
        """See `Mechanism.claimed_epsilon`: by Theorem 4 of the near-zero-cost paper."""
        return claimed_epsilon(asked, self.gamma, delta).epsilon

    def describe(self) -> str:
        return f"immutable noisy argmax, NOT differentially private, gamma {self.gamma:g}, constant {self.constant}"


class ImmutableGaussian(_Raised):
    """Adds `constant` to the largest count, then N_Z(0, sigma^2) to every count, and returns the largest. NOT private.

    The near-zero-cost paper's other choice of noise (section 3.2). It breaks as `Immutable` does, and sooner: a gap of
    c + 1 is bridged with probability erfc((c + 1) / (2 sigma)) / 2, so epsilon grows with ((c + 1) / sigma)^2.
    """

    ACCOUNTED: ClassVar[type[events.Mechanism]] = mechanisms.ImmutableGaussian

    name: Literal["immutable_gaussian"] = "immutable_gaussian"
    sigma: Sigma
    constant: Constant
    unsafe_not_private: Unsafe

    @property
    def _added(self) -> int:
        return self.constant

    def _noise(self, noise: NoiseSource, shape: tuple[int, ...]) -> np.ndarray:
        return noise.gaussian(self.sigma, shape)

    def claimed_epsilon(self, asked: int, delta: float) -> float:
        """See `Mechanism.claimed_epsilon`: the noise alone, as section 4.2 of the near-zero-cost paper charges it."""
        return claimed_epsilon_gaussian(asked, self.sigma, delta).epsilon

    def describe(self) -> str:
        return f"immutable noisy argmax, NOT differentially private, sigma {self.sigma:g}, constant {self.constant}"
