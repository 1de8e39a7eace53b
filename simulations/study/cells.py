"""What a study compares, unfolded: every combination of axes with every seed, and which of them share their teachers.

What teachers say does not depend on mechanism, query budget, privacy, student or title. So it is computed from a
scenario in which these have one form (`teaching`), and its address is that scenario's: what is left out cannot decide
it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import joblib
import numpy as np

from consilium.coordinator.config import Federation
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.versions import versions
from consilium.simulations.datasets.base import Source
from consilium.simulations.divide import clear_votes
from consilium.simulations.methods.base import StudyMethod
from consilium.simulations.methods.kinds import METHODS, method_of
from consilium.simulations.scenario import Scenario, anchor, scenario_table, with_any_noise, without_mechanism
from consilium.simulations.shipped import Shipped
from consilium.simulations.study.spec import MOST_CELLS, StudySpec, changed, points_of

_DECIDING = ("python", "consilium-pate", "numpy", "scipy", "scikit-learn", "torch", "flwr", "flwr-datasets")
_DATA_DECIDES_NOT: Any = {
    **dict.fromkeys(("path", "list", "title", "attribution", "owner_label", "label_cost"), True),
    "public": {"file", "test"},
}
_STAND_IN = {
    "name": "teachers",
    "collection": "plaintext",
    "privacy": {"unit": "party", "delta": 1e-5},
    "query_budget": {"queries": 1, "answers": 1},
    "mechanism": {"name": "gnmax", "sigma": 9_999.0},
}


@functools.cache
def deciding_versions() -> Mapping[str, str]:
    """Versions on which results may depend."""
    every = versions()
    return {name: every[name] for name in _DECIDING if name in every}


def teaching(scenario: Scenario) -> Scenario:
    """The same division, teachers and votes, and one form of everything else."""
    simulation = scenario.simulation
    kept = {"minimum_parties", "teachers_per_party", "teacher", "voting_rule"}
    plain = Federation.model_validate({**scenario.federation.model_dump(mode="json", include=kept), **_STAND_IN})
    own = {"teachers": simulation.teachers, "own_teacher": simulation.own_teacher}
    others = simulation.model_copy(update=dict(type(simulation)()) | own)
    return Scenario(data=scenario.data, federation=plain, simulation=others)


def ensemble_address(scenario: Scenario, seed: int, data: str) -> str:
    """Of what teachers say on a division. data: content hash of the rows that are divided."""
    taught = teaching(scenario).model_dump(mode="json", exclude={"data", "description"})
    return canonical_digest([taught, data_table(scenario), seed, data])


def data_table(scenario: Scenario) -> dict[str, Any]:
    """The table `[data]` without where its files lie, whose content is hashed, and without words for the report."""
    return scenario.data.model_dump(mode="json", exclude=_DATA_DECIDES_NOT)


@dataclass(frozen=True)
class Plot:
    """One point of the axes with one seed, which all methods share. axes: the value of each, as text. table: the
    scenario's, as it was written. teaching: see `teaching`."""

    id: str
    axes: Mapping[str, str] = field(compare=False)
    seed: int
    table: Mapping[str, Any] = field(repr=False, compare=False)
    teaching: Scenario = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{called(self.axes)}, seed {self.seed}" if self.axes else f"seed {self.seed}"


def called(axes: Mapping[str, str]) -> str:
    """A point of the axes in words: `data.alpha = 0.1, mechanism = gnmax`."""
    return ", ".join(f"{name} = {label}" for name, label in axes.items())


def cell_id(plot: Plot, method: str) -> str:
    """Of what is told of a plot under the name of a method."""
    return canonical_digest([plot.id, method])[:12]


def compared(spec: StudySpec) -> dict[str, StudyMethod]:
    """The methods by what they are called: their names, with keys that have another value than usual. Raises
    ConfigError: there is no such method, or two are called the same."""
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
    ConfigError: a scenario says something it may not say; names the axis, its value and the key."""
    axes = {axis.column: points_of(axis) for axis in spec.axis}
    count = prod(map(len, axes.values())) * spec.study.seeds * len(spec.study.methods)
    if count > MOST_CELLS:
        fault = f"study {spec.name} has {count:,} cells, more than {MOST_CELLS:,}"
        raise ConfigError(fault, "Give axes fewer values, or divide it")
    left_out = _exceptions(spec, axes)
    cases = []
    for labels in product(*axes.values()):
        point = dict(zip(axes, labels, strict=True))
        if any(all(point[name] in some for name, some in exception.items()) for exception in left_out):
            continue
        where = f"study {spec.name}{f', {called(point)}' if point else ''}"
        try:
            table = _table(spec, [axes[name][label] for name, label in point.items()])
            clear_votes(without_mechanism(table, where))
            scenario = with_any_noise(table, where)
        except ConfigError as error:
            message = error.what if error.what.startswith(where) else f"{where}: {error.what}"
            raise ConfigError(message, error.action) from None
        decides, taught = {**table, "data": data_table(scenario)}, teaching(scenario)
        for seed in range(spec.study.seeds):
            id = canonical_digest([point, seed, spec.study.home_share, decides])[:12]
            cases.append(Plot(id, point, seed, table, taught))
    if not cases:
        raise ConfigError(f"study {spec.name}: its exceptions leave out every cell", "Remove one of [[except]]")
    return cases


def _table(spec: StudySpec, points: list[dict[str, Any]]) -> dict[str, Any]:
    """The table of a scenario at these points of the axes, with absolute paths."""
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


def _exceptions(spec: StudySpec, axes: Mapping[str, Mapping[str, Any]]) -> list[dict[str, list[str]]]:
    """Of each exception the points of each axis that it names."""
    exceptions = []
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
        exceptions.append(named)
    return exceptions


def source_digest(source: Source) -> str:
    """SHA-1, hex, of rows (as they are when all are public, so that every category is there), of labels, owners and
    patients, of their names, and of what is public among them."""
    dataset, public = source.dataset(np.arange(len(source.y))), source.public
    rows = [dataset.x, source.y, source.owner, source.patient, source.time]
    named = [source.name, source.classes, dataset.classes, dataset.features, source.owner_names]
    schema = None if dataset.schema is None else dataset.schema.model_dump(mode="json")
    asked = None if public is None else [public.queries, public.test]
    return str(joblib.hash([rows, named, schema, asked], hash_name="sha1"))
