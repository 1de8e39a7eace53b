"""What a federation is (`Federation`), and what its coordinator runs (`FederationConfig`)."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from consilium.accounting.curves.discrete import NO_SLACK
from consilium.accounting.errors import AccountingError, NoiseError
from consilium.accounting.events import Mechanism, ReleaseEvent
from consilium.accounting.mechanisms import Distributed, DistributedTwoPhase
from consilium.accounting.sanitise.release import check_plan
from consilium.accounting.target import as_histograms, worst_case
from consilium.accounting.units import Towards
from consilium.coordinator.mechanisms import MOST_SHARES, PARTS, AnyMechanism, SumNoise, law_of, widest, with_noise
from consilium.coordinator.parts import Privacy, QueryBudget, Timeouts
from consilium.models.keys import LogisticRegressionSpec, TeacherSpec
from consilium.protocol.config_files import faults_of, in_one
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import LabelLaw
from consilium.protocol.messages import MOST_TEACHERS, CollectionMode, Terms, TrainRequest
from consilium.protocol.models import Derived, Frozen
from consilium.protocol.pool import PoolTerms
from consilium.protocol.queries import reference_of, why_no_reference
from consilium.protocol.releases import AT_MOST
from consilium.protocol.schema import Schema
from consilium.protocol.voting_rule import TopRule, VotingRuleSpec
from consilium.report.disclosure import Disclosure, epsilon_text
from consilium.sums.modes import MODES


def check_threshold(federation: Federation, votes: int) -> None:
    """Raise ConfigError if a threshold on votes is above the number of votes that a query can get at all."""
    if federation.mechanism.votes_needed > votes:
        raise ConfigError(
            f"federation.mechanism.threshold {federation.mechanism.votes_needed:g} is above the {votes} votes that"
            " parties can give",
            "Lower it: hardly a query would be answered, yet each would be paid for",
        )


def _listed(events: list[ReleaseEvent]) -> str:
    return json.dumps([event.to_json() for event in events], sort_keys=True)


def check_sanitised(config: FederationConfig, teachers: int) -> None:
    """Raise ConfigError if the sanitised epsilon that is planned could not be released after a run with `teachers`."""
    if config.privacy.sanitised is None:
        return
    try:
        check_plan(config.privacy.sanitised.plan(), config.event(0, 0), teachers, len(config.rows.classes))
    except AccountingError as error:
        raise ConfigError(f"privacy.sanitised: {error}", "Change the plan or leave it out") from None


class Federation(Derived, Frozen):
    """What a federation is, wherever it runs: the table `[federation]` of a scenario and of a provisioning file. Always
    resolved: scales of noise that the mechanism's table leaves out are calibrated to `privacy.epsilon` as it is read.
    """

    name: str = Field(min_length=1, max_length=100, description="for people, in report and model card")
    minimum_parties: int = Field(
        ge=2, description="fewer parties, at any stage, end a simulation; deployed, more are waited for"
    )
    teachers_per_party: int = Field(
        default=1,
        ge=1,
        le=MOST_TEACHERS,
        description="teachers on disjoint shards of a party's rows, and so votes for each query",
    )
    collection: CollectionMode = Field(
        default="secure",
        description="[who sees the votes](secure-aggregation.md): the coordinator (`plaintext`); nobody, but one"
        " liar decides labels unseen or ends sums that are charged (`secure`); nobody, and liars are"
        " left out by name (`verified`)",
    )
    colluders: int = Field(
        default=0, ge=0, description="parties that may work with the coordinator; like the next key not for `plaintext`"
    )
    least_survivors: int | None = Field(
        default=None, ge=2, description="least number of parties in a sum; left out: as few as is safe"
    )
    public_least_distance: float = Field(
        default=0.05,
        ge=0,
        le=1e6,
        description="of two different public rows that are closer (Euclidean, standardised) one is never asked,"
        " where these rows are fixed before the run",
    )
    teacher: TeacherSpec = Field(default=LogisticRegressionSpec(), description="what each party trains")
    voting_rule: VotingRuleSpec = Field(
        default=TopRule(), description="how a teacher turns its scores into its one vote"
    )
    privacy: Privacy = Field(description="what is guaranteed")
    query_budget: QueryBudget = Field(description="how much is asked and answered at most")
    mechanism: AnyMechanism = Field(description="how a label comes from the votes")
    timeouts: Timeouts = Field(default=Timeouts(), description="how long each stage may take")

    @field_validator("mechanism", mode="before")
    @classmethod
    def _calibrated(cls, table: Any, info: ValidationInfo) -> Any:
        known = info.data
        if not isinstance(table, dict):
            return table
        if not {"privacy", "query_budget", "teachers_per_party"} <= set(known):
            return widest(table)  # one of these is wrong, and no noise that is left out
        privacy, query_budget = known["privacy"], known["query_budget"]
        if privacy.epsilon is None:
            return table

        def events(mechanism: Mechanism) -> list[ReleaseEvent]:
            return Federation.model_construct(**known, mechanism=mechanism).promised_events()

        def cost(mechanism: Mechanism) -> float:
            return worst_case(events(mechanism), privacy.delta).epsilon

        def rough(mechanism: Mechanism) -> float:
            return as_histograms(events(mechanism), privacy.delta)

        try:
            return with_noise(table, query_budget.queries, query_budget.answers, privacy.epsilon, cost, rough)
        except AccountingError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _mechanism_suits_votes_and_budget(self) -> Federation:
        name, budget, steps = self.mechanism.name, self.query_budget, self.mechanism.steps(Towards.STUDENT)
        # hidden sums have Gaussian noise on each count; a mechanism that is not private asks for none
        in_sums = steps and all(step.law == "gaussian" for step in steps) and steps[-1].leaves != "check"
        if self.noise_in_sums and not in_sums:
            raise ValueError(
                f"{name} is drawn on exact counts, and {self.collection} votes have noise in their sums: collect them"
                " in plaintext, or choose gnmax, histogram, confident or interactive"
            )
        if self.mechanism.answers_all and budget.answers != budget.queries:
            raise ValueError(
                f"{name} answers every query: query_budget.answers {budget.answers} must equal queries {budget.queries}"
            )
        if self.noise_in_sums and self.privacy.sanitised is not None:
            raise ValueError(
                f"privacy.sanitised needs plaintext votes, not {self.collection} ones: it is computed from histograms,"
                " and a lying party behind masks, or a lying aggregator, may make a histogram that no votes give. Leave"
                " it out, or collect votes in plaintext"
            )
        return self

    @model_validator(mode="after")
    def _promise_within_epsilon(self) -> Federation:
        if self.privacy.epsilon is None:
            return self
        try:
            promise = worst_case(self.promised_events(), self.privacy.delta).epsilon
        except AccountingError as error:
            raise ValueError(f"mechanism {self.mechanism.name}: {error}") from None
        if promise > self.privacy.epsilon:
            raise ValueError(
                f"privacy.epsilon is {self.privacy.epsilon:g}, but this noise and this query budget promise"
                f" {epsilon_text(promise)}: leave the noise out of [federation.mechanism] to have it calibrated, or"
                " leave epsilon out"
            )
        return self

    @property
    def noise_in_sums(self) -> bool:
        """Whether sums come with noise of the parties, or of two aggregators, so that nobody has exact ones."""
        return self.collection in MODES

    def givers(self, parties: int) -> int:
        """Who adds noise to a sum in which so many parties are: they, or the two aggregators of verified votes."""
        return MODES[self.collection].aggregators or parties

    def event(self, asked: int, answered: int) -> ReleaseEvent:
        """The release event of so many queries, of which so many were answered."""
        return self.mechanism.event(
            asked=asked,
            answered=answered,
            unit=self.privacy.unit,
            neighbouring=self.privacy.neighbouring,
            teachers_per_party=self.teachers_per_party,
        )

    @property
    def disclosure(self) -> Disclosure:
        return Disclosure(AT_MOST[self.mechanism.name], self.collection)

    def describe(self) -> str:
        """Mechanism, and how teachers vote, for people: as reports, terms and cards name them."""
        noise = f"; noise by {MODES[self.collection].givers} in the sums" if self.noise_in_sums else ""
        return f"{self.mechanism.describe()}{noise}{self.voting_rule.describe()}"

    def closing_event(self) -> ReleaseEvent | None:
        """The charge of the sanitised epsilon, or None where none is planned."""
        planned = self.privacy.sanitised
        return planned.plan().event(self.event(0, 0)) if planned else None

    def promised_events(self) -> list[ReleaseEvent]:
        """Everything that will ever be released to the student, with the whole query budget used up; a sanitised
        epsilon comes last."""
        return self._with_closing(self.event(self.query_budget.queries, self.query_budget.answers))

    def _with_closing(self, event: ReleaseEvent) -> list[ReleaseEvent]:
        closing = self.closing_event()
        return [event] if closing is None else [event, closing]

    def sure_givers(self, least_sum: int) -> int:
        """`FederationConfig.noise_shares` where so many parties must be in a sum."""
        if not self.noise_in_sums:
            return 0
        return 1 if MODES[self.collection].aggregators else least_sum - self.colluders

    def federation_digest(self) -> str:
        """Hash of what `[federation]` says, resolved, but for time limits: the same for a simulation and for what is
        deployed from its file."""
        fields = set(Federation.model_fields) - {"timeouts"}
        return canonical_digest(self.model_dump(mode="json", include=fields))


class FederationConfig(Federation):
    """A federation as its coordinator runs it: what `[federation]` says, and what follows from who takes part.

    roster: hash of the roster, which all but plaintext votes need. public: all rows that may ever be asked. simulation:
    true only where all parties are simulated; noise_seed, seed >= 0 and record_votes need it. reference: rows by which
    teachers vote under a voting rule that needs some, as `protocol.queries` writes them. seed: of the teachers'
    training, -1 for entropy. noise_seed: null for the operating system's entropy. record_votes: write every party's
    votes under `private/`. noise_shares: givers that are sure to be honest and in a sum, where the noise is in the
    sums: the roster's least less its colluders, 1 of two aggregators. edition: above 0 where an earlier federation of
    the same operator was the same in all else: it is another one all the same, with a ledger of its own.
    """

    rows: Schema
    roster: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    public: PoolTerms | None = None
    reference: str = ""
    simulation: bool = False
    seed: int = Field(default=-1, ge=-1)
    noise_seed: int | None = Field(default=None, ge=0)
    record_votes: bool = False
    noise_shares: int = Field(default=0, ge=0, le=MOST_SHARES)
    edition: int = Field(default=0, ge=0)

    @classmethod
    def of(cls, federation: Federation, **added: Any) -> FederationConfig:
        """This federation, and what is added to it. Raises ConfigError."""
        try:
            return cls(**dict(federation), **added)
        except ValidationError as error:
            raise ConfigError(in_one("federation", faults_of(error, cls, {}))) from None

    @model_validator(mode="after")
    def _parts_fit_each_other(self) -> FederationConfig:
        if not self.simulation and (self.noise_seed is not None or self.record_votes):
            raise ValueError("noise_seed and record_votes need simulation = true: they leave nothing private")
        if not self.simulation and self.seed >= 0:
            raise ValueError(f"seed {self.seed} needs simulation = true: leave it at -1, the parties' own entropy")
        if self.noise_in_sums != (self.roster != ""):
            raise ValueError("secure and verified votes need a roster, and plaintext ones have none")
        if self.noise_shares and not self.noise_in_sums:
            raise ValueError(f"noise_shares {self.noise_shares}: no noise is in the sums")
        if self.noise_shares > 1 and MODES[self.collection].aggregators:
            raise ValueError(f"noise_shares {self.noise_shares} must be 1: each of two aggregators knows its own noise")
        if self.noise_in_sums and not self.noise_shares:
            raise ValueError("noise_shares is left out: of how many givers' noise is anybody sure?")
        for noise in self.sum_noises:
            try:
                noise.check()
            except NoiseError as error:
                raise ValueError(str(error)) from None
        self.voting_rule.check_classes(len(self.rows.classes))
        if self.mechanism.classes not in (None, len(self.rows.classes)):
            raise ValueError(
                f"{self.mechanism.name} is of {self.mechanism.classes} classes, and there are"
                f" {len(self.rows.classes)}: choose gnmax"
            )
        if reason := why_no_reference(self.reference_rows(), self.rows, self.voting_rule.reference_rows):
            raise ValueError(reason)
        return self

    @property
    def sigmas(self) -> tuple[float, ...]:
        """Standard deviation of the mechanism's noise on a count, or on what is compared, in each round."""
        return tuple(step.deviation for step in self.mechanism.steps(Towards.STUDENT)) or (0.0,)

    def sum_noise(self, sigma: float) -> SumNoise:
        """How this noise of the mechanism comes into the sums, where some is in them."""
        colluders = 0 if MODES[self.collection].aggregators else self.colluders
        return SumNoise(sigma, PARTS[self.collection], self.noise_shares, colluders)

    @property
    def sum_noises(self) -> tuple[SumNoise, ...]:
        """The noise in the sums of each round; empty where there is none."""
        return self._sum_noises

    @cached_property  # with _: else it would be taken for a field where the configuration is copied
    def _sum_noises(self) -> tuple[SumNoise, ...]:
        steps = self.mechanism.steps(Towards.STUDENT) if self.noise_in_sums else ()
        return tuple(replace(self.sum_noise(step.scale), topped_up=step.leaves != "check") for step in steps)

    @cached_property
    def _slack(self) -> float:
        """What noise costs the student on top that is a sum of shares. Raises NoiseError, see `SumNoise.slack`."""
        slack = self.sum_noises[-1].slack if self.sum_noises else 0.0
        return slack if slack > NO_SLACK else 0.0

    def event(self, asked: int, answered: int) -> ReleaseEvent:
        """See `Federation.event`: with what the shares of the noise cost on top."""
        return replace(super().event(asked, answered), slack=self._slack)

    def node_event(self, asked: int, answered: int) -> ReleaseEvent:
        """What nodes are held to for so many queries: where the noise is in the sums, the noisy sums themselves, of
        each round. The coordinator, who sees them, knows its own top-up, so that the givers' noise alone counts. Of two
        aggregators each knows its own, and the other's counts."""
        event, noises = self.event(asked, answered), self.sum_noises
        if not noises:
            return event
        kind = Distributed if len(noises) == 1 else DistributedTwoPhase
        seen = kind(*(noise.drawn.sigma for noise in noises), noise_shares=self.noise_shares)
        return replace(event, mechanism=seen, towards=Towards.COORDINATOR, slack=0.0)

    def held_to(self) -> list[ReleaseEvent]:
        """What nodes are held to, and parties charge, with the whole query budget used up."""
        return self._with_closing(self.node_event(self.query_budget.queries, self.query_budget.answers))

    def top_up(self, parties: int, round_: int) -> float:
        """Sigma of what the coordinator adds to each count of a sum over so many parties; 0.0 where it adds nothing: to
        exact counts, and to those of a check, which has its own noise on top."""
        return self.sum_noises[round_ - 1].top_up(self.givers(parties)) if self.sum_noises else 0.0

    def deviations(self, parties: int) -> tuple[float, ...]:
        """Standard deviation of all noise in a count of each round's sum; empty where counts are exact."""
        return tuple(noise.total(self.givers(parties)) for noise in self.sum_noises)

    def released_sigma(self, parties: int) -> float:
        """Sigma of the noise on one released count where so many parties are in the sum; 0.0 where labels alone are."""
        sigma = self.mechanism.count_sigma
        return (self.deviations(parties) or (sigma,))[-1] if sigma else 0.0

    def label_law(self, parties: int, votes: int) -> LabelLaw | None:
        """Of a label where so many parties with so many votes are in the sum; None where counts are released."""
        return law_of(self.mechanism, votes, len(self.rows.classes), self.deviations(parties))

    def reference_rows(self) -> np.ndarray:
        """Public rows float32 (rows, features), none where the voting rule needs none."""
        return reference_of(self.reference, len(self.rows.features))

    def promise(self) -> str:
        """JSON of the events that parties hold the coordinator to."""
        return _listed(self.held_to())

    def train_request(self) -> TrainRequest:
        return TrainRequest(
            federation=self.digest(),
            rows_json=self.rows.model_dump_json(),
            spec_json=self.teacher.model_dump_json(),
            voting_rule_json=self.voting_rule.model_dump_json(),
            reference=self.reference_rows(),
            teachers=self.teachers_per_party,
            seed=self.seed,
        )

    def terms(self) -> Terms:
        """What the parties are told, and pin."""
        return self._terms

    @cached_property
    def _terms(self) -> Terms:
        return Terms(
            federation=self.digest(),
            classes=list(self.rows.classes),
            teachers=self.teachers_per_party,
            simulation=self.simulation,
            promise=self.promise(),
            student=_listed(self.promised_events()) if self.noise_in_sums else "",  # else it is promised the same
            collection=self.collection,
            roster=self.roster,
            public=self.public.model_dump_json() if self.public else "",
            request=self.train_request().digest(),
        )

    def digest(self) -> str:
        """Hash of what the parties and the student agree on: all but time limits and noise seed."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return canonical_digest(self.model_dump(mode="json", exclude={"timeouts", "noise_seed"}))
