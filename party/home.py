"""A party's folder as it is opened: its `party.toml`, the federation that it joined, what it allows and remembers."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import Field, model_validator

from consilium.accounting.events import ReleaseEvent
from consilium.accounting.units import Unit
from consilium.data.files import CsvRule
from consilium.data.mapping import ColumnName, Columns, DataRules, LabelRule, MissingRule, PatientRule
from consilium.data.private_rows import FileRows
from consilium.models.keys import OwnTeacher, TeacherKind, TeacherSpec
from consilium.node.folder import FEDERATION_FILE, NodeFolder, open_folder
from consilium.node.home import Home, read_lines, refused_is_wrong, shown
from consilium.node.limits import epsilon
from consilium.node.signed import ASK, ConfigPart, FederationFile, joined
from consilium.party.policy import Policy, check_promised_unit, check_terms, promise_of
from consilium.party.store import Store
from consilium.protocol.config_files import load
from consilium.protocol.databases import LOOK_SECONDS
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity
from consilium.protocol.messages import MOST_TEACHERS, Terms
from consilium.protocol.models import Frozen
from consilium.protocol.queries import reference_of
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.voting_rule import TopRule, VotingRuleSpec
from consilium.report.warnings import Expected, warnings_of
from consilium.sums.modes import MODES
from consilium.sums.roster import SumRoster

T = TypeVar("T")
SETTINGS, STORE = "party.toml", "party.db"


class PartyFile(Frozen):
    """The file `party.toml`. data: the file of its rows: a table with a heading (.csv, .parquet), or .npz.

    teacher: what is trained here, instead of the kind that the coordinator asks for; also an estimator that others
    wrote. lacks: columns of the federation that are mapped to nothing: missing in every row."""

    data: str = Field(min_length=1)
    columns: Columns = Field(default_factory=dict)
    label: LabelRule = LabelRule()
    missing: MissingRule = MissingRule()
    csv: CsvRule = CsvRule()
    patient: PatientRule = PatientRule()
    lacks: tuple[ColumnName, ...] = ()
    teacher: OwnTeacher | None = None

    @property
    def rules(self) -> DataRules:
        """How the data file is read: the tables `[columns]`, `[label]`, `[missing]`, `[csv]` and `[patient]`, `lacks`,
        and what the teacher does with missing values."""
        read = {key: getattr(self, key) for key in ("columns", "label", "missing", "csv", "patient", "lacks")}
        keep_missing = self.teacher is not None and self.teacher.keeps_missing
        return DataRules(**read, allow_one_class=self.label.allow_one_class, keep_missing=keep_missing)


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

    def check_terms(self, terms: Terms) -> None:
        """Check that the party can serve under these terms: its policy, rows and, for hidden votes, its own copy of the
        roster. Raises Refused: the policy or the rows do not allow it; another roster, too few honest parties in a sum,
        or a promise of noise in more shares than there are sure to be. RosterMismatch: the party is not in its roster.
        ConfigError: it has none."""
        check_terms(self.policy, terms)
        check_promised_unit(terms, self.rules)
        if terms.collection not in MODES:
            return
        roster = own(self.roster, MODES[terms.collection].roster, "roster")
        if roster.digest != terms.roster:
            detail = f"the coordinator has {terms.roster[:12]}, this party {roster.digest[:12]}"
            raise Refused(Rule.ROSTER_MISMATCH, detail=detail)
        if roster.sure < self.policy.least_parties:
            raise Refused(Rule.LEAST_PARTIES, limit=self.policy.least_parties, requested=roster.sure)
        noise = promise_of(terms).noise(1)
        if noise is not None and noise.shares > roster.sure:
            detail = "noise in more shares than are sure to be"
            raise Refused(Rule.PROMISE, limit=roster.sure, requested=noise.shares, detail=detail)
        roster.place(self.name)


def own(value: object, kind: type[T], name: str) -> T:
    """What a party has of this kind. Raises ConfigError where it has none."""
    if not isinstance(value, kind):
        raise ConfigError(
            f"this party has no {name} for such votes",
            "Join the folder that the operator sent again, or ask the operator",
        )
    return value


class PartyConfig(ConfigPart):
    """What a party reads of the coordinator's configuration: what is trained, on what."""

    teachers_per_party: int = Field(default=1, ge=1, le=MOST_TEACHERS)
    teacher: TeacherSpec
    voting_rule: VotingRuleSpec = TopRule()
    reference: str = ""
    seed: int = -1

    @model_validator(mode="after")
    def _reference_is_rows(self) -> PartyConfig:
        self.reference_rows()
        return self

    def reference_rows(self) -> np.ndarray:
        """By which teachers vote, float32 (rows, features); none where the voting rule needs none."""
        return reference_of(self.reference, len(self.rows.features))


class PartyFederation(FederationFile):
    """The file `federation.json` as a party reads it."""

    config: PartyConfig


@dataclass(frozen=True)
class PartyHome(Home):
    """A party's folder. file: its party.toml. All methods raise ConfigError for a file that cannot be used."""

    federation: PartyFederation
    file: PartyFile

    model = Policy

    @property
    def release(self) -> ReleaseEvent:
        return promise_of(self.terms).release

    @property
    def teacher(self) -> TeacherKind | None:
        """What is trained here, instead of the kind that the coordinator asks for."""
        return None if self.file.teacher is None else self.file.teacher.at(self.folder.path)

    @property
    def data_file(self) -> Path:
        return self.folder / self.file.data

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in self.federation.config.rows.columns_read if name not in self.file.lacks)

    def further_asked(self) -> dict[str, Any]:
        return {
            "collection": self.terms.collection,
            "most_teachers": self.terms.teachers,
            "allowed_classes": list(self.terms.classes),
            "allowed_columns": list(self.columns),
        }

    def past(self) -> tuple[tuple[str, ...], int]:
        with closing(self.remembered()) as store:
            return store.past(self.terms.federation)

    def facts(self) -> dict[str, str]:
        before, left = (", ".join(names) for names in (self.federation.names_before(self.name), self.federation.former))
        columns = self.federation.config.rows.columns
        may_miss = [each.column for each in columns if each.missing and each.column in self.columns]
        words = (
            f"the operator says that no row here is of a patient of {left}. If one is, what it cost under that name is"
            " not counted: have the operator add this party with --succeeds"
        )
        return {
            **({"names before": before} if before else {}),
            **({"left": words} if left else {}),
            "columns read": ", ".join(self.columns),
            "missing values": f"of {shown(may_miss)}: that a value is missing is read too"
            if may_miss
            else "not asked about in any column",
        }

    def warnings(self) -> list[dict[str, str]]:
        """What its people should know of the guarantee before it runs; how many others vote, terms do not say."""
        policy = self.presumed
        return warnings_of(Expected(epsilon((self.terms.promise,), policy), policy.delta, policy.unit.value, votes=0))

    def settings(self) -> PartySettings:
        """For a `PartyNode`. Raises NotAccepted: its people have not allowed all that is asked."""
        policy, rules = self.policy, self.file.rules
        if policy.unit is Unit.PATIENT and not rules.patient.known:
            raise ConfigError(
                f"{self.folder.policy_file}: unit is patient, and {SETTINGS} does not say which rows are of one",
                "Name the column under [patient] there, or set rows_are_patients",
            )
        return PartySettings(
            name=self.name,
            policy=policy,
            rules=rules,
            teacher=self.teacher,
            identity=self.identity(),
            roster=self.federation.sum_roster(),
            pinned=self.terms,
        )

    def rows(self) -> FileRows:
        return FileRows(self.data_file, self.file.rules)

    def store(self, wait: float | None = None) -> Store:
        """What the party remembers, to write to: made where it is missing. wait: see `Database`. Raises as `Store`."""
        return self._with_past(Store(self.folder.state / STORE, wait=wait))

    def remembered(self) -> Store:
        """The same for whoever looks: no file is made where there is none, and nobody waits long. Raises LedgerError
        where it cannot be used."""
        path = self.folder / "state" / STORE
        return self._with_past(Store(path, wait=LOOK_SECONDS) if path.exists() else Store.in_memory())

    def _with_past(self, store: Store) -> Store:
        store.inherit(self.federation.inherited(self.name))
        return store


def open_home(path: Path | NodeFolder) -> PartyHome:
    """A party's folder. Raises ConfigError: it is none, has joined nothing, or a file of it cannot be used."""
    folder = path if isinstance(path, NodeFolder) else open_folder(path, "party")
    federation, settings = joined(folder, PartyFederation), folder / SETTINGS
    refused_is_wrong(lambda: promise_of(federation.terms), FEDERATION_FILE, ASK)
    if not settings.exists():
        raise ConfigError(
            f"{settings} is not there: nobody has said where this party's rows are",
            "Run: consilium node join FOLDER --data FILE, a table with a heading (.csv, .parquet), or .npz",
        )
    return PartyHome(folder, federation, read_lines(folder, Policy), load(settings, PartyFile))
