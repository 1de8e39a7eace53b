"""Files of studies: what they may say, and every mistake as one line that names axis and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from consilium.protocol.errors import ConfigError
from consilium.simulations.shipped import Shipped
from consilium.simulations.study.cells import cell_id, compared, plots
from consilium.simulations.study.spec import StudyAxis, changed, load_study, points_of
from tests.simulations.study.tiny import STUDY, write_tiny


def merged(table: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Tables within tables; what is no table is replaced."""
    made = dict(table)
    for key, value in changes.items():
        made[key] = merged(made.get(key, {}), value) if isinstance(value, dict) else value
    return made


def test_cells_are_axes_times_seeds_times_methods(tmp_path: Path) -> None:
    spec = load_study(str(write_tiny(tmp_path)))
    first, *_, last = found = plots(spec)
    assert list(compared(spec)) == ["local", "plurality", "pate"]
    assert len({cell_id(plot, method) for plot in found for method in compared(spec)}) == 2 * 2 * 2 * 3
    assert dict(first.axes) == {"federation.mechanism.sigma": "2.0", "division": "natural"}
    assert (first.seed, last.table["data"]["parties"], last.table["federation"]["mechanism"]["sigma"]) == (0, 6, 4.0)
    assert first.table["data"]["path"] == str(tmp_path / "rows.csv"), "relative to the study's file"


def test_ids_do_not_depend_on_where_files_lie(tmp_path: Path) -> None:
    here, there = (load_study(str(write_tiny(tmp_path / name))) for name in ("here", "there"))
    assert [plot.id for plot in plots(here)] == [plot.id for plot in plots(there)]
    assert here.digest() == there.digest()


def test_exceptions_leave_out_combinations(tmp_path: Path) -> None:
    spec = load_study(
        str(write_tiny(tmp_path, **{"except": [{"division": ["iid"], "federation.mechanism.sigma": "4.0"}]}))
    )
    points = {tuple(plot.axes.values()) for plot in plots(spec)}
    assert points == {("2.0", "natural"), ("2.0", "iid"), ("4.0", "natural")}


def test_methods_that_differ_in_keys_have_names_of_their_own(tmp_path: Path) -> None:
    methods = ["local", {"name": "plurality", "label": "all votes"}, "pate"]
    spec = load_study(str(write_tiny(tmp_path, study={"methods": methods})))
    assert list(compared(spec)) == ["local", "all votes", "pate"]


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"study": {"sedes": 3}}, "study.sedes: unknown key; did you mean study.seeds"),
    "no seeds": ({"study": {"seeds": 0}}, "study.seeds: must be at least 1"),
    "unknown method": ({"study": {"methods": ["telepathy"]}}, "study.methods: no method 'telepathy'"),
    "methods twice": ({"study": {"methods": ["pate", "pate"]}}, "two things would be called 'pate'"),
    "label of another": (
        {"study": {"methods": [{"name": "pate", "label": "pooled by vote"}]}},
        "the label 'pooled by vote' of pate begins like 'pooled'",
    ),
    "axis of nothing": ({"axis": [{"key": "data.alpha"}]}, "needs either values or points, has none"),
    "points without name": ({"axis": [{"points": {"a": {}}}]}, "points need a name"),
    "axes twice": ({"axis": [STUDY["axis"][0], STUDY["axis"][0]]}, "two axes are called 'federation.mechanism.sigma'"),
    "value twice": ({"axis": [{"key": "data.alpha", "values": [1, 1]}]}, "axis data.alpha: 1 stands there twice"),
    "unknown axis key": (
        {"axis": [{"key": "data.alpa", "values": [0.5]}]},
        "study tiny, data.alpa = 0.5: data.alpa: unknown key; did you mean data.alpha",
    ),
    "value not allowed": (
        {"axis": [{"key": "federation.teachers_per_party", "values": [1, 0]}]},
        "federation.teachers_per_party = 0: federation.teachers_per_party: must be at least 1",
    ),
    "unknown exception": ({"except": [{"city": "x"}]}, "except 1 names 'city', and there is no such axis"),
    "nothing left": ({"except": [{"division": ["natural", "iid"]}]}, "its exceptions leave out every cell"),
    "too many": (
        {"axis": [{"key": f"data.{at}", "values": list(range(999))} for at in range(2)]},
        "cells, more than 100,000",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line(tmp_path: Path, name: str) -> None:
    changes, told = MISTAKES[name]
    with pytest.raises(ConfigError, match=told):
        spec = load_study(str(write_tiny(tmp_path, **changes)))
        compared(spec)
        plots(spec)


def test_no_such_study_names_those_there_are() -> None:
    with pytest.raises(ConfigError, match="no study 'nothing': neither a file nor one that ships"):
        load_study("nothing")


@pytest.mark.parametrize("name", Shipped.STUDY.files())
def test_a_shipped_study_can_be_unfolded(name: str) -> None:
    assert plots(load_study(name)) and compared(load_study(name))


def test_labels_of_values() -> None:
    axis = StudyAxis.model_validate({"key": "a", "values": [True, "iid", 0.1, 3, [1], {"b": 1}]})
    assert list(points_of(axis)) == ["true", "iid", "0.1", "3", "[1]", '{"b":1}']


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
