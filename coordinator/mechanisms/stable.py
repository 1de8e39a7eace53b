"""Stable plurality: the exact winner where moving a few votes could not change it (Thakurta, Smith 2013; Bassily,
Thakkar, Thakurta 2018, arXiv 1803.05101)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from consilium.accounting.curves.stable import distance_to_instability
from consilium.accounting.events import StableEvent
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.mechanisms.base import Drawn, MechanismModel, NoisySums, Sigma, Votes, stated
from consilium.protocol.labels.service import NO_LABEL
from consilium.protocol.noise import NoiseSource


class Stable(MechanismModel):
    """Label = the plurality itself where dist + N_Z(0, sigma^2) >= threshold, else none.

    dist counts the votes that can move without another plurality. An unstable plurality passes with a small
    probability, which the event adds to delta for every query asked: choose the threshold with
    `accounting.curves.stable.ptr_threshold`, several sigma above 0.

    threshold: votes, whole. sigma: of the noise on the distance.
    """

    name: Literal["stable"] = "stable"
    threshold: Votes
    sigma: Sigma

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """See `Mechanism.draw`."""
        distance = distance_to_instability(votes)
        passed = distance + noise.gaussian(self.sigma, distance.shape) >= self.threshold
        return Drawn.from_teachers(np.where(passed, votes.argmax(axis=1), NO_LABEL))

    def sums_sigma(self, round_: int) -> float | None:
        """See `Mechanism.sums_sigma`."""
        return self.sigma if round_ == 1 else None

    def release_from_noisy(
        self,
        sums: NoisySums,
        queries: int,
        room: int,
        noise: NoiseSource,
        probabilities: np.ndarray | None = None,
    ) -> Drawn:
        """See `Mechanism.release_from_noisy`: the plurality of the noisy histogram where that is stable. Only gaps
        count, so that a constant is taken off and no count is below 0."""
        noisy, _ = sums(np.arange(queries), 1)
        return self.draw(noisy - noisy.min(axis=1, keepdims=True), noise).within(room)

    def event(
        self, *, asked: int, answered: int, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int
    ) -> StableEvent:
        """See `Mechanism.event`."""
        return StableEvent(
            **stated(asked, answered, unit, neighbouring, teachers_per_party, Towards.STUDENT),
            threshold=self.threshold,
            sigma=self.sigma,
        )

    def label_noise(self, parties: int) -> None:
        """See `Mechanism.label_noise`: the noise is on the distance, and what passes is the exact winner."""
        return None

    def describe(self) -> str:
        """See `Mechanism.describe`."""
        return f"stable plurality, threshold {self.threshold}, sigma {self.sigma:g}"
