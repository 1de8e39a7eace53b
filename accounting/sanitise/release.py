"""A data-dependent epsilon that may be published: released with noise, and the noise paid for.

At one public order alpha the curve rho(alpha) of the realised answers is released as rho + SS_beta sigma_ss N(0, 1),
clipped to what is publicly possible. The releases and this number together cost rho + gnss_cost at that order; epsilon
is the released number plus that cost plus the conversion. Order, beta, sigma_ss, the threshold and all sigmas must be
fixed without a look at private votes: plan them on public or simulated ones (``forecast_sanitised``).

The result is an unbiased estimate before clipping, not a ceiling. Its standard deviation, SS sigma_ss, is private too.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from consilium.accounting.checks import LEAST_SCALE, check_delta, check_orders, check_scale
from consilium.accounting.curves.conversion import REFERENCE_ORDERS, conversion_cost
from consilium.accounting.curves.gnss import best_sigma_ss, gnss_cost
from consilium.accounting.errors import CalibrationError, EventError, NoiseError, UnitError
from consilium.accounting.events import ReleaseEvent, Step
from consilium.accounting.guarantees import Guarantee, Kind
from consilium.accounting.label_costs import VoteBatch
from consilium.accounting.mechanisms import Sanitised
from consilium.accounting.sanitise.gap import envelope, orders_within_reach
from consilium.accounting.sanitise.smooth import CheckProfile, LabelProfile, SensitivityProfile, smooth_sensitivity
from consilium.accounting.units import Neighbouring, Noise, Unit

BOUND = "smooth sensitivity of a bound by the plurality's lead"
"""With this a release's method begins."""
_GRAIN = 1e-4
"""The released curve is rounded up to this; the low-order bits of a float can tell about the noise (Mironov 2012)."""
_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
"""alpha beta that are tried; the sound cost explodes towards 1/2."""
_NEAR, _TRIED = 60, 20
"""Orders that are best without the cost of the release, which moves the best one; so many of them are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitisedPlan:
    """Public parameters of a sanitised release, fixed before the run: the one Renyi order, beta for smoothness,
    sigma_ss, the noise in units of the smooth sensitivity. Raises OrdersError, NoiseError: a field out of range."""

    order: float
    beta: float
    sigma_ss: float

    def __post_init__(self) -> None:
        check_orders([self.order])
        check_scale(self.beta, "beta")
        check_scale(self.sigma_ss, "sigma_ss")

    def cost(self) -> float:
        """What the release costs at ``order``. Raises NoiseError: alpha (1 - e^(-2 beta)) >= 1, where it costs
        everything."""
        cost = float(self.mechanism.other_rdp([self.order], 0, 1)[0])
        if math.isinf(cost):
            raise NoiseError(
                f"order {self.order:g} with beta {self.beta:g} has alpha (1 - e^(-2 beta)) >= 1: the release has no"
                " finite cost. Take a smaller beta or order."
            )
        return cost

    @property
    def mechanism(self) -> Sanitised:
        """What is charged for the release, at every order."""
        return Sanitised(self.beta, self.sigma_ss)

    def event(self, like: ReleaseEvent) -> ReleaseEvent:
        """The charge of this release, with unit, relation and audience of the events that it speaks about. Raises
        EventError for an event without a sensitivity bound."""
        _label_of(like)
        return replace(like, mechanism=self.mechanism, asked=0, answered=0, noise=Noise.CONTINUOUS, slack=0.0)


def _label_of(event: ReleaseEvent) -> Step:
    label = event.label
    if event.unit is Unit.PARTY and event.neighbouring is Neighbouring.ADD_OR_REMOVE:
        # a table ends at as many votes as were counted: what the next one changes would be in no sensitivity
        raise EventError(
            "a data-dependent epsilon has no known sensitivity where a party may be added or removed: queries would"
            ' differ in their number of votes. Drop the plan, or take neighbouring = "replace".'
        )
    if label is None:
        raise EventError(
            f"a {event.mechanism.name} release has no data-dependent bound with a known sensitivity. Drop the plan."
        )
    if event.votes_moved > 1:
        raise EventError(
            f"a data-dependent epsilon has no known sensitivity where one unit moves {event.votes_moved} votes on a"
            " query. Drop the plan, or take one teacher for a party."
        )
    return label


def label_costs(event: ReleaseEvent, teachers: int, classes: int, orders: np.ndarray) -> np.ndarray:
    """What one label costs at most, by the plurality's lead: float64 (orders, leads). Looks at no votes. Raises
    EventError: no bound with a known sensitivity. NoiseError, OrdersError."""
    label = _label_of(event)
    return envelope(label.law, label.scale, event.noise, classes, teachers, orders)


def check_plan(plan: SanitisedPlan, event: ReleaseEvent, teachers: int, classes: int) -> None:
    """Refuse a plan that ``sanitise`` would refuse after a run of ``event``, with NoiseError or EventError. Looks at no
    votes."""
    plan.cost()
    label_costs(event, teachers, classes, np.array([plan.order]))


@dataclass(frozen=True, slots=True)
class SecretSmoothness:
    """rho and SS at the plan's order. Functions of the votes: neither may be printed or published as they are."""

    rdp: float
    smooth: float

    def __repr__(self) -> str:
        return "SecretSmoothness(<secret>)"


@dataclass(frozen=True, slots=True)
class SanitisedRelease:
    """What may be published: the guarantee, the released curve, and its cost."""

    guarantee: Guarantee
    plan: SanitisedPlan
    released_rdp: float
    release_cost: float


def _profiles(
    event: ReleaseEvent,
    votes: np.ndarray,
    teachers: int,
    orders: np.ndarray,
    weights: np.ndarray,
    probabilities: np.ndarray | None = None,
) -> list[SensitivityProfile]:
    """The steps of a batch, each with its cost and its sensitivity; errors as in ``label_costs``."""
    costs = label_costs(event, teachers, np.asarray(votes).shape[1], orders)
    label, compared = (
        LabelProfile(votes, teachers, costs, weights),
        event.mechanism.comparison(votes, teachers, event.noise, probabilities),
    )
    return [label] if compared is None else [label, CheckProfile(compared, orders)]


def secret_smoothness(batches: Sequence[VoteBatch], plan: SanitisedPlan, teachers: int) -> SecretSmoothness:
    """rho(order) and SS_beta of everything that was released, at the realised answers. Secret. Events without a
    data-dependent bound on sensitivity enter at their worst case, which is public and has none. Raises VotesError,
    EventError, UnitError: the batches are not usable. NoiseError: too much noise for a table of costs."""
    order = np.array([plan.order])
    profiles: list[SensitivityProfile] = []
    total = 0.0
    for batch in batches:
        present = batch.check()  # fewer than `teachers` where a party was missing
        if not batch.event.asked:
            continue
        if present > teachers:
            raise EventError(f"a query has {present} votes, more than the {teachers} teachers.")
        if batch.event.label is None:
            total += float(batch.event.worst_case_rdp(order)[0])
            continue
        weights = batch.answered.astype(np.float64)
        parts = _profiles(batch.event, batch.votes, present, order, weights, batch.predictions)
        for part in parts:
            total += float(part.cost()[0])
        profiles.extend(parts)
    smooth = float(smooth_sensitivity(profiles, order, [plan.beta], teachers)[0]) if profiles else 0.0
    return SecretSmoothness(total, smooth)


def sanitise(
    batches: Sequence[VoteBatch],
    plan: SanitisedPlan,
    delta: float,
    teachers: int,
    normal: Callable[[], float] | None = None,
) -> SanitisedRelease:
    """Release the data-dependent epsilon of ``batches`` once. Calling it again is another release and costs again.

    batches : every release on the same data, all with the same unit and audience.
    teachers : the most votes that a query got; a batch may have fewer, the same number for each of its queries.
    normal : draws N(0, 1); the operating system's entropy if None. Give a seeded one in simulations only.

    Raises NoiseError, UnitError, EventError, DeltaError.
    """
    if not batches:
        raise EventError("nothing was released, so there is nothing to sanitise.")
    first = batches[0].event
    events = [batch.event for batch in batches]
    claims = {(e.unit, e.neighbouring, e.votes_moved, e.towards) for e in events}
    if len(claims) > 1:
        raise UnitError("the batches differ in unit, relation or audience. Sanitise each kind on its own.")
    cost = plan.cost()
    secret = secret_smoothness(batches, plan, teachers)
    draw = normal or (lambda: random.SystemRandom().gauss(0.0, 1.0))
    worst = sum(float(batch.event.worst_case_rdp([plan.order])[0]) for batch in batches)
    noisy = secret.rdp + secret.smooth * plan.sigma_ss * draw()
    released = min(max(0.0, math.ceil(noisy / _GRAIN) * _GRAIN), worst)
    converted = float(conversion_cost([plan.order], check_delta(delta))[0])
    return SanitisedRelease(
        guarantee=Guarantee(
            epsilon=max(0.0, released + cost + converted),
            delta=delta,
            order=plan.order,
            unit=first.unit,
            neighbouring=first.neighbouring,
            teachers_per_party=first.teachers_per_party,
            towards=first.towards,
            kind=Kind.SANITISED,
            method=f"{BOUND} (beta {plan.beta:.4g}, sigma_ss {plan.sigma_ss:.4g}), cks conversion",
        ),
        plan=plan,
        released_rdp=released,
        release_cost=cost,
    )


class Forecast(NamedTuple):
    """What a plan would give if the private votes looked like the public ones (so: a forecast, no guarantee): epsilon
    before the noise of the release, with what that costs; the standard deviation of that noise."""

    plan: SanitisedPlan
    epsilon: float
    noise_std: float


def _within_reach(
    event: ReleaseEvent, votes: np.ndarray, teachers: int, delta: float, orders: np.ndarray
) -> np.ndarray:
    """As many orders as are evaluated in seconds, around the best one for whole histograms: float64 (some,)."""
    label, queries = _label_of(event), len(votes)
    fit = orders_within_reach(label.law, label.scale, event.noise, teachers, orders.max())
    compared = event.mechanism.comparison(votes, teachers, event.noise)
    if compared is not None:
        fit = min(fit, CheckProfile.most_orders(compared))
    if orders.size <= fit:
        return orders
    whole = event.with_counts(queries, queries).histogram_rdp(orders)
    best = orders[np.argmin(whole + conversion_cost(orders, delta))]
    ordered, tried = np.sort(orders), np.geomspace(best / 2, 8 * best, max(fit, 1))
    return np.unique(ordered[np.minimum(np.searchsorted(ordered, tried), ordered.size - 1)])


def forecast_sanitised(
    event: ReleaseEvent, public_votes: np.ndarray, teachers: int, delta: float, orders: np.ndarray = REFERENCE_ORDERS
) -> Forecast:
    """Plan that minimises epsilon + 2 standard deviations of its noise on public votes.

    event : parameters of the mechanism (its counts are ignored). public_votes : signed integers (queries, classes).
    orders : that are tried; as many of them as take a few seconds.

    Raises CalibrationError: no plan has a finite cost. EventError: the event has no sensitivity bound, or compares with
    predictions of a student. NoiseError: too much noise for a table of costs.
    """
    votes = np.asarray(public_votes)
    alpha = _within_reach(event, votes, teachers, delta, check_orders(orders))
    profiles = _profiles(event, votes, teachers, alpha, np.exp(event.log_p_answered(votes, teachers)))
    rho = np.sum([profile.cost() for profile in profiles], axis=0)
    near, best = np.argsort(rho + conversion_cost(alpha, delta))[:_NEAR], None
    for share in _SHARES:
        betas = share / alpha
        smooth = smooth_sensitivity(profiles, alpha, betas, teachers)
        for at in near[:: max(1, near.size // _TRIED)]:
            order, beta, scale = float(alpha[at]), float(betas[at]), float(smooth[at])
            if scale < LEAST_SCALE:
                continue  # every lead is charged the worst case there
            sigma_ss = best_sigma_ss(order, beta, scale)
            cost = float(gnss_cost([order], beta, sigma_ss)[0])
            epsilon = float(rho[at] + cost + conversion_cost([order], delta)[0])
            std = scale * sigma_ss
            if best is None or epsilon + 2 * std < best[0]:
                plan = SanitisedPlan(order=order, beta=beta, sigma_ss=sigma_ss)
                best = (epsilon + 2 * std, Forecast(plan, max(0.0, epsilon), std))
    if best is None or not np.isfinite(best[0]):
        raise CalibrationError("no sanitised release has a finite cost here. Publish the worst case.")
    return best[1]
