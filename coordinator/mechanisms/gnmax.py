"""GNMax: the argmax of votes with Gaussian noise (Papernot et al. 2018, section 3.1)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from consilium.accounting.events import GNMaxEvent
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.mechanisms.base import Drawn, MechanismModel, NoisySums, Sigma, stated
from consilium.protocol.noise import NoiseSource


class GNMax(MechanismModel):
    """Label = argmax_j (n_j + N_Z(0, sigma^2)); every query is answered. `sigma`: of the noise on one count."""

    answers_all: ClassVar[bool] = True

    name: Literal["gnmax"] = "gnmax"
    sigma: Sigma

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """See `Mechanism.draw`; never abstains."""
        return Drawn.from_teachers((votes + noise.gaussian(self.sigma, votes.shape)).argmax(axis=1))

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
        """See `Mechanism.release_from_noisy`: the largest count."""
        return Drawn.from_teachers(sums(np.arange(queries), 1)[0].argmax(axis=1))

    def event(
        self, *, asked: int, answered: int, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int
    ) -> GNMaxEvent:
        """See `Mechanism.event`."""
        return GNMaxEvent(
            **stated(asked, answered, unit, neighbouring, teachers_per_party, Towards.STUDENT), sigma=self.sigma
        )

    def label_noise(self, parties: int) -> float:
        """See `Mechanism.label_noise`."""
        return self.sigma

    def describe(self) -> str:
        """See `Mechanism.describe`."""
        return f"GNMax, sigma {self.sigma:g}"
