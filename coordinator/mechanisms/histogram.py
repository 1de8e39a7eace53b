"""The noisy histogram itself: what GNMax is charged for in the worst case, and does not show."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from consilium.accounting.events import Evidence, HistogramEvent, ReleaseEvent
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.mechanisms.base import Drawn, MechanismModel, NoisySums, Sigma, stated
from consilium.protocol.noise import NoiseSource


class NoisyHistogram(MechanismModel):
    """The student gets n_j + N_Z(0, sigma^2) for every class j of every query. `sigma`: of the noise on one count.

    A student that learns from counts with known noise gets more out of the same charge than from their argmax.
    """

    answers_all: ClassVar[bool] = True

    name: Literal["histogram"] = "histogram"
    sigma: Sigma

    def label_noise(self, parties: int) -> float:
        """See `Mechanism.label_noise`."""
        return self.sigma

    def count_sigma(self, parties: int) -> float:
        """See `Mechanism.count_sigma`."""
        return self.sigma

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """See `Mechanism.draw`; never abstains."""
        return Drawn.from_counts(votes + noise.gaussian(self.sigma, votes.shape))

    def tops_up(self, round_: int) -> bool:
        """See `Mechanism.tops_up`."""
        return True

    def release_from_noisy(
        self,
        sums: NoisySums,
        queries: int,
        room: int,
        noise: NoiseSource,
        probabilities: np.ndarray | None = None,
    ) -> Drawn:
        """See `Mechanism.release_from_noisy`: the sums themselves."""
        return Drawn.from_counts(sums(np.arange(queries), 1)[0])

    def event(
        self, *, asked: int, answered: int, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int
    ) -> HistogramEvent:
        """See `Mechanism.event`."""
        return HistogramEvent(
            **stated(asked, answered, unit, neighbouring, teachers_per_party, Towards.STUDENT), sigma=self.sigma
        )

    def _evidence(self, event: ReleaseEvent, votes: np.ndarray, probabilities: np.ndarray | None) -> Evidence:
        """See `Mechanism.evidence`: the whole histogram leaves, so that no vote makes it cheaper."""
        return Evidence(None, None)

    def describe(self) -> str:
        """See `Mechanism.describe`."""
        return f"noisy histogram, sigma {self.sigma:g}"
