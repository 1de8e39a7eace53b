"""Scenarios: one TOML file that says everything about a simulated federation."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError, model_validator

from consilium.coordinator.config import Federation
from consilium.coordinator.mechanisms import TABLES, widest
from consilium.coordinator.parts import Privacy
from consilium.models.keys import TEACHERS, TRAINERS
from consilium.protocol.config_files import drop_other_kinds, read_table, validate
from consilium.protocol.errors import ConfigError
from consilium.protocol.models import Frozen
from consilium.protocol.voting_rule import VOTING_RULES
from consilium.simulations.datasets.base import Dataset, Source
from consilium.simulations.datasets.source import OWN, open_source
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.partitions import divided
from consilium.simulations.population.public import completed, queries
from consilium.simulations.population.specs import DataSpec, SimulationSpec, shifted, tilted
from consilium.simulations.shipped import Shipped
from consilium.student.config import StudentSpec


class Scenario(Frozen):
    """A simulated federation. `federation` is what can be deployed as it stands; the other tables are the simulation's.
    menu, seconds: what `consilium scenarios` says of it."""

    description: str = Field(default="", description="for the report")
    menu: str = Field(default="", max_length=200, description="one line, for the list of scenarios")
    seconds: int = Field(default=0, ge=0, description="of a run on two cores, about; 0: not known")
    data: DataSpec
    federation: Federation
    student: StudentSpec = StudentSpec()
    simulation: SimulationSpec = SimulationSpec()

    @model_validator(mode="before")
    @classmethod
    def _with_least_rows(cls, table: Any) -> Any:
        match table:
            case {"data": {**data}, "federation": {"teachers_per_party": int(teachers)}} if (
                teachers > 1 and "least_rows" not in data and data.get("partition") not in ("dirichlet", "flwr")
            ):
                return {**table, "data": {**data, "least_rows": teachers}}
        return table

    @model_validator(mode="after")
    def _voting_rule_suits_the_classes(self) -> Scenario:
        if self.data.classes:  # those that public rows will name are checked with the schema
            self.federation.voting_rule.check_classes(len(self.data.classes))
        return self

    @model_validator(mode="after")
    def _shards_are_large_enough(self) -> Scenario:
        if not self.data.leaves_out and self.data.rows_needed < self.federation.teachers_per_party:
            raise ValueError(
                f"data.least_rows {self.data.rows_needed} leaves no row for some of the"
                f" {self.federation.teachers_per_party} teachers of a party: set data.least_rows to"
                f" {self.federation.teachers_per_party} or more, or lower federation.teachers_per_party"
            )
        return self


def load_scenario(name: str, overrides: Sequence[str] = (), seed: int = 0) -> Scenario:
    """A shipped scenario by name, or a file by path, with `key=value` overrides applied. seed: of the division, whose
    public rows are counted where the file has no query budget. Raises ConfigError: no such scenario or file, an unknown
    key, a wrong type or value. With no query budget also as `divided_data`."""
    where = f"scenario {name}"
    return validate(with_budget(scenario_table(name, overrides), where, seed), Scenario, where)


def scenario_table(name: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """What a scenario says, with overrides applied, not validated. Raises ConfigError."""
    path = Shipped.SCENARIO.path(name)
    table = read_table(path)
    anchor(table.get("data"), path.parent)
    override(table, map(parsed, overrides))
    return table


def override(table: dict[str, Any], settings: Iterable[tuple[str, Any]]) -> None:
    """Set dotted keys in a scenario's table; paths in them are relative to the working folder. Raises ConfigError."""
    # a kind first: it drops keys of the former kind that the table has, and none that the settings give
    for key, value in sorted(settings, key=lambda pair: pair[0] not in (*TAGS, DATA_SET)):
        put(table, key, value)
    anchor(table.get("data"), Path())


def anchor(data: Any, folder: Path) -> None:
    """Make paths of the user's own data, in the table `[data]` as it is read, absolute: they are relative to the
    scenario's file, and those of --set to the working folder."""
    if not isinstance(data, dict) or data.get("set") not in OWN:
        return
    public = data.get("public")
    for table, key in ((data, "path"), (public, "file"), (public, "test")):
        if isinstance(table, dict) and isinstance(path := table.get(key), str) and path:
            table[key] = str((folder / path).absolute())


_ANY_NOISE = 9_999.0  # of a mechanism that stands for another one: within any epsilon, and never drawn


def without_mechanism(table: Mapping[str, Any], where: str) -> Scenario:
    """A scenario's table with the least of mechanisms, so that all else in it is checked and nothing calibrated. Raises
    ConfigError: every fault in it."""
    federation = table.get("federation")
    if not isinstance(federation, dict):
        return validate(dict(table), Scenario, where)
    least = {"mechanism": {"name": "gnmax", "sigma": _ANY_NOISE}, "query_budget": {"queries": 1, "answers": 1}}
    plain = _without_epsilon(federation) | least
    return validate({**table, "federation": plain}, Scenario, where)


def _without_epsilon(federation: dict[str, Any]) -> dict[str, Any]:
    privacy = federation.get("privacy", {})
    try:
        Privacy.model_validate(privacy)
    except ValidationError:
        return federation  # whoever reads it names what is wrong
    return federation | {"privacy": {key: privacy[key] for key in privacy if key not in ("epsilon", "sanitised")}}


def with_any_noise(table: Mapping[str, Any], where: str) -> Scenario:
    """The scenario; where its noise is to be calibrated, which may take time, with any noise and no epsilon instead.
    Raises ConfigError: every fault in it."""
    without_mechanism(table, where)
    federation = table["federation"]
    if federation["privacy"].get("epsilon") is not None:
        mechanism = federation.get("mechanism")
        noise = {"mechanism": widest(mechanism) if isinstance(mechanism, dict) else mechanism}
        federation = _without_epsilon(federation) | noise
    return validate({**table, "federation": federation}, Scenario, where)


MOST_QUERIES = 300  # asked where no query budget says otherwise: as many as there are different public rows, up to this


def with_budget(table: dict[str, Any], where: str, seed: int, source: Source | None = None) -> dict[str, Any]:
    """A scenario's table with the query budget that it leaves out: all different public rows up to `MOST_QUERIES`, of
    which each may be answered. source: see `divided_data`, which says what is raised."""
    federation = table.get("federation")
    budget = federation.get("query_budget", {}) if isinstance(federation, dict) else None
    if not isinstance(federation, dict) or not isinstance(budget, dict) or {"queries", "answers"} <= set(budget):
        return table
    if "queries" not in budget:
        known = without_mechanism(table, where)
        different = len(np.unique(queries(*divided_data(known, seed, source)), axis=0))
        budget = {"queries": min(different, MOST_QUERIES, known.simulation.most_queries), **budget}
    return {**table, "federation": {**federation, "query_budget": {"answers": budget["queries"], **budget}}}


TAGS: dict[str, tuple[type[BaseModel], ...]] = {
    "federation.teacher.model": TEACHERS,
    "federation.voting_rule.rule": VOTING_RULES,
    "federation.mechanism.name": tuple(TABLES.values()),
    "student.trainer.name": TRAINERS,
}
"""Keys that choose a kind, and the kinds."""
DATA_SET = "data.set"


def parsed(override: str) -> tuple[str, Any]:
    """Key and value of `key=value`, which is read as TOML, and as text where it is none. Raises ConfigError."""
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"--set {override!r} is not key=value", "For example --set federation.mechanism.sigma2=120")
    try:
        return key.strip(), tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), text


def put(table: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key in a nested table; one that chooses a kind drops the keys that only the former kind has. Raises
    ConfigError: a table is needed where the table has a value."""
    if key == DATA_SET and isinstance(table.get("data"), dict):
        table["data"].pop("label_cost", None)  # of the rows that the file names
    *parents, last = key.split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{key}: {parent} is a value, not a table", "Correct the key")
    table[last] = value
    drop_other_kinds(table, last, TAGS.get(key, ()))


def divided_data(scenario: Scenario, seed: int, source: Source | None = None) -> tuple[Dataset, Partition]:
    """The scenario's data set, and who has which of its rows. First the rows are divided, then they become numbers by
    what the pool says, and parties' rows are changed as `data.shift` says. source: rows that are in memory already.
    Raises NotEnoughParties, DataError, ConfigError."""
    source, partition = divided_source(scenario, seed, source)
    numbers = source.dataset(partition.queries)
    partition = tilted(scenario.data, numbers, partition, seed)
    return completed(scenario.data, shifted(scenario.data, numbers, partition, seed), partition), partition


def divided_source(scenario: Scenario, seed: int, source: Source | None = None) -> tuple[Source, Partition]:
    """The rows before they are numbers, and who has which of them. Raises as `divided_data`."""
    source = source or open_source(scenario.data)
    data = scenario.data
    if data.public is not None:
        of_rows = data.public.by in ("file", "time")
        if of_rows and data.set not in OWN:
            raise ConfigError(f'{source.name} has no public = {{ by = "{data.public.by}" }}', "Choose owner or share")
        if not of_rows and source.public is not None:
            raise ConfigError(f"{source.name} has a public part of its own", "Leave data.public away")
    return source, divided(source, data, scenario.federation.minimum_parties, seed)
