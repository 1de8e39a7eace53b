"""Events of histograms whose noise the parties add, each a share, and what a sum of integer shares costs on top."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from consilium.accounting.checks import check_count, check_scale
from consilium.accounting.curves.discrete import NO_SLACK, convolution_slack, slack_rdp
from consilium.accounting.curves.gaussian import rdp_gaussian
from consilium.accounting.curves.gdp import GaussianPart
from consilium.accounting.events.parts import PartyNoise
from consilium.accounting.events.release import ReleaseEvent
from consilium.accounting.units import Noise, Towards
from consilium.accounting.worst.argmax import rdp_argmax
from consilium.accounting.worst.compose import Composed


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedEvent(ReleaseEvent):
    """One noisy histogram per query, which the coordinator sees; everybody else sees the label, or that there is none.

    The noise of variance sigma^2 is the sum of ``noise_shares`` independent shares (of honest parties: leave out those
    that may collude or drop out). There is no data-dependent saving: the whole histogram is seen. Every query asked
    pays. ``towards`` anybody but the coordinator the charge is that of the winner (where labels alone are released).
    For integer noise the sum of shares is not quite a discrete Gaussian; the difference is charged (``share_penalty``).
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

    def _worst_case_rdp(self, orders: object) -> np.ndarray:
        return self.asked * _one(self, self.sigma, self.noise_shares, orders)

    def _composed_parts(self) -> tuple[Composed, ...] | None:
        return _composed(self, (self.asked, self.sigma, self.noise_shares))

    def _gaussian_parts(self) -> tuple[GaussianPart, ...]:
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

    def _worst_case_rdp(self, orders: object) -> np.ndarray:
        screened = self.asked * _one(self, self.sigma1, self.noise_shares, orders)
        return screened + self.answered * _one(self, self.sigma2, self.noise_shares, orders)

    def _composed_parts(self) -> tuple[Composed, ...] | None:
        shares = self.noise_shares
        return _composed(self, (self.asked, self.sigma1, shares), (self.answered, self.sigma2, shares))

    def _gaussian_parts(self) -> tuple[GaussianPart, ...]:
        return tuple(
            GaussianPart(count, sigma, False, share_slack(self.noise, sigma, self.noise_shares))
            for count, sigma in ((self.asked, self.sigma1), (self.answered, self.sigma2))
        )


def _one(event: ReleaseEvent, sigma: float, shares: int, orders: object) -> np.ndarray:
    """Cost of one noisy histogram towards the coordinator, who sees it, and of one winner towards everybody else.

    A threshold on the largest noisy count, and a screen, cost nothing beside the winner: with the larger of it and of
    the other classes' largest count in the place of the latter, what leaves is a function of the same three outcomes.
    """
    if event.towards is Towards.COORDINATOR:
        each = rdp_gaussian(sigma, orders, event.votes_moved)
    else:
        each = rdp_argmax(sigma, orders, event.noise, event.answers_moved, together=event.weight)
    return each + share_penalty(event, sigma, shares, orders)


def _composed(event: ReleaseEvent, *phases: tuple[int, float, int]) -> tuple[Composed, ...] | None:
    """None where the sum of the shares is not as good as one discrete Gaussian."""
    if any(share_slack(event.noise, sigma, shares) > NO_SLACK for _, sigma, shares in phases):
        return None
    what = "histogram" if event.towards is Towards.COORDINATOR else "argmax"
    return tuple(
        Composed(count, what, sigma, event.noise, event.answers_moved, event.weight) for count, sigma, _ in phases
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

    See ``curves.discrete.slack_rdp``.
    """
    return slack_rdp(share_slack(event.noise, sigma, shares), event.votes_moved, orders)
