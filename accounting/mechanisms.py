"""Every mechanism, described once: its parameters, what it releases, and the noisy steps that it is charged for.

The coordinator draws with these parameters, scenarios and ledgers name them, and audits read them back.
`events.ReleaseEvent` adds how often one was used and for whom, and computes what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from consilium.accounting.checks import check_count, check_orders
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.gaussian import public_offsets, rdp_gaussian
from consilium.accounting.curves.gnss import gnss_cost
from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.errors import EventError, ThresholdError
from consilium.accounting.events import Comparison, Mechanism, ReleaseEvent, Step
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit, votes_moved

_REACH = 2
"""Standard deviations by which a threshold may lie above the number of teachers."""
_NOT_PRIVATE = "immutable noisy argmax, NOT differentially private"
_SEEN: Mapping[Towards, Literal["histogram"]] = {Towards.COORDINATOR: "histogram"}
"""What leaves of sums with noise in them; towards everybody else it is the winner."""


@dataclass(frozen=True, slots=True, repr=False)
class GNMax(Mechanism, name="gnmax", title="GNMax", answers_all=True):
    """argmax of votes + N(0, sigma^2) on each count; every query is answered. Papernot et al. 2018, Section 3.1.

    Charged for the winner, which is what leaves (``worst.renyi``), and not for the histogram, as there.

    >>> GNMax(sigma=40).event(100).worst_case_rdp([2.0]).round(4).tolist()
    [0.08]
    """

    sigma: float

    def steps(self, towards: Towards) -> tuple[Step, ...]:
        return (Step("argmax", "gaussian", self.sigma),)


@dataclass(frozen=True, slots=True, repr=False)
class Difference(
    Mechanism, name="difference", title="noisy difference", answers_all=True, classes=2, moved_by_a_vote=2
):
    """Which of two classes has more votes, by n_1 - n_0 + N(0, sigma^2); every query is answered, at 0 with class 0.

    One bit of one noisy number leaves (``worst.renyi.rdp_check``). A vote that moves to the other class moves the
    number by 2: the label is that of `GNMax` with sigma / sqrt(2) on each count, at the same cost. A party whose k
    votes are not counted moves it by k, so that `add_or_remove` of a party takes half the noise of `replace`. A record
    or a patient that is added or removed still changes a vote: 2.

    sigma : on the difference, in votes.
    """

    sigma: float

    def steps(self, towards: Towards) -> tuple[Step, ...]:
        return (Step("check", "gaussian", self.sigma),)

    @property
    def label_noise(self) -> Step:
        """As if each count had its half of the variance."""
        return Step("argmax", "gaussian", self.sigma / math.sqrt(2))

    def moved(self, unit: Unit, teachers_per_party: int, neighbouring: Neighbouring) -> int:
        votes = votes_moved(unit, teachers_per_party, neighbouring)
        uncounted = unit is Unit.PARTY and neighbouring is Neighbouring.ADD_OR_REMOVE
        return votes if uncounted else self.moved_by_a_vote * votes

    def comparison(
        self, votes: np.ndarray, teachers: int, noise: Noise, probabilities: np.ndarray | None = None
    ) -> Comparison:
        """n_1 - n_0. Raises EventError for other than two classes."""
        counts = np.asarray(votes).astype(np.int64, copy=False)
        if counts.shape[1] != self.classes:
            raise EventError(f"a difference is of two classes, got {counts.shape[1]}. Choose gnmax.")
        number, least_of_one = counts[:, 1] - counts[:, 0], int(noise is Noise.DISCRETE)
        return Comparison(
            number=number, least=-teachers, most=teachers, threshold=least_of_one, sigma=self.sigma, noise=noise
        )


@dataclass(frozen=True, slots=True, repr=False)
class LNMax(Mechanism, name="lnmax", title="LNMax", answers_all=True):
    """argmax of votes + Lap(1/gamma) on each count; every query is answered. Papernot et al. 2017, Theorems 2 and 3.

    Charged for the winner, which is what leaves (``worst.laplace``), and not for the noisy counts, as there.
    """

    gamma: float

    def steps(self, towards: Towards) -> tuple[Step, ...]:
        return (Step("argmax", "laplace", self.gamma),)


@dataclass(frozen=True, slots=True, repr=False)
class Histogram(Mechanism, name="histogram", title="noisy histogram", answers_all=True):
    """votes + N(0, sigma^2) on each count, all of which is released; every query is answered.

    The Gaussian mechanism on a histogram of which k votes move, so its L2 sensitivity is k sqrt(2): what the papers
    charge GNMax, which does not show the histogram (Papernot et al. 2018, Section 3.1). No votes make it cheaper: the
    distance of two histograms is the same wherever they lie.
    """

    sigma: float

    def steps(self, towards: Towards) -> tuple[Step, ...]:
        return (Step("histogram", "gaussian", self.sigma),)


@dataclass(frozen=True, slots=True, repr=False)
class Confident(Mechanism, name="confident", title="Confident GNMax"):
    """GNMax (sigma2) where the top count + N(0, sigma1^2) reaches the threshold. Papernot et al. 2018, Algorithm 1.

    Every query pays the check, noise on one number of sensitivity 1; only answered queries pay GNMax.

    >>> Confident(threshold=200, sigma1=150, sigma2=40).event(640, 283).worst_case_rdp([2.0]).round(6).tolist()
    [0.244513]
    """

    threshold: float
    sigma1: float
    sigma2: float

    @property
    def votes_needed(self) -> float:
        return self.threshold

    def confirmed(self, probabilities: np.ndarray | None) -> np.ndarray | bool:
        """bool (queries,), where the student's own label is confirmed if the check fails: it says no more than that."""
        return False

    def steps(self, towards: Towards) -> tuple[Step, ...]:
        check = Step("check", "gaussian", self.sigma1, only_answered=False)
        return (check, Step("argmax", "gaussian", self.sigma2))

    def comparison(
        self, votes: np.ndarray, teachers: int, noise: Noise, probabilities: np.ndarray | None = None
    ) -> Comparison:
        """The top count."""
        number = np.asarray(votes).max(axis=1).astype(np.int64, copy=False)
        return Comparison(
            number=number, least=0, most=teachers, threshold=self.threshold, sigma=self.sigma1, noise=noise
        )

    def check_reach(self, teachers: int) -> None:
        """PATE 2018 asks 250 teachers at a threshold of 300 and sigma1 200: noise reaches what votes alone cannot."""
        if 0 < self.threshold < 1:
            raise ThresholdError(
                f"threshold {self.threshold:g} is less than a vote. Name it in votes, of {teachers} teachers."
            )
        if self.threshold > teachers + _REACH * self.sigma1:
            raise ThresholdError(
                f"threshold {self.threshold:g} is above the {teachers} teachers by more than {_REACH} times sigma1, so"
                " that next to nothing is ever answered. Lower it."
            )


@dataclass(frozen=True, slots=True, repr=False)
class Interactive(Confident, name="interactive", title="Interactive GNMax", needs_probabilities=True):
    """The same check on max_j(n_j - M p_j), p the student's public prediction. Papernot et al. 2018, Algorithm 2.

    M is the number of votes per query; M p_j is rounded half up before any vote is subtracted. The sensitivity is 1 as
    well, because p is public. Where the check fails and max p exceeds ``confidence``, the student's argmax p is
    confirmed, which is post-processing: it counts as asked, not as answered. confidence: in [0, 1]; 1 confirms nothing.
    """

    confidence: float = 1.0

    @property
    def votes_needed(self) -> float:
        """0: the threshold is on what votes exceed the student's predictions by."""
        return 0

    def confirmed(self, probabilities: np.ndarray | None) -> np.ndarray | bool:
        return False if probabilities is None else probabilities.max(axis=1) > self.confidence

    def comparison(
        self, votes: np.ndarray, teachers: int, noise: Noise, probabilities: np.ndarray | None = None
    ) -> Comparison:
        """The largest excess over what the student predicts. Raises EventError: no predictions, or not one row per
        query. ThresholdError: not within [0, 1]."""
        if probabilities is None:
            raise EventError("an interactive check needs the student's predictions. Pass predictions.")
        array, offsets = np.asarray(votes).astype(np.int64, copy=False), public_offsets(probabilities, teachers)
        if offsets.shape != array.shape:
            raise EventError(
                f"predictions have shape {offsets.shape}, the votes {array.shape}. Pass one row per query."
            )
        least, most = -int(offsets.max(initial=0)), teachers - int(offsets.min(initial=0))
        number = (array - offsets).max(axis=1)
        return Comparison(
            number=number, least=least, most=most, threshold=self.threshold, sigma=self.sigma1, noise=noise
        )


@dataclass(frozen=True, slots=True, repr=False)
class Immutable(Mechanism, name="immutable", title=_NOT_PRIVATE, answers_all=True, private=False):
    """Noisy argmax after ``constant`` was added to the top count, Laplace noise: NOT differentially private.

    The near-zero-cost paper charges it as if the noise alone protected the votes: (2 gamma, 0)-DP per query. That proof
    needs counts that change by 1 between neighbours, and those after adding c do not: (126 + c, 125) and (125, 126 + c)
    are neighbours, and return different classes unless noise bridges a gap of c + 1. So the true epsilon is about
    (c + 1) gamma, without bound in c: its curve is infinite as soon as anything was answered, and stays so.
    """

    gamma: float
    constant: int

    def other_rdp(self, orders: object, answered: int, votes_moved: int) -> np.ndarray:
        return np.full(check_orders(orders).size, math.inf if answered else 0.0)

    def claimed_epsilon(self, asked: int, delta: float) -> float:
        """By Theorem 4 of the near-zero-cost paper, moments 2 gamma^2 l (l + 1). NOT a guarantee."""
        each = rdp_laplace(self.gamma, DEFAULT_ORDERS, noise=Noise.CONTINUOUS, baseline="paper")
        return rdp_to_epsilon(check_count(asked, "asked") * each, DEFAULT_ORDERS, delta, "classic").epsilon


@dataclass(frozen=True, slots=True, repr=False)
class ImmutableGaussian(Mechanism, name="immutable_gaussian", title=_NOT_PRIVATE, answers_all=True, private=False):
    """The same with Gaussian noise: NOT differentially private either."""

    sigma: float
    constant: int

    other_rdp = Immutable.other_rdp

    def claimed_epsilon(self, asked: int, delta: float) -> float:
        """The noise alone, as section 4.2 of the near-zero-cost paper charges it. NOT a guarantee."""
        each = rdp_gaussian(self.sigma, DEFAULT_ORDERS)
        return rdp_to_epsilon(check_count(asked, "asked") * each, DEFAULT_ORDERS, delta, "classic").epsilon


@dataclass(frozen=True, slots=True, repr=False)
class Distributed(Mechanism, name="distributed", noise_by_parties=True):
    """One noisy histogram per query, which the coordinator sees; everybody else sees the label, or that there is none.

    The noise of variance sigma^2 is the sum of ``noise_shares`` independent shares (of honest parties: leave out those
    that may collude or drop out). No votes make it cheaper: the whole histogram is seen, and every query pays. Anybody
    but the coordinator is charged the winner (where labels alone are released): a threshold on the largest noisy count
    costs nothing beside it, since with the larger of it and of the other classes' largest count in the place of the
    latter, what leaves is a function of the same three outcomes. For integer noise the sum of shares is not quite a
    discrete Gaussian; the difference is charged (``events.Step.slack``).
    """

    sigma: float
    noise_shares: int

    def steps(self, towards: Towards) -> tuple[Step, ...]:
        return (Step(_SEEN.get(towards, "argmax"), "gaussian", self.sigma, False, self.noise_shares),)


@dataclass(frozen=True, slots=True, repr=False)
class DistributedTwoPhase(Mechanism, name="distributed_two_phase", rounds=2, noise_by_parties=True):
    """Screen every query with a noisy histogram (sigma1), label those that passed with a fresh one (sigma2). Phase one
    shows a whole histogram: alpha / sigma1^2 (not half of it) for every query asked."""

    sigma1: float
    sigma2: float
    noise_shares: int

    def steps(self, towards: Towards) -> tuple[Step, ...]:
        screen = Step(_SEEN.get(towards, "argmax"), "gaussian", self.sigma1, False, self.noise_shares)
        return (screen, Step(_SEEN.get(towards, "argmax"), "gaussian", self.sigma2, True, self.noise_shares))


@dataclass(frozen=True, slots=True, repr=False)
class Sanitised(Mechanism, name="sanitised", closing=True):
    """One release of a data-dependent curve with noise scaled to its smooth sensitivity; see ``sanitise.release``.

    It asks nothing and answers nothing, and costs the same whatever was asked before. The cost holds at every order,
    not only at that of the released curve.

    beta, sigma_ss : of the plan, whose noise is that for one vote that a unit moves.
    """

    beta: float
    sigma_ss: float

    def other_rdp(self, orders: object, answered: int, votes_moved: int) -> np.ndarray:
        alpha = check_orders(orders)
        return gnss_cost(alpha, self.beta, self.sigma_ss) if votes_moved == 1 else np.full(alpha.size, math.inf)


_LABELS = (LNMax, GNMax, Difference, Histogram, Confident, Interactive, Immutable, ImmutableGaussian)
MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind for kind in (*_LABELS, Distributed, DistributedTwoPhase, Sanitised)
}
"""Every mechanism by its name."""


def mechanism_of(name: str, parameters: Mapping[str, Any]) -> Mechanism:
    """The mechanism of this name with these parameters, no more and no less. Raises EventError: unknown, or other
    parameters. NoiseError, ThresholdError: a value that it cannot have."""
    cls = MECHANISMS.get(name)
    if cls is None:
        raise EventError(f"unknown mechanism {name!r}; known: {', '.join(sorted(MECHANISMS))}. Update this program.")
    wanted = [field.name for field in fields(cls)]
    if set(parameters) != set(wanted):
        raise EventError(f"{name} takes {', '.join(wanted)}, got {', '.join(parameters) or 'nothing'}. Give these.")
    return cls(**parameters)


def event_from_json(data: object) -> ReleaseEvent:
    """Read an event back. Raises EventError: the JSON is not exactly what ``ReleaseEvent.to_json`` writes."""
    if not isinstance(data, dict):
        raise EventError(f"an event is a JSON object, got {type(data).__name__}. Read the ledger with its program.")
    values = dict(data)
    kind = values.pop("type", None)
    for name, value in values.items():
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if not plain or (isinstance(value, float) and not math.isfinite(value)):
            raise EventError(f"event {kind!r}: {name} is not a plain finite value. Read the ledger with its program.")
    stated = [field.name for field in fields(ReleaseEvent) if field.name != "mechanism"]
    missing = [name for name in stated if name not in values]
    if missing:
        raise EventError(f"event {kind!r} lacks {', '.join(missing)}. Read the ledger with its program.")
    about = {name: values.pop(name) for name in stated}
    return ReleaseEvent(mechanism=mechanism_of(str(kind), values), **about)
