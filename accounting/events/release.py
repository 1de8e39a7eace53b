"""What all release events share: what left the private side, in public numbers only.

An event is made by the mechanism that draws the noise, so that the sigma in the noise cannot differ from the sigma that
is charged. It holds no votes. What the votes make of it goes through ``evidence`` (secret; what a ledger stores) and
``data_dependent_rdp``.

Unit, neighbouring relation, audience and noise are required: a default would be a silent claim.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from consilium.accounting.checks import check_count, check_log_q, check_orders
from consilium.accounting.curves.gaussian import rdp_data_dependent, sum_rdp_data_dependent
from consilium.accounting.curves.gdp import GaussianPart
from consilium.accounting.curves.laplace import rdp_lnmax, sum_rdp_lnmax
from consilium.accounting.errors import EventError, NoDataDependentBoundError, UnitError
from consilium.accounting.histogram import check_same_total
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit, votes_moved


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEvent:
    """What all events share.

    Fields
    ------
    asked : queries that the mechanism looked at. answered : those for which a label left.
    unit, teachers_per_party, neighbouring : whose data may change, and how; see ``units.votes_moved``.
    towards : who sees the release. noise : which noise was drawn.

    Raises
    ------
    EventError, UnitError, NoiseError, ThresholdError : a field that no release can have.
    """

    TYPE: ClassVar[str]
    VERSION: ClassVar[int] = 1

    asked: int
    answered: int
    unit: Unit
    neighbouring: Neighbouring
    teachers_per_party: int
    towards: Towards
    noise: Noise

    def __post_init__(self) -> None:
        for name, enum in (("unit", Unit), ("neighbouring", Neighbouring), ("towards", Towards), ("noise", Noise)):
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, enum(value))
            except ValueError:
                allowed = ", ".join(repr(str(member)) for member in enum)
                error = UnitError if enum in (Unit, Neighbouring) else EventError
                raise error(f"{name} must be one of {allowed}, got {value!r}. State it; it has no default.") from None
        check_count(self.asked, "asked")
        check_count(self.answered, "answered")
        if self.answered > self.asked:
            raise EventError(f"answered ({self.answered}) exceeds asked ({self.asked}). Count the same batch.")
        check_count(self.teachers_per_party, "teachers_per_party", 1, UnitError)
        self._check()

    def _check(self) -> None:
        """Validate the parameters of the mechanism."""

    @property
    def votes_moved(self) -> int:
        """Most votes that one unit moves in one query."""
        return votes_moved(self.unit, self.teachers_per_party, self.neighbouring)

    def with_counts(self, asked: int, answered: int) -> Self:
        """The same release for other numbers of queries, e.g. the caps fixed before a run."""
        return replace(self, asked=asked, answered=answered)

    def worst_case_rdp(self, orders: object) -> np.ndarray:
        """Curve that holds for all votes: float64 (orders,). Depends on asked and answered only."""
        raise NotImplementedError

    def added_delta(self) -> float:
        """Probability of failure that the curve leaves out; subtracted from delta before conversion."""
        return 0.0

    def evidence(self, votes: np.ndarray, teachers: int | None = None) -> Evidence:
        """log q of every query, from votes int64 (asked, classes). Secret.

        teachers : the votes in every row, where the caller knows it; else all rows must have one number.

        Raises
        ------
        VotesError : rows differ in their number of votes. NoDataDependentBoundError : the event has no such bound.
        """
        check_same_total(votes, teachers)
        return self._evidence(votes)

    def _evidence(self, votes: np.ndarray) -> Evidence:
        """What each event makes of votes that were checked."""
        raise NoDataDependentBoundError(f"a {self.TYPE} release has no data-dependent bound. Use worst_case_rdp.")

    def steps(self, evidence: Evidence) -> tuple[Step, ...]:
        """The noisy steps that ``evidence`` describes, in the order in which they happen. Secret."""
        raise NoDataDependentBoundError(f"a {self.TYPE} release has no data-dependent bound. Use worst_case_rdp.")

    def gaussian_parts(self) -> tuple[GaussianPart, ...] | None:
        """The Gaussian releases this event is made of and nothing else, for exact composition; None if it is not."""
        return None

    def _mask(self, answered: object) -> np.ndarray:
        mask = np.asarray(answered)
        if mask.dtype != np.bool_ or mask.shape != (self.asked,):
            raise EventError(f"answered must be a bool mask of shape ({self.asked},), got {mask.dtype} {mask.shape}.")
        if int(mask.sum()) != self.answered:
            raise EventError(f"the mask marks {int(mask.sum())} queries as answered, the event says {self.answered}.")
        return mask

    def _checked_steps(self, evidence: Evidence) -> tuple[Step, ...]:
        steps = self.steps(evidence)
        for step in steps:
            if step.log_q is None or check_log_q(step.log_q).shape != (self.asked,):
                raise EventError(f"evidence does not cover the {self.asked} queries of the event. Recompute it.")
        return steps

    def data_dependent_rdp(self, evidence: Evidence, answered: object, orders: object) -> np.ndarray:
        """Curve at the data at hand, for the realised answers: float64 (orders,). Secret.

        answered : bool (asked,). The result may decide neither when to stop nor what to publish.
        """
        mask = self._mask(answered)
        total = np.zeros(check_orders(orders).size)
        for log_q, kind, scale, only_answered in self._checked_steps(evidence):
            weights = mask if only_answered else None
            if kind == "laplace":
                total += sum_rdp_lnmax(log_q, scale, orders, self.votes_moved, noise=self.noise, weights=weights)
            else:
                scalar = kind == "scalar"
                total += sum_rdp_data_dependent(log_q, scale, orders, self.votes_moved, scalar=scalar, weights=weights)
        return total

    def data_dependent_rdp_per_query(self, evidence: Evidence, answered: object, orders: object) -> np.ndarray:
        """The same, query by query: float64 (asked, orders). Secret."""
        mask = self._mask(answered)
        total = np.zeros((self.asked, check_orders(orders).size))
        for log_q, kind, scale, only_answered in self._checked_steps(evidence):
            if kind == "laplace":
                cost = rdp_lnmax(log_q, scale, orders, self.votes_moved, noise=self.noise)
            else:
                cost = rdp_data_dependent(log_q, scale, orders, self.votes_moved, scalar=kind == "scalar")
            total += np.where(mask[:, None], cost, 0.0) if only_answered else cost
        return total

    def to_json(self) -> dict[str, Any]:
        """Plain values with "type" and "version"; ``event_from_json`` is the inverse."""
        out: dict[str, Any] = {"type": self.TYPE, "version": self.VERSION}
        for field in fields(self):
            value = getattr(self, field.name)
            out[field.name] = value.value if isinstance(value, StrEnum) else value
        return out
