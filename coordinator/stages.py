"""Parts of the table `[federation]`: privacy, timeouts, and the stages of its schedule with noise that is left out.

Equal spend: each stage that leaves noise out costs the same epsilon by itself, and as much as the whole allows. Stages
that state all their noise keep it and count in the whole. Looks at query budget and mechanisms, never at votes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from consilium.accounting.errors import CalibrationError
from consilium.accounting.events.release import ReleaseEvent
from consilium.accounting.sanitise.release import SanitisedPlan
from consilium.accounting.target import as_histograms, worst_case
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.mechanisms import AnyMechanism
from consilium.coordinator.mechanisms.calibration import KINDS, WIDE, noise_scales, with_noise
from consilium.protocol.messages import CollectionMode
from consilium.protocol.models import Frozen
from consilium.protocol.old_names import Outgrown
from consilium.report.disclosure import epsilon_text


class Timeouts(Frozen):
    """Seconds to wait, by stage; in a deployment a party that is late is left out of that stage. A simulation waits for
    all of its parties (`patient`): who takes part must not follow from how busy a machine is."""

    enrol: float = Field(default=60, gt=0, description="for parties to answer the first request")
    join: float = Field(
        default=300,
        gt=0,
        description="for all other parties, once enough of them are there; those that come later take part from the"
        " next questions on. Of deployments: in a simulation all are there",
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


class Sanitised(Frozen):
    """Publish a data-dependent epsilon at close, with noise; the fields are those of `accounting.SanitisedPlan`.

    They are fixed before the run, on public or simulated votes (`consilium accounting epsilon` plans them): a choice
    that looks at private votes would itself be a release.
    """

    order: float = Field(gt=1, le=1e4, description="Rényi order at which the cost is released")
    beta: float = Field(gt=0, le=10, description="decay of the smooth sensitivity")
    sigma_ss: float = Field(gt=0, le=1e6, description="noise, in units of the smooth sensitivity")
    log_scale_sigma: float | None = Field(
        default=None, gt=0, le=1e6, description="noise on the logarithm of the sensitivity, which is then released too"
    )
    confidence: float = Field(default=0.95, gt=0, lt=1, description="of the bound that is published")

    def plan(self) -> SanitisedPlan:
        """As the accounting takes it."""
        return SanitisedPlan(**self.model_dump())


class Privacy(Frozen):
    """`unit` has no default on purpose: whoever states an epsilon says for what."""

    unit: Unit = Field(description="whose data the guarantee is about; no default on purpose")
    neighbouring: Neighbouring = Field(
        default=Neighbouring.REPLACE,
        description="how the unit's data may change; with k > 1 teachers a record or patient moves 2 votes by"
        " `replace`, 1 by `add_or_remove`",
    )
    delta: float = Field(gt=0, lt=1, description="of the guarantee")
    epsilon: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="most that may be guaranteed; scales of noise that `[federation.mechanism]` leaves out are"
        " calibrated to it",
    )
    sanitised: Sanitised | None = Field(
        default=None,
        description="publish a data-dependent epsilon, with noise, when the run closes; plaintext votes only",
    )


def check_sanitised_votes(privacy: Privacy, collection: CollectionMode) -> None:
    """Raise ValueError where a sanitised epsilon is planned for votes that nobody can check."""
    if privacy.sanitised is not None and collection != "plaintext":
        raise ValueError(
            f"privacy.sanitised needs plaintext votes, not {collection} ones: it is computed from histograms, and a"
            " lying party behind masks, or a lying aggregator, may make a histogram that no votes give. Leave it"
            " out, or collect votes in plaintext"
        )


class QueryBudget(Frozen):
    """Most queries ever asked and most answers ever given, fixed before the run: they alone fix the worst case."""

    queries: int = Field(ge=1, description="most queries ever asked")
    answers: int = Field(
        ge=1,
        description="most answers ever given; must equal `queries` for mechanisms that answer every query, and for"
        " `distributed`",
    )

    @model_validator(mode="after")
    def _answers_within_queries(self) -> QueryBudget:
        if self.answers > self.queries:
            raise ValueError(f"answers {self.answers} exceeds queries {self.queries}")
        return self


class Phase(Outgrown, Frozen):
    """One phase of a federation's schedule: how a label comes from the votes, and how often."""

    mechanism: AnyMechanism = Field(description="how a label comes from the votes in this stage")
    query_budget: QueryBudget = Field(
        serialization_alias="caps", description="how much is asked and answered at most in this stage"
    )

    @model_validator(mode="after")
    def _answers_what_it_must(self) -> Phase:
        check_query_budget(
            self.mechanism, self.query_budget, "distributed"
        )  # the federation checks it for how its votes are collected
        return self

    def describe(self) -> str:
        """Mechanism and query budget, for people."""
        budget = self.query_budget
        return f"{self.mechanism.describe()}, at most {budget.queries} queries and {budget.answers} answers"


NOISY_SUMS: frozenset[CollectionMode] = frozenset({"distributed", "verified"})
"""Where sums may come with noise in them: of the parties, or of each aggregator."""


def check_query_budget(mechanism: AnyMechanism, query_budget: QueryBudget, collection: CollectionMode) -> None:
    """Raise ValueError where the query budget cannot be that of the mechanism."""
    two_phases = mechanism.phases == 2 and collection in NOISY_SUMS
    if mechanism.noise_by_parties and query_budget.answers != query_budget.queries and not two_phases:
        # what the parties have sent is seen, whether its label is released or not
        raise ValueError(
            f"{mechanism.name} charges for all it sees: query_budget.answers {query_budget.answers} must equal"
            f" queries {query_budget.queries}"
        )
    if mechanism.answers_all and query_budget.answers != query_budget.queries:
        raise ValueError(
            f"{mechanism.name} answers every query: query_budget.answers {query_budget.answers} must equal queries"
            f" {query_budget.queries}"
        )


def check_votes(mechanism: AnyMechanism, collection: CollectionMode, noise_in_sums: bool, simulation: bool) -> None:
    """Raise ValueError where votes that are collected in this way cannot feed the mechanism."""
    if noise_in_sums and mechanism.sums_sigma(1) is None:
        raise ValueError(
            f"{mechanism.name} is not private, and {collection} votes have the noise in their sums: collect them in"
            " plaintext, or as exact sums (collection secure, or verified with exact_sums)"
        )
    if mechanism.noise_by_parties and not noise_in_sums and not (simulation and collection == "plaintext"):
        raise ValueError(f"{mechanism.name} needs noise that is in the sums already: set collection to distributed")
    if collection == "verified" and (noise := mechanism.shares_of_noise) > 1:
        raise ValueError(
            f"of verified votes each of the two aggregators adds the whole noise: set mechanism.noise_shares {noise} to"
            " 1"
        )


def check_schedule(
    phases: tuple[Phase, ...], collection: CollectionMode, noise_in_sums: bool, sanitised: bool, simulation: bool
) -> None:
    """Raise ValueError where a federation of several phases cannot have these, see docs/decisions/schedule.md."""
    if len(phases) == 1:
        return
    if sanitised:
        raise ValueError("privacy.sanitised is planned for one mechanism: leave it out, or leave the schedule out")
    for number, phase in enumerate(phases, 1):
        mechanism = phase.mechanism
        if mechanism.count_sigma(1) > 0 or not mechanism.private:
            raise ValueError(
                f"stage {number}: {mechanism.name} cannot be in a schedule: choose a mechanism that is private and that"
                " releases labels"
            )
        if mechanism.noise_by_parties != phases[0].mechanism.noise_by_parties:
            raise ValueError(
                f"stage {number}: {mechanism.name} and {phases[0].mechanism.name} cannot be in one schedule: in one of"
                " them the parties add the noise"
            )
        try:
            check_votes(mechanism, collection, noise_in_sums, simulation)
            check_query_budget(mechanism, phase.query_budget, collection)
        except ValueError as error:
            raise ValueError(f"stage {number}: {error}") from None


CLOSE = 5e-3
"""How far below the target the whole may stay, relative."""
MOST_STEPS = 8
_ADAPTER: TypeAdapter[AnyMechanism] = TypeAdapter(AnyMechanism)

Event = Callable[[AnyMechanism, QueryBudget], ReleaseEvent]
"""The event of a phase whose query budget is used up."""


@dataclass(frozen=True)
class OpenPhase:
    """One phase as its table has it. open_scales: fields of the mechanism's noise that the table leaves out."""

    mechanism: Mapping[str, Any]
    query_budget: QueryBudget
    open_scales: tuple[str, ...]

    @classmethod
    def of(cls, phase: Any) -> OpenPhase:
        """A phase, or the table of one.

        Raises
        ------
        ValueError, TypeError : it is no table of tables, or its query budget is wrong.
        """
        table = dict(phase)
        stated = table.get("mechanism")
        mechanism = dict(stated) if stated is not None else {}
        kind = KINDS.get(str(mechanism.get("name", "")))
        scales = () if kind is None else tuple(name for name in noise_scales(kind) if name not in mechanism)
        return cls(mechanism, QueryBudget.model_validate(table.get("query_budget")), scales)

    def widest(self) -> dict[str, Any]:
        """The mechanism's table with `WIDE` noise where it leaves some out."""
        scales = noise_scales(KINDS[self.mechanism["name"]]) if self.open_scales else {}
        return {**self.mechanism, **{name: scales[name].of(WIDE) for name in self.open_scales}}

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with the phase but that noise is left out."""
        try:
            Phase.model_validate({"mechanism": self.widest(), "query_budget": self.query_budget})
        except ValidationError:
            return False
        return True


def with_equal_spend(
    phases: Sequence[OpenPhase], epsilon: float, delta: float, event: Event
) -> list[Mapping[str, Any]]:
    """The mechanisms' tables with the noise that they leave out, so that all together cost just below `epsilon`.

    Tables that are wrong otherwise come back with any noise, for their own validation to say what is wrong.

    Raises
    ------
    CalibrationError : no noise is enough, or phases that state theirs cost too much already. AccountingError : one
        cannot be charged at this delta.
    """
    if not all(phase.is_sound for phase in phases):
        return [phase.widest() for phase in phases]
    stated = [phase for phase in phases if not phase.open_scales]
    if stated:
        fixed = [event(_ADAPTER.validate_python(dict(phase.mechanism)), phase.query_budget) for phase in stated]
        already = worst_case(fixed, delta).epsilon
        if already >= epsilon:
            raise CalibrationError(
                f"stages that state their noise cost epsilon {epsilon_text(already)} by themselves, privacy.epsilon is"
                f" {epsilon:g}. Raise it, or leave their noise out."
            )

    def spent(tables: Sequence[Mapping[str, Any]]) -> list[ReleaseEvent]:
        return [
            event(_ADAPTER.validate_python(dict(table)), phase.query_budget)
            for table, phase in zip(tables, phases, strict=True)
        ]

    def price(events: list[ReleaseEvent]) -> float:
        return worst_case(events, delta).epsilon

    def rough(events: list[ReleaseEvent]) -> float:
        return as_histograms(events, delta)

    opened = len(phases) - len(stated)
    # how the share of one phase follows from the whole is nearly the same for the bound that takes no time
    share, best = epsilon / math.sqrt(len(phases)), None
    for cost, steps in ((rough, MOST_STEPS), (price, MOST_STEPS)):
        for _ in range(steps):
            tables = [_filled(phase, share, event, cost, rough) for phase in phases]
            whole = cost(spent(tables))
            if whole <= epsilon and cost is price:
                best = tables
            if (1 - CLOSE) * epsilon <= whole <= epsilon:
                break
            share = _next(share, whole, (1 - CLOSE / 4) * epsilon, opened)
    if best is None:
        raise CalibrationError(f"no noise of the stages keeps epsilon {epsilon:g} together. Raise it, or ask less.")
    return best


def _next(share: float, whole: float, target: float, opened: int) -> float:
    """The share of each open phase at which the whole should cost `target`: as if squares of epsilons added up, which
    they nearly do where all noise is Gaussian; half the share, where that leaves nothing."""
    squared = share**2 + (target**2 - whole**2) / opened
    return math.sqrt(squared) if math.isfinite(squared) and squared > (share / 2) ** 2 else share / 2


Price = Callable[[list[ReleaseEvent]], float]
"""Epsilon of some releases together."""


def _filled(phase: OpenPhase, epsilon: float, event: Event, cost: Price, rough: Price) -> Mapping[str, Any]:
    """The table of one phase with noise at which it costs this epsilon by itself."""
    if not phase.open_scales:
        return phase.mechanism
    query_budget = phase.query_budget

    def alone(price: Price) -> Callable[[AnyMechanism], float]:
        return lambda mechanism: price([event(mechanism, query_budget)])

    return with_noise(phase.mechanism, query_budget.queries, query_budget.answers, epsilon, alone(cost), alone(rough))
