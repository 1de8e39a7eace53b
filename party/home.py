"""A party's home: the folder with its settings, its data and its state.

party.toml          name, data file; policy, but in a kit
policy.toml         in a kit: what the party allows, written by `consilium node accept` (node.acceptance)
data.npz            or .csv, .parquet: rows float (n, features), labels int (n,), features and classes as text
identity.pem        signing key, and
roster.json         the parties and their keys, for all but plaintext votes; with both aggregators for verified ones
terms.json          in a kit: the terms of the one federation that the party takes part in
state/party.db      all that it remembers (party.store)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field, model_validator

from consilium.accounting.units import Unit
from consilium.data.files import CsvRule
from consilium.data.mapping import ColumnName, Columns, DataRules, LabelRule, MissingRule, PatientRule
from consilium.data.private_rows import FileRows
from consilium.models.keys import OwnTeacher, TeacherKind
from consilium.node.acceptance import COLUMNS, Limit, fewer, more, not_accepted, others, read_terms, read_with_policy
from consilium.node.acceptance import LIMITS as COMMON
from consilium.node.answering import pool_of
from consilium.node.checks import refused_is_wrong
from consilium.node.limits import NodeFile, NodePolicy
from consilium.party.store import Store
from consilium.protocol.config_files import load, read_table
from consilium.protocol.identity import Identity
from consilium.protocol.inheritance import ACCOUNT_FILE, Inheritance
from consilium.protocol.messages import CollectionMode, Terms
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.modes import MODES, load_roster
from consilium.sums.roster import SumRoster


class Policy(NodePolicy):
    """The `[policy]` table of `policy.toml` in a kit, of `party.toml` elsewhere; see `NodePolicy` for the other limits.

    allowed_classes: class names the party is willing to vote on, in any order; a request must ask exactly these.
    least_rows_per_teacher: no teacher is trained on fewer rows; 0 allows an empty shard, whose teacher is constant.
    most_teachers: the most teachers, and so votes, that the party gives for one query.
    collection: the least secret way in which its votes may be collected: "plaintext" (the coordinator sees them),
        or "secure" (it sees sums with noise of the parties' own). Or "verified" and nothing else: single votes are
        hidden as long as coordinator and second aggregator do not work together, where "secure" relies on the other
        parties, so that a party that wants it says so.
    """

    allowed_classes: tuple[str, ...] = Field(min_length=2)
    least_rows_per_teacher: int = Field(default=20, ge=0)
    most_teachers: int = Field(default=1, ge=1)
    collection: CollectionMode = "secure"


def _less_secret(collection: CollectionMode, than: CollectionMode) -> bool:
    """Whether a policy that names `than` forbids this one; hidden sums stand for themselves alone."""
    return than in MODES and collection != than


LIMITS: Mapping[str, Limit] = {
    "collection": Limit(
        "how votes are collected",
        _less_secret,
        {
            "plaintext": "The coordinator learns every vote of this party, with no epsilon towards it.",
            "secure": "The coordinator learns sums of votes with noise in them. Votes are hidden as long as enough"
            " of the other parties do not work with it.",
            "verified": "Coordinator and second aggregator hold half of each vote: together they would learn this"
            " party's votes, and alone neither, whatever other parties do.",
        },
    ),
    **{key: COMMON[key] for key in ("unit", "neighbouring", "delta", "most_epsilon")},
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
        "classes that are voted on", others, "Whoever has the student learns about other classes than before: {asked}."
    ),
    COLUMNS: Limit(
        "columns of the rows that are read",
        others,
        "Whoever has the student learns, within the guarantee, from columns that were not read before: {asked}.",
    ),
}
"""By key, in the order in which people read them."""


class PartyFile(NodeFile[Policy]):
    """The file `party.toml` in a party's home; see `NodeFile` for what other nodes have too.

    teacher: what is trained here, instead of the kind that the coordinator asks for; also an estimator that others
    wrote. lacks: columns of the federation that are mapped to nothing: missing in every row.
    """

    data: str = Field(default="data.npz", min_length=1)
    columns: Columns = Field(default_factory=dict)
    label: LabelRule = LabelRule()
    missing: MissingRule = MissingRule()
    csv: CsvRule = CsvRule()
    patient: PatientRule = PatientRule()
    lacks: tuple[ColumnName, ...] = ()
    teacher: OwnTeacher | None = None

    @model_validator(mode="after")
    def _patients_are_known_where_they_are_protected(self) -> PartyFile:
        if self.policy is not None and self.policy.unit is Unit.PATIENT and not self.patient.known:
            raise ValueError('policy.unit is "patient": name the column under [patient], or set rows_are_patients')
        return self

    @property
    def rules(self) -> DataRules:
        """How the data file is read: the tables `[columns]`, `[label]`, `[missing]`, `[csv]` and `[patient]`, `lacks`,
        and what the teacher does with missing values."""
        return DataRules(
            columns=self.columns,
            label=self.label,
            missing=self.missing,
            csv=self.csv,
            patient=self.patient,
            lacks=self.lacks,
            allow_one_class=self.label.allow_one_class or self.simulates,
            keep_missing=self.teacher is not None and self.teacher.keeps_missing,
        )


def check_terms(policy: Policy, terms: Terms) -> None:
    """Raise Refused if the policy does not let the party serve in a federation with these terms."""
    policy.check_simulation(terms)
    if sorted(terms.classes) != sorted(policy.allowed_classes):
        raise Refused(Rule.CLASSES, limit=len(policy.allowed_classes), requested=len(terms.classes))
    if terms.teachers > policy.most_teachers:
        raise Refused(Rule.MOST_TEACHERS, limit=policy.most_teachers, requested=terms.teachers)
    if _less_secret(terms.collection, policy.collection):
        detail = f"{terms.collection} votes asked, the policy asks for {policy.collection}"
        raise Refused(Rule.VOTES, detail=detail)
    pool_of(terms)


def check_shards(policy: Policy, smallest_shard: int) -> None:
    """Raise Refused if a shard would be too small. The number of rows itself is not told."""
    if smallest_shard < policy.least_rows_per_teacher:
        raise Refused(Rule.LEAST_ROWS, limit=policy.least_rows_per_teacher)


SETTINGS = "party.toml"
STORE = "party.db"


@dataclass(frozen=True)
class PartySettings:
    """What a party is, apart from its rows and what it remembers. identity, roster: of hidden votes; None where it has
    none. noise_seed: of simulations. pinned: terms of the one federation that it takes part in; None for any."""

    name: str
    policy: Policy
    rules: DataRules = field(default_factory=DataRules)
    teacher: TeacherKind | None = None
    identity: Identity | None = None
    roster: SumRoster | None = None
    noise_seed: int | None = None
    pinned: Terms | None = None


@dataclass(frozen=True)
class Home:
    """A party's folder and its `party.toml`. All methods raise ConfigError for a file that cannot be used."""

    folder: Path
    file: PartyFile

    @property
    def name(self) -> str:
        """The party's."""
        return self.file.name

    @property
    def policy(self) -> Policy:
        """What the party enforces. Raises NotAccepted while its people have said nothing."""
        if self.file.policy is None:
            raise not_accepted(self.folder, "party")
        return self.file.policy

    @property
    def teacher(self) -> TeacherKind | None:
        """What is trained here, instead of the kind that the coordinator asks for."""
        return None if self.file.teacher is None else self.file.teacher.at(self.folder)

    @property
    def data_file(self) -> Path:
        """Where its rows are."""
        return self.folder / self.file.data

    def pinned_terms(self) -> Terms | None:
        """Terms of the one federation that this party takes part in; None where it pins none."""
        return read_terms(self.folder / self.file.terms) if self.file.terms else None

    def identity(self) -> Identity:
        """The party's signing key."""
        return Identity.load(self.folder / self.file.identity)

    def roster_for(self, collection: CollectionMode) -> SumRoster | None:
        """The party's own copy of the roster for votes that are collected so; None for plaintext votes."""
        return load_roster(collection, self.folder / self.file.roster)

    def inheritance(self) -> Inheritance:
        """What the party's patients cost under names before its own, by its kit."""
        path = self.folder / ACCOUNT_FILE
        return load(path, Inheritance) if path.exists() else Inheritance()

    @property
    def state(self) -> Path:
        """Folder for what the party remembers; made on first use, readable by the owner only."""
        path = self.folder / "state"
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def settings(self) -> PartySettings:
        """For a `PartyNode`."""
        pinned, file = self.pinned_terms(), self.file
        return PartySettings(
            name=file.name,
            policy=self.policy,
            rules=file.rules,
            teacher=self.teacher,
            identity=self.identity() if (self.folder / file.identity).exists() else None,
            roster=self._own_roster() if pinned is None else self.roster_for(pinned.collection),
            noise_seed=file.simulated_noise_seed,
            pinned=pinned,
        )

    def _own_roster(self) -> SumRoster | None:
        """Of whatever votes, where no terms say of which."""
        path = self.folder / self.file.roster
        return load_roster(read_table(path).get("collection", ""), path) if path.exists() else None

    def rows(self) -> FileRows:
        """The party's rows."""
        return FileRows(self.data_file, self.file.rules)

    def store(self) -> Store:
        """What the party remembers, to write to: made where it is missing. Raises as `Store`, too."""
        return self._with_past(Store(self.state / STORE))

    def remembered(self) -> Store:
        """The same to read only: no file is made where there is none. Raises ConfigError where it cannot be read."""
        path = self.folder / "state" / STORE

        def opened() -> Store:
            return self._with_past(Store(path) if path.exists() else Store.in_memory())

        return refused_is_wrong(opened, "state", "Restore the newest backup of state/")

    def _with_past(self, store: Store) -> Store:
        store.inherit(self.inheritance())
        return store


def read_party(folder: Path) -> PartyFile:
    """Settings and policy. Raises ConfigError as `open_home`."""
    return read_with_policy(folder / SETTINGS, PartyFile, Policy, LIMITS)


def open_home(folder: Path) -> Home:
    """Read `party.toml`, and in a kit `policy.toml`.

    Raises
    ------
    ConfigError : the folder or file is missing, or says something it may not say.
    """
    return Home(folder, read_party(folder))
