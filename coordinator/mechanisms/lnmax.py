"""LNMax: the argmax of votes with Laplace noise (Papernot et al. 2017, equation 1)."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from consilium.accounting.events import LNMaxEvent
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.mechanisms.base import Drawn, Gamma, MechanismModel, stated
from consilium.protocol.noise import NoiseSource


class LNMax(MechanismModel):
    """Label = argmax_j (n_j + Lap_Z(1/gamma)); every query is answered. `gamma`: inverse scale of one count's noise."""

    answers_all: ClassVar[bool] = True

    name: Literal["lnmax"] = "lnmax"
    gamma: Gamma

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """See `Mechanism.draw`; never abstains."""
        return Drawn.from_teachers((votes + noise.laplace(self.gamma, votes.shape)).argmax(axis=1))

    def event(
        self, *, asked: int, answered: int, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int
    ) -> LNMaxEvent:
        """See `Mechanism.event`."""
        return LNMaxEvent(
            **stated(asked, answered, unit, neighbouring, teachers_per_party, Towards.STUDENT), gamma=self.gamma
        )

    def label_noise(self, parties: int) -> float:
        """See `Mechanism.label_noise`."""
        return math.sqrt(2) / self.gamma

    def describe(self) -> str:
        """See `Mechanism.describe`."""
        return f"LNMax, gamma {self.gamma:g}"
