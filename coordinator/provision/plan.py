"""federation.toml: what the operator decides. The public rows that may be asked are fixed before anything is sent."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, ValidationError, field_validator, model_validator

from consilium.coordinator.config import Federation
from consilium.data.encoding import DeclaredColumns, encode, infer
from consilium.data.files import CsvRule, open_table
from consilium.data.table import Reading, TableRule, read_raw, read_schema_rows
from consilium.node.folder import PUBLIC_FILE
from consilium.node.keys import PublicKeys, read_enrolment
from consilium.node.signed import Coordinator
from consilium.protocol.config_files import faults_of, read_table, validate
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.files import unreadable
from consilium.protocol.images import Representation
from consilium.protocol.models import Frozen
from consilium.protocol.pool import PoolTree, thin
from consilium.protocol.queries import canonical_queries, draw_reference, reference_text
from consilium.protocol.schema import ColumnEncoding, Name, Range, Schema

LONGEST = timedelta(days=20 * 365)
"""From today to a federation's end."""
LEAST_ROWS = 2
SHIPPED = "consilium.simulations.scenarios"
"""Where scenarios lie that come with the package: a folder of files, nothing of which is imported."""


class RowsPlan(Frozen):
    """What a row means, as a file of public rows has it: .csv, .parquet, or .npz with `features` and `queries` (what a
    student may ask) or `x`. Images need none. Where `federation` names a scenario, `classes`, `representation` and
    `standardise` are the scenario's unless they are given here."""

    classes: tuple[Name, ...] = Field(min_length=2, description="what is voted on; the scenario's where one is named")
    public: str = Field(default="", description="file of public rows, relative to federation.toml")
    queries: str = Field(
        default="", description="file of all rows that may ever be asked; left out: any row may be asked"
    )
    features: tuple[Name, ...] = Field(default=(), description="names; of a file, which columns and in which order")
    columns: DeclaredColumns = Field(
        default_factory=dict,
        description='kind ("number" or "category"), `values` and `missing` of some columns; of others as the'
        " public rows have it",
    )
    missing_codes: tuple[str, ...] = Field(default=(), description='texts of public rows that mean "missing"')
    csv: CsvRule = Field(default=CsvRule(), description="how public rows are written, as `[csv]` of a party")
    ranges: tuple[Range, ...] = Field(
        default=(),
        description="lowest and highest value of some features: parties find wrong units and codes with them",
    )
    representation: Representation = Field(default="none", description="what models are given of images")
    standardise: bool = Field(default=True, description="by means and spreads of the public rows; false: as they are")

    @model_validator(mode="after")
    def _has_a_source(self) -> RowsPlan:
        if self.columns and not self.is_table:
            raise ValueError("columns are of a table: name a .csv or .parquet as public")
        if not self.public and not (self.as_they_are and self.features):
            raise ValueError("name a file of public rows as public; of images, features are enough")
        return self

    @property
    def as_they_are(self) -> bool:
        """Whether models see the rows without centre and scale."""
        return self.representation != "none" or not self.standardise

    @property
    def is_table(self) -> bool:
        return bool(self.public) and Path(self.public).suffix.lower() != ".npz"

    def schema(self, folder: Path) -> Schema:
        """The federation's. Raises ConfigError, DataError : the file is not usable. pydantic's ValidationError : wrong
        numbers."""
        path, features, raw, found = folder / self.public, self.features, self.as_they_are, None
        if self.is_table:
            found = self._table_schema(path)
            if raw and found.columns:
                action = "Set standardise = true, or give numbers without missing values"
                raise ConfigError(f"rows.public: {path} has columns that are no numbers", action)
            features = found.features
        elif self.public:
            features, rows = array_rows(path, "rows.public", features)
            found = Schema.from_public_rows(features, self.classes, rows)
        if raw or found is None:
            found = Schema.of_images(features, self.classes, self.representation)
        far = {column.column for column in found.columns if column.offset} & {named.feature for named in self.ranges}
        if far:
            what = f"rows.ranges names {min(far)!r}, whose numbers are far from 0 and close together"
            raise ConfigError(what, "Count them from a nearer point (days since an event), or leave its range out")
        return Schema(**{**found.model_dump(), "ranges": self.ranges})

    def _table_schema(self, path: Path) -> Schema:
        """Of a CSV or Parquet file: of numbers alone as they stand, else of raw columns (`rows.encoding`)."""
        import polars as pl

        try:
            names = open_table(path, self.csv).names
        except OSError as error:
            raise unreadable(path, error, "Correct rows.public in federation.toml") from None
        if absent := sorted(set(self.features) - set(names)):
            raise ConfigError(f"rows.features: {path.name} has no column {absent[0]!r}", f"It has {list(names)}")
        table = read_raw([path], TableRule(csv=self.csv, only=self.features, missing=self.missing_codes))
        if table.frame.height < LEAST_ROWS:
            raise DataError(f"rows.public: {path} has {table.frame.height} rows", f"Give at least {LEAST_ROWS}")
        try:
            columns = infer(table.frame, self.columns, table.lines)
        except DataError as error:
            raise DataError(f"rows.public: {error.what}", f"{error.action} (rows.columns, rows.features)") from None
        for column in columns:
            if len(column.values) > 1 and set(column.values) <= set(self.classes):
                raise ConfigError(
                    f"rows.public: column {column.column!r} of {path} has the classes as its values: it is the label",
                    "Name the columns that are features in rows.features",
                )
        if not self.columns and all(each == ColumnEncoding(column=each.column, kind="number") for each in columns):
            rows = table.frame.cast(pl.Float64).to_numpy()
            return Schema.from_public_rows(tuple(table.frame.columns), self.classes, rows)
        return Schema.of_table(columns, self.classes, encode(table.frame, columns)[0])

    def public_rows(self, path: Path, schema: Schema) -> tuple[np.ndarray, tuple[str, ...]]:
        """Rows of a file of public rows, float (n, features) in the schema's order, and what is odd about them. Raises
        ConfigError : it lacks a feature. DataError, PathError : it is of no use."""
        if path.suffix.lower() != ".npz":
            reading = Reading(self.csv, public=True, missing=self.missing_codes)
            table = read_schema_rows(path, schema, reading)
            return table.x, table.remarks
        return array_rows(path, "rows.queries" if self.queries else "rows.public", schema.features)[1], ()


def array_rows(path: Path, key: str, chosen: tuple[str, ...]) -> tuple[tuple[str, ...], np.ndarray]:
    """Features, the chosen ones or all, and rows float64 (n, features) of an .npz that `key` of federation.toml names.
    Raises ConfigError: one is not there. DataError, PathError : it is of no use."""
    try:
        with np.load(path, allow_pickle=False) as file:
            names = tuple(str(name) for name in file["features"])
            rows = file["queries" if "queries" in file.files else "x"].astype(np.float64)
            if rows.ndim != 2 or rows.shape[1] != len(names) or len(rows) < LEAST_ROWS:
                raise ValueError
    except OSError as error:
        raise unreadable(path, error, f"Correct {key} in federation.toml") from None
    except (KeyError, IndexError, ValueError, TypeError, EOFError, zipfile.BadZipFile):
        raise DataError(
            f"{key}: {path} is no table of numbers with a name for each column and at least {LEAST_ROWS} rows",
            "Give .npz with features and queries (docs/data.md), or .csv, or .parquet",
        ) from None
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"{key}: {path}: {len(bad)} values are missing or infinite (first: row {row + 1}, {names[column]!r})",
            "Give complete rows, or a .csv or .parquet of raw columns",
        )
    chosen = chosen or names
    if absent := sorted(set(chosen) - set(names)):
        raise ConfigError(f"{key}: {path.name} has no column {absent[0]!r}", f"It has {list(names)}")
    return chosen, rows[:, [names.index(name) for name in chosen]]


class Plan(Frozen):
    """The file `federation.toml`: the same `[federation]` as a scenario's, who takes part, where the coordinator is. In
    the file, `federation` may be the path of a scenario whose table is meant, or the name of a shipped one."""

    ends: date = Field(strict=True, description="last day, such as 2028-06-30; certificates are valid a year longer")
    enrolments: tuple[str, ...] = Field(
        min_length=3,
        description="the NAME.enrol.json of coordinator, parties, students and, with verified votes, the second"
        " aggregator; relative to this file",
    )
    federation: Federation
    rows: RowsPlan
    coordinator: Coordinator

    @field_validator("ends")
    @classmethod
    def _is_to_come(cls, ends: date) -> date:
        today = datetime.now(UTC).date()
        if not today <= ends <= today + LONGEST:
            raise ValueError(f"must be from today, {today}, to {today + LONGEST}")
        return ends

    def nodes(self, folder: Path) -> dict[str, PublicKeys]:
        """Public keys of all nodes, by name. folder: of federation.toml. Raises ConfigError, PathError : an enrolment
        is none, or two have one name."""
        found: dict[str, PublicKeys] = {}
        for file in self.enrolments:
            enrolment = read_enrolment(folder / file)
            if enrolment.name in found:
                raise ConfigError(f"enrolments: two are of {enrolment.name!r}", "Each node needs a name of its own")
            found[enrolment.name] = enrolment.keys
        return found


def read_plan(path: Path) -> tuple[Plan, Schema]:
    """The plan, and the schema that it leads to. Raises ConfigError, DataError."""
    plan = validate(_with_scenario(read_table(path), path), Plan, str(path))
    try:
        return plan, plan.rows.schema(path.parent)
    except ValidationError as error:
        faults = "; ".join(faults_of(error, Schema, {}))
        raise ConfigError(f"{path}: rows: {faults}", "Correct [rows], or the file that it names") from None


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


@dataclass(frozen=True)
class PlannedRows:
    """What rows mean, and what public rows are for. added: to the federation's configuration. askable: rows float32
    (rows, features), canonical, that may be asked; None where any may. note: for the operator, or nothing."""

    added: dict[str, Any]
    askable: np.ndarray | None = field(repr=False)
    note: str


def read_public(folder: Path, plan: Plan, schema: Schema) -> PlannedRows:
    """The public rows of a plan in this folder. Raises ConfigError: a file lacks features, or has too few rows.
    DataError, PathError : it is not usable."""
    name, voting_rule, notes = plan.rows.queries or plan.rows.public, plan.federation.voting_rule, []
    rows = np.zeros((0, len(schema.features)), dtype=np.float32)
    if name:
        read, oddities = plan.rows.public_rows(folder / name, schema)
        rows, notes = canonical_queries(read, len(schema.features)), [f"{name}: {oddity}" for oddity in oddities]
    elif voting_rule.relative:
        raise ConfigError(
            'federation.voting_rule rule = "relative" needs public rows, on which teachers find out where their'
            " scores lie",
            'Name the public rows that may be asked: rows.queries = "rows.csv", or rows.public; or set rule = "top"',
        )
    terms = None
    if plan.rows.queries:
        least, read = plan.federation.public_least_distance, rows
        rows = read[thin(schema.standardise(read).astype(np.float32).astype(np.float64), least * (1 + 1e-5))]
        terms = PoolTree.of_rows(rows).terms(least)
        if gone := len(read) - len(rows):
            left_out = f"{gone} of {len(read)} public rows are left out: each is closer than {least:g} to another"
            notes.insert(0, f"{left_out} (students ask those of federation/{PUBLIC_FILE})")
    reference = draw_reference(rows, schema, voting_rule.reference_rows) if voting_rule.relative else rows[:0]
    added = {"rows": schema, "public": terms, "reference": reference_text(reference)}
    return PlannedRows(added, rows if terms else None, "; ".join(notes))
