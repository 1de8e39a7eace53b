"""federation.toml: what the operator decides. Everything in the kits follows from it and from fresh keys."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path

import numpy as np
from pydantic import Field, model_validator

from consilium.coordinator.config import Caps, FederationConfig, Privacy, Timeouts
from consilium.coordinator.mechanisms import AnyMechanism
from consilium.protocol.config_files import Frozen, load, validate
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.node.kit import Coordinator, Port, joined
from consilium.protocol.parties.messages import MOST_TEACHERS, PartyName, TeacherSpec, VotesMode
from consilium.protocol.rows.pool import PoolTerms
from consilium.protocol.rows.schema import Name, Range, Schema


class RowsPlan(Frozen):
    """What a row means. Either `features`, `center` and `scale`, or a file of public rows that gives them.

    public: .csv with one column for each feature and its name in the first line, or .npz with `features` and `queries`
        (the student's pool) or `x`; relative to federation.toml. Of a file, `features` may choose and order columns.
    ranges: optional, of some features: parties find wrong units and codes with them.
    """

    classes: tuple[Name, ...] = Field(min_length=2)
    public: str = ""
    features: tuple[Name, ...] = ()
    center: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    ranges: tuple[Range, ...] = ()

    @model_validator(mode="after")
    def _one_source(self) -> RowsPlan:
        inline = bool(self.center or self.scale)
        if bool(self.public) == inline:
            raise ValueError("give either public, a file of public rows, or features with center and scale")
        return self

    def schema(self, folder: Path) -> Schema:
        """The federation's schema.

        Raises
        ------
        ConfigError, DataError : the statistics or the file are not usable.
        """
        if not self.public:
            return Schema(**self.model_dump(exclude={"public"}))
        names, rows = read_public(folder / self.public)
        chosen = self.features or names
        missing = sorted(set(chosen) - set(names))
        if missing:
            raise ConfigError(f"rows.features: {self.public} has no column {missing[0]!r}", f"It has {list(names)}")
        found = Schema.from_public_rows(chosen, self.classes, rows[:, [names.index(name) for name in chosen]])
        return Schema(**{**found.model_dump(), "ranges": self.ranges})


class PoolPlan(Frozen):
    """All rows that may ever be asked, which parties insist on for secure votes.

    file: as `rows.public`, and that file where it is left out. least_distance: Euclidean distance of standardised rows;
    of two different rows that are closer, one is left out.
    """

    file: str = ""
    least_distance: float = Field(default=0.05, ge=0, le=1e6)


class PartyPlan(Frozen):
    """One party. port: loopback port of its SuperNode; parties on one machine need different ones.

    keys: the NAME.enrol.json of a party that made its own keys, relative to federation.toml; empty: made here.
    """

    name: PartyName
    keys: str = ""
    port: Port = 9094


class StudentPlan(Frozen):
    """One student."""

    name: PartyName


class Plan(Frozen):
    """The file `federation.toml`. Keys that are not explained here are those of `coordinator.config.FederationConfig`.

    pool: see `PoolPlan`; for secure votes it is made from `rows.public` where it is left out.
    colluders, least_survivors, least_difference: of the roster (`protocol.secagg.roster`), for secure and distributed
        votes.
    """

    name: str = Field(min_length=1, max_length=100)
    rows: RowsPlan
    teachers_per_party: int = Field(default=1, ge=1, le=MOST_TEACHERS)
    teacher: TeacherSpec = TeacherSpec()
    minimum_parties: int = Field(ge=2)
    votes: VotesMode = "secure"
    pool: PoolPlan | None = None
    colluders: int = Field(default=0, ge=0)
    least_survivors: int | None = Field(default=None, ge=2)
    least_difference: int | None = Field(default=None, ge=2)
    spare: int = Field(default=0, ge=0)
    mechanism: AnyMechanism
    privacy: Privacy
    caps: Caps
    timeouts: Timeouts = Timeouts()
    coordinator: Coordinator
    parties: tuple[PartyPlan, ...] = Field(min_length=2)
    students: tuple[StudentPlan, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> Plan:
        for what, names in (("parties", self.parties), ("students", self.students)):
            seen = [node.name for node in names]
            if len(set(seen)) < len(seen):
                raise ValueError(f"two {what} have one name")
        if self.minimum_parties > len(self.parties):
            raise ValueError(f"minimum_parties {self.minimum_parties} is above the {len(self.parties)} parties")
        return self

    def federation(self, schema: Schema, roster: str, pool: PoolTerms | None) -> FederationConfig:
        """The coordinator's configuration. roster: its hash, empty for clear votes. Raises ConfigError."""
        of_others = {"rows", "pool", "colluders", "least_survivors", "least_difference"}
        chosen = self.model_dump(exclude=of_others | {"coordinator", "parties", "students"})
        service = joined(self.coordinator.listen, self.coordinator.label_port)
        return validate(
            {
                **chosen,
                "rows": schema.model_dump(),
                "roster": roster,
                "pool": pool.model_dump() if pool else None,
                "service": service,
            },
            FederationConfig,
            "federation.toml",
        )


def read_plan(path: Path) -> tuple[Plan, Schema]:
    """The plan and the schema that it leads to.

    Raises
    ------
    ConfigError, DataError
    """
    plan = load(path, Plan)
    try:
        return plan, plan.rows.schema(path.parent)
    except ValueError as error:
        text = str(error).splitlines()[-2:][0].strip()
        raise ConfigError(f"{path}: rows: {text}", "Give one center and one positive scale for each feature") from None


def read_public(path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """Column names and rows float64 (n, features) of a public file. Raises DataError."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                names = tuple(str(name) for name in file["features"])
                rows = file["queries" if "queries" in file.files else "x"].astype(np.float64)
        else:
            with open(path, encoding="utf-8-sig", newline="") as file:
                lines = list(csv.reader(file))
            names, rows = tuple(lines[0]), np.array(lines[1:], dtype=np.float64)
    except OSError as error:
        raise DataError(f"rows.public: {path}: {error.strerror}", "Correct the path in federation.toml") from None
    except (KeyError, IndexError, ValueError, EOFError, zipfile.BadZipFile):
        raise DataError(
            f"rows.public: {path} is no table of numbers", "Give .csv with a header, or .npz with features and queries"
        ) from None
    if rows.ndim != 2 or rows.shape[1] != len(names) or len(rows) < 2 or not np.isfinite(rows).all():
        raise DataError(
            f"rows.public: {path} has shape {rows.shape} for {len(names)} columns, or missing values",
            "Give at least two complete rows",
        )
    return names, rows
