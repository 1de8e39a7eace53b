"""Noise that the parties add, each a share: the coordinator sees noisy histograms only, and decides on those.

What it decides is post-processing, so the guarantee towards the coordinator holds towards the student as well, with the
same number; an event towards the student can be asked for.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from consilium.accounting import events, mechanisms
from consilium.accounting.events import PartyNoise
from consilium.coordinator.mechanisms.base import Drawn, Mechanism, Sigma, Sums, Votes
from consilium.coordinator.mechanisms.shares import sum_of_shares
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import NoiseSource
from consilium.protocol.releases import ReleaseKind

BY_PARTIES = "noise by the parties"
"""How a mechanism is described whose noise is in the sums; of verified votes the two aggregators add it."""
Shares = Annotated[
    int,
    Field(ge=1, le=100_000, description="shares that make up the noise: honest parties that are sure to be in a sum"),
]
"""Shares that together make up the noise: honest parties that are sure to be in the sum. Those that may collude or
drop out are left out; what they add comes on top."""


def noise_bias(sigma: float, classes: int) -> float:
    """What noise adds to the largest of equal counts, at most, in the mean: sigma sqrt(2 ln classes).

    >>> round(noise_bias(150.0, 10), 1)
    321.9
    """
    return sigma * math.sqrt(2 * math.log(classes))


def _check_share(sigma: float, shares: int) -> None:
    if sigma**2 < shares:
        raise ValueError(
            f"a share of the noise has variance {sigma**2 / shares:.3g}, below 1: raise sigma {sigma:g} to at least"
            f" {math.sqrt(shares):.4g} or lower noise_shares {shares}"
        )


def _divided(shares: int) -> str:
    """Nothing of a share that is the whole, as each aggregator of verified votes adds it."""
    return f" in {shares} shares" if shares > 1 else ""


class _NoiseByParties(Mechanism):
    noise_by_parties: ClassVar[bool] = True

    @property
    def shares_of_noise(self) -> int:
        return self._party_noise(1).shares

    @abstractmethod
    def _party_noise(self, phase: int) -> PartyNoise:
        """What the parties add in this phase."""

    def _noisy(self, sums: Sums, queries: int, noise: NoiseSource | None) -> Sums:
        """Sums with the parties' noise: as they are, or simulated on exact votes, which are then asked for once."""
        if noise is None:
            return sums
        votes, total = sums(np.arange(queries), 1)

        def simulated(positions: np.ndarray, phase: int) -> tuple[np.ndarray, int]:
            chosen, (sigma, shares) = votes[positions], self._party_noise(phase)
            return chosen + sum_of_shares(noise, sigma, shares, chosen.shape), total

        return simulated

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """See `Mechanism.draw`: what the coordinator would decide if `noise_shares` parties had added their shares."""
        return self.release(
            lambda positions, _: (votes[positions], int(votes[:1].sum())), len(votes), len(votes), noise
        )


class Distributed(_NoiseByParties):
    """Label = argmax of one noisy histogram where its largest count reaches the threshold, else none.

    The largest of K noisy counts is too large by up to sigma sqrt(2 ln K) in the mean; that much is added to the
    threshold. Threshold and label come from the same noise, at no cost beyond the histogram's.

    threshold: votes, whole; 0 answers every query. sigma: of the noise on one count, all shares together.
    noise_shares: see `Shares`. release: whether the student gets labels, or the noisy histograms themselves, which the
        coordinator sees and every query pays for anyway.
    """

    ACCOUNTED: ClassVar[type[events.Mechanism]] = mechanisms.Distributed

    name: Literal["distributed"] = "distributed"
    threshold: Votes
    sigma: Sigma
    noise_shares: Shares
    release_counts: bool = Field(
        default=False,
        description="the student gets the noisy histograms, at the cost that they have towards the coordinator; needs"
        " threshold 0",
    )

    @model_validator(mode="after")
    def _share_is_wide_enough(self) -> Distributed:
        _check_share(self.sigma, self.noise_shares)
        if self.release_counts and self.threshold > 0:
            raise ValueError(
                f"release_counts gives every histogram, so that threshold {self.threshold} would hold none back: set 0"
            )
        return self

    @property
    def releases(self) -> ReleaseKind:
        """See `Mechanism.releases`: without a threshold no query is left without a label."""
        return ReleaseKind.WINNER if self.threshold == 0 and not self.release_counts else super().releases

    def count_sigma(self, parties: int) -> float:
        return self.label_noise(parties) if self.release_counts else 0.0

    @property
    def votes_needed(self) -> int:
        return self.threshold

    def decide(self, noisy: np.ndarray) -> Drawn:
        """Labels from noisy histograms, int64 (queries, classes). Looks at nothing else."""
        if self.release_counts:
            return Drawn.from_counts(noisy)
        labels = noisy.argmax(axis=1)
        if self.threshold > 0:
            passed = noisy.max(axis=1) >= self.threshold + noise_bias(self.sigma, noisy.shape[1])
            labels = np.where(passed, labels, NO_LABEL)
        return Drawn.from_teachers(labels)

    def _party_noise(self, phase: int) -> PartyNoise:
        return PartyNoise(self.sigma, self.noise_shares)

    def release(
        self, sums: Sums, queries: int, room: int, noise: NoiseSource | None, probabilities: np.ndarray | None = None
    ) -> Drawn:
        """See `Mechanism.release`. Every query is paid for, so `room` cuts nothing off."""
        noisy, _ = self._noisy(sums, queries, noise)(np.arange(queries), 1)
        return self.decide(noisy)

    def label_noise(self, parties: int) -> float:
        """See `Mechanism.label_noise`: each party adds a share, and those beyond `noise_shares` add to the noise."""
        return self.sigma * math.sqrt(max(1.0, parties / self.noise_shares))

    def describe(self) -> str:
        check = f"threshold {self.threshold}, bias of the maximum compensated" if self.threshold else "no threshold"
        ending = ", histograms released" if self.release_counts else ""
        return f"{BY_PARTIES}, sigma {self.sigma:g}{_divided(self.noise_shares)}, {check}{ending}"


class DistributedTwoPhase(_NoiseByParties):
    """One noisy histogram (sigma1) screens every query, a fresh one (sigma2) labels those that passed.

    Worth it where few queries pass: a coarse screen is cheap, and only what passed pays for a fine histogram. The
    screen compensates the bias of the largest count as `Distributed` does.

    threshold: votes, whole. sigma1, sigma2: of the noise on one count, all shares together. noise_shares: see `Shares`.
    """

    ACCOUNTED: ClassVar[type[events.Mechanism]] = mechanisms.DistributedTwoPhase
    phases: ClassVar[int] = 2

    name: Literal["distributed_two_phase"] = "distributed_two_phase"
    threshold: Votes
    sigma1: Sigma
    sigma2: Sigma
    noise_shares: Shares

    @model_validator(mode="after")
    def _shares_are_wide_enough(self) -> DistributedTwoPhase:
        _check_share(self.sigma1, self.noise_shares)
        _check_share(self.sigma2, self.noise_shares)
        return self

    @property
    def votes_needed(self) -> int:
        return self.threshold

    def screen(self, noisy: np.ndarray) -> np.ndarray:
        """bool (queries,): which queries go to phase two, from the noisy histograms int64 (queries, classes)."""
        return noisy.max(axis=1) >= self.threshold + noise_bias(self.sigma1, noisy.shape[1])

    def _party_noise(self, phase: int) -> PartyNoise:
        return PartyNoise(self.sigma1 if phase == 1 else self.sigma2, self.noise_shares)

    def release(
        self, sums: Sums, queries: int, room: int, noise: NoiseSource | None, probabilities: np.ndarray | None = None
    ) -> Drawn:
        """See `Mechanism.release`: all queries in phase 1, the first `room` of those that pass in phase 2."""
        noisy = self._noisy(sums, queries, noise)
        passed = self.screen(noisy(np.arange(queries), 1)[0])
        return Drawn.of_passed(Drawn.nothing(queries), passed, room, noisy)

    def label_noise(self, parties: int) -> float:
        """See `Mechanism.label_noise`: each party adds a share, and those beyond `noise_shares` add to the noise."""
        return self.sigma2 * math.sqrt(max(1.0, parties / self.noise_shares))

    def describe(self) -> str:
        return (
            f"{BY_PARTIES} in two phases, threshold {self.threshold}, sigma1 {self.sigma1:g},"
            f" sigma2 {self.sigma2:g}{_divided(self.noise_shares)}, bias of the maximum compensated"
        )
