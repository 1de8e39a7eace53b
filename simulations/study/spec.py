"""A study as its file says it: a base scenario, axes, seeds, and the methods that are compared."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from consilium.coordinator.mechanisms import noise_scales
from consilium.protocol.config_files import read_table, validate
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.models import Frozen
from consilium.simulations.datasets.spec import SourceSpec
from consilium.simulations.scenario import DATA_SET, TAGS, parsed, put
from consilium.simulations.shipped import Shipped

Measure = Literal["division", "teachers", "gain"]
COLUMNS = ("cell", "seed", "method", "scope", "name", "metric", "value", "low", "high")  # of the results
FACTS = ("guarantee_epsilon", "guarantee_delta", "guarantee_unit", "guarantee_neighbouring", "data_set")
"""Further columns of the results: what the method of a row guarantees (unit "none": nothing), and which data set it is
of, whatever its division."""
MOST_CELLS = 100_000


class StudyAxis(Frozen):
    """One thing that a study varies: a key with its values, or points that set several keys."""

    key: str = Field(default="", description="any key of a scenario, such as `data.alpha`")
    name: str = Field(default="", max_length=60, description="what results call it; left out: the key")
    values: tuple[Any, ...] = Field(default=(), description="of the key")
    points: dict[str, dict[str, Any]] = Field(default={}, description="by name, tables as in a scenario file")

    @model_validator(mode="after")
    def _says_what_it_varies(self) -> StudyAxis:
        if bool(self.values) == bool(self.points):
            raise ValueError(f"needs either values or points, has {'both' if self.values else 'none'}")
        if self.points and self.key:
            raise ValueError("points set keys of their own: leave key out, and give a name")
        if self.points and not self.name:
            raise ValueError("points need a name for the axis")
        if not self.points and not self.key:
            raise ValueError("values need a key")
        if self.column in (*COLUMNS, *FACTS):
            raise ValueError(f"is called {self.column!r} as a column of the results is: give it another name")
        return self

    @property
    def column(self) -> str:
        """What results call it."""
        return self.name or self.key


class StudyTable(Frozen):
    """The table `[study]`."""

    title: str = Field(default="", max_length=200, description="of the report; left out: the file's name")
    description: str = Field(default="", max_length=5000, description="for the report")
    scenario: str = Field(default="", description="a shipped one, or a file beside this one; left out: `[base]` is all")
    seeds: int = Field(default=5, ge=1, le=10_000, description="how many, from 0")
    home_share: float = Field(default=0.2, ge=0, lt=1, description="of each party's rows, which judge methods at home")
    methods: tuple[str | dict[str, Any], ...] = Field(
        default=("local", "pooled", "plurality", "pate"),
        min_length=1,
        description="names, or tables with a name and keys; `label` in a table is what results call it",
    )
    measures: tuple[Measure, ...] = Field(
        default=("division", "teachers", "gain"), description="what else is measured of each division"
    )


class StudySpec(Frozen):
    """A study. name: the file's stem. folder: of the file, to which its paths are relative."""

    model_config = ConfigDict(populate_by_name=True)

    study: StudyTable
    base: dict[str, Any] = Field(default={}, description="tables of a scenario: the whole, or what differs from it")
    axis: tuple[StudyAxis, ...] = Field(default=(), description="they multiply")
    exceptions: tuple[dict[str, str | list[str]], ...] = Field(
        default=(),
        alias="except",
        description="combinations to leave out: for each axis that is named, one or several of its values as text",
    )
    name: str = Field(default="study", exclude=True)
    folder: Path = Field(default=Path(), exclude=True)

    @model_validator(mode="after")
    def _axes_are_different(self) -> StudySpec:
        columns = [axis.column for axis in self.axis]
        if twice := {column for column in columns if columns.count(column) > 1}:
            raise ValueError(f"two axes are called {min(twice)!r}: give one another name")
        return self

    @property
    def title(self) -> str:
        return self.study.title or self.name

    def digest(self) -> str:
        """Hash of what the file says; whoever has it and the data has the study. Not of where files lie."""
        return canonical_digest(self.model_dump(mode="json", by_alias=True))


def load_study(name: str, overrides: Sequence[str] = (), seeds: int | None = None) -> StudySpec:
    """A shipped study by name, or a file by path. overrides: `key=value` of the base. seeds: so many instead. Raises
    ConfigError: no such study or file, an unknown key, a wrong type or value, a malformed override."""
    path = Shipped.STUDY.path(name)
    table = read_table(path)
    if reserved := {"name", "folder"} & set(table):
        raise ConfigError(f"study {path.stem}: {min(reserved)}: unknown key", "The file's name is the study's")
    base = table.setdefault("base", {})
    for override in overrides if isinstance(base, dict) else ():
        put(base, *parsed(override))
    if seeds is not None and isinstance(table.get("study"), dict):
        table["study"]["seeds"] = seeds
    return validate({**table, "name": path.stem, "folder": path.parent.absolute()}, StudySpec, f"study {path.stem}")


def points_of(axis: StudyAxis) -> dict[str, dict[str, Any]]:
    """Label -> nested table of what the scenario has there, in order. Raises ConfigError: two values have the same
    label."""
    if axis.points:
        return dict(axis.points)
    points: dict[str, dict[str, Any]] = {}
    for value in axis.values:
        label = label_of(value)
        if label in points:
            raise ConfigError(f"axis {axis.column}: {label} stands there twice", "Leave one out")
        put(points.setdefault(label, {}), axis.key, value)
    return points


def label_of(value: object) -> str:
    """How results call a value of an axis: text as it is, anything else as JSON.

    >>> label_of("iid"), label_of(0.1), label_of(50), label_of(True), label_of({"noise": 0.5})
    ('iid', '0.1', '50', 'true', '{"noise":0.5}')
    """
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), sort_keys=True)


def changed(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a scenario with another's keys in it.

    A key that chooses a kind drops the keys that only the former kind has; another data set drops all that was said of
    the former's columns and files, and who says by what rows are public, says all of that anew. An epsilon without
    noise beside it drops noise that the table states, which is calibrated anew: else it would change nothing. Raises
    ConfigError: a key is a value in one and a table in the other."""
    copied = copy.deepcopy(dict(table))
    leaves = dict(_leaves(changes))
    data = copied.get("data")
    if "data.set" in leaves and isinstance(data, dict):
        for key in set(data) & set(SourceSpec.model_fields):
            del data[key]
    if "data.public.by" in leaves and isinstance(data, dict):
        for key in ("public", "public_share"):
            data.pop(key, None)
    for key in sorted(leaves, key=lambda key: key not in (*TAGS, DATA_SET)):
        put(copied, key, copy.deepcopy(leaves[key]))
    mechanism = copied.get("federation", {}).get("mechanism")
    if "federation.privacy.epsilon" in leaves and isinstance(mechanism, dict):
        scales = noise_scales(mechanism.get("name"))
        if not any(f"federation.mechanism.{name}" in leaves for name in scales):
            for name in scales:
                mechanism.pop(name, None)
    return copied


def _leaves(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys with what is no table, or an empty one."""
    for name, value in table.items():
        key = f"{before}.{name}" if before else str(name)
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, key)
        else:
            yield key, value
