"""The events of the near-zero-cost paper's mechanisms, which have no worst case."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from consilium.accounting.checks import check_count, check_orders, check_scale
from consilium.accounting.events.release import ReleaseEvent


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
