"""Choosing the parameters of a sanitised release on PUBLIC or simulated votes.

Order, beta and sigma_ss may not depend on private votes, not even through the private epsilon they would give. So they
are chosen on votes that stand in for them, and then fixed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilium.accounting.curves.conversion import Method, conversion_cost
from consilium.accounting.curves.gnss import best_sigma_ss, gnss_cost, group_smooth_sensitivity
from consilium.accounting.curves.orders import REFERENCE_ORDERS
from consilium.accounting.errors import CalibrationError
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.sanitise.labels import LabelCost, label_cost, no_known_sensitivity, proved_orders
from consilium.accounting.sanitise.release import SanitisedPlan, check_profile
from consilium.accounting.sanitise.smooth import CheckProfile, smooth_sensitivity

_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
"""alpha beta that are tried; the sound cost explodes towards 1/2."""


class Forecast(NamedTuple):
    """What a plan would give if the private votes looked like the public ones (so: a forecast, no guarantee).

    epsilon : before the noise of the release; noise_std : its standard deviation; release_cost : included in epsilon.
    """

    plan: SanitisedPlan
    epsilon: float
    noise_std: float
    release_cost: float
    smooth: float


def forecast_sanitised(
    event: ReleaseEvent,
    public_votes: np.ndarray,
    teachers: int,
    delta: float,
    orders: np.ndarray = REFERENCE_ORDERS,
    deviations: float = 2.0,
    method: Method = "cks",
) -> Forecast:
    """Plan that minimises epsilon + ``deviations`` noise standard deviations on public votes.

    Orders at which C5 or C6 fails are left out.

    Parameters
    ----------
    event : parameters of the mechanism (its counts are ignored). public_votes : signed integers (queries, classes).

    Raises
    ------
    CalibrationError : no order satisfies C5 and C6, or no plan has a finite cost. EventError : the event has no
        sensitivity bound, or compares with predictions of a student.
    """
    votes = np.asarray(public_votes)
    k = event.votes_moved
    alpha = proved_orders(event, teachers, votes.shape[1], np.asarray(orders))
    if not alpha.size:
        raise CalibrationError("conditions C5 and C6 hold at none of the orders. Take a larger sigma.")
    compared, weights = event.comparison(votes, teachers), np.exp(event.log_p_answered(votes, teachers))
    label = label_cost(event, votes, teachers, alpha, weights)
    if label is None:
        raise no_known_sensitivity(event)
    profiles: list[LabelCost | CheckProfile] = [] if compared is None else [check_profile(compared, alpha, k)]
    profiles.append(label)
    rho = np.sum([profile.cost() for profile in profiles], axis=0)
    best: tuple[float, Forecast] | None = None
    for share in _SHARES:
        betas = share / (alpha * k)
        smooth = smooth_sensitivity(profiles, alpha, betas, teachers)
        for at in np.argsort(rho + conversion_cost(alpha, delta, method))[:60]:
            order, beta = float(alpha[at]), float(betas[at])
            scale, group_beta = group_smooth_sensitivity(float(smooth[at]), beta, k)
            sigma_ss = best_sigma_ss(order, group_beta, max(scale, 1e-300), deviations)
            cost = float(gnss_cost([order], group_beta, sigma_ss)[0])
            epsilon = float(rho[at] + cost + conversion_cost([order], delta, method)[0])
            std = scale * sigma_ss
            if best is None or epsilon + deviations * std < best[0]:
                plan = SanitisedPlan(order=order, beta=beta, sigma_ss=sigma_ss)
                best = (epsilon + deviations * std, Forecast(plan, max(0.0, epsilon), std, cost, scale))
    if best is None or not np.isfinite(best[0]):
        raise CalibrationError("no sanitised release has a finite cost here. Publish the worst case.")
    return best[1]
