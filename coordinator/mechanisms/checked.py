"""A noisy check first, then GNMax on what passed: Confident and Interactive (Papernot et al. 2018, Algorithms 1, 2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from consilium.accounting import events, mechanisms
from consilium.accounting.checks import check_votes
from consilium.accounting.curves.gaussian import public_offsets
from consilium.coordinator.mechanisms.base import GAUSSIAN_STEP, Drawn, Mechanism, Sigma, Votes
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import NoiseSource


class Confident(Mechanism):
    """Label = argmax_j (n_j + N_Z(0, sigma2^2)) where max_j n_j + N_Z(0, sigma1^2) >= threshold, else none.

    threshold: votes, whole. sigma1: of the noise on the largest count. sigma2: of the noise on one count.
    """

    ACCOUNTED: ClassVar[type[events.Mechanism]] = mechanisms.Confident
    label_step: ClassVar[float] = GAUSSIAN_STEP  # the check has noise of its own

    name: Literal["confident"] = "confident"
    threshold: Votes
    sigma1: Sigma
    sigma2: Sigma

    @property
    def votes_needed(self) -> int:
        return self.threshold

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """See `Mechanism.draw`. The noise of the check and of the labels is independent."""
        return self._drawn(votes, self._total(votes), noise, probabilities)

    def _drawn(self, votes: np.ndarray, total: int, noise: NoiseSource, probabilities: np.ndarray | None) -> Drawn:
        unanswered, passed = self._checked(votes, total, noise, probabilities)
        labels, chosen = unanswered.labels.copy(), votes[passed]
        labels[passed] = (chosen + noise.gaussian(self.sigma2, chosen.shape)).argmax(axis=1)
        return replace(unanswered, labels=labels)

    @staticmethod
    def _total(votes: np.ndarray) -> int:
        """Votes on each query, of which the first speaks for all."""
        return int(votes[0].sum()) if len(votes) else 1

    def _checked(
        self, counts: np.ndarray, votes: int, noise: NoiseSource, probabilities: np.ndarray | None
    ) -> tuple[Drawn, np.ndarray]:
        return Drawn.nothing(len(counts)), self._passed(counts.max(axis=1), noise)

    def _passed(self, number: np.ndarray, noise: NoiseSource) -> np.ndarray:
        """Where the number of each query, with noise, reaches the threshold: bool (queries,)."""
        return number + noise.gaussian(self.sigma1, number.shape) >= self.threshold

    def sums_sigma(self, round_: int) -> float | None:
        """See `Mechanism.sums_sigma`: the check in one round, the labels of what passed in another."""
        return {1: self.sigma1, 2: self.sigma2}.get(round_)

    def tops_up(self, round_: int) -> bool:
        return round_ == 2

    def label_noise(self, parties: int) -> float:
        return self.sigma2

    def describe(self) -> str:
        return f"Confident GNMax, threshold {self.threshold}, sigma1 {self.sigma1:g}, sigma2 {self.sigma2:g}"


class Interactive(Confident):
    """Teachers' label where max_j (n_j - M p_j) + N_Z(0, sigma1^2) >= threshold, else the student's own or none.

    M is the number of votes per query and p the student's public prediction; M p_j is rounded half up before any vote
    is subtracted. The teachers' label is argmax_j (n_j + N_Z(0, sigma2^2)). Where the check fails and max p exceeds
    `confidence`, the student's argmax p is confirmed (`Drawn.reinforced`): it says no more than that the check failed.

    threshold: votes, whole. sigma1: of the noise on the check. sigma2: of the noise on one count. confidence: in
    [0, 1]; 1 confirms nothing.
    """

    ACCOUNTED: ClassVar[type[events.Mechanism]] = mechanisms.Interactive
    needs_probabilities: ClassVar[bool] = True

    name: Literal["interactive"] = "interactive"  # pyright: ignore[reportIncompatibleVariableOverride]
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0

    @property
    def votes_needed(self) -> int:
        """See `Mechanism.votes_needed`: the threshold is on what votes exceed the student's predictions by."""
        return 0

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """See `Mechanism.draw`. The noise of the check and of the labels is independent.

        Raises
        ------
        ConfigError : no probabilities, or not one row per query and one column per class.
        ThresholdError : probabilities outside [0, 1] or NaN.
        VotesError : the rows of votes have different sums, so that M is not one public number.
        """
        self._probabilities(votes, probabilities)
        return super().draw(check_votes(votes, self._total(votes)), noise, probabilities)

    def _checked(
        self, counts: np.ndarray, votes: int, noise: NoiseSource, probabilities: np.ndarray | None
    ) -> tuple[Drawn, np.ndarray]:
        p = self._probabilities(counts, probabilities)
        passed = self._passed((counts - public_offsets(p, votes)).max(axis=1), noise)
        reinforced = ~passed & (p.max(axis=1) > self.confidence)
        return Drawn(np.where(reinforced, p.argmax(axis=1), NO_LABEL), reinforced), passed

    def describe(self) -> str:
        return (
            f"Interactive GNMax, threshold {self.threshold}, sigma1 {self.sigma1:g}, sigma2 {self.sigma2:g},"
            f" confidence {self.confidence:g}"
        )

    @staticmethod
    def _probabilities(votes: np.ndarray, probabilities: np.ndarray | None) -> np.ndarray:
        """The student's, float64 (queries, classes)."""
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
