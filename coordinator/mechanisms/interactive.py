"""Interactive GNMax (Papernot et al. 2018, Algorithm 2): teachers answer where they disagree with the student."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from consilium.accounting.checks import check_votes
from consilium.accounting.curves.gaussian import public_offsets
from consilium.accounting.events import Evidence, InteractiveEvent, ReleaseEvent
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.mechanisms.base import Drawn, MechanismModel, NoisySums, Sigma, Votes, projected, stated
from consilium.protocol.errors import ConfigError
from consilium.protocol.labels.service import NO_LABEL
from consilium.protocol.noise import NoiseSource


class Interactive(MechanismModel):
    """Teachers' label where max_j (n_j - M p_j) + N_Z(0, sigma1^2) >= threshold, else the student's own or none.

    M is the number of votes per query and p the student's public prediction; M p_j is rounded half up before any vote
    is subtracted. The teachers' label is argmax_j (n_j + N_Z(0, sigma2^2)). Where the check fails and max p exceeds
    `confidence`, the student's argmax p is confirmed (`Drawn.reinforced`): it says no more than that the check failed.

    threshold: votes, whole. sigma1: of the noise on the check. sigma2: of the noise on one count. confidence: in
    [0, 1]; 1 confirms nothing.
    """

    needs_probabilities: ClassVar[bool] = True

    name: Literal["interactive"] = "interactive"
    threshold: Votes
    sigma1: Sigma
    sigma2: Sigma
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """See `Mechanism.draw`. The noise of the check and of the labels is independent.

        Raises
        ------
        ConfigError : no probabilities, or not one row per query and one column per class.
        ThresholdError : probabilities outside [0, 1] or NaN.
        VotesError : the rows of votes have different sums, so that M is not one public number.
        """
        p = self._checked(votes, probabilities)
        teachers = int(votes[0].sum()) if len(votes) else 1
        disagreement = (check_votes(votes, teachers) - public_offsets(p, teachers)).max(axis=1)
        passed = disagreement + noise.gaussian(self.sigma1, disagreement.shape) >= self.threshold
        reinforced = ~passed & (p.max(axis=1) > self.confidence)
        labels = np.full(len(votes), NO_LABEL, dtype=np.int64)
        labels[reinforced] = p[reinforced].argmax(axis=1)
        chosen = votes[passed]
        labels[passed] = (chosen + noise.gaussian(self.sigma2, chosen.shape)).argmax(axis=1)
        return Drawn(labels, reinforced)

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
        """See `Mechanism.release_from_noisy`: the check in one round, the labels of what passed in another, as
        `Confident` has them. M is the number of votes that were given, and not what a noisy sum adds up to."""
        noisy, votes = sums(np.arange(queries), 1)
        p = self._checked(noisy, probabilities)
        disagreement = (projected(noisy, votes) - public_offsets(p, votes)).max(axis=1)
        passed = disagreement + noise.gaussian(self.sigma1, disagreement.shape) >= self.threshold
        reinforced = ~passed & (p.max(axis=1) > self.confidence)
        unanswered = Drawn(np.where(reinforced, p.argmax(axis=1), NO_LABEL), reinforced)
        return Drawn.of_passed(unanswered, passed, room, sums)

    def event(
        self, *, asked: int, answered: int, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int
    ) -> InteractiveEvent:
        """See `Mechanism.event`. Reinforced queries count as asked, not as answered."""
        return InteractiveEvent(
            **stated(asked, answered, unit, neighbouring, teachers_per_party, Towards.STUDENT),
            threshold=self.threshold,
            sigma1=self.sigma1,
            sigma2=self.sigma2,
        )

    def _evidence(self, event: ReleaseEvent, votes: np.ndarray, probabilities: np.ndarray | None) -> Evidence:
        """See `Mechanism.evidence`."""
        return event.evidence(votes, probabilities=self._checked(votes, probabilities))

    def label_noise(self, parties: int) -> float:
        """See `Mechanism.label_noise`."""
        return self.sigma2

    def describe(self) -> str:
        """See `Mechanism.describe`."""
        return (
            f"Interactive GNMax, threshold {self.threshold}, sigma1 {self.sigma1:g}, sigma2 {self.sigma2:g},"
            f" confidence {self.confidence:g}"
        )

    @staticmethod
    def _checked(votes: np.ndarray, probabilities: np.ndarray | None) -> np.ndarray:
        """The probabilities, float64 (queries, classes)."""
        if probabilities is None:
            raise ConfigError(
                "the interactive mechanism needs the student's class probabilities, none were given",
                "Send them with the queries, or choose the mechanism confident",
            )
        p = np.asarray(probabilities, dtype=np.float64)
        if p.shape != votes.shape:
            raise ConfigError(
                f"the student's probabilities have shape {p.shape}, the votes {votes.shape}",
                "Send one row per query and one column per class",
            )
        return p
