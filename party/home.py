"""A party's home: the folder with its settings, its data and its state.

party.toml          name, data file; policy, but in a kit
policy.toml         in a kit: what the party allows, written by `consilium node accept` (node.acceptance)
data.npz            or .csv, .parquet: rows float (n, features), labels int (n,), features and classes as text
identity.pem        signing key, and
roster.json         the parties and their keys, for all but plaintext votes; with both aggregators for verified ones
terms.json          in a kit: the terms of the one federation that the party takes part in
state/spend.db      queries answered so far
state/answers.json  in a kit: what it was asked last, and what it said
state/shards.key    secret that decides which row is in which shard, mode 0600
state/sessions.db   secure sums this party took part in
state/uploads.db    verified votes that this party gave
state/teachers-<id>/ teachers of one federation"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import Field, ValidationError, model_validator

from consilium.accounting.units import Unit
from consilium.data.files import CsvRule
from consilium.data.mapping import ColumnName, Columns, DataRules, LabelRule, MissingRule, PatientRule
from consilium.models.keys import OwnTeacher, TeacherKind
from consilium.node.acceptance import COLUMNS, Limit, fewer, more, not_accepted, others, read_terms, read_with_policy
from consilium.node.acceptance import LIMITS as COMMON
from consilium.node.answering import pool_of
from consilium.node.limits import NodeFile, NodePolicy
from consilium.protocol.config_files import load
from consilium.protocol.files import replacing
from consilium.protocol.identity import Identity
from consilium.protocol.inheritance import ACCOUNT_FILE, Inheritance
from consilium.protocol.messages import CollectionMode, Terms, WireModel
from consilium.protocol.models import Frozen
from consilium.protocol.refusals import Refusal, Refused, Rule
from consilium.sums.roster import SumRoster

R = TypeVar("R", bound=SumRoster)


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


ALLOWED_VOTES: Mapping[CollectionMode, frozenset[CollectionMode]] = {
    "plaintext": frozenset(get_args(CollectionMode)),
    "secure": frozenset({"secure"}),
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
    check_teachers(policy, terms.teachers)
    check_votes_mode(policy, terms.collection)
    pool_of(terms)


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


SETTINGS = "party.toml"


@dataclass(frozen=True)
class Home:
    """Paths and settings of one party.

    durable: what the party has given is on disk before anything leaves, so that a power cut loses nothing. Not so in a
    simulation, whose parties begin anew after one. own_policy: None while nothing was accepted.
    """

    folder: Path
    name: str
    data_file: Path
    own_policy: Policy | None
    identity_file: Path
    roster_file: Path
    simulated_noise_seed: int | None = None
    rules: DataRules = field(default_factory=DataRules)
    teacher: TeacherKind | None = None
    terms_file: Path | None = None
    durable: bool = True

    @property
    def policy(self) -> Policy:
        """What the party enforces. Raises NotAccepted while its people have said nothing."""
        if self.own_policy is None:
            raise not_accepted(self.folder, "party")
        return self.own_policy

    def pinned_terms(self) -> Terms | None:
        """Terms of the one federation that this party takes part in; None where it pins none. Raises ConfigError."""
        if self.terms_file is None:
            return None
        return read_terms(self.terms_file)

    def identity(self) -> Identity:
        """The party's signing key. Raises ConfigError as `Identity.load`."""
        return Identity.load(self.identity_file)

    def roster(self, kind: type[R]) -> R:
        """The party's own copy of the roster. Raises ConfigError for a file that is none of this kind."""
        return kind.load(self.roster_file)

    def inheritance(self) -> Inheritance:
        """What the party's patients cost under names before its own, by its kit. Raises ConfigError."""
        path = self.folder / ACCOUNT_FILE
        return load(path, Inheritance) if path.exists() else Inheritance()

    @property
    def state(self) -> Path:
        """Folder for what the party remembers; made on first use, readable by the owner only."""
        path = self.folder / "state"
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    @property
    def spend_file(self) -> Path:
        """Where the party keeps what it has given, see `party.spend`."""
        return self.state / "spend.db"

    def teachers(self, federation: str) -> Path:
        """Folder of the teachers for a federation with this digest; it need not be there yet."""
        return self.state / f"teachers-{federation[:12]}"


def read_party(folder: Path) -> PartyFile:
    """Settings and policy. Raises ConfigError as `open_home`."""
    return read_with_policy(folder / SETTINGS, PartyFile, Policy, LIMITS)


def open_home(folder: Path, durable: bool = True) -> Home:
    """Read `party.toml`, and in a kit `policy.toml`. durable: see `Home`.

    Raises
    ------
    ConfigError : the folder or file is missing, or says something it may not say.
    """
    settings = read_party(folder)
    teacher = None if settings.teacher is None else settings.teacher.at(folder)
    return Home(
        folder=folder,
        name=settings.name,
        data_file=folder / settings.data,
        own_policy=settings.policy,
        identity_file=folder / settings.identity,
        roster_file=folder / settings.roster,
        simulated_noise_seed=settings.simulated_noise_seed,
        rules=settings.rules,
        teacher=teacher,
        terms_file=folder / settings.terms if settings.terms else None,
        durable=durable,
    )


FILE = "answers.json"
HELLO, TRAIN = "query.hello", "train.teacher"
VOTES = ("query.vote", "query.sa_masked", "query.sa_unmask", "query.va_upload")
"""Requests with whose answer votes leave, in plaintext or as part of a sum."""


class LastAnswer(Frozen):
    """To one kind of request. moment: when. refused: the refusal in words, empty where there is none. federation: its
    digest, empty where the request does not say. late: it was told that the others serve already."""

    moment: str
    refused: str = ""
    federation: str = ""
    late: bool = False

    @property
    def rule(self) -> Rule | None:
        """Of the refusal, which the file has in words: its first one."""
        word = self.refused.removeprefix("refused: ").partition(",")[0]
        return Rule(word) if word in set(Rule) else None


class AnswersFile(Frozen):
    """The last answer to each kind of request."""

    answers: Mapping[str, LastAnswer] = Field(default_factory=dict)


SAYS = ("federation", "late")
"""Of a request, what is written down."""


def note_answer(home: Home, kind: str, request: WireModel | None, refusal: Refusal | None) -> None:
    """Write an answer down. Whatever goes wrong, the answer itself must not suffer."""
    if home.terms_file is None:
        return
    refused = "" if refusal is None else f"refused: {refusal}"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    facts = {name: getattr(request, name) for name in SAYS if hasattr(request, name)}
    with contextlib.suppress(OSError):
        answers = {**last_answers(home.folder), kind: LastAnswer(moment=now, refused=refused, **facts)}
        with replacing(home.state / FILE, mode=0o600, durable=False) as file:
            file.write(AnswersFile(answers=answers).model_dump_json().encode())


def last_answers(folder: Path) -> dict[str, LastAnswer]:
    """By kind of request; empty where nothing was asked, or the file is damaged."""
    try:
        return dict(AnswersFile.model_validate(json.loads((folder / "state" / FILE).read_text())).answers)
    except (OSError, ValueError, ValidationError):
        return {}
