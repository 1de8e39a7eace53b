"""What an event tells about its own release: its noisy steps, its threshold check, the noise that the parties add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from consilium.accounting.curves.gaussian import rdp_data_dependent, sum_rdp_data_dependent
from consilium.accounting.curves.laplace import rdp_lnmax, sum_rdp_lnmax
from consilium.accounting.curves.threshold import log_pr_answered, log_q_threshold
from consilium.accounting.units import Noise


class Evidence(NamedTuple):
    """What one batch of votes says about its cost: two float64 (asked,) of log q, or None. Secret; never printed."""

    log_q_check: np.ndarray | None
    log_q_label: np.ndarray | None

    def __repr__(self) -> str:
        return "Evidence(<secret>)"


class Step(NamedTuple):
    """One noisy step of a release: its log q per query, the kind and scale of its noise, and who pays for it.

    kind : "histogram" and "scalar" carry Gaussian noise of that sigma, "laplace" a histogram with that gamma.
    """

    log_q: np.ndarray | None
    kind: Literal["histogram", "scalar", "laplace"]
    scale: float
    only_answered: bool

    def rdp(self, orders: object, votes_moved: int, noise: Noise) -> np.ndarray:
        """Data-dependent cost of each query: float64 (queries, orders). Secret."""
        if self.kind == "laplace":
            return rdp_lnmax(self.log_q, self.scale, orders, votes_moved, noise=noise)
        return rdp_data_dependent(self.log_q, self.scale, orders, votes_moved, scalar=self.kind == "scalar")

    def sum_rdp(self, orders: object, votes_moved: int, noise: Noise, weights: np.ndarray | None) -> np.ndarray:
        """Its sum over queries, each times its weight in [0, 1]: float64 (orders,). Secret."""
        if self.kind == "laplace":
            return sum_rdp_lnmax(self.log_q, self.scale, orders, votes_moved, noise=noise, weights=weights)
        scalar = self.kind == "scalar"
        return sum_rdp_data_dependent(self.log_q, self.scale, orders, votes_moved, scalar=scalar, weights=weights)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison:
    """What a threshold check compares: one number for each query, to which noise is added. Secret.

    Fields
    ------
    number : int64 (queries,); one moved vote changes it by at most 1.
    least, most : between which it lies, whatever the votes are.
    threshold, sigma, noise : of the check; a query passes if number + noise >= threshold.
    """

    number: np.ndarray
    least: int
    most: int
    threshold: float
    sigma: float
    noise: Noise

    def __repr__(self) -> str:
        return "Comparison(<secret>)"

    def log_p(self) -> np.ndarray:
        """log of the probability that each query passes: float64 (queries,)."""
        return log_pr_answered(self.number, self.threshold, self.sigma, self.noise)[0]

    def log_q(self) -> np.ndarray:
        """log of the probability of the less likely outcome, pass or fail: float64 (queries,)."""
        return log_q_threshold(self.number, self.threshold, self.sigma, self.noise)


class PartyNoise(NamedTuple):
    """Noise that the parties add to one sum: sigma of all shares together on one count, and how many shares."""

    sigma: float
    shares: int
