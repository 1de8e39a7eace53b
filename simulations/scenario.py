"""Scenarios: one TOML file that says everything about a simulated federation."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from consilium.coordinator.config import Caps, Privacy, Timeouts, check_caps, check_sanitised_votes, check_votes
from consilium.coordinator.mechanisms import AnyMechanism
from consilium.party.teachers.own_teacher import OwnTeacher
from consilium.protocol.config_files import Frozen, read_table, validate
from consilium.protocol.errors import ConfigError, NotEnoughParties
from consilium.protocol.parties.messages import MOST_TEACHERS, TeacherSpec, VotesMode
from consilium.protocol.rows.representation import Representation
from consilium.simulations.datasets import NAMES, load_dataset
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.population.partition import Division, Partition, iid_partition, natural_partition
from consilium.simulations.population.public_rows import without_near_rows
from consilium.student.config import StudentSpec


class DataSpec(Frozen):
    """Which data set, and how it is divided.

    classes: what the parties are asked to vote on; must be the data set's classes, in its order.
    path: folder of the sets that are not embedded, see `datasets.folder`.
    partition: "owners", "iid" or "groups", see `population.partition`. parties, most_rows: for the latter two, how
        many, and the most rows of one; null for no limit.
    public_share: share of the owners that are held out whole, of a set without a test part of its own. least_rows: rows
        that a party must have.
    representation: what models are given, see `rows.representation`. standardise: false leaves the features as they
        are, for images that networks see as such.
    """

    set: str
    path: str = ""
    partition: Division = "owners"
    parties: int | None = Field(default=None, ge=2, le=100_000)
    most_rows: int | None = Field(default=None, ge=2)
    representation: Representation = "none"
    standardise: bool = True
    classes: tuple[str, ...]
    public_share: float = Field(default=0.2, gt=0, lt=1)
    least_rows: int = Field(default=20, ge=2)

    @field_validator("set")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in NAMES:
            raise ValueError(f"not a known data set, choose from {', '.join(NAMES)}")
        return value

    @model_validator(mode="after")
    def _parties_of_a_partition_by_lot(self) -> DataSpec:
        if self.partition != "owners" and self.parties is None:
            raise ValueError(f'partition "{self.partition}" needs parties')
        if self.partition == "owners" and (self.parties is not None or self.most_rows is not None):
            raise ValueError('parties and most_rows belong to partition "iid" or "groups"')
        return self

    @model_validator(mode="after")
    def _least_rows_within_most_rows(self) -> DataSpec:
        if self.most_rows is not None and self.most_rows < self.least_rows:
            raise ValueError(f"most_rows {self.most_rows} is below least_rows {self.least_rows}")
        return self


class PartiesSpec(Frozen):
    """minimum: fewer parties end the run. most_queries: limit in each simulated party's own policy.

    colluders, least_survivors, least_difference: for secure and distributed votes, parties that may work with the
    coordinator, the least number in a sum, and by how many two exact sums differ on each side; null for the least that
    is safe. spare: see `coordinator.config.FederationConfig`.
    """

    minimum: int = Field(ge=2)
    teachers_per_party: int = Field(default=1, ge=1, le=MOST_TEACHERS)
    most_queries: int = Field(default=10_000, ge=1)
    colluders: int = Field(default=0, ge=0)
    least_survivors: int | None = Field(default=None, ge=2)
    least_difference: int | None = Field(default=None, ge=2)
    spare: int = Field(default=0, ge=0)


class PoolSpec(Frozen):
    """The pool of secure votes, which is fixed before the run.

    least_distance: Euclidean distance of standardised rows; of two different rows that are closer, one is left out.
    """

    least_distance: float = Field(default=0.05, ge=0, le=1e6)


class TeacherShare(Frozen):
    """A share of the parties, drawn by lot, that has a teacher of its own choice in its `party.toml`."""

    share: float = Field(gt=0, le=1)
    teacher: OwnTeacher


class Scenario(Frozen):
    """A simulated federation. `noise` "seeded" makes a run reproducible and protects nobody; "system" is real noise.

    teacher: what the coordinator asks for. teachers: what some parties train instead.
    votes: clear, secure or distributed, see `protocol.parties.messages.VotesMode`.
    """

    title: str
    description: str = ""
    data: DataSpec
    parties: PartiesSpec
    teacher: TeacherSpec = TeacherSpec()
    teachers: tuple[TeacherShare, ...] = ()
    votes: VotesMode = "clear"
    pool: PoolSpec = PoolSpec()
    mechanism: AnyMechanism
    privacy: Privacy
    caps: Caps
    student: StudentSpec = StudentSpec()
    timeouts: Timeouts = Timeouts()
    noise: Literal["seeded", "system"] = "seeded"

    @property
    def pool_is_fixed(self) -> bool:
        """Whether the parties know beforehand what may be asked, as they insist on for secure votes."""
        return self.votes == "secure"

    @model_validator(mode="after")
    def _mechanism_fits_votes_and_caps(self) -> Scenario:
        check_votes(self.mechanism, self.votes, simulation=True)
        check_caps(self.mechanism, self.caps, self.votes)
        check_sanitised_votes(self.privacy, self.votes)
        return self

    @model_validator(mode="after")
    def _shares_are_of_one_whole(self) -> Scenario:
        total = sum(item.share for item in self.teachers)
        if total > 1 + 1e-9:
            raise ValueError(f"the shares of teachers sum to {total:g}, more than 1")
        return self

    @model_validator(mode="after")
    def _shards_are_large_enough(self) -> Scenario:
        if self.data.least_rows < self.parties.teachers_per_party:
            raise ValueError(
                f"data.least_rows {self.data.least_rows} leaves no row for some of the"
                f" {self.parties.teachers_per_party} teachers of a party"
            )
        return self


def shipped() -> dict[str, Path]:
    """Names and files of the scenarios that come with the package."""
    folder = Path(str(files("consilium.simulations.scenarios")))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_scenario(name: str, overrides: Sequence[str] = ()) -> Scenario:
    """A shipped scenario by name, or a file by path, with `key=value` overrides applied.

    Raises
    ------
    ConfigError : no such scenario or file, an unknown key, a wrong type or value, a malformed override.
    """
    path = shipped().get(name)
    if path is None:
        path = Path(name)
        if not path.exists():
            raise ConfigError(
                f"no scenario {name!r}: neither a file nor one of {', '.join(shipped())}",
                "List them with `consilium scenarios`",
            )
    table = read_table(path)
    for override in overrides:
        apply_override(table, override)
    return validate(table, Scenario, f"scenario {name}")


def apply_override(table: dict[str, Any], override: str) -> None:
    """Set one dotted `key=value` in a nested table; the value is read as TOML, and as text where it is none."""
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"--set {override!r} is not key=value", "For example --set mechanism.sigma2=80")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    parts = key.strip().split(".")
    for part in parts[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {override!r}: {part} is a value, not a table")
    table[parts[-1]] = value


def divided_data(scenario: Scenario, seed: int) -> tuple[Dataset, Partition]:
    """The scenario's data set, and who has which of its rows.

    Raises
    ------
    NotEnoughParties, DataError
    """
    dataset = load_dataset(scenario.data.set, scenario.data.path)
    partition = _divided(scenario, dataset, seed)
    if scenario.pool_is_fixed:
        partition = without_near_rows(scenario.data, dataset, partition, scenario.pool.least_distance)
    return dataset, partition


def _divided(scenario: Scenario, dataset: Dataset, seed: int) -> Partition:
    data = scenario.data
    if data.partition == "owners":
        return natural_partition(dataset, data.public_share, data.least_rows, scenario.parties.minimum, seed)
    assert data.parties is not None
    partition = iid_partition(dataset, data.parties, data.most_rows, seed, data.partition == "groups")
    smallest = min(len(rows) for rows in partition.parties.values())
    if len(partition.parties) < scenario.parties.minimum or smallest < data.least_rows:
        raise NotEnoughParties(
            f"{dataset.name}: {len(partition.parties)} parties with {smallest} rows or more, at least"
            f" {scenario.parties.minimum} with {data.least_rows} are required",
            "Change data.parties, parties.minimum or data.least_rows",
        )
    return partition


def scenario_json(scenario: Scenario) -> dict[str, Any]:
    """The scenario as plain data, for manifest and report."""
    return json.loads(scenario.model_dump_json())
