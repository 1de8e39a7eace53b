"""Parts of the table `[federation]`: privacy, timeouts and query budget."""

from __future__ import annotations

from pydantic import Field, model_validator

from consilium.accounting.sanitise.release import SanitisedPlan
from consilium.accounting.units import Neighbouring, Unit
from consilium.node.limits import MOST_QUERIES
from consilium.protocol.models import Frozen


class Timeouts(Frozen):
    """Seconds to wait, by stage; in a deployment a party that is late is left out of that stage. A simulation waits for
    all of its parties (`patient`): who takes part must not follow from how busy a machine is."""

    enrol: float = Field(default=60, gt=0, description="for parties to answer the first request")
    join: float = Field(
        default=300,
        gt=0,
        description="in a deployment, for all other parties, once enough are there; later ones take part from the"
        " next questions on",
    )
    train: float = Field(default=600, gt=0, description="for the teachers")
    vote: float = Field(default=300, gt=0, description="for the votes")
    secure: float = Field(default=120, gt=0, description="for each stage of a secure sum but that of the votes")
    student: float = Field(default=3600, gt=0, description="for which students may ask")

    def patient(self) -> Timeouts:
        """The same, in which no party is ever late."""
        return self.model_copy(update=dict.fromkeys(("enrol", "train", "vote", "secure"), PATIENCE))


PATIENCE = 1_000_000.0
"""Seconds, twelve days: about the longest for which an operating system takes a wait in milliseconds."""


class SanitisedKeys(Frozen):
    """Publish a data-dependent epsilon at close, with noise. The fields are those of `accounting.SanitisedPlan`, fixed
    before the run, on public or simulated votes: a choice that looks at private votes would itself be a release."""

    order: float = Field(gt=1, le=1e4, description="Rényi order at which the cost is released")
    beta: float = Field(gt=0, le=10, description="decay of the smooth sensitivity")
    sigma_ss: float = Field(gt=0, le=1e6, description="noise, in units of the smooth sensitivity")

    def plan(self) -> SanitisedPlan:
        """As the accounting takes it."""
        return SanitisedPlan(**self.model_dump())


class Privacy(Frozen):
    """`unit` has no default on purpose: whoever states an epsilon says for what."""

    unit: Unit = Field(description="whose data the guarantee is about; no default on purpose")
    neighbouring: Neighbouring = Field(
        default=Neighbouring.REPLACE,
        description="how the unit's data may change ([what that means](accounting.md#1-what-is-protected))",
    )
    delta: float = Field(gt=0, lt=1, description="of the guarantee")
    epsilon: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="most that may be guaranteed; noise that `[federation.mechanism]` leaves out is calibrated to it",
    )
    sanitised: SanitisedKeys | None = Field(
        default=None, description="publish a data-dependent epsilon, with noise, at the close; plaintext votes only"
    )


class QueryBudget(Frozen):
    """Most queries ever asked and most answers ever given, fixed before the run: they alone fix the worst case."""

    queries: int = Field(ge=1, le=MOST_QUERIES, description="most queries ever asked")
    answers: int = Field(
        ge=1, description="most answers ever given; equals `queries` for mechanisms that answer every query"
    )

    @model_validator(mode="after")
    def _answers_within_queries(self) -> QueryBudget:
        if self.answers > self.queries:
            raise ValueError(f"answers {self.answers} exceeds queries {self.queries}")
        return self
