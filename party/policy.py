"""The party's own policy: what it enforces itself, whatever the coordinator asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, get_args

from pydantic import Field, model_validator

from consilium.accounting.errors import AccountingError
from consilium.accounting.events import event_from_json
from consilium.accounting.units import Neighbouring, Unit
from consilium.data.files import CsvRule
from consilium.data.mapping import Columns, DataRules, LabelRule, MissingRule, PatientRule
from consilium.models.specs import OwnTeacher
from consilium.node.acceptance import COLUMNS, Limit, fewer, more, others
from consilium.node.acceptance import LIMITS as COMMON
from consilium.node.answering import bounded_events, pool_of
from consilium.protocol.messages import EXACT_SUMS, CollectionMode, PartyName, StatedMode, Terms
from consilium.protocol.models import Frozen
from consilium.protocol.old_names import Outgrown
from consilium.protocol.refusals import Refused, Rule


class Policy(Outgrown, Frozen):
    """The `[policy]` table of `policy.toml` in a kit, of `party.toml` elsewhere; every limit has a safe default.

    allowed_classes: class names the party is willing to vote on, in any order; a request must ask exactly these.
    least_rows_per_teacher: no teacher is trained on fewer rows; 0 allows an empty shard, whose teacher is constant.
    most_teachers: the most teachers, and so votes, that the party gives for one query.
    unit: what the party protects, and what most_epsilon is counted for, in whatever unit a coordinator states its own
        promise: "party" (everything it has; the strictest), "patient" (all rows of one; needs `[patient]`) or "record".
    neighbouring: what may happen to such a unit, likewise: "replace" (the strictest) or "add_or_remove".
    most_epsilon, delta: the largest worst-case epsilon at that delta, over all federations ever served on these data.
        Federations count with what their query budget allows, whether it was used or not.
    most_queries: the most queries ever answered on these data, over all runs.
    votes: the least secret way in which the party's votes may be collected: "plaintext" (the coordinator sees them),
        "secure" (it sees sums over parties) or "distributed" (it sees sums with noise of the parties' own). Or
        "verified" and nothing else: single votes are hidden as long as coordinator and second aggregator do not work
        together, where the others rely on the other parties, so that a party that wants it says so.
    exact_sums: take part in sums without noise, whatever `votes` says. What such sums tell together has no epsilon.
    open_queries: serve secure or verified votes though the queries were not fixed beforehand. A coordinator that makes
    up
        questions as it goes can ask nearly the same again.
    least_parties: parties other than assumed colluders that must be in every such sum.
    allow_simulation: serve in a federation whose noise is seeded, that is, one without privacy. Never on real data.
    """

    GONE: ClassVar[frozenset[str]] = frozenset({"least_difference", "least_distance"})

    allowed_classes: tuple[str, ...] = Field(min_length=2)
    least_rows_per_teacher: int = Field(default=20, ge=0)
    most_teachers: int = Field(default=1, ge=1)
    most_queries: int = Field(default=10_000, ge=0)
    most_epsilon: float = Field(default=3.0, ge=0)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    unit: Unit = Unit.PARTY
    neighbouring: Neighbouring = Neighbouring.REPLACE
    collection: StatedMode = Field(default="distributed", serialization_alias="votes")
    exact_sums: bool = False
    open_queries: bool = Field(default=False, serialization_alias="open_pool")
    least_parties: int = Field(default=2, ge=2)
    allow_simulation: bool = False


ALLOWED_VOTES: Mapping[CollectionMode, frozenset[CollectionMode]] = {
    "plaintext": frozenset(get_args(CollectionMode)),
    "secure": frozenset({"secure", "distributed"}),
    "distributed": frozenset({"distributed"}),
    "verified": frozenset({"verified"}),
}
"""By `Policy.collection`, the ways in which votes may be collected."""


def _less_secret(collection: CollectionMode, than: CollectionMode) -> bool:
    return collection not in ALLOWED_VOTES[than]


LIMITS: Mapping[str, Limit] = {
    "collection": Limit(
        "how votes are collected",
        _less_secret,
        {
            "plaintext": "The coordinator learns every vote of this party, with no epsilon towards it.",
            "secure": "The coordinator learns exact sums of votes, with no epsilon towards it; with all the other"
            " parties of a sum it would learn this party's votes.",
            "distributed": "The coordinator learns sums of votes with noise in them. Votes are hidden as long as enough"
            " of the other parties do not work with it.",
            "verified": "Coordinator and second aggregator hold half of each vote: together they would learn this"
            " party's votes, and alone neither, whatever other parties do.",
        },
    ),
    **{key: COMMON[key] for key in ("exact_sums", "open_queries", "unit", "neighbouring", "delta", "most_epsilon")},
    "most_queries": COMMON["most_queries"],
    "most_teachers": Limit(
        "teachers, each with a vote",
        more,
        "Whoever sees votes or sums learns {asked} votes of this party for each question, and how its teachers differ.",
    ),
    "least_rows_per_teacher": Limit(
        "rows that a teacher has at least",
        fewer,
        "A vote may rest on {asked} rows only: it tells more of each of them.",
    ),
    **{key: COMMON[key] for key in ("least_parties", "allow_simulation")},
    "allowed_classes": Limit(
        "classes that are voted on",
        others,
        "Whoever has the student learns about other classes than before: {asked}.",
    ),
    COLUMNS: Limit(
        "columns of the rows that are read",
        others,
        "Whoever has the student learns, within the guarantee, from columns that were not read before: {asked}.",
    ),
}
"""By key, in the order in which people read them."""


class PartyFile(Frozen):
    """The file `party.toml` in a party's home.

    identity, roster: files that all but plaintext votes need.
    terms: file with the terms of the one federation that the party takes part in (`terms.json` of a kit); without it,
    in any that the policy allows.
    policy: None in a kit whose people have accepted nothing yet.
    simulated_noise_seed: of the party's share of the noise in simulations, which must be allowed; elsewhere the
    operating system's entropy is used whatever this says.
    teacher: what is trained here, instead of the kind that the coordinator asks for; also an estimator that others
    wrote.
    """

    name: PartyName
    data: str = Field(default="data.npz", min_length=1)
    identity: str = Field(default="identity.pem", min_length=1)
    roster: str = Field(default="roster.json", min_length=1)
    terms: str = ""
    policy: Policy | None = None
    simulated_noise_seed: int | None = Field(default=None, ge=0)
    columns: Columns = Field(default_factory=dict)
    label: LabelRule = LabelRule()
    missing: MissingRule = MissingRule()
    csv: CsvRule = CsvRule()
    patient: PatientRule = PatientRule()
    teacher: OwnTeacher | None = None

    @model_validator(mode="after")
    def _seed_only_in_simulations(self) -> PartyFile:
        if self.simulated_noise_seed is not None and not self._simulates:
            raise ValueError("simulated_noise_seed needs policy.allow_simulation: seeded noise protects nobody")
        return self

    @model_validator(mode="after")
    def _patients_are_known_where_they_are_protected(self) -> PartyFile:
        if self.policy is not None and self.policy.unit is Unit.PATIENT and not self.patient.known:
            raise ValueError('policy.unit is "patient": name the column under [patient], or set rows_are_patients')
        return self

    @property
    def _simulates(self) -> bool:
        return self.policy is not None and self.policy.allow_simulation

    @property
    def rules(self) -> DataRules:
        """How the data file is read: the tables `[columns]`, `[label]`, `[missing]`, `[csv]` and `[patient]`, and what
        the teacher does with missing values."""
        return DataRules(
            columns=self.columns,
            label=self.label,
            missing=self.missing,
            csv=self.csv,
            patient=self.patient,
            allow_one_class=self.label.allow_one_class or self._simulates,
            keep_missing=self.teacher is not None and self.teacher.keeps_missing,
        )


def check_terms(policy: Policy, terms: Terms, exact: bool | None = None) -> None:
    """Raise Refused if the policy does not let the party serve in a federation with these terms.

    exact: whether sums leave without noise, where the terms do not hold the promise that says it.
    """
    if terms.simulation and not policy.allow_simulation:
        raise Refused(Rule.SIMULATION)
    if sorted(terms.classes) != sorted(policy.allowed_classes):
        raise Refused(Rule.CLASSES, limit=len(policy.allowed_classes), requested=len(terms.classes))
    check_teachers(policy, terms.teachers)
    check_votes_mode(policy, terms.collection)
    if not policy.exact_sums and (has_exact_sums(terms) if exact is None else exact):
        raise Refused(Rule.EXACT_SUMS, detail="exact sums are asked for, and policy.exact_sums is false")
    if terms.collection in EXACT_SUMS and not terms.public and not policy.open_queries:
        raise Refused(Rule.POOL, detail=f"{terms.collection} votes on queries that were not fixed beforehand")
    pool_of(terms)


def has_exact_sums(terms: Terms) -> bool:
    """Whether sums without noise leave by these terms. Refused (MALFORMED) if their promise is none."""
    if terms.collection != "verified":
        return terms.collection in EXACT_SUMS
    try:
        return not all(event_from_json(item).noise_by_parties for item in bounded_events(terms.promise))
    except (AccountingError, ValueError, TypeError, RecursionError, OverflowError):
        raise Refused(Rule.MALFORMED, detail="promise: not a list of release events") from None


def check_votes_mode(policy: Policy, collection: CollectionMode) -> None:
    """Raise Refused if votes would be less secret than the policy asks, or rest on whom it does not name."""
    if collection not in ALLOWED_VOTES[policy.collection]:
        raise Refused(Rule.VOTES, detail=f"{collection} votes asked, the policy asks for {policy.collection}")


def check_teachers(policy: Policy, teachers: int) -> None:
    """Raise Refused if more teachers are asked for than the policy allows."""
    if teachers > policy.most_teachers:
        raise Refused(Rule.MOST_TEACHERS, limit=policy.most_teachers, requested=teachers)


def check_shards(policy: Policy, smallest_shard: int) -> None:
    """Raise Refused if a shard would be too small. The number of rows itself is not told."""
    if smallest_shard < policy.least_rows_per_teacher:
        raise Refused(Rule.LEAST_ROWS, limit=policy.least_rows_per_teacher)
