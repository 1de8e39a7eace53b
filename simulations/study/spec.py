"""A study as its file says it: a base scenario, axes, seeds and methods; and its cases, of which some share teachers.

What teachers say does not depend on mechanism, query budget, privacy, student or title. So it is computed from a
scenario in which these are always the same (`teaching`), and kept under that scenario's hash: what is left out cannot
change it."""

from __future__ import annotations

import copy
import functools
import json
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

import joblib
import numpy as np
from pydantic import ConfigDict, Field, model_validator

from consilium.coordinator.config import Federation
from consilium.coordinator.mechanisms import noise_scales
from consilium.protocol.config_files import read_table, validate
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.models import Frozen
from consilium.protocol.versions import versions
from consilium.simulations import methods as of_methods
from consilium.simulations.datasets.base import Source, SourceSpec
from consilium.simulations.divide import clear_votes
from consilium.simulations.methods.base import StudyMethod
from consilium.simulations.scenario import (
    DATA_SET,
    TAGS,
    Scenario,
    anchor,
    parsed,
    put,
    scenario_table,
    with_any_noise,
    without_mechanism,
)
from consilium.simulations.shipped import Shipped

COLUMNS = ("cell", "seed", "method", "scope", "name", "metric", "value", "low", "high")  # of the results
FACTS = ("guarantee_epsilon", "guarantee_delta", "guarantee_unit", "guarantee_neighbouring", "data_set")
"""Further columns of the results: what the method of a row guarantees (unit "none": nothing), and which data set it is
of, whatever its partition."""
MOST_CELLS = 100_000
_DECIDING = ("python", "consilium-pate", "numpy", "scipy", "scikit-learn", "torch", "flwr", "flwr-datasets")
_DATA_DECIDES_NOT: Any = {
    **dict.fromkeys(("path", "title", "attribution", "owner_label", "label_cost"), True),
    "public": {"file", "test"},
}
_STAND_IN = {
    "name": "teachers",
    "collection": "plaintext",
    "privacy": {"unit": "party", "delta": 1e-5},
    "query_budget": {"queries": 1, "answers": 1},
    "mechanism": {"name": "gnmax", "sigma": 9_999.0},
}


for _module in pkgutil.iter_modules(of_methods.__path__):
    import_module(f"{of_methods.__name__}.{_module.name}")


METHODS: dict[str, type[StudyMethod]] = dict(sorted(StudyMethod.kinds.items()))  # every method, by its name


def method_of(described: object, where: str = "methods") -> StudyMethod:
    """A method from its name, or from a table with `name` and its keys. `where`: the key that it stands at. Raises
    ConfigError: no such method, a key that it has not, or a value that it may not have.

    >>> method_of("pooled"), method_of({"name": "manual_labels", "labels": 300}).label
    (PooledModel(name='pooled', kind='teacher'), 'manual_labels labels=300')
    """
    table: dict[str, Any] = dict(described) if isinstance(described, Mapping) else {"name": described}
    name = table.get("name")
    kind = METHODS.get(name) if isinstance(name, str) else None
    if kind is None:
        fault = f"{where}: no method {name!r}"
        raise ConfigError(fault, f"Choose one of {', '.join(METHODS)}, or a table with such a name")
    return validate(table, kind, f"{where}: {name}")


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
        if not self.column:
            raise ValueError("points need a name for the axis" if self.points else "values need a key")
        if self.column in (*COLUMNS, *FACTS):
            raise ValueError(f"is called {self.column!r} as a column of the results is: give it another name")
        return self

    @property
    def column(self) -> str:
        return self.name or self.key


class StudyTable(Frozen):
    """The table `[study]`."""

    title: str = Field(default="", max_length=200, description="of the report; left out: the file's name")
    description: str = Field(default="", max_length=5000, description="for the report")
    scenario: str = Field(default="", description="a shipped one, or a file beside this one; left out: `[base]` is all")
    seeds: int = Field(default=5, ge=1, le=10_000, description="how many, from 0")
    home_share: float = Field(
        default=0.2, ge=0, lt=1, description="of each party's rows, on which nobody trains: they judge methods there"
    )
    methods: tuple[str | dict[str, Any], ...] = Field(
        default=("local", "pooled", "plurality", "pate"),
        min_length=1,
        description="names, or tables with a name and keys; `label` in a table is what results call it",
    )
    measures: tuple[Literal["division", "teachers", "gain"], ...] = Field(
        default=("division", "teachers", "gain"), description="what else is measured: partition, votes, gain"
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
        description="combinations to leave out: by axis, one or several of its values as text",
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
        """Hash of what the file says, and not of where files lie: with the same data it is the same study."""
        return canonical_digest(self.model_dump(mode="json", by_alias=True))


def load_study(name: str, overrides: Sequence[str] = (), seeds: int | None = None) -> StudySpec:
    """A shipped study by name, or a file by path. overrides: `key=value` for the base. seeds: how many, instead of
    the file's number. Raises ConfigError: no such study or file, an unknown key, a wrong type or value, a malformed
    override."""
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
    """Points of an axis: label -> nested table of what it sets in the scenario, in order. A label is the value: text as
    it is, any other as JSON. Raises ConfigError: two values have the same label.

    >>> [*points_of(StudyAxis(key="a", values=("iid", 0.1, True, {"noise": 0.5})))]
    ['iid', '0.1', 'true', '{"noise":0.5}']
    """
    points = dict(axis.points)
    for value in axis.values:
        label = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), sort_keys=True)
        if label in points:
            raise ConfigError(f"axis {axis.column}: {label} stands there twice", "Leave one out")
        put(points.setdefault(label, {}), axis.key, value)
    return points


def changed(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario's table, changed by the keys of another. A key that chooses a kind drops the keys that only the former
    kind has; another data set drops what the table says of columns and files; `data.public.by` drops what it says of
    public rows. An epsilon without noise beside it drops the table's noise, which is calibrated anew: else nothing
    would change. Raises ConfigError: a key is a value in one and a table in the other."""
    copied = copy.deepcopy(dict(table))
    leaves = dict(_leaves(changes))
    data = copied.get("data")
    if isinstance(data, dict):
        gone = set(SourceSpec.model_fields) if "data.set" in leaves else set[str]()
        gone |= {"public", "public_share"} if "data.public.by" in leaves else set()
        for key in gone & set(data):
            del data[key]
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
    for name, value in table.items():
        key = f"{before}.{name}" if before else str(name)
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, key)
        else:
            yield key, value


@functools.cache
def deciding_versions() -> Mapping[str, str]:
    """Versions of the programs on which results may depend, by name."""
    return {name: version for name, version in versions().items() if name in _DECIDING}


def teaching(scenario: Scenario) -> Scenario:
    """The scenario with the same partition, teachers and votes, and everything else as in every other study."""
    kept = {"minimum_parties", "teachers_per_party", "teacher", "voting_rule"}
    plain = Federation.model_validate({**scenario.federation.model_dump(mode="json", include=kept), **_STAND_IN})
    others = type(scenario.simulation)(own_teacher=scenario.simulation.own_teacher)
    return Scenario(data=scenario.data, federation=plain, simulation=others)


def ensemble_address(scenario: Scenario, seed: int, data: str) -> str:
    """Hash under which it is kept what teachers say on a partition. data: content hash of the rows."""
    taught = teaching(scenario).model_dump(mode="json", exclude={"data", "description"})
    return canonical_digest([taught, _data_table(scenario), seed, data])


def _data_table(scenario: Scenario) -> dict[str, Any]:
    """The table `[data]` without its files' paths, as their content is hashed, and without texts for the report."""
    return scenario.data.model_dump(mode="json", exclude=_DATA_DECIDES_NOT)


@dataclass(frozen=True)
class Plot:
    """A case: one point of the axes with one seed, which all methods share. axes: the value of each, as text. table:
    the scenario's, as it was written. teaching: see `teaching`."""

    id: str
    axes: Mapping[str, str] = field(compare=False)
    seed: int
    table: Mapping[str, Any] = field(repr=False, compare=False)
    teaching: Scenario = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{_called(self.axes)}, seed {self.seed}" if self.axes else f"seed {self.seed}"

    def cell(self, method: str) -> str:
        return canonical_digest([self.id, method])[:12]


def _called(axes: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {label}" for name, label in axes.items())


def compared(spec: StudySpec) -> dict[str, StudyMethod]:
    """The methods by label: `label`, or the name with the keys that differ from their defaults. Raises ConfigError:
    there is no such method, or two have the same label."""
    methods: dict[str, StudyMethod] = {}
    where = f"study {spec.name}: study.methods"
    for entry in spec.study.methods:
        table = {"name": entry} if isinstance(entry, str) else dict(entry)
        label = table.pop("label", None)
        method = method_of(table, where)
        label = method.label if label is None else label
        if not isinstance(label, str) or not 0 < len(label) <= 60:
            raise ConfigError(f"{where}: label must be text of at most 60 characters")
        for other in METHODS:
            if label.startswith(other) and other != table["name"]:
                fault = f"the label {label!r} of {table['name']} begins like {other!r}, for which reports would take it"
                raise ConfigError(f"{where}: {fault}", "Let it begin otherwise")
        if label in (*methods, "division", "teachers"):
            fault = f"{where}: two things would be called {label!r} in the results"
            raise ConfigError(fault, 'Give one of them a label: { name = "pooled", label = "..." }')
        methods[label] = method
    return methods


def plots(spec: StudySpec) -> list[Plot]:
    """Every point of the axes that no exception leaves out, with every seed, in the order of the file. Raises
    ConfigError: a scenario says something it may not say. The error names the axis, its value and the key."""
    axes = {axis.column: points_of(axis) for axis in spec.axis}
    count = prod(map(len, axes.values())) * spec.study.seeds * len(spec.study.methods)
    if count > MOST_CELLS:
        fault = f"study {spec.name} has {count:,} cells, more than {MOST_CELLS:,}"
        raise ConfigError(fault, "Give axes fewer values, or divide it")
    left_out = []  # of each exception the points of each axis that it names
    for number, exception in enumerate(spec.exceptions, 1):
        named = {name: [labels] if isinstance(labels, str) else labels for name, labels in exception.items()}
        where = f"study {spec.name}: except {number}"
        if not named:
            raise ConfigError(f"{where} names no axis, so nothing would be left", "Name one, or remove it")
        for name, labels in named.items():
            if name not in axes:
                raise ConfigError(f"{where} names {name!r}, and there is no such axis", f"There is {', '.join(axes)}")
            if unknown := [label for label in labels if label not in axes[name]]:
                raise ConfigError(f"{where}: axis {name} has no {unknown[0]!r}", f"It has {', '.join(axes[name])}")
        left_out.append(named)
    cases = []
    for labels in product(*axes.values()):
        point = dict(zip(axes, labels, strict=True))
        if any(all(point[name] in some for name, some in exception.items()) for exception in left_out):
            continue
        where = f"study {spec.name}{f', {_called(point)}' if point else ''}"
        try:
            table = _table(spec, [axes[name][label] for name, label in point.items()])
            clear_votes(without_mechanism(table, where))
            scenario = with_any_noise(table, where)
        except ConfigError as error:
            message = error.what if error.what.startswith(where) else f"{where}: {error.what}"
            raise ConfigError(message, error.action) from None
        decides, taught = {**table, "data": _data_table(scenario)}, teaching(scenario)
        for seed in range(spec.study.seeds):
            id = canonical_digest([point, seed, spec.study.home_share, decides])[:12]
            cases.append(Plot(id, point, seed, table, taught))
    if not cases:
        raise ConfigError(f"study {spec.name}: its exceptions leave out every cell", "Remove one of [[except]]")
    return cases


def _table(spec: StudySpec, points: list[dict[str, Any]]) -> dict[str, Any]:
    name = spec.study.scenario
    place = name if name in Shipped.SCENARIO.files() else str(spec.folder / name)
    base = dict(scenario_table(place)) if name else {}
    for changes in (spec.base, *points):
        base = changed(base, changes)
        if isinstance(changes.get("data"), dict):  # paths that it sets are relative to the study's file
            anchor(base.get("data"), spec.folder)
    if not base:
        raise ConfigError("names no scenario and has no [base]", 'Set study.scenario, for example "stroke"')
    return base


def source_digest(source: Source) -> str:
    """SHA-1, hex, of rows (encoded as if all were public, so that every category is there), labels, owners, patients,
    times and their names, and of which rows are public."""
    dataset, public = source.dataset(np.arange(len(source.y))), source.public
    rows = [dataset.x, source.y, source.owner, source.patient, source.time]
    named = [source.name, source.classes, dataset.classes, dataset.features, source.owner_names]
    schema = None if dataset.schema is None else dataset.schema.model_dump(mode="json")
    asked = None if public is None else [public.queries, public.test]
    return str(joblib.hash([rows, named, schema, asked], hash_name="sha1"))
