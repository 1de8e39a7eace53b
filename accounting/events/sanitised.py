"""The event of a data-dependent epsilon that is published with noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from consilium.accounting.checks import check_orders, check_scale
from consilium.accounting.curves.gnss import gnss_cost, group_smooth_sensitivity
from consilium.accounting.errors import EventError
from consilium.accounting.events.release import ReleaseEvent


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
