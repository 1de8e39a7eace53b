"""Events of Gaussian noise: the noisy argmax alone, after a check on agreement or against a student, and the noisy
histogram itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from consilium.accounting.checks import check_scale
from consilium.accounting.curves.gaussian import rdp_gaussian
from consilium.accounting.curves.gdp import GaussianPart
from consilium.accounting.curves.gnmax import log_q_gnmax
from consilium.accounting.curves.threshold import check_threshold, public_offsets
from consilium.accounting.errors import EventError
from consilium.accounting.events.parts import Comparison, Evidence, Step
from consilium.accounting.events.release import ReleaseEvent, check_answers_all
from consilium.accounting.worst.argmax import rdp_argmax
from consilium.accounting.worst.check import rdp_check
from consilium.accounting.worst.compose import Composed


@dataclass(frozen=True, slots=True, kw_only=True)
class GNMaxEvent(ReleaseEvent):
    """argmax of votes + N(0, sigma^2); every query is answered. Papernot et al. 2018, Section 3.1.

    Charged for the winner, which is what leaves (`accounting.worst.argmax`), and not for the histogram, as there.

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
        return self.answered * rdp_argmax(self.sigma, orders, self.noise, self.answers_moved, together=self.weight)

    def _composed_parts(self) -> tuple[Composed, ...]:
        return (Composed(self.answered, "argmax", self.sigma, self.noise, self.answers_moved, self.weight),)

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
        return (Composed(self.answered, "histogram", self.sigma, self.noise, self.answers_moved, self.weight),)

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
        return self.asked * check + self.answered * rdp_argmax(
            self.sigma2, orders, self.noise, self.answers_moved, together=self.weight
        )

    def _composed_parts(self) -> tuple[Composed, ...]:
        return (
            Composed(self.asked, "check", self.sigma1, self.noise, self.answers_moved, self.weight),
            Composed(self.answered, "argmax", self.sigma2, self.noise, self.answers_moved, self.weight),
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
            raise EventError("an interactive check needs the student's predictions. Pass probabilities.")
        array, offsets = np.asarray(votes).astype(np.int64, copy=False), public_offsets(probabilities, teachers)
        if offsets.shape != array.shape:
            raise EventError(
                f"predictions have shape {offsets.shape}, the votes {array.shape}. Pass one row per query."
            )
        least, most = -int(offsets.max(initial=0)), teachers - int(offsets.min(initial=0))
        return self._compare((array - offsets).max(axis=1), least, most)
