"""The event of the noisy argmax with Laplace noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from consilium.accounting.checks import check_scale
from consilium.accounting.curves.laplace import log_q_lnmax, rdp_laplace
from consilium.accounting.events.parts import Evidence, Step
from consilium.accounting.events.release import ReleaseEvent, check_answers_all


@dataclass(frozen=True, slots=True, kw_only=True)
class LNMaxEvent(ReleaseEvent):
    """argmax of votes + Lap(1/gamma); every query is answered. Papernot et al. 2017, Theorems 2 and 3.

    The worst case is the exact Renyi curve of the noise, tighter than the paper's; see ``accounting.curves.laplace``.
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
        return self.answered * rdp_laplace(self.gamma, orders, self.votes_moved, noise=self.noise)

    def _evidence(self, votes: np.ndarray, teachers: int, probabilities: np.ndarray | None) -> Evidence:
        return Evidence(None, self._covers(log_q_lnmax(votes, self.gamma, self.noise)))

    def steps(self, evidence: Evidence) -> tuple[Step, ...]:
        return (Step(evidence.log_q_label, "laplace", self.gamma, True),)
