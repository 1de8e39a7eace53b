"""Addresses change with everything that decides a step, and with nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import pytest

from consilium.protocol.config_files import validate
from consilium.simulations.datasets.source import open_source
from consilium.simulations.divide import make_case
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import Scenario
from consilium.simulations.study.cells import ensemble_address, source_digest, teaching
from consilium.simulations.study.compute import _within_rows
from consilium.simulations.study.spec import changed
from consilium.simulations.vote import train_ensemble
from tests.simulations.study.tiny import SCENARIO, rows

OTHER_VOTES: dict[str, dict[str, Any]] = {
    "division": {"data": {"partition": "iid", "parties": 5}},
    "share of public rows": {"data": {"public_share": 0.3}},
    "kind of teacher": {"federation": {"teacher": {"model": "random_forest"}}},
    "teacher's key": {"federation": {"teacher": {"C": 0.1}}},
    "teachers of a party": {"federation": {"teachers_per_party": 2}},
    "voting_rule": {"federation": {"voting_rule": {"rule": "relative", "shares": [0.5, 0.5]}}},
    "own teachers": {"simulation": {"teachers": [{"share": 0.5, "teacher": {"model": "random_forest"}}]}},
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


@pytest.mark.parametrize("name", OTHER_VOTES)
def test_what_decides_votes_is_in_the_address_of_an_ensemble(name: str) -> None:
    assert address(OTHER_VOTES[name]) != address({})


@pytest.mark.parametrize("name", SAME_VOTES)
def test_what_does_not_is_not(name: str) -> None:
    assert address(SAME_VOTES[name]) == address({})


def test_seed_and_data_are_in_it_too() -> None:
    assert len({address({}), address({}, seed=1), address({}, data="e")}) == 3


@pytest.mark.parametrize("name", ["mechanism", "student"])
def test_an_ensemble_is_what_its_address_says(tmp_path: Path, name: str) -> None:
    """Bit for bit: trained for the scenario as it is, and for its one form."""
    rows().write_csv(tmp_path / "rows.csv")
    place = {"data": {"path": str(tmp_path / "rows.csv")}}
    made = scenario({**place, **SAME_VOTES[name]})
    cases = [make_case(each, 1, 0.2) for each in (made, teaching(made))]
    one, other = (joblib.hash(train_ensemble(case)) for case in cases)
    assert one == other


def opened(folder: Path, change: Any = None) -> Any:
    folder.mkdir(exist_ok=True)
    table = rows()
    (table if change is None else change(table)).write_csv(folder / "rows.csv")
    data = {**SCENARIO["data"], "path": str(folder / "rows.csv")}
    return open_source(DataSpec.model_validate(data))


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
    same = source_digest(opened(tmp_path / "a"))
    assert source_digest(opened(tmp_path / "b")) == same
    assert source_digest(opened(tmp_path / "c", change)) != same


def test_a_case_of_another_scenario_has_the_same_division(tmp_path: Path) -> None:
    rows().write_csv(tmp_path / "rows.csv")
    place = {"data": {"path": str(tmp_path / "rows.csv")}}
    plain, other = scenario(place), scenario({**place, **SAME_VOTES["mechanism"]})
    moved, made = make_case(plain, 2, 0.2).of(other), make_case(other, 2, 0.2)
    assert moved.config == made.config and moved.scenario == made.scenario
    assert moved.home.keys() == made.home.keys()
    assert replace(moved, dataset=made.dataset, partition=made.partition, home=made.home) == made


FEDERATION: dict[str, Any] = {
    "mechanism": {"name": "histogram"},
    "query_budget": {"queries": 300, "answers": 200},
    "privacy": {"epsilon": 1.0, "delta": 1e-5, "unit": "party"},
}


@pytest.mark.parametrize(("rows", "queries", "answers"), [(16, 16, 16), (250, 250, 200), (1000, 300, 200)])
def test_each_different_row_is_asked_once_at_most(rows: int, queries: int, answers: int) -> None:
    assert _within_rows(FEDERATION, rows)["query_budget"] == {"queries": queries, "answers": answers}


@pytest.mark.parametrize(
    "change", [{"mechanism": {"name": "histogram", "sigma": 40.0}}, {"privacy": {"delta": 1e-5, "unit": "party"}}]
)
def test_noise_and_budgets_that_are_stated_stay(change: dict[str, Any]) -> None:
    federation = FEDERATION | change
    assert _within_rows(federation, 16) == federation
