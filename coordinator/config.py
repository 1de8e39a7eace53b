"""The federation's configuration: what the coordinator asks of the parties and promises to the student."""

from __future__ import annotations

import json

from pydantic import Field, model_validator

from consilium.accounting.errors import AccountingError
from consilium.accounting.events.release import ReleaseEvent
from consilium.accounting.sanitise.moved_votes import check_walkable
from consilium.accounting.sanitise.release import SanitisedPlan, check_plan
from consilium.accounting.units import Neighbouring, Noise, Unit
from consilium.coordinator.mechanisms import AnyMechanism
from consilium.protocol.config_files import Frozen
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.parties.messages import MOST_TEACHERS, TeacherSpec, Terms, TrainRequest, VotesMode
from consilium.protocol.rows.pool import PoolTerms
from consilium.protocol.rows.schema import Schema


class Caps(Frozen):
    """Most queries ever asked and most answers ever given, fixed before the run: they alone fix the worst case."""

    queries: int = Field(ge=1)
    answers: int = Field(ge=1)

    @model_validator(mode="after")
    def _answers_within_queries(self) -> Caps:
        if self.answers > self.queries:
            raise ValueError(f"answers {self.answers} exceeds queries {self.queries}")
        return self


def check_caps(mechanism: AnyMechanism, caps: Caps, votes: VotesMode) -> None:
    """Raise ValueError where the caps cannot be those of the mechanism."""
    two_phases = mechanism.phases == 2 and votes == "distributed"
    if mechanism.noise_by_parties and caps.answers != caps.queries and not two_phases:
        # what the parties have sent is seen, whether its label is released or not
        raise ValueError(
            f"{mechanism.name} charges for all it sees: caps.answers {caps.answers} must equal queries {caps.queries}"
        )
    if mechanism.answers_all and caps.answers != caps.queries:
        raise ValueError(
            f"{mechanism.name} answers every query: caps.answers {caps.answers} must equal queries {caps.queries}"
        )


def check_votes(mechanism: AnyMechanism, votes: VotesMode, simulation: bool) -> None:
    """Raise ValueError where votes that are collected in this way cannot feed the mechanism."""
    if votes == "distributed" and not mechanism.noise_by_parties:
        raise ValueError(
            f"votes are distributed, so the parties add the noise, but {mechanism.name} adds its own:"
            " take mechanism distributed or distributed_two_phase, or votes secure"
        )
    if mechanism.noise_by_parties and votes != "distributed" and not (simulation and votes == "clear"):
        raise ValueError(f"{mechanism.name} needs noise from the parties: set votes to distributed")


def check_threshold(mechanism: AnyMechanism, votes: int) -> None:
    """Raise ConfigError if a threshold on votes is above the number of votes that a query can get at all."""
    if mechanism.votes_needed > votes:
        raise ConfigError(
            f"mechanism.threshold {mechanism.votes_needed} is above the {votes} votes that the parties can give",
            "Lower it: hardly a query would be answered, yet each would be paid for",
        )


def check_sanitised(config: FederationConfig, teachers: int) -> None:
    """Raise ConfigError if the sanitised epsilon that is planned could not be released after a run with `teachers`."""
    if config.privacy.sanitised is None:
        return
    try:
        check_plan(config.privacy.sanitised.plan(), config.event(0, 0), teachers, len(config.rows.classes))
    except AccountingError as error:
        raise ConfigError(f"privacy.sanitised: {error}", "Change the plan or leave it out") from None


class Sanitised(Frozen):
    """Publish a data-dependent epsilon at close, with noise; the fields are those of `accounting.SanitisedPlan`.

    They are fixed before the run, on public or simulated votes (`consilium accounting epsilon` plans them): a choice
    that looks at private votes would itself be a release.
    """

    order: float = Field(gt=1, le=1e4)
    beta: float = Field(gt=0, le=10)
    sigma_ss: float = Field(gt=0, le=1e6)
    log_scale_sigma: float | None = Field(default=None, gt=0, le=1e6)
    confidence: float = Field(default=0.95, gt=0, lt=1)

    def plan(self) -> SanitisedPlan:
        """As the accounting takes it."""
        return SanitisedPlan(**self.model_dump())


class Privacy(Frozen):
    """`unit` has no default on purpose: whoever states an epsilon says for what. `sanitised`: see `Sanitised`.

    neighbouring: how the unit's data may change; "replace" bounds more than "add_or_remove".
    """

    unit: Unit
    neighbouring: Neighbouring = Neighbouring.REPLACE
    delta: float = Field(gt=0, lt=1)
    sanitised: Sanitised | None = None


def check_sanitised_votes(privacy: Privacy, votes: VotesMode) -> None:
    """Raise ValueError where a sanitised epsilon is planned for votes that nobody sees."""
    if privacy.sanitised is not None and votes != "clear":
        raise ValueError(
            f"privacy.sanitised needs clear votes, not {votes} ones: it is computed from histograms, and behind masks"
            " one party's false vote may make a histogram that no votes give. Leave it out, or collect votes in clear"
        )


class Timeouts(Frozen):
    """Seconds to wait, by stage; a party that is late is left out of that stage.

    secure: for each stage of a secure sum but that of the votes.
    """

    enrol: float = Field(default=60, gt=0)
    train: float = Field(default=600, gt=0)
    vote: float = Field(default=300, gt=0)
    secure: float = Field(default=120, gt=0)
    student: float = Field(default=3600, gt=0)


class FederationConfig(Frozen):
    """One federation.

    simulation: true only where all parties are simulated; noise_seed, seed >= 0 and record_votes need it, and parties
        refuse it by default.
    seed: seed of the teachers' training, -1 for entropy. noise_seed: null for the operating system's entropy.
    record_votes: write every party's votes under `private/`; clear votes only.
    votes: see `parties.messages.VotesMode`. roster: hash of the roster, which secure and distributed votes need.
    spare: parties that an exact secure sum leaves out on purpose, drawn by lot, where the least number allows it. A sum
        over all has no party that a later one can differ by, so that any absence afterwards ends the answers; with
        spare at least the roster's least_difference that is not so.
    pool: all rows that may ever be asked, see `protocol.rows.pool`; parties refuse secure votes without it by default.
    service: host:port on which the label service listens for a student; port 0 for any free one.
    """

    name: str = Field(min_length=1, max_length=100)
    rows: Schema
    teachers_per_party: int = Field(default=1, ge=1, le=MOST_TEACHERS)
    teacher: TeacherSpec = TeacherSpec()
    minimum_parties: int = Field(ge=2)
    votes: VotesMode = "clear"
    roster: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    spare: int = Field(default=0, ge=0)
    pool: PoolTerms | None = None
    mechanism: AnyMechanism
    privacy: Privacy
    caps: Caps
    timeouts: Timeouts = Timeouts()
    simulation: bool = False
    seed: int = Field(default=-1, ge=-1)
    noise_seed: int | None = Field(default=None, ge=0)
    record_votes: bool = False
    service: str = "127.0.0.1:0"

    @model_validator(mode="after")
    def _seeds_only_in_simulations(self) -> FederationConfig:
        if not self.simulation and (self.noise_seed is not None or self.record_votes):
            raise ValueError("noise_seed and record_votes need simulation = true: they leave nothing private")
        if not self.simulation and self.seed >= 0:
            raise ValueError(f"seed {self.seed} needs simulation = true: leave it at -1, the parties' own entropy")
        return self

    @model_validator(mode="after")
    def _noise_large_enough_to_sanitise(self) -> FederationConfig:
        sigma = getattr(self.mechanism, "sigma2", getattr(self.mechanism, "sigma", None))
        if self.privacy.sanitised is not None and sigma is not None:
            try:
                check_walkable(sigma, Noise.DISCRETE)
            except AccountingError as error:
                raise ValueError(f"privacy.sanitised: {error}") from None
        return self

    @model_validator(mode="after")
    def _mechanism_fits_votes_and_caps(self) -> FederationConfig:
        check_votes(self.mechanism, self.votes, self.simulation)
        check_caps(self.mechanism, self.caps, self.votes)
        check_sanitised_votes(self.privacy, self.votes)
        if (self.votes == "clear") != (self.roster == ""):
            raise ValueError("secure and distributed votes need a roster, and clear ones have none")
        return self

    def event(self, asked: int, answered: int) -> ReleaseEvent:
        """The release event of so many queries of this federation."""
        return self.mechanism.event(
            asked=asked,
            answered=answered,
            unit=self.privacy.unit,
            neighbouring=self.privacy.neighbouring,
            teachers_per_party=self.teachers_per_party,
        )

    def closing_event(self) -> ReleaseEvent | None:
        """The charge of the sanitised epsilon, or None where none is planned."""
        return self.privacy.sanitised.plan().event(self.event(0, 0)) if self.privacy.sanitised else None

    def promised_events(self) -> list[ReleaseEvent]:
        """Everything that will ever be released, with all caps used up."""
        closing = self.closing_event()
        return [self.event(self.caps.queries, self.caps.answers), *([closing] if closing else [])]

    def promise(self) -> str:
        """JSON of the promised events, which parties hold the coordinator to."""
        return json.dumps([event.to_json() for event in self.promised_events()], sort_keys=True)

    def train_request(self) -> TrainRequest:
        """The one train request of this federation."""
        return TrainRequest(
            federation=self.digest(),
            rows_json=self.rows.model_dump_json(),
            spec_json=self.teacher.model_dump_json(),
            teachers=self.teachers_per_party,
            seed=self.seed,
        )

    def terms(self) -> Terms:
        """What the parties are told, and pin."""
        return Terms(
            federation=self.digest(),
            classes=list(self.rows.classes),
            teachers=self.teachers_per_party,
            simulation=self.simulation,
            promise=self.promise(),
            votes=self.votes,
            roster=self.roster,
            pool=self.pool.model_dump_json() if self.pool else "",
            request=self.train_request().digest(),
        )

    def digest(self) -> str:
        """Hash of what the parties and the student agree on: all but addresses, time limits, `spare` and noise seed."""
        return canonical_digest(self.model_dump(mode="json", exclude={"timeouts", "spare", "service", "noise_seed"}))
