"""What was released, as one frozen value that knows its cost: a mechanism, how often it was used, and whose data it is.

A mechanism (`mechanisms` has them all) is a few noisy steps, and what a release costs is the sum of theirs. Nobody asks
of which class it is. Unit, neighbouring relation, audience and noise are required: a default would be a silent claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from consilium.accounting.checks import check_count, check_orders, check_scale, check_share, check_votes_moved
from consilium.accounting.curves.discrete import convolution_slack, slack_rdp
from consilium.accounting.curves.gaussian import check_threshold, log_pr_answered, rdp_gaussian
from consilium.accounting.curves.gdp import Composed
from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.errors import EventError, UnitError
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit, votes_moved
from consilium.accounting.worst.laplace import rdp_argmax_laplace
from consilium.accounting.worst.renyi import rdp_argmax, rdp_check


@dataclass(frozen=True, slots=True)
class Step:
    """Noise that is drawn once for a query, and what leaves of the result.

    leaves : of noisy counts the class with the largest ("argmax") or all ("histogram"); of one noisy number whether it
        reached a threshold ("check").
    law : of the noise on a count, or on the number. scale : its sigma, or its inverse scale gamma.
    only_answered : whether it is drawn for answered queries alone.
    shares : how many independent ones of the parties make up the noise before anybody sees a sum; None where the
        coordinator draws it, on exact counts.
    """

    leaves: Literal["argmax", "histogram", "check"]
    law: Literal["gaussian", "laplace"]
    scale: float
    only_answered: bool = True
    shares: int | None = None

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise, in votes."""
        return math.sqrt(2) / self.scale if self.law == "laplace" else self.scale

    def rdp(self, orders: object, noise: Noise, moved: int) -> np.ndarray:
        """Of what leaves, whatever the votes are: float64 (orders,)."""
        if self.leaves == "histogram":
            return rdp_gaussian(self.scale, orders, moved)
        if self.law == "laplace":
            return rdp_argmax_laplace(self.scale, orders, noise, moved)
        return (rdp_argmax if self.leaves == "argmax" else rdp_check)(self.scale, orders, noise, moved)

    def whole_rdp(self, orders: object, noise: Noise, moved: int) -> np.ndarray:
        """As if the noisy counts or number left, as the papers charge it: float64 (orders,)."""
        if self.law == "laplace":
            return rdp_laplace(self.scale, orders, moved, noise=noise)
        return rdp_gaussian(self.scale, orders, moved, scalar=self.leaves == "check")

    def slack(self, noise: Noise) -> float:
        """Largest |log(sum of shares / one discrete Gaussian)| of the noise on a count; below 1e-15 once a share's
        sigma exceeds 1.92. Raises NoiseError: that is below 1/2, where nothing is known."""
        if noise is Noise.CONTINUOUS or self.shares is None or self.shares == 1:
            return 0.0
        return convolution_slack(self.shares, self.scale / math.sqrt(self.shares))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison:
    """What a threshold check compares: one number for each query, to which noise is added. Secret.

    number : int64 (queries,); one unit changes it by at most the event's ``votes_moved``.
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

    def log_p(self) -> tuple[np.ndarray, np.ndarray]:
        """log of the probabilities that each query passes, and that it fails: two float64 (queries,)."""
        return log_pr_answered(self.number, self.threshold, self.sigma, self.noise)


class PartyNoise(NamedTuple):
    """Noise that the parties add to one sum: sigma of all shares together on one count, and how many shares."""

    sigma: float
    shares: int


_CHECKS: Mapping[str, Callable[[object, str], float]] = {
    **dict.fromkeys(("sigma", "sigma1", "sigma2", "gamma", "beta", "sigma_ss"), check_scale),
    "threshold": lambda value, _: check_threshold(value),
    "constant": check_count,
    "confidence": check_share,
    "noise_shares": lambda value, name: check_count(value, name, 1),
}
"""What a parameter of this name may be."""


@dataclass(frozen=True, slots=True, repr=False)
class Mechanism:
    """What all mechanisms share.

    name : as tables and ledgers give it. title : as people read it.
    answers_all : whether every query gets a label.
    needs_probabilities : whether the student must send its class probabilities with the queries.
    private : whether any bound holds at all.
    rounds : how often votes are summed for one batch of queries, with fresh noise each time.
    noise_by_parties : whether each party adds a share of the noise before anybody sees a sum.
    closing : whether it is released at the close of a run, about the releases before it, and asks nothing itself.
    classes : of how many it must be; None: of any number.
    moved_by_a_vote : by how much a vote that goes from one class to another moves a number that gets noise.

    Raises EventError, NoiseError, ThresholdError: a parameter that it cannot have.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    answers_all: ClassVar[bool] = False
    needs_probabilities: ClassVar[bool] = False
    private: ClassVar[bool] = True
    rounds: ClassVar[int] = 1
    noise_by_parties: ClassVar[bool] = False
    closing: ClassVar[bool] = False
    classes: ClassVar[int | None] = None
    moved_by_a_vote: ClassVar[int] = 1

    def __init_subclass__(cls, **settings: Any) -> None:
        """Of the above, by name; none where `dataclass` makes the class again with slots."""
        for name, value in settings.items():
            setattr(cls, name, value)

    def __post_init__(self) -> None:
        for name, value in self.parameters().items():
            object.__setattr__(self, name, _CHECKS[name](_plain(value), name))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.10g}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({values})"

    def parameters(self) -> dict[str, float]:
        """By name, in the order in which they are written."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def describe(self) -> str:
        """One line for people, with all parameters: "GNMax, sigma 40"."""
        parameters = (f"{key} {value:.10g}" for key, value in self.parameters().items())
        return ", ".join([self.title or self.name, *parameters])

    @property
    def label_noise(self) -> Step | None:
        """The step whose noisy counts a label is the largest of; None where it is the exact winner."""
        return next(reversed(self.steps(Towards.STUDENT)), None)

    @property
    def count_sigma(self) -> float:
        """Sigma of the noise on one released count, in votes; 0.0 where labels alone are released."""
        label = self.label_noise
        return label.scale if label is not None and label.leaves == "histogram" else 0.0

    @property
    def votes_needed(self) -> float:
        """Votes for one class that a query needs to be answered, noise aside; 0 where no count is asked for."""
        return 0

    def moved(self, unit: Unit, teachers_per_party: int, neighbouring: Neighbouring) -> int:
        """By how much one unit moves at most a number that gets noise, in one query: for a histogram, votes."""
        return votes_moved(unit, teachers_per_party, neighbouring)

    def claimed_epsilon(self, asked: int, delta: float) -> float | None:
        """Epsilon that the paper of a mechanism which is not private states for it; None where the event says it."""
        return None

    def steps(self, towards: Towards) -> tuple[Step, ...]:
        """Its noisy steps, with what leaves of each to this audience; none where the cost is not a sum of such."""
        return ()

    def other_rdp(self, orders: object, answered: int, votes_moved: int) -> np.ndarray:
        """What it costs besides its steps: float64 (orders,)."""
        return np.zeros(check_orders(orders).size)

    def comparison(
        self, votes: np.ndarray, teachers: int, noise: Noise, probabilities: np.ndarray | None = None
    ) -> Comparison | None:
        """What a bit tells of votes int64 (queries, classes) of ``teachers`` each; None where none leaves. Secret.
        probabilities: float64 (queries, classes), the student's public predictions, where they are needed."""
        return None

    def check_reach(self, teachers: int) -> None:
        """Raise ThresholdError for a threshold that so many votes hardly reach, or any reaches."""

    def with_noise(self, amount: float) -> Self:
        """The same with so much noise on a count, a standard deviation or the scale 1 / gamma of Laplace noise; the
        noise of a check keeps its ratio to it."""
        before = {name: value for name, value in self.parameters().items() if name in ("sigma1", "sigma2", "sigma")}
        if not before:
            return replace(self, **{"gamma": 1 / amount})
        *checks, label = before
        return replace(self, **{name: before[name] * amount / before[label] for name in checks}, **{label: amount})

    def event(
        self,
        asked: int,
        answered: int | None = None,
        *,
        unit: Unit | str = Unit.PARTY,
        neighbouring: Neighbouring | str = Neighbouring.REPLACE,
        teachers_per_party: int = 1,
        noise: Noise | str = Noise.DISCRETE,
    ) -> ReleaseEvent:
        """What is charged towards the student for ``asked`` queries of which ``answered`` (None: all) get a label.
        Raises EventError, UnitError: counts or words that no release can have."""
        return ReleaseEvent(
            mechanism=self,
            asked=asked,
            answered=asked if answered is None else answered,
            unit=unit,  # pyright: ignore[reportArgumentType]
            neighbouring=neighbouring,  # pyright: ignore[reportArgumentType]
            teachers_per_party=teachers_per_party,
            towards=Towards.STUDENT,
            noise=noise,  # pyright: ignore[reportArgumentType]
        )


def _plain(value: Any) -> Any:
    """JSON and messages have no numbers of NumPy."""
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEvent:
    """So many queries that one mechanism looked at.

    asked : queries that it looked at. answered : those for which a label left.
    unit, teachers_per_party, neighbouring : whose data may change, and how; see ``units.votes_moved``.
    towards : who sees the release. noise : which noise was drawn.
    slack : largest |log ratio| between the noise on a count of which a label or histogram is made and one discrete
        Gaussian; above 0 only where it is a sum of several, and charged for every answer.

    Raises EventError, UnitError: a field that no release can have.
    """

    mechanism: Mechanism
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
        for name in ("asked", "answered", "teachers_per_party", "slack"):
            object.__setattr__(self, name, _plain(getattr(self, name)))
        check_count(self.asked, "asked")
        check_count(self.answered, "answered")
        what = self.mechanism.name
        if self.answered > self.asked:
            raise EventError(f"answered ({self.answered}) exceeds asked ({self.asked}). Count the same batch.")
        if self.mechanism.answers_all and self.answered != self.asked:
            raise EventError(f"{what} answers every query, but answered is {self.answered} of {self.asked} asked.")
        if self.mechanism.closing and self.asked:
            raise EventError(f"a {what} release asks nothing, but asked is {self.asked}. Count 0.")
        check_count(self.teachers_per_party, "teachers_per_party", 1, UnitError)
        check_votes_moved(self.votes_moved)
        one_piece = any(s.law == "gaussian" and s.leaves != "check" and s.shares is None for s in self.steps)
        if type(self.slack) not in (int, float) or not 0 <= self.slack <= (1 if one_piece else 0):
            raise EventError(f"slack {self.slack!r} of a {what} release. Noise of shares has at most 1, other 0.")

    @property
    def votes_moved(self) -> int:
        """Most votes that one unit moves in one query; of a mechanism with `moved` of its own, that."""
        return self.mechanism.moved(self.unit, self.teachers_per_party, self.neighbouring)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The noisy steps, in the order in which they happen."""
        return self.mechanism.steps(self.towards)

    @property
    def label(self) -> Step | None:
        """The step whose winner leaves and nothing else of its counts, with noise of one piece; None without one."""
        found = (step for step in self.steps if step.leaves == "argmax" and step.shares is None)
        return None if self.slack > 0 else next(found, None)

    def with_counts(self, asked: int, answered: int) -> ReleaseEvent:
        """The same release for other numbers of queries, e.g. the query budget fixed before a run."""
        return replace(self, asked=asked, answered=answered)

    def queries_in(self, round: int) -> int:
        """Queries whose votes are summed in this round, the first being 1."""
        return {1: self.asked, 2: self.answered if self.mechanism.rounds == 2 else 0}.get(round, 0)

    def party_noise(self, round: int) -> PartyNoise | None:
        """Noise of the parties that is charged in this round; None where they add none."""
        for number, step in enumerate(self.steps, 1):
            if number == round and step.shares is not None:
                return PartyNoise(step.scale, step.shares)
        return None

    def count(self, step: Step) -> int:
        """How often the noise of a step was drawn."""
        return self.answered if step.only_answered else self.asked

    def _slack(self, step: Step) -> float:
        return 0.0 if step.leaves == "check" else self.slack + step.slack(self.noise)

    def _sum(self, one: Callable[[Step, object, Noise, int], np.ndarray], orders: object) -> np.ndarray:
        total = self.mechanism.other_rdp(orders, self.answered, self.votes_moved)
        for step in self.steps:
            if self.count(step):
                each = one(step, orders, self.noise, self.votes_moved)
                total += self.count(step) * (each + slack_rdp(self._slack(step), self.votes_moved, orders))
        return total

    def worst_case_rdp(self, orders: object) -> np.ndarray:
        """Curve of what leaves, for all votes: float64 (orders,). Depends on asked and answered only."""
        return self._sum(Step.rdp, orders)

    def histogram_rdp(self, orders: object) -> np.ndarray:
        """Curve of all noisy counts, of which less may leave: float64 (orders,), what the papers charge."""
        return self._sum(Step.whole_rdp, orders)

    def pure_epsilon(self) -> float | None:
        """Epsilon at a delta of 0, whatever the votes are; None where there is none."""
        if not self.steps or any(step.law != "laplace" for step in self.steps):
            return None
        return sum(self.count(step) * 2 * step.scale * self.votes_moved for step in self.steps)

    def composed_parts(self) -> tuple[Composed, ...]:
        """What leaves, step by step; empty where the cost is not a sum of such."""
        return tuple(
            Composed(self.count(step), "laplace", 1 / step.scale, self.noise, self.votes_moved)
            if step.law == "laplace"
            else Composed(self.count(step), step.leaves, step.scale, self.noise, self.votes_moved, self._slack(step))
            for step in self.steps
        )

    def log_p_answered(self, votes: np.ndarray, teachers: int, probabilities: np.ndarray | None = None) -> np.ndarray:
        """log of the probability that each query gets a label: float64 (asked,). Secret."""
        compared = self.mechanism.comparison(votes, teachers, self.noise, probabilities)
        return np.zeros(len(votes)) if compared is None or self.mechanism.answers_all else compared.log_p()[0]

    @property
    def votes_decide(self) -> bool:
        """Whether the cost at votes is another than the worst case: labels or bits leave, of exact counts."""
        in_one = all(step.leaves != "histogram" and step.shares is None for step in self.steps)
        return bool(self.steps) and in_one and self.slack == 0

    def to_json(self) -> dict[str, Any]:
        """Plain values in one table, with the mechanism's name as "type"; ``mechanisms.event_from_json`` reads it."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "mechanism"}
        plain = {key: value.value if isinstance(value, StrEnum) else value for key, value in values.items()}
        return {"type": self.mechanism.name, **plain, **self.mechanism.parameters()}
