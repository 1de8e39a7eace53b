"""What all release events share: what left the private side, in public numbers only.

An event is made by the mechanism that draws the noise, so that the sigma in the noise cannot differ from the sigma that
is charged. It holds no votes. What votes say about its cost goes through ``evidence`` (secret; what a ledger stores)
and ``data_dependent_rdp``. Whatever else a caller has to know about a release it asks the event, which knows its own
profile; nobody asks of which class an event is.

Unit, neighbouring relation, audience and noise are required: a default would be a silent claim.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from consilium.accounting.checks import check_count, check_log_q, check_orders, check_same_total, check_votes_moved
from consilium.accounting.curves.discrete import NO_SLACK, slack_rdp
from consilium.accounting.curves.gaussian import log_pr_answered, log_q_threshold, sum_rdp_data_dependent
from consilium.accounting.curves.gdp import GaussianPart
from consilium.accounting.curves.laplace import sum_rdp_lnmax
from consilium.accounting.errors import EventError, NoDataDependentBoundError, UnitError
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit, votes_moved
from consilium.accounting.worst.compose import Composed


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEvent:
    """What all events share.

    Fields
    ------
    asked : queries that the mechanism looked at. answered : those for which a label left.
    unit, teachers_per_party, neighbouring : whose data may change, and how; see ``units.votes_moved``.
    towards : who sees the release. noise : which noise was drawn.
    slack : largest |log ratio| between the noise on a count of which a label or histogram is made and one discrete
        Gaussian; above 0 only where shares of the parties make it up, and charged for every answer.

    Of the class
    ------------
    TYPE, VERSION : name and version in JSON.
    phases : how often votes are summed for one batch of queries, with fresh noise each time.
    noise_by_parties : whether each party adds a share of the noise before anybody sees a sum.
    takes_slack : whether it may be made of noise that is a sum.
    closing : whether it is released at the close of a run, about the releases before it, and asks nothing itself.

    Raises
    ------
    EventError, UnitError, NoiseError, ThresholdError : a field that no release can have.
    """

    TYPE: ClassVar[str]
    VERSION: ClassVar[int] = 1
    phases: ClassVar[int] = 1
    noise_by_parties: ClassVar[bool] = False
    takes_slack: ClassVar[bool] = False
    closing: ClassVar[bool] = False

    asked: int
    answered: int
    unit: Unit
    neighbouring: Neighbouring
    teachers_per_party: int
    towards: Towards
    noise: Noise
    slack: float = 0.0

    def __post_init__(self) -> None:
        for name, enum in (("unit", Unit), ("neighbouring", Neighbouring), ("towards", Towards), ("noise", Noise)):
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, enum(value))
            except ValueError:
                allowed = ", ".join(repr(str(member)) for member in enum)
                error = UnitError if enum in (Unit, Neighbouring) else EventError
                raise error(f"{name} must be one of {allowed}, got {value!r}. State it; it has no default.") from None
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.generic):  # JSON and messages have none
                object.__setattr__(self, field.name, value.item())
        check_count(self.asked, "asked")
        check_count(self.answered, "answered")
        if self.answered > self.asked:
            raise EventError(f"answered ({self.answered}) exceeds asked ({self.asked}). Count the same batch.")
        check_count(self.teachers_per_party, "teachers_per_party", 1, UnitError)
        check_votes_moved(self.votes_moved)
        if type(self.slack) not in (int, float) or not 0 <= self.slack <= (1 if self.takes_slack else 0):
            raise EventError(f"slack {self.slack!r} of a {self.TYPE} release. Noise of shares has at most 1, other 0.")
        self._check()

    def _check(self) -> None:
        """Validate the parameters of the mechanism."""

    @property
    def votes_moved(self) -> int:
        """Most votes that one unit moves in one query."""
        return votes_moved(self.unit, self.teachers_per_party, self.neighbouring)

    @property
    def label_sigma(self) -> float | None:
        """Sigma of the noise on one count where it is Gaussian and labels alone leave; None where that is not so.

        With ``laplace_gamma`` it says whose cost has a known sensitivity (``sanitise.gap``); any other release
        enters a sanitised epsilon at its worst case.
        """
        return None

    @property
    def laplace_gamma(self) -> float | None:
        """Inverse scale of the noise on one count where all noise is Laplace noise on counts; None where it is not."""
        return None

    def with_counts(self, asked: int, answered: int) -> Self:
        """The same release for other numbers of queries, e.g. the query budget fixed before a run."""
        return replace(self, asked=asked, answered=answered)

    def queries_in(self, phase: int) -> int:
        """Queries whose votes are summed in this phase, the first being 1."""
        return self.asked if phase == 1 else 0

    def party_noise(self, phase: int) -> PartyNoise | None:
        """Noise of the parties that is charged in this phase; None where they add none."""
        return None

    def worst_case_rdp(self, orders: object) -> np.ndarray:
        """Curve that holds for all votes: float64 (orders,). Depends on asked and answered only."""
        on_top = self.answered * slack_rdp(self.slack, self.votes_moved, orders) if self.slack > 0 else 0.0
        return self._worst_case_rdp(orders) + on_top

    def _worst_case_rdp(self, orders: object) -> np.ndarray:
        """The same without slack."""
        raise NotImplementedError

    def added_delta(self) -> float:
        """Probability of failure that the curve leaves out; subtracted from delta before conversion."""
        return 0.0

    def pure_epsilon(self) -> float | None:
        """Epsilon at a delta of 0, whatever the votes are; None where there is none."""
        return None

    def gaussian_parts(self) -> tuple[GaussianPart, ...] | None:
        """The Gaussian releases of which all that leaves is made, for exact composition; None if it is not.

        What leaves may be less than they are: a winner of a noisy histogram.
        """
        parts = self._gaussian_parts()
        return parts and tuple(part._replace(slack=part.slack + (0.0 if part.scalar else self.slack)) for part in parts)

    def _gaussian_parts(self) -> tuple[GaussianPart, ...] | None:
        """The same without slack."""
        return None

    def composed_parts(self) -> tuple[Composed, ...] | None:
        """What leaves, for the composition of winners, bits and histograms; None where there is none for it, or where
        noise is not as good as a discrete Gaussian."""
        return None if self.slack > NO_SLACK else self._composed_parts()

    def _composed_parts(self) -> tuple[Composed, ...] | None:
        """The same without slack."""
        return None

    def comparison(
        self, votes: np.ndarray, teachers: int, probabilities: np.ndarray | None = None
    ) -> Comparison | None:
        """What the threshold check compares on votes int64 (asked, classes) of ``teachers`` each. Secret.

        None where the event knows of no check that a query has to pass. ``probabilities`` as in ``evidence``.
        """
        return None

    def log_p_answered(self, votes: np.ndarray, teachers: int, probabilities: np.ndarray | None = None) -> np.ndarray:
        """log of the probability that each query passes the check, 0 where there is none: float64 (asked,). Secret."""
        compared = self.comparison(votes, teachers, probabilities)
        return np.zeros(len(votes)) if compared is None else compared.log_p()

    def evidence(
        self, votes: np.ndarray, teachers: int | None = None, probabilities: np.ndarray | None = None
    ) -> Evidence:
        """log q of every query, from votes int64 (asked, classes). Secret.

        teachers : the votes in every row, where the caller knows it; else all rows must have one number.
        probabilities : float64 (asked, classes), the student's public predictions, for an event that compares with
            them; the others look at votes alone.

        Raises
        ------
        VotesError : rows differ in their number of votes. NoDataDependentBoundError : the event has no such bound.
        EventError : votes or predictions do not cover the queries asked.
        """
        if self.slack > 0:
            raise NoDataDependentBoundError("noise that is in the sums leaves no votes at hand. Use worst_case_rdp.")
        return self._evidence(votes, check_same_total(votes, teachers), probabilities)

    def _evidence(self, votes: np.ndarray, teachers: int, probabilities: np.ndarray | None) -> Evidence:
        """The same, of votes that were checked to be ``teachers`` in every row."""
        raise NoDataDependentBoundError(f"a {self.TYPE} release has no data-dependent bound. Use worst_case_rdp.")

    def _covers(self, per_query: np.ndarray) -> np.ndarray:
        if per_query.shape[0] != self.asked:
            raise EventError(f"votes hold {per_query.shape[0]} queries, the event says {self.asked} were asked.")
        return per_query

    def steps(self, evidence: Evidence) -> tuple[Step, ...]:
        """The noisy steps that ``evidence`` describes, in the order in which they happen. Secret."""
        raise NoDataDependentBoundError(f"a {self.TYPE} release has no data-dependent bound. Use worst_case_rdp.")

    def _checked_steps(self, evidence: Evidence) -> tuple[Step, ...]:
        steps = self.steps(evidence)
        for step in steps:
            if step.log_q is None or check_log_q(step.log_q).shape != (self.asked,):
                raise EventError(f"evidence does not cover the {self.asked} queries of the event. Recompute it.")
        return steps

    def _mask(self, answered: object) -> np.ndarray:
        mask = np.asarray(answered)
        if mask.dtype != np.bool_ or mask.shape != (self.asked,):
            raise EventError(f"answered must be a bool mask of shape ({self.asked},), got {mask.dtype} {mask.shape}.")
        if int(mask.sum()) != self.answered:
            raise EventError(f"the mask marks {int(mask.sum())} queries as answered, the event says {self.answered}.")
        return mask

    def data_dependent_rdp(self, evidence: Evidence, answered: object, orders: object) -> np.ndarray:
        """Curve at the data at hand, for the realised answers, by the papers' bounds: float64 (orders,). Secret.

        answered : bool (asked,). The result may decide neither when to stop nor what to publish. Where the votes are at
        hand, ``label_costs.exact_rdp`` computes what this bounds. It may be above ``worst_case_rdp``, since the papers
        bound the noisy histogram, of which the winner alone leaves.
        """
        return self._weighted_rdp(evidence, self._mask(answered), orders)

    def expected_rdp(self, evidence: Evidence, probabilities: np.ndarray, orders: object) -> np.ndarray:
        """The same for expected answers, as the papers state it: float64 (orders,). Secret.

        probabilities : float64 (asked,), of being answered; see ``log_p_answered``.
        """
        return self._weighted_rdp(evidence, probabilities, orders)

    def _weighted_rdp(self, evidence: Evidence, weights: np.ndarray, orders: object) -> np.ndarray:
        total = np.zeros(check_orders(orders).size)
        for step in self._checked_steps(evidence):
            paid = weights if step.only_answered else None
            total += step.sum_rdp(orders, self.votes_moved, self.noise, paid)
        return total

    def to_json(self) -> dict[str, Any]:
        """Plain values with "type" and "version"; ``events.event_from_json`` is the inverse."""
        out: dict[str, Any] = {"type": self.TYPE, "version": self.VERSION}
        for field in fields(self):
            value = getattr(self, field.name)
            out[field.name] = value.value if isinstance(value, StrEnum) else value
        return out


def check_answers_all(event: ReleaseEvent) -> None:
    """Raise EventError unless the event of a mechanism that answers every query says so."""
    if event.answered != event.asked:
        raise EventError(f"{event.TYPE} answers every query, but answered is {event.answered} of {event.asked} asked.")
