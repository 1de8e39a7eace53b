"""Files of studies: what they may say, every mistake as one line, and addresses that change with what decides. And the
settings of one division share caches, and never the cost of something else."""

from __future__ import annotations

import functools
import gc
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import joblib
import pytest

from consilium.accounting.events import ReleaseEvent
from consilium.accounting.mechanisms import Histogram
from consilium.accounting.target import worst_case
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError
from consilium.simulations.datasets.source import open_source
from consilium.simulations.divide import make_case
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import Scenario
from consilium.simulations.shipped import Shipped
from consilium.simulations.study.compute import _within_rows
from consilium.simulations.study.spec import (
    changed,
    compared,
    ensemble_address,
    load_study,
    plots,
    source_digest,
    teaching,
)
from consilium.simulations.vote import train_ensemble
from tests.simulations.study.tiny import SCENARIO, STUDY, rows, write_tiny


def merged(table: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Tables within tables; what is no table is replaced."""
    made = dict(table)
    for key, value in changes.items():
        made[key] = merged(made.get(key, {}), value) if isinstance(value, dict) else value
    return made


def test_cells_are_axes_times_seeds_times_methods_but_for_exceptions(tmp_path: Path) -> None:
    methods = ["local", {"name": "plurality", "label": "all votes"}, "pate"]
    spec = load_study(str(write_tiny(tmp_path, study={**STUDY["study"], "methods": methods})))
    first, *_, last = found = plots(spec)
    assert list(compared(spec)) == ["local", "all votes", "pate"]
    assert len({plot.cell(method) for plot in found for method in compared(spec)}) == 2 * 2 * 3 * 3
    assert dict(first.axes) == {"federation.mechanism.sigma": "2.0", "division": "natural"}
    assert (first.seed, last.table["data"]["parties"], last.table["federation"]["mechanism"]["sigma"]) == (0, 6, 4.0)
    assert first.table["data"]["path"] == str(tmp_path / "rows.csv"), "relative to the study's file"
    less = {"except": [{"division": ["iid"], "federation.mechanism.sigma": "4.0"}]}
    fewer = plots(load_study(str(write_tiny(tmp_path, **less))))
    points = {tuple(plot.axes.values()) for plot in fewer}
    assert points == {("2.0", "natural"), ("2.0", "iid"), ("4.0", "natural")}


def test_ids_do_not_depend_on_where_files_lie(tmp_path: Path) -> None:
    here, there = (load_study(str(write_tiny(tmp_path / name))) for name in ("here", "there"))
    assert [plot.id for plot in plots(here)] == [plot.id for plot in plots(there)]
    assert here.digest() == there.digest()


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"study": {"sedes": 3}}, "study.sedes: unknown key; did you mean study.seeds"),
    "no seeds": ({"study": {"seeds": 0}}, "study.seeds: must be at least 1"),
    "unknown method": ({"study": {"methods": ["telepathy"]}}, "study.methods: no method 'telepathy'"),
    "methods twice": ({"study": {"methods": ["pate", "pate"]}}, "two things would be called 'pate'"),
    "label of another": ({"study": {"methods": [{"name": "pate", "label": "pooled by vote"}]}},
     "the label 'pooled by vote' of pate begins like 'pooled'"),
    "axis of nothing": ({"axis": [{"key": "data.alpha"}]}, "needs either values or points, has none"),
    "points without name": ({"axis": [{"points": {"a": {}}}]}, "points need a name"),
    "axes twice": ({"axis": [STUDY["axis"][0], STUDY["axis"][0]]},
     "two axes are called 'federation.mechanism.sigma'"),
    "value twice": ({"axis": [{"key": "data.alpha", "values": [1, 1]}]}, "axis data.alpha: 1 stands there twice"),
    "unknown axis key": ({"axis": [{"key": "data.alpa", "values": [0.5]}]},
     "study tiny, data.alpa = 0.5: data.alpa: unknown key; did you mean data.alpha"),
    "value not allowed": ({"axis": [{"key": "federation.teachers_per_party", "values": [1, 0]}]},
     "federation.teachers_per_party = 0: federation.teachers_per_party: must be at least 1"),
    "unknown exception": ({"except": [{"city": "x"}]}, "except 1 names 'city', and there is no such axis"),
    "nothing left": ({"except": [{"division": ["natural", "iid"]}]}, "its exceptions leave out every cell"),
    "too many": ({"axis": [{"key": f"data.{at}", "values": list(range(999))} for at in range(2)]},
     "cells, more than 100,000"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line(tmp_path: Path, name: str) -> None:
    changes, told = MISTAKES[name]
    with pytest.raises(ConfigError, match=told):
        spec = load_study(str(write_tiny(tmp_path, **changes)))
        compared(spec)
        plots(spec)


@pytest.mark.parametrize("name", Shipped.STUDY.files())
def test_a_shipped_study_can_be_unfolded(name: str) -> None:
    assert plots(load_study(name)) and compared(load_study(name))


CHANGES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
    # a kind drops the keys of the former kind
    (
        {"federation": {"teacher": {"model": "logistic_regression", "C": 0.3}}},
        {"federation": {"teacher": {"trees": 5, "model": "random_forest"}}},
        {"federation": {"teacher": {"model": "random_forest", "trees": 5}}},
    ),
    # another set drops what was said of the former's columns, not of how it is divided
    (
        {"data": {"set": "table", "path": "x.csv", "label": "ill", "least_rows": 5}},
        {"data": {"set": "stroke"}},
        {"data": {"set": "stroke", "least_rows": 5}},
    ),
    # noise is calibrated to a new epsilon, unless it is given beside it
    (
        {"federation": {"privacy": {"delta": 0.1}, "mechanism": {"name": "confident", "sigma1": 1, "threshold": 3}}},
        {"federation": {"privacy": {"epsilon": 2.0}}},
        {"federation": {"privacy": {"delta": 0.1, "epsilon": 2.0}, "mechanism": {"name": "confident", "threshold": 3}}},
    ),
    (
        {"federation": {"mechanism": {"name": "gnmax", "sigma": 1}}},
        {"federation": {"privacy": {"epsilon": 2.0}, "mechanism": {"sigma": 9}}},
        {"federation": {"privacy": {"epsilon": 2.0}, "mechanism": {"name": "gnmax", "sigma": 9}}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("table", "changes", "made"), CHANGES)
def test_what_a_change_leaves(table: dict[str, Any], changes: dict[str, Any], made: dict[str, Any]) -> None:
    assert changed(table, changes) == made


def test_overrides_and_seeds_of_the_command_line(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, axis=[])
    spec = load_study(str(path), ["federation.mechanism.sigma=7.5", "data.partition=iid", "data.parties=5"], 3)
    found = plots(spec)
    assert {plot.seed for plot in found} == {0, 1, 2}
    assert found[0].table["federation"]["mechanism"]["sigma"] == 7.5
    assert spec.digest() != load_study(str(path)).digest()


# -- addresses --------------------------------------------------------------------------------------------------------

OTHER_VOTES: dict[str, dict[str, Any]] = {
    "division": {"data": {"partition": "iid", "parties": 5}},
    "share of public rows": {"data": {"public_share": 0.3}},
    "kind of teacher": {"federation": {"teacher": {"model": "random_forest"}}},
    "teacher's key": {"federation": {"teacher": {"C": 0.1}}},
    "teachers of a party": {"federation": {"teachers_per_party": 2}},
    "voting_rule": {"federation": {"voting_rule": {"rule": "relative", "shares": [0.5, 0.5]}}},
    "own teacher": {"simulation": {"own_teacher": {"model": "random_forest"}}},
    "fewest parties": {"federation": {"minimum_parties": 5}},
}
SAME_VOTES: dict[str, dict[str, Any]] = {
    "mechanism": {"federation": {"mechanism": {"name": "confident", "sigma1": 5, "sigma2": 5, "threshold": 3}}},
    "noise": {"federation": {"mechanism": {"sigma": 9}}},
    "query_budget": {"federation": {"query_budget": {"queries": 3, "answers": 3}}},
    "privacy": {"federation": {"privacy": {"delta": 1e-6, "unit": "party", "neighbouring": "add_or_remove"}}},
    "student": {"student": {"trainer": {"C": 3.0}}},
    "name": {"federation": {"name": "another"}},
    "collection": {"federation": {"collection": "secure"}},
    "words": {"description": "another", "data": {"title": "another", "label_cost": "a month"}},
    "manual labels": {"simulation": {"manual_labels": "none"}},
    "time limits": {"federation": {"timeouts": {"train": 3}}},
    "where the file lies": {"data": {"path": "/elsewhere/rows.csv"}},
}


def scenario(changes: dict[str, Any]) -> Scenario:
    return validate(changed(SCENARIO, changes), Scenario, "scenario")


def address(changes: dict[str, Any], seed: int = 0, data: str = "d") -> str:
    return ensemble_address(scenario(changes), seed, data)


@pytest.mark.parametrize("name", [*OTHER_VOTES, *SAME_VOTES])
def test_what_decides_votes_and_nothing_else_is_in_the_address_of_an_ensemble(name: str) -> None:
    assert (address({**OTHER_VOTES, **SAME_VOTES}[name]) == address({})) == (name in SAME_VOTES)
    assert len({address({}), address({}, seed=1), address({}, data="e")}) == 3


@pytest.mark.parametrize("name", ["mechanism", "student"])
def test_an_ensemble_is_what_its_address_says(tmp_path: Path, name: str) -> None:
    """Bit for bit: trained for the scenario as it is, and for its one form; the case of one becomes the other's."""
    rows().write_csv(tmp_path / "rows.csv")
    made = scenario({"data": {"path": str(tmp_path / "rows.csv")}, **SAME_VOTES[name]})
    case, plain = (make_case(each, 1, 0.2) for each in (made, teaching(made)))
    assert joblib.hash(train_ensemble(case)) == joblib.hash(train_ensemble(plain))
    moved = plain.of(made)
    assert moved.config == case.config and moved.scenario == case.scenario and moved.home.keys() == case.home.keys()
    assert replace(moved, dataset=case.dataset, partition=case.partition, home=case.home) == case


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.head(399),
        lambda table: table.with_columns(age=table["age"] + (table["age"] == table["age"].max()) * 0.1),
        lambda table: table.with_columns(clinic=table["clinic"].str.replace("clinic 3", "clinic 4")),
        lambda table: table.with_columns(ill=table["ill"].reverse()),
        lambda table: table.rename({"pulse": "heart rate"}),
    ],
    ids=["row", "feature", "owner", "label", "name"],
)
def test_the_hash_of_rows_changes_with_them(tmp_path: Path, change: Any) -> None:
    found = []
    for name, table in {"a": rows(), "b": rows(), "c": change(rows())}.items():
        table.write_csv(tmp_path / f"{name}.csv")
        keys = {**SCENARIO["data"], "path": str(tmp_path / f"{name}.csv")}
        found.append(source_digest(open_source(DataSpec.model_validate(keys))))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("change", "rows", "budget"),
    [
        ({}, 16, (16, 16)),
        ({}, 250, (250, 200)),
        ({}, 1000, (300, 200)),
        ({"mechanism": {"name": "histogram", "sigma": 40.0}}, 16, (300, 200)),
        ({"privacy": {"delta": 1e-5, "unit": "party"}}, 16, (300, 200)),
    ],
)
def test_each_row_is_asked_once_at_most_but_noise_and_budgets_that_are_stated_stay(
    change: dict[str, Any], rows: int, budget: tuple[int, int]
) -> None:
    federation: dict[str, Any] = {
        "mechanism": {"name": "histogram"},
        "query_budget": {"queries": 300, "answers": 200},
        "privacy": {"epsilon": 1.0, "delta": 1e-5, "unit": "party"},
        **change,
    }
    assert tuple(_within_rows(federation, rows)["query_budget"].values()) == budget


EVENT = ReleaseEvent(
    mechanism=Histogram(90), asked=300, answered=300, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE,
    teachers_per_party=2, towards=Towards.STUDENT, noise=Noise.DISCRETE,
)  # fmt: skip
OTHER_EVENTS: dict[str, dict[str, Any]] = {
    "asked": {"asked": 301, "answered": 301},
    "answered": {"asked": 200, "answered": 200},
    "unit": {"unit": Unit.PARTY},
    "neighbouring": {"neighbouring": Neighbouring.ADD_OR_REMOVE},
    "teachers_per_party": {"teachers_per_party": 3},
    "towards": {"towards": Towards.COORDINATOR},
    "noise": {"noise": Noise.CONTINUOUS},
    "slack": {"slack": 1e-6},
    "mechanism": {"mechanism": Histogram(90.00001)},
    "delta": {},
}
OTHER_COST = ("asked", "answered", "neighbouring", "slack", "mechanism", "delta")


@pytest.mark.parametrize("name", OTHER_EVENTS)
def test_no_cost_is_that_of_another_event(name: str) -> None:
    """What is kept of the event before changes nothing of this one, to the last digit."""
    assert OTHER_EVENTS.keys() == {*(field.name for field in fields(EVENT)), "delta"}
    changed, delta = replace(EVENT, **OTHER_EVENTS[name]), 2e-5 if name == "delta" else 1e-5
    first, warm = worst_case([EVENT], 1e-5), worst_case([changed], delta)
    for kept in gc.get_objects():
        if isinstance(kept, functools._lru_cache_wrapper) and kept.__module__.startswith("consilium.accounting"):
            kept.cache_clear()
    assert worst_case([changed], delta) == warm
    assert (warm.epsilon != first.epsilon) or name not in OTHER_COST
