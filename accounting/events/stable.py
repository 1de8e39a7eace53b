"""Events of the exact plurality where it is stable: each test against fresh noise, or until too many have failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from consilium.accounting.checks import check_count, check_scale
from consilium.accounting.curves.gaussian import rdp_gaussian
from consilium.accounting.curves.gdp import GaussianPart
from consilium.accounting.curves.stable import distance_to_instability, ptr_failure, rdp_sparse_vector, svt_failure
from consilium.accounting.curves.threshold import check_threshold
from consilium.accounting.events.parts import Comparison, Evidence, Step
from consilium.accounting.events.release import ReleaseEvent


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

    def _worst_case_rdp(self, orders: object) -> np.ndarray:
        return self.asked * rdp_gaussian(self.sigma, orders, self.votes_moved, scalar=True)

    def _gaussian_parts(self) -> tuple[GaussianPart, ...]:
        return (GaussianPart(self.asked, self.sigma, True),)

    def _added_delta(self) -> float:
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

    def _worst_case_rdp(self, orders: object) -> np.ndarray:
        return rdp_sparse_vector(self.scale, self.unstable_cap, orders, self.votes_moved)

    def _added_delta(self) -> float:
        return svt_failure(self.asked, self.threshold, self.scale, self.noise, self.votes_moved)
