"""Confident GNMax (Papernot et al. 2018, Algorithm 1): a label only where the parties agree enough."""

from __future__ import annotations

from typing import Literal

import numpy as np

from consilium.accounting.events import ConfidentEvent
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.mechanisms.base import Drawn, MechanismModel, NoisySums, Sigma, Votes, projected, stated
from consilium.protocol.labels.service import NO_LABEL
from consilium.protocol.noise import NoiseSource


class Confident(MechanismModel):
    """Label = argmax_j (n_j + N_Z(0, sigma2^2)) where max_j n_j + N_Z(0, sigma1^2) >= threshold, else none.

    threshold: votes, whole. sigma1: of the noise on the largest count. sigma2: of the noise on one count.
    """

    name: Literal["confident"] = "confident"
    threshold: Votes
    sigma1: Sigma
    sigma2: Sigma

    @property
    def votes_needed(self) -> int:
        """See `Mechanism.votes_needed`."""
        return self.threshold

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """See `Mechanism.draw`. The noise of the check and of the labels is independent."""
        passed = votes.max(axis=1) + noise.gaussian(self.sigma1, votes.shape[:1]) >= self.threshold
        labels = np.full(len(votes), NO_LABEL, dtype=np.int64)
        chosen = votes[passed]
        labels[passed] = (chosen + noise.gaussian(self.sigma2, chosen.shape)).argmax(axis=1)
        return Drawn.from_teachers(labels)

    def sums_sigma(self, round_: int) -> float | None:
        """See `Mechanism.sums_sigma`."""
        return {1: self.sigma1, 2: self.sigma2}.get(round_)

    def tops_up(self, round_: int) -> bool:
        """See `Mechanism.tops_up`."""
        return round_ == 2

    def release_from_noisy(
        self,
        sums: NoisySums,
        queries: int,
        room: int,
        noise: NoiseSource,
        probabilities: np.ndarray | None = None,
    ) -> Drawn:
        """See `Mechanism.release_from_noisy`: the check in one round, the labels of what passed in another.

        Whatever the noise in the sums is, one moved vote moves the largest count by at most one: to the
        noise of the check it is what the largest count of exact sums is.
        """
        noisy, votes = sums(np.arange(queries), 1)
        largest = projected(noisy, votes).max(axis=1)
        passed = largest + noise.gaussian(self.sigma1, largest.shape) >= self.threshold
        return Drawn.of_passed(Drawn.nothing(queries), passed, room, sums)

    def event(
        self, *, asked: int, answered: int, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int
    ) -> ConfidentEvent:
        """See `Mechanism.event`."""
        return ConfidentEvent(
            **stated(asked, answered, unit, neighbouring, teachers_per_party, Towards.STUDENT),
            threshold=self.threshold,
            sigma1=self.sigma1,
            sigma2=self.sigma2,
        )

    def label_noise(self, parties: int) -> float:
        """See `Mechanism.label_noise`."""
        return self.sigma2

    def describe(self) -> str:
        """See `Mechanism.describe`."""
        return f"Confident GNMax, threshold {self.threshold}, sigma1 {self.sigma1:g}, sigma2 {self.sigma2:g}"
