"""One frozen event for every mechanism, and the way back from JSON.

What an event means and promises is in ``accounting.events.release``. Each class states the source of its bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from consilium.accounting.checks import check_count, check_orders, check_scale
from consilium.accounting.curves.discrete import convolution_slack
from consilium.accounting.curves.gaussian import rdp_gaussian
from consilium.accounting.curves.gdp import GaussianPart
from consilium.accounting.curves.gnmax import log_q_gnmax
from consilium.accounting.curves.gnss import gnss_cost, group_smooth_sensitivity
from consilium.accounting.curves.laplace import log_q_lnmax, rdp_laplace
from consilium.accounting.curves.stable import distance_to_instability, ptr_failure, rdp_sparse_vector, svt_failure
from consilium.accounting.curves.threshold import check_threshold, log_q_threshold, public_offsets
from consilium.accounting.errors import EventError
from consilium.accounting.events.release import Evidence, ReleaseEvent, Step
from consilium.accounting.histogram import check_same_total
from consilium.accounting.units import Noise

__all__ = [
    "EVENTS",
    "ConfidentEvent",
    "DistributedEvent",
    "DistributedTwoPhaseEvent",
    "Evidence",
    "GNMaxEvent",
    "ImmutableEvent",
    "InteractiveEvent",
    "LNMaxEvent",
    "ReleaseEvent",
    "SanitisedEvent",
    "SparseVectorEvent",
    "StableEvent",
    "event_from_json",
]


def _covers(event: ReleaseEvent, per_query: np.ndarray) -> np.ndarray:
    if per_query.shape[0] != event.asked:
        raise EventError(f"votes hold {per_query.shape[0]} queries, the event says {event.asked} were asked.")
    return per_query


def _answers_all(event: ReleaseEvent) -> None:
    if event.answered != event.asked:
        raise EventError(f"{event.TYPE} answers every query, but answered is {event.answered} of {event.asked} asked.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LNMaxEvent(ReleaseEvent):
    """argmax of votes + Lap(1/gamma); every query is answered. Papernot et al. 2017, Theorems 2 and 3.

    The worst case is the exact Renyi curve of the noise, tighter than the paper's; see ``accounting.curves.laplace``.
    """

    TYPE: ClassVar[str] = "lnmax"

    gamma: float

    def _check(self) -> None:
        check_scale(self.gamma, "gamma")
        _answers_all(self)

    def worst_case_rdp(self, orders: object) -> np.ndarray:
        return self.answered * rdp_laplace(self.gamma, orders, self.votes_moved, noise=self.noise)

    def _evidence(self, votes: np.ndarray) -> Evidence:
        return Evidence(None, _covers(self, log_q_lnmax(votes, self.gamma, self.noise)))

    def steps(self, evidence: Evidence) -> tuple[Step, ...]:
        return (Step(evidence.log_q_label, "laplace", self.gamma, True),)


@dataclass(frozen=True, slots=True, kw_only=True)
class GNMaxEvent(ReleaseEvent):
    """argmax of votes + N(0, sigma^2); every query is answered. Papernot et al. 2018, Section 3.1.

    >>> from consilium.accounting.units import Neighbouring, Towards, Unit
    >>> event = GNMaxEvent(asked=100, answered=100, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE,
    ...                    teachers_per_party=1, towards=Towards.STUDENT, noise=Noise.DISCRETE, sigma=40.0)
    >>> event.worst_case_rdp([2.0]).tolist()
    [0.125]
    """

    TYPE: ClassVar[str] = "gnmax"

    sigma: float

    def _check(self) -> None:
        check_scale(self.sigma, "sigma")
        _answers_all(self)

    def worst_case_rdp(self, orders: object) -> np.ndarray:
        return self.answered * rdp_gaussian(self.sigma, orders, self.votes_moved)

    def gaussian_parts(self) -> tuple[GaussianPart, ...]:
        return (GaussianPart(self.answered, self.sigma, False),)

    def _evidence(self, votes: np.ndarray) -> Evidence:
        return Evidence(None, _covers(self, log_q_gnmax(votes, self.sigma, self.noise)))

    def steps(self, evidence: Evidence) -> tuple[Step, ...]:
        return (Step(evidence.log_q_label, "histogram", self.sigma, True),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidentEvent(ReleaseEvent):
    """Threshold check on the top count, then GNMax on what passed. Papernot et al. 2018, Algorithm 1.

    Every query pays the check (noise sigma1 on one number of sensitivity 1); only answered queries pay GNMax (sigma2).

    >>> from consilium.accounting.units import Neighbouring, Towards, Unit
    >>> event = ConfidentEvent(asked=640, answered=283, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE,
    ...                        teachers_per_party=1, towards=Towards.STUDENT, noise=Noise.DISCRETE,
    ...                        threshold=200.0, sigma1=150.0, sigma2=40.0)
    >>> event.worst_case_rdp([2.0]).round(6).tolist()
    [0.382194]
    """

    TYPE: ClassVar[str] = "confident"

    threshold: float
    sigma1: float
    sigma2: float

    def _check(self) -> None:
        check_threshold(self.threshold)
        check_scale(self.sigma1, "sigma1")
        check_scale(self.sigma2, "sigma2")

    def worst_case_rdp(self, orders: object) -> np.ndarray:
        check = rdp_gaussian(self.sigma1, orders, self.votes_moved, scalar=True)
        return self.asked * check + self.answered * rdp_gaussian(self.sigma2, orders, self.votes_moved)

    def gaussian_parts(self) -> tuple[GaussianPart, ...]:
        return (GaussianPart(self.asked, self.sigma1, True), GaussianPart(self.answered, self.sigma2, False))

    def _evidence(self, votes: np.ndarray) -> Evidence:
        label = _covers(self, log_q_gnmax(votes, self.sigma2, self.noise))
        top = np.asarray(votes).max(axis=1).astype(np.int64)
        return Evidence(log_q_threshold(top, self.threshold, self.sigma1, self.noise), label)

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

    def _evidence(self, votes: np.ndarray) -> Evidence:
        raise EventError("an interactive check needs the student's predictions. Use evidence_against(votes, p).")

    def evidence_against(self, votes: np.ndarray, probabilities: np.ndarray, teachers: int | None = None) -> Evidence:
        """As ``evidence``, and against public p float64 (asked, classes). Secret."""
        present = check_same_total(votes, teachers)
        label = _covers(self, log_q_gnmax(votes, self.sigma2, self.noise))
        array = np.asarray(votes).astype(np.int64)
        offsets = public_offsets(probabilities, present if self.asked else 1)
        if offsets.shape != array.shape:
            raise EventError(
                f"predictions have shape {offsets.shape}, the votes {array.shape}. Pass one row per query."
            )
        top = (array - offsets).max(axis=1) if self.asked else np.zeros(0, dtype=np.int64)
        return Evidence(log_q_threshold(top, self.threshold, self.sigma1, self.noise), label)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedEvent(ReleaseEvent):
    """One noisy histogram per query, seen by whoever ``towards`` names; label and threshold are post-processing.

    The noise of variance sigma^2 is the sum of ``noise_shares`` independent shares (of honest parties: leave out those
    that may collude or drop out). There is no data-dependent saving: the whole histogram is seen. Every query asked
    pays. For integer noise the sum of shares is not quite a discrete Gaussian; the difference is charged
    (``share_penalty``).
    """

    TYPE: ClassVar[str] = "distributed"

    sigma: float
    noise_shares: int

    def _check(self) -> None:
        check_scale(self.sigma, "sigma")
        check_count(self.noise_shares, "noise_shares", 1)

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

    sigma1: float
    sigma2: float
    noise_shares: int

    def _check(self) -> None:
        check_scale(self.sigma1, "sigma1")
        check_scale(self.sigma2, "sigma2")
        check_count(self.noise_shares, "noise_shares", 1)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StableEvent(ReleaseEvent):
    """Exact plurality if dist + N(0, sigma^2) >= threshold (propose-test-release); see ``accounting.curves.stable``.

    Every query asked pays alpha k^2 / (2 sigma^2), and its probability of releasing an unstable plurality in delta.
    """

    TYPE: ClassVar[str] = "stable"

    threshold: float
    sigma: float

    def _check(self) -> None:
        check_threshold(self.threshold)
        check_scale(self.sigma, "sigma")

    def worst_case_rdp(self, orders: object) -> np.ndarray:
        return self.asked * rdp_gaussian(self.sigma, orders, self.votes_moved, scalar=True)

    def gaussian_parts(self) -> tuple[GaussianPart, ...]:
        return (GaussianPart(self.asked, self.sigma, True),)

    def added_delta(self) -> float:
        return ptr_failure(self.asked, self.threshold, self.sigma, self.noise, self.votes_moved)

    def _evidence(self, votes: np.ndarray) -> Evidence:
        distance = distance_to_instability(votes)
        return Evidence(_covers(self, log_q_threshold(distance, self.threshold, self.sigma, self.noise)), None)

    def steps(self, evidence: Evidence) -> tuple[Step, ...]:
        return (Step(evidence.log_q_check, "scalar", self.sigma, False),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVectorEvent(ReleaseEvent):
    """Exact plurality while a noisy distance stays above a noisy threshold; stops after ``unstable_cap`` failures.

    Bassily, Thakkar, Thakurta 2018, Algorithm 1, charged by the Renyi curve of its AboveThreshold runs and the exact
    probability of releasing an unstable plurality, which is several times less than their formula.
    """

    TYPE: ClassVar[str] = "sparse_vector"

    threshold: float
    scale: float
    unstable_cap: int

    def _check(self) -> None:
        check_threshold(self.threshold)
        check_scale(self.scale, "scale")
        check_count(self.unstable_cap, "unstable_cap", 1)

    def worst_case_rdp(self, orders: object) -> np.ndarray:
        return rdp_sparse_vector(self.scale, self.unstable_cap, orders, self.votes_moved)

    def added_delta(self) -> float:
        return svt_failure(self.asked, self.threshold, self.scale, self.noise, self.votes_moved)


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

    def worst_case_rdp(self, orders: object) -> np.ndarray:
        return np.full(check_orders(orders).size, math.inf if self.answered else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitisedEvent(ReleaseEvent):
    """One release of a data-dependent curve with noise scaled to its smooth sensitivity; see ``sanitise.release``.

    It asks nothing and answers nothing, so both counts are 0, and it costs the same whatever was asked before. The cost
    holds at every order, not only at that of the released curve.

    beta, sigma_ss : of the plan. log_scale_sigma : noise on ln SS, 0 where that is not released.
    """

    TYPE: ClassVar[str] = "sanitised"

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

    def worst_case_rdp(self, orders: object) -> np.ndarray:
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
        ConfidentEvent,
        InteractiveEvent,
        DistributedEvent,
        DistributedTwoPhaseEvent,
        StableEvent,
        SparseVectorEvent,
        ImmutableEvent,
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
    if set(values) != known:
        unknown, missing = sorted(map(str, set(values) - known)), sorted(known - set(values))
        raise EventError(f"event {kind!r} has unknown keys {unknown} and lacks {missing}.")
    for name, value in values.items():
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if not plain or (isinstance(value, float) and not math.isfinite(value)):
            raise EventError(f"event {kind!r}: {name} is not a plain finite value.")
    return cls(**values)
