"""Events of histograms whose noise the parties add, each a share, and what a sum of integer shares costs on top."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from consilium.accounting.checks import check_count, check_orders, check_scale
from consilium.accounting.curves.discrete import convolution_slack
from consilium.accounting.curves.gaussian import rdp_gaussian
from consilium.accounting.curves.gdp import GaussianPart
from consilium.accounting.events.parts import PartyNoise
from consilium.accounting.events.release import ReleaseEvent
from consilium.accounting.units import Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedEvent(ReleaseEvent):
    """One noisy histogram per query, seen by whoever ``towards`` names; label and threshold are post-processing.

    The noise of variance sigma^2 is the sum of ``noise_shares`` independent shares (of honest parties: leave out those
    that may collude or drop out). There is no data-dependent saving: the whole histogram is seen. Every query asked
    pays. For integer noise the sum of shares is not quite a discrete Gaussian; the difference is charged
    (``share_penalty``).
    """

    TYPE: ClassVar[str] = "distributed"
    noise_by_parties: ClassVar[bool] = True

    sigma: float
    noise_shares: int

    def _check(self) -> None:
        check_scale(self.sigma, "sigma")
        check_count(self.noise_shares, "noise_shares", 1)

    def party_noise(self, phase: int) -> PartyNoise | None:
        return PartyNoise(self.sigma, self.noise_shares) if phase == 1 else None

    def worst_case_rdp(self, orders: object) -> np.ndarray:
        each = rdp_gaussian(self.sigma, orders, self.votes_moved)
        return self.asked * (each + share_penalty(self, self.sigma, self.noise_shares, orders))

    def gaussian_parts(self) -> tuple[GaussianPart, ...]:
        slack = share_slack(self.noise, self.sigma, self.noise_shares)
        return (GaussianPart(self.asked, self.sigma, False, slack),)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedTwoPhaseEvent(ReleaseEvent):
    """Screen every query with a noisy histogram (sigma1), label those that passed with a fresh one (sigma2).

    Phase one shows a whole histogram, so it costs alpha / sigma1^2 (not half of it) for every query asked.
    """

    TYPE: ClassVar[str] = "distributed_two_phase"
    phases: ClassVar[int] = 2
    noise_by_parties: ClassVar[bool] = True

    sigma1: float
    sigma2: float
    noise_shares: int

    def _check(self) -> None:
        check_scale(self.sigma1, "sigma1")
        check_scale(self.sigma2, "sigma2")
        check_count(self.noise_shares, "noise_shares", 1)

    def queries_in(self, phase: int) -> int:
        return {1: self.asked, 2: self.answered}.get(phase, 0)

    def party_noise(self, phase: int) -> PartyNoise | None:
        sigma = {1: self.sigma1, 2: self.sigma2}.get(phase)
        return None if sigma is None else PartyNoise(sigma, self.noise_shares)

    def worst_case_rdp(self, orders: object) -> np.ndarray:
        total = np.zeros(check_orders(orders).size)
        for count, sigma in ((self.asked, self.sigma1), (self.answered, self.sigma2)):
            each = rdp_gaussian(sigma, orders, self.votes_moved)
            total += count * (each + share_penalty(self, sigma, self.noise_shares, orders))
        return total

    def gaussian_parts(self) -> tuple[GaussianPart, ...]:
        return tuple(
            GaussianPart(count, sigma, False, share_slack(self.noise, sigma, self.noise_shares))
            for count, sigma in ((self.asked, self.sigma1), (self.answered, self.sigma2))
        )


def share_slack(noise: Noise, sigma: float, shares: int) -> float:
    """Largest |log(sum of shares / one discrete Gaussian)| of the noise on a count; 0 for continuous noise.

    Below 1e-15 once a share's sigma exceeds 1.9.

    Raises
    ------
    NoiseError : a share's sigma is below 1/2, where nothing is known.
    """
    if noise is Noise.CONTINUOUS or shares == 1:
        return 0.0
    return convolution_slack(shares, sigma / math.sqrt(shares))


def share_penalty(event: ReleaseEvent, sigma: float, shares: int, orders: object) -> np.ndarray:
    """What is added per histogram because a sum of discrete Gaussians is not one: float64 (orders,).

    With |log ratio| <= s at every integer, D_alpha grows by at most s (2 alpha - 1) / (alpha - 1) for each count that
    changes; one moved vote changes 2 counts.
    """
    alpha = check_orders(orders)
    return 2 * event.votes_moved * share_slack(event.noise, sigma, shares) * (2 * alpha - 1) / (alpha - 1)
