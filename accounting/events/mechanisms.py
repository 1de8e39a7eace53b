"""One event for each mechanism, and the way back from its JSON, in which ledgers keep it and parties are told it.

``ReleaseEvent.to_json`` is the way there. Each class states the source of its bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from consilium.accounting.checks import check_count, check_orders, check_scale
from consilium.accounting.curves.discrete import NO_SLACK, convolution_slack, slack_rdp
from consilium.accounting.curves.gaussian import check_threshold, log_q_gnmax, public_offsets, rdp_gaussian
from consilium.accounting.curves.gdp import GaussianPart
from consilium.accounting.curves.gnss import gnss_cost, group_smooth_sensitivity
from consilium.accounting.curves.immutable import distance_to_instability, ptr_failure
from consilium.accounting.curves.laplace import log_q_lnmax
from consilium.accounting.errors import EventError
from consilium.accounting.events.release import Comparison, Evidence, PartyNoise, ReleaseEvent, Step, check_answers_all
from consilium.accounting.units import Noise, Towards
from consilium.accounting.worst.compose import Composed
from consilium.accounting.worst.laplace import rdp_argmax_laplace
from consilium.accounting.worst.renyi import rdp_argmax, rdp_check


@dataclass(frozen=True, slots=True, kw_only=True)
class GNMaxEvent(ReleaseEvent):
    """argmax of votes + N(0, sigma^2); every query is answered. Papernot et al. 2018, Section 3.1.

    Charged for the winner, which is what leaves (`accounting.worst.renyi`), and not for the histogram, as there.

    >>> from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
    >>> event = GNMaxEvent(asked=100, answered=100, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE,
    ...                    teachers_per_party=1, towards=Towards.STUDENT, noise=Noise.DISCRETE, sigma=40.0)
    >>> event.worst_case_rdp([2.0]).round(4).tolist()
    [0.08]
    """

    TYPE: ClassVar[str] = "gnmax"
    takes_slack: ClassVar[bool] = True

    sigma: float

    def _check(self) -> None:
        check_scale(self.sigma, "sigma")
        check_answers_all(self)

    @property
    def label_sigma(self) -> float:
        return self.sigma

    def _worst_case_rdp(self, orders: object) -> np.ndarray:
        return self.answered * rdp_argmax(self.sigma, orders, self.noise, self.votes_moved)

    def _composed_parts(self) -> tuple[Composed, ...]:
        return (Composed(self.answered, "argmax", self.sigma, self.noise, self.votes_moved),)

    def _gaussian_parts(self) -> tuple[GaussianPart, ...]:
        return (GaussianPart(self.answered, self.sigma, False),)

    def _evidence(self, votes: np.ndarray, teachers: int, probabilities: np.ndarray | None) -> Evidence:
        return Evidence(None, self._covers(log_q_gnmax(votes, self.sigma, self.noise)))

    def steps(self, evidence: Evidence) -> tuple[Step, ...]:
        return (Step(evidence.log_q_label, "histogram", self.sigma, True),)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramEvent(ReleaseEvent):
    """votes + N(0, sigma^2) on each count, all of which is released; every query is answered.

    The Gaussian mechanism on a histogram of which k votes move, so its L2 sensitivity is k sqrt(2): what the papers
    charge GNMax, which does not show the histogram (Papernot et al. 2018, Section 3.1). There is no data-dependent
    saving: the distance of two histograms is the same wherever they lie.

    >>> from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
    >>> event = HistogramEvent(asked=100, answered=100, unit=Unit.PARTY, neighbouring=Neighbouring.REPLACE,
    ...                        teachers_per_party=1, towards=Towards.STUDENT, noise=Noise.DISCRETE, sigma=40.0)
    >>> event.worst_case_rdp([2.0]).tolist()
    [0.125]
    """

    TYPE: ClassVar[str] = "histogram"
    takes_slack: ClassVar[bool] = True

    sigma: float

    def _check(self) -> None:
        check_scale(self.sigma, "sigma")
        check_answers_all(self)

    def _worst_case_rdp(self, orders: object) -> np.ndarray:
        return self.answered * rdp_gaussian(self.sigma, orders, self.votes_moved)

    def _composed_parts(self) -> tuple[Composed, ...]:
        return (Composed(self.answered, "histogram", self.sigma, self.noise, self.votes_moved),)

    def _gaussian_parts(self) -> tuple[GaussianPart, ...]:
        return (GaussianPart(self.answered, self.sigma, False),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidentEvent(ReleaseEvent):
    """Threshold check on the top count, then GNMax on what passed. Papernot et al. 2018, Algorithm 1.

    Every query pays the check (noise sigma1 on one number of sensitivity 1); only answered queries pay GNMax (sigma2).
    Both are charged for what leaves, a bit and a winner (`accounting.worst`).

    >>> from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
    >>> event = ConfidentEvent(asked=640, answered=283, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE,
    ...                        teachers_per_party=1, towards=Towards.STUDENT, noise=Noise.DISCRETE,
    ...                        threshold=200.0, sigma1=150.0, sigma2=40.0)
    >>> event.worst_case_rdp([2.0]).round(6).tolist()
    [0.244513]
    """

    TYPE: ClassVar[str] = "confident"
    takes_slack: ClassVar[bool] = True

    threshold: float
    sigma1: float
    sigma2: float

    def _check(self) -> None:
        check_threshold(self.threshold)
        check_scale(self.sigma1, "sigma1")
        check_scale(self.sigma2, "sigma2")

    @property
    def label_sigma(self) -> float:
        return self.sigma2

    def _worst_case_rdp(self, orders: object) -> np.ndarray:
        check = rdp_check(self.sigma1, orders, self.noise, self.votes_moved)
        return self.asked * check + self.answered * rdp_argmax(self.sigma2, orders, self.noise, self.votes_moved)

    def _composed_parts(self) -> tuple[Composed, ...]:
        return (
            Composed(self.asked, "check", self.sigma1, self.noise, self.votes_moved),
            Composed(self.answered, "argmax", self.sigma2, self.noise, self.votes_moved),
        )

    def _gaussian_parts(self) -> tuple[GaussianPart, ...]:
        return (GaussianPart(self.asked, self.sigma1, True), GaussianPart(self.answered, self.sigma2, False))

    def comparison(self, votes: np.ndarray, teachers: int, probabilities: np.ndarray | None = None) -> Comparison:
        """The top count."""
        return self._compare(np.asarray(votes).max(axis=1), 0, teachers)

    def _compare(self, number: np.ndarray, least: int, most: int) -> Comparison:
        return Comparison(
            number=number.astype(np.int64, copy=False),
            least=least,
            most=most,
            threshold=self.threshold,
            sigma=self.sigma1,
            noise=self.noise,
        )

    def _evidence(self, votes: np.ndarray, teachers: int, probabilities: np.ndarray | None) -> Evidence:
        label = self._covers(log_q_gnmax(votes, self.sigma2, self.noise))
        return Evidence(self.comparison(votes, teachers, probabilities).log_q(), label)

    def steps(self, evidence: Evidence) -> tuple[Step, ...]:
        return (
            Step(evidence.log_q_check, "scalar", self.sigma1, False),
            Step(evidence.log_q_label, "histogram", self.sigma2, True),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractiveEvent(ConfidentEvent):
    """The same check on max_j(n_j - M p_j), p the student's public prediction. Papernot et al. 2018, Algorithm 2.

    Its sensitivity is 1 as well, because p is public. A confident prediction of the student that is reinforced where
    the check fails is post-processing: it counts as asked, not as answered.
    """

    TYPE: ClassVar[str] = "interactive"

    def comparison(self, votes: np.ndarray, teachers: int, probabilities: np.ndarray | None = None) -> Comparison:
        """The largest excess over what the student predicts.

        Raises
        ------
        EventError : no predictions, or not one row per query. ThresholdError : not within [0, 1].
        """
        if probabilities is None:
            raise EventError("an interactive check needs the student's predictions. Pass predictions.")
        array, offsets = np.asarray(votes).astype(np.int64, copy=False), public_offsets(probabilities, teachers)
        if offsets.shape != array.shape:
            raise EventError(
                f"predictions have shape {offsets.shape}, the votes {array.shape}. Pass one row per query."
            )
        least, most = -int(offsets.max(initial=0)), teachers - int(offsets.min(initial=0))
        return self._compare((array - offsets).max(axis=1), least, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class LNMaxEvent(ReleaseEvent):
    """argmax of votes + Lap(1/gamma); every query is answered. Papernot et al. 2017, Theorems 2 and 3.

    Charged for the winner, which is what leaves (`accounting.worst.laplace`), and not for the noisy counts, as there.

    >>> from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
    >>> event = LNMaxEvent(asked=100, answered=100, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE,
    ...                    teachers_per_party=1, towards=Towards.STUDENT, noise=Noise.DISCRETE, gamma=0.05)
    >>> event.worst_case_rdp([2.0]).round(4).tolist(), event.pure_epsilon()
    ([0.2499], 10.0)
    """

    TYPE: ClassVar[str] = "lnmax"

    gamma: float

    def _check(self) -> None:
        check_scale(self.gamma, "gamma")
        check_answers_all(self)

    @property
    def laplace_gamma(self) -> float:
        return self.gamma

    def _worst_case_rdp(self, orders: object) -> np.ndarray:
        return self.answered * rdp_argmax_laplace(self.gamma, orders, self.noise, self.votes_moved)

    def _composed_parts(self) -> tuple[Composed, ...]:
        return (Composed(self.answered, "laplace", 1 / self.gamma, self.noise, self.votes_moved),)

    def pure_epsilon(self) -> float:
        return self.answered * 2 * self.gamma * self.votes_moved

    def _evidence(self, votes: np.ndarray, teachers: int, probabilities: np.ndarray | None) -> Evidence:
        return Evidence(None, self._covers(log_q_lnmax(votes, self.gamma, self.noise)))

    def steps(self, evidence: Evidence) -> tuple[Step, ...]:
        return (Step(evidence.log_q_label, "laplace", self.gamma, True),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImmutableEvent(ReleaseEvent):
    """Noisy argmax after ``constant`` was added to the top count: NOT differentially private.

    No worst case is offered: the curve is +inf wherever anything was answered, and stays so under composition. What the
    mechanism's paper claims, and a lower bound on the truth, are in ``accounting.curves.immutable``.
    """

    TYPE: ClassVar[str] = "immutable"

    gamma: float
    constant: int

    def _check(self) -> None:
        check_scale(self.gamma, "gamma")
        check_count(self.constant, "constant")

    def _worst_case_rdp(self, orders: object) -> np.ndarray:
        return unbounded(self, orders)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImmutableGaussianEvent(ReleaseEvent):
    """The same with Gaussian noise: NOT differentially private either."""

    TYPE: ClassVar[str] = "immutable_gaussian"

    sigma: float
    constant: int

    def _check(self) -> None:
        check_scale(self.sigma, "sigma")
        check_count(self.constant, "constant")

    def _worst_case_rdp(self, orders: object) -> np.ndarray:
        return unbounded(self, orders)


def unbounded(event: ReleaseEvent, orders: object) -> np.ndarray:
    """The curve of something that is not private: +inf as soon as anything was answered, float64 (orders,)."""
    return np.full(check_orders(orders).size, math.inf if event.answered else 0.0)


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
        each = rdp_argmax(sigma, orders, event.noise, event.votes_moved)
    return each + share_penalty(event, sigma, shares, orders)


def _composed(event: ReleaseEvent, *phases: tuple[int, float, int]) -> tuple[Composed, ...] | None:
    """None where the sum of the shares is not as good as one discrete Gaussian."""
    if any(share_slack(event.noise, sigma, shares) > NO_SLACK for _, sigma, shares in phases):
        return None
    what = "histogram" if event.towards is Towards.COORDINATOR else "argmax"
    return tuple(Composed(count, what, sigma, event.noise, event.votes_moved) for count, sigma, _ in phases)


def share_slack(noise: Noise, sigma: float, shares: int) -> float:
    """Largest |log(sum of shares / one discrete Gaussian)| of the noise on a count; 0 for continuous noise.

    Below 1e-15 once a share's sigma exceeds 1.92.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StableEvent(ReleaseEvent):
    """Exact plurality if dist + N(0, sigma^2) >= threshold (propose-test-release); see ``accounting.curves.immutable``.

    Every query asked pays alpha k^2 / (2 sigma^2), and its probability of releasing an unstable plurality in delta.
    """

    TYPE: ClassVar[str] = "stable"

    threshold: float
    sigma: float

    def _check(self) -> None:
        check_threshold(self.threshold)
        check_scale(self.sigma, "sigma")

    def _worst_case_rdp(self, orders: object) -> np.ndarray:
        return self.asked * rdp_gaussian(self.sigma, orders, self.votes_moved, scalar=True)

    def _gaussian_parts(self) -> tuple[GaussianPart, ...]:
        return (GaussianPart(self.asked, self.sigma, True),)

    def added_delta(self) -> float:
        return ptr_failure(self.asked, self.threshold, self.sigma, self.noise, self.votes_moved)

    def comparison(self, votes: np.ndarray, teachers: int, probabilities: np.ndarray | None = None) -> Comparison:
        """The votes that can move before another plurality is possible."""
        return Comparison(
            number=distance_to_instability(votes),
            least=0,
            most=max(0, (teachers + 1) // 2 - 1),
            threshold=self.threshold,
            sigma=self.sigma,
            noise=self.noise,
        )

    def _evidence(self, votes: np.ndarray, teachers: int, probabilities: np.ndarray | None) -> Evidence:
        return Evidence(self._covers(self.comparison(votes, teachers).log_q()), None)

    def steps(self, evidence: Evidence) -> tuple[Step, ...]:
        return (Step(evidence.log_q_check, "scalar", self.sigma, False),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitisedEvent(ReleaseEvent):
    """One release of a data-dependent curve with noise scaled to its smooth sensitivity; see ``sanitise.release``.

    It asks nothing and answers nothing, so both counts are 0, and it costs the same whatever was asked before. The cost
    holds at every order, not only at that of the released curve.

    beta, sigma_ss : of the plan. log_scale_sigma : noise on ln SS, 0 where that is not released.
    """

    TYPE: ClassVar[str] = "sanitised"
    closing: ClassVar[bool] = True

    beta: float
    sigma_ss: float
    log_scale_sigma: float

    def _check(self) -> None:
        check_scale(self.beta, "beta")
        check_scale(self.sigma_ss, "sigma_ss")
        if self.log_scale_sigma != 0:
            check_scale(self.log_scale_sigma, "log_scale_sigma")
        if self.asked or self.answered:
            raise EventError(f"a sanitised release asks nothing, but asked is {self.asked}. Count 0.")

    def _worst_case_rdp(self, orders: object) -> np.ndarray:
        alpha = check_orders(orders)
        _, beta = group_smooth_sensitivity(1.0, self.beta, self.votes_moved)
        cost = gnss_cost(alpha, beta, self.sigma_ss)
        # ln SS moves by at most k beta between neighbours: an ordinary Gaussian release
        return cost + alpha * beta**2 / (2 * self.log_scale_sigma**2) if self.log_scale_sigma else cost


EVENTS: dict[str, type[ReleaseEvent]] = {
    cls.TYPE: cls
    for cls in (
        LNMaxEvent,
        GNMaxEvent,
        HistogramEvent,
        ConfidentEvent,
        InteractiveEvent,
        DistributedEvent,
        DistributedTwoPhaseEvent,
        StableEvent,
        ImmutableEvent,
        ImmutableGaussianEvent,
        SanitisedEvent,
    )
}
"""Every event type by the name that stands in its JSON."""


def event_from_json(data: object) -> ReleaseEvent:
    """Read an event back. Unknown types, versions and keys are refused, and so are missing ones.

    Raises
    ------
    EventError : the JSON is not exactly what ``to_json`` of a known event writes.
    """
    if not isinstance(data, dict):
        raise EventError(f"an event is a JSON object, got {type(data).__name__}.")
    kind, version = data.get("type"), data.get("version")
    cls = EVENTS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise EventError(f"unknown event type {kind!r}; known: {', '.join(sorted(EVENTS))}. Update this program.")
    if isinstance(version, bool) or version != cls.VERSION:
        raise EventError(f"event {kind!r} has version {version!r}, this program reads {cls.VERSION}. Update it.")
    values = {key: value for key, value in data.items() if key not in ("type", "version")}
    known = {field.name for field in fields(cls)}
    unknown, missing = sorted(map(str, set(values) - known)), sorted(known - set(values))
    if unknown or missing:
        raise EventError(f"event {kind!r} has unknown keys {unknown} and lacks {missing}.")
    for name, value in values.items():
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if not plain or (isinstance(value, float) and not math.isfinite(value)):
            raise EventError(f"event {kind!r}: {name} is not a plain finite value.")
    return cls(**values)
