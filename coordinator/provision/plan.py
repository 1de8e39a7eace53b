"""federation.toml: what the operator decides.

Everything in the kits follows from it and from fresh keys. The pool is fixed before the first kit is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, ValidationError, model_validator

from consilium.coordinator.config import Federation, FederationConfig
from consilium.coordinator.provision.public import array_rows, table_rows, table_schema
from consilium.data.distances import thin
from consilium.data.encoding import DeclaredColumns
from consilium.data.files import CsvRule
from consilium.node.acceptance import LIMITS as COMMON
from consilium.node.kit import THE_COORDINATOR, Coordinator, Port, joined
from consilium.protocol.config_files import faults_of, read_table, validate
from consilium.protocol.errors import ConfigError
from consilium.protocol.images import Representation
from consilium.protocol.messages import PartyName
from consilium.protocol.models import Frozen
from consilium.protocol.pool import PoolTerms, PoolTree
from consilium.protocol.queries import canonical_queries, draw_reference
from consilium.protocol.schema import Name, Range, Schema
from consilium.sums.modes import WITH_SECOND

LIMITS = frozenset({"policy", "limits", *COMMON})
"""What no operator's file says."""
SHIPPED = "consilium.simulations.scenarios"
"""Where scenarios lie that come with the package: a folder of files, nothing of which is imported."""


class RowsPlan(Frozen):
    """What a row means. Either `features`, `center` and `scale`, or a file of public rows that gives them.

    A file is .csv or .parquet with a name for each column, or .npz with `features` and `queries` (what a student may
    ask) or `x`. Where columns of a table are text, or miss values, parties and students bring raw columns too.
    Where `federation` names a scenario, `classes`, `representation` and `standardise` are the scenario's unless they
    are given here.
    """

    classes: tuple[Name, ...] = Field(min_length=2, description="what is voted on; the scenario's where one is named")
    public: str = Field(default="", description="file of public rows, relative to federation.toml")
    queries: str = Field(
        default="", description="file of all rows that may ever be asked; left out: `public`, where votes are secure"
    )
    features: tuple[Name, ...] = Field(default=(), description="names; of a file, which columns and in which order")
    columns: DeclaredColumns = Field(
        default_factory=dict,
        description='kind ("number" or "category"), `values` and `missing` of some columns; of others as the public'
        " rows have it",
    )
    missing_codes: tuple[str, ...] = Field(default=(), description='texts of public rows that mean "missing"')
    csv: CsvRule = Field(default=CsvRule(), description="how public rows are written, as `[csv]` of a party")
    center: tuple[float, ...] = Field(default=(), description="mean of each feature, where there is no file")
    scale: tuple[float, ...] = Field(default=(), description="spread of each feature, where there is no file")
    ranges: tuple[Range, ...] = Field(
        default=(),
        description="lowest and highest value of some features: parties find wrong units and codes with them",
    )
    representation: Representation = Field(default="none", description="what models are given of images")
    standardise: bool = Field(default=True, description="by `center` and `scale`; false: rows as they are, for images")

    @model_validator(mode="after")
    def _one_source(self) -> RowsPlan:
        inline = bool(self.center or self.scale)
        if self.as_they_are:
            if inline or not (self.public or self.features):
                raise ValueError("rows that are not standardised need public or features, and no center or scale")
        elif self.columns and not self.is_table:
            raise ValueError("columns are of a table: name a .csv or .parquet as public")
        elif bool(self.public) == inline:
            raise ValueError("give either public, a file of public rows, or features with center and scale")
        return self

    @property
    def as_they_are(self) -> bool:
        """Whether models see the rows without centre and scale."""
        return self.representation != "none" or not self.standardise

    @property
    def is_table(self) -> bool:
        """Whether the public rows are a table, and no arrays."""
        return bool(self.public) and Path(self.public).suffix.lower() != ".npz"

    def schema(self, folder: Path) -> Schema:
        """The federation's schema.

        Raises
        ------
        ConfigError, DataError : the statistics or the file are not usable. pydantic's ValidationError : wrong numbers.
        """
        if self.as_they_are and not self.public:
            return self._with_ranges(Schema.of_images(self.features, self.classes, self.representation))
        if not self.public:
            return Schema(
                features=self.features, classes=self.classes, center=self.center, scale=self.scale, ranges=self.ranges
            )
        if self.is_table:
            path = folder / self.public
            inferred = table_schema(path, self.features, self.classes, self.columns, self.csv, self.missing_codes)
            if self.as_they_are and inferred.columns:
                action = "Set standardise = true, or give numbers without missing values"
                raise ConfigError(f"rows.public: {path} has columns that are no numbers", action)
            if self.as_they_are:
                inferred = Schema.of_images(inferred.features, self.classes, self.representation)
            return self._with_ranges(inferred)
        names, rows = array_rows(folder / self.public)
        chosen = self.features or names
        missing = sorted(set(chosen) - set(names))
        if missing:
            raise ConfigError(f"rows.features: {self.public} has no column {missing[0]!r}", f"It has {list(names)}")
        if self.as_they_are:
            return self._with_ranges(Schema.of_images(chosen, self.classes, self.representation))
        return self._with_ranges(
            Schema.from_public_rows(chosen, self.classes, rows[:, [names.index(name) for name in chosen]])
        )

    def public_rows(self, path: Path, schema: Schema) -> tuple[np.ndarray, tuple[str, ...]]:
        """Rows of a file of public rows, float (n, features) in the schema's order, and what is odd about them.

        Raises
        ------
        ConfigError : it lacks a feature. DataError, PathError : it is of no use.
        """
        if path.suffix.lower() != ".npz":
            table = table_rows(path, schema, self.csv, self.missing_codes)
            return table.x, table.remarks
        names, rows = array_rows(path, "rows.queries" if self.queries else "rows.public")
        missing = sorted(set(schema.features) - set(names))
        if missing:
            raise ConfigError(f"rows.queries: {path.name} has no column {missing[0]!r}", f"It has {list(names)}")
        return rows[:, [names.index(feature) for feature in schema.features]], ()

    def _with_ranges(self, schema: Schema) -> Schema:
        far = {column.column for column in schema.columns if column.offset} & {named.feature for named in self.ranges}
        if far:
            what = f"rows.ranges names {min(far)!r}, whose numbers are far from 0 and close together"
            raise ConfigError(what, "Count them from a nearer point (days since an event), or leave its range out")
        return Schema(**{**schema.model_dump(), "ranges": self.ranges})


class PartyPlan(Frozen):
    """One party."""

    name: PartyName = Field(description="in roster, logs and kits")
    keys: str = Field(
        default="",
        description="the NAME.enrol.json of a party that made its own keys, relative to federation.toml; left out: they"
        " are made here",
    )
    port: Port = Field(
        default=9094, description="loopback port of its SuperNode; parties on one machine need different ones"
    )


class CoordinatorPlan(Coordinator):
    """The coordinator."""

    keys: str = Field(
        default="",
        description="the coordinator.enrol.json of a coordinator that made its own keys, relative to federation.toml;"
        " left out: they are made here",
    )

    @property
    def place(self) -> Coordinator:
        """What every kit says of it."""
        return Coordinator(**self.model_dump(exclude={"keys"}))


class AggregatorPlan(Frozen):
    """The second aggregator, which verified votes need and nothing else may have."""

    name: PartyName = Field(description="in logs and kits; no party or student has it")
    keys: str = Field(
        default="",
        description="the NAME.enrol.json of an aggregator that made its own keys, relative to federation.toml; left"
        " out: they are made here, and whoever made both aggregators' keys could open every vote",
    )
    port: Port = Field(default=9094, description="loopback port of its SuperNode")


class StudentPlan(Frozen):
    """One student."""

    name: PartyName = Field(description="in the coordinator's list and kits")


class Plan(Frozen):
    """The file `federation.toml`: the same `[federation]` as a scenario's, and who takes part, where.

    federation: the table itself or, in the file, a scenario whose table is meant: its path, relative to the file, or
        the name of one that comes with the package.
    """

    federation: Federation
    rows: RowsPlan
    coordinator: CoordinatorPlan
    party: tuple[PartyPlan, ...] = Field(min_length=2)
    student: tuple[StudentPlan, ...] = Field(min_length=1)
    aggregator: AggregatorPlan | None = None

    @model_validator(mode="after")
    def _second_aggregator_where_there_is_one(self) -> Plan:
        votes, needed = self.federation.collection, self.federation.collection in WITH_SECOND
        if needed and self.aggregator is None:
            raise ValueError(
                f'federation.collection = "{votes}" needs a second aggregator: add the table [aggregator] with its'
                " name, and with keys, the NAME.enrol.json that `consilium node keys --kind aggregator` made there"
            )
        if self.aggregator is not None and not needed:
            raise ValueError(
                f"{votes} votes have no second aggregator: remove the table [aggregator], or set"
                f' federation.collection = "{WITH_SECOND[0]}"'
            )
        if self.aggregator is not None and self.aggregator.name in {node.name for node in (*self.party, *self.student)}:
            raise ValueError(f"the aggregator has the name of another node, {self.aggregator.name}: choose another")
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Plan:
        every = [*self.party, *self.student, *([] if self.aggregator is None else [self.aggregator])]
        if any(node.name == THE_COORDINATOR for node in every):
            raise ValueError(f"{THE_COORDINATOR!r} is the coordinator's name, and no other node's")
        for what, names in (("parties", self.party), ("students", self.student)):
            seen = [node.name for node in names]
            if len(set(seen)) < len(seen):
                raise ValueError(f"two {what} have one name")
        if self.federation.minimum_parties > len(self.party):
            raise ValueError(
                f"federation.minimum_parties {self.federation.minimum_parties} is above the {len(self.party)} parties"
            )
        return self

    def config(
        self, schema: Schema, roster: str, pool: PoolTerms | None, reference: str, shares: int = 0
    ) -> FederationConfig:
        """The coordinator's configuration. roster: its hash, empty for plaintext votes. reference: text of the
        reference rows. shares: `FederationConfig.noise_shares`. Raises ConfigError."""
        service = joined(self.coordinator.listen, self.coordinator.label_port)
        added = {"rows": schema, "roster": roster, "public": pool, "reference": reference, "service": service}
        added["noise_shares"] = shares
        return validate({**dict(self.federation), **added}, FederationConfig, "federation.toml")


def read_plan(path: Path) -> tuple[Plan, Schema]:
    """The plan and the schema that it leads to.

    Raises
    ------
    ConfigError, DataError
    """
    return validated(plan_table(path), path)


def plan_table(path: Path) -> dict[str, Any]:
    """What the file says, with what it takes from a scenario, not validated. Raises ConfigError."""
    table = read_table(path)
    _check_limits(table, path)
    return _with_scenario(table, path)


def _check_limits(table: dict[str, Any], path: Path) -> None:
    """Raise ConfigError where the operator states what a party or the second aggregator allows."""
    nodes = [table, *(table[key] for key in ("aggregator",) if key in table), *_tables(table.get("party"))]
    for node in nodes:
        stated = sorted(LIMITS.intersection(node)) if isinstance(node, dict) else []
        if stated:
            raise ConfigError(
                f"{path}: {stated[0]} is a limit, and those are for each party and second aggregator to say",
                "Remove it: they see what this federation asks, and allow it: consilium node accept",
            )


def _tables(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def validated(table: dict[str, Any], path: Path) -> tuple[Plan, Schema]:
    """The plan that a table of the file at `path` is, and its schema. Raises ConfigError, DataError."""
    plan = validate(table, Plan, str(path))
    try:
        return plan, plan.rows.schema(path.parent)
    except ValidationError as error:
        faults = "; ".join(faults_of(error, Schema, {}))
        action = "Give one center and one positive scale for each feature"
        raise ConfigError(f"{path}: rows: {faults}", action) from None


def _with_scenario(table: dict[str, Any], path: Path) -> dict[str, Any]:
    """The table with what it takes from the scenario that `federation` names, if it names one."""
    named = table.get("federation")
    if not isinstance(named, str):
        return table
    shipped = Path(str(files(SHIPPED))) / f"{named}.toml"
    source = shipped if shipped.is_file() and Path(named).name == named else path.parent / named
    scenario = read_table(source)
    if not isinstance(scenario.get("federation"), dict):
        raise ConfigError(f"{path}: federation: {source} has no table [federation]", "Name a scenario")
    data, rows = scenario.get("data"), table.get("rows")
    if isinstance(data, dict) and isinstance(rows, dict):
        shared = {key: data[key] for key in ("classes", "representation", "standardise") if key in data}
        table = {**table, "rows": {**shared, **rows}}
    return {**table, "federation": scenario["federation"]}


POOL_IDS, POOL_ROWS = "public.npy", "public.npz"


@dataclass(frozen=True)
class FixedPool:
    """The rows that may be asked, canonical float32 (rows, features), and what is pinned of them.

    note: for the operator, how many rows were left out, and what is odd about them, or nothing.
    """

    features: tuple[str, ...]
    rows: np.ndarray = field(repr=False)
    terms: PoolTerms
    note: str

    def save(self, folder: Path) -> None:
        """`public.npy` with the ids, for the coordinator, and `public.npz` with the rows, for students."""
        PoolTree.of_rows(self.rows).save(folder / POOL_IDS)
        np.savez(folder / POOL_ROWS, features=np.array(self.features), queries=self.rows)


def read_pool(plan_file: Path, plan: Plan, schema: Schema) -> FixedPool | None:
    """The pool that the plan names; None where the federation has none.

    Raises
    ------
    ConfigError : the file lacks features. DataError : it is not usable.
    """
    name, least = plan.rows.queries, plan.federation.public_least_distance
    if not name:
        return None
    chosen, oddities = _rows(plan_file, plan, name, schema)
    stay = thin(schema.standardise(chosen).astype(np.float32).astype(np.float64), least * (1 + 1e-5))
    chosen_rows, gone = chosen[stay], len(chosen) - len(stay)
    left_out = (
        f"{gone} of {len(chosen)} public rows are left out: each is closer than"
        f" {least:g} to another (students ask rows of public.npz in their kit)"
        if gone
        else ""
    )
    note = "; ".join([*filter(None, [left_out]), *(f"{name}: {remark}" for remark in oddities)])
    return FixedPool(schema.features, chosen_rows, PoolTree.of_rows(chosen_rows).terms(least), note)


def remarks(plan_file: Path, plan: Plan, schema: Schema) -> str:
    """What is odd about a table of public rows of which no pool is fixed, or nothing. Raises DataError."""
    if not plan.rows.is_table:
        return ""
    return "; ".join(_rows(plan_file, plan, plan.rows.public, schema)[1])


def read_reference(plan_file: Path, plan: Plan, schema: Schema, pool: FixedPool | None) -> np.ndarray:
    """The reference rows of the plan's voting rule, canonical float32 (rows, features): of the pool, or where none is
    fixed of the file that it names, or of the public rows. None for a voting rule that needs none.

    Raises
    ------
    ConfigError : there is no such file, it lacks features, or has too few rows. DataError : not usable.
    """
    voting_rule = plan.federation.voting_rule
    if not voting_rule.relative:
        return np.zeros((0, len(schema.features)), dtype=np.float32)
    name = plan.rows.queries or plan.rows.public
    if pool is None and not name:
        raise ConfigError(
            'federation.voting_rule rule = "relative" needs public rows, on which teachers find out where their'
            " scores lie",
            'Name the public rows that may be asked: rows.queries = "rows.csv", or rows.public; or set rule = "top"',
        )
    return draw_reference(
        pool.rows if pool else _rows(plan_file, plan, name, schema)[0], schema, voting_rule.reference_rows
    )


def _rows(plan_file: Path, plan: Plan, name: str, schema: Schema) -> tuple[np.ndarray, tuple[str, ...]]:
    """Rows of the file that the plan names so, canonical, in the schema's order, and what is odd about them."""
    rows, oddities = plan.rows.public_rows(plan_file.parent / name, schema)
    return canonical_queries(rows, len(schema.features)), oddities
