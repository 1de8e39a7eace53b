"""The immutable noisy argmax of the near-zero-cost paper. NOT differentially private; see `Immutable`."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from consilium.accounting.curves.immutable import claimed_epsilon
from consilium.accounting.events import Evidence, ImmutableEvent, ReleaseEvent
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.mechanisms.base import Drawn, Gamma, MechanismModel, Votes, stated
from consilium.protocol.noise import NoiseSource


class Immutable(MechanismModel):
    """Adds `constant` to the largest count, then Lap_Z(1/gamma) to every count, and returns the largest. NOT private.

    Its paper charges the noise alone, as if neighbouring histograms stayed neighbours after the constant was added.
    They do not: (126, 125) becomes (126 + c, 125), its neighbour (125, 126) becomes (125, 126 + c), and the answers are
    class 0 and class 1 unless noise bridges a gap of c + 1. The true epsilon of one query is about (c + 1) gamma and
    grows with c without bound; with c far above 1/gamma, as recommended, this is the noiseless plurality. No worst case
    exists, so every event of it costs infinity (`curves.immutable` has the claim and a lower bound on the truth).

    It is here to be studied and to be caught by an audit. `unsafe_not_private` must be set to true, so that nobody runs
    it without having read the word. The sound form of the idea is `Stable`.
    """

    answers_all: ClassVar[bool] = True
    private: ClassVar[bool] = False

    name: Literal["immutable"] = "immutable"
    gamma: Gamma
    constant: Votes = Field(description="votes that are added to the largest count")
    unsafe_not_private: Literal[True] = Field(description="must be said, since it is not private at all")

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """See `Mechanism.draw`; never abstains."""
        raised = votes + noise.laplace(self.gamma, votes.shape)
        raised[np.arange(len(votes)), votes.argmax(axis=1)] += self.constant
        return Drawn.from_teachers(raised.argmax(axis=1))

    def event(
        self, *, asked: int, answered: int, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int
    ) -> ImmutableEvent:
        """See `Mechanism.event`. Its worst case is infinite as soon as anything was answered."""
        return ImmutableEvent(
            **stated(asked, answered, unit, neighbouring, teachers_per_party, Towards.STUDENT),
            gamma=self.gamma,
            constant=self.constant,
        )

    def evidence(self, event: ReleaseEvent, votes: np.ndarray, probabilities: np.ndarray | None = None) -> Evidence:
        """See `Mechanism.evidence`: nothing bounds the cost."""
        return Evidence(None, None)

    def claimed_epsilon(self, asked: int, delta: float) -> float:
        """See `Mechanism.claimed_epsilon`: by Theorem 4 of the near-zero-cost paper."""
        return claimed_epsilon(asked, self.gamma, delta).epsilon

    def label_noise(self, parties: int) -> None:
        """See `Mechanism.label_noise`: the constant puts the exact winner above the noise."""
        return None

    def describe(self) -> str:
        """See `Mechanism.describe`."""
        return f"immutable noisy argmax, NOT differentially private, gamma {self.gamma:g}, constant {self.constant}"
