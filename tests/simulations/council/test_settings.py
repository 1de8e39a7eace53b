"""Parameters become a scenario; what they must not say is refused in their own words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.naive_bayes import GaussianNB
from torch import nn

from consilium.models.naming import read_estimator
from consilium.simulations.council.estimator import Council
from consilium.simulations.council.frames import BadSetting, GivenRows
from consilium.simulations.council.settings import completed, scenario_of
from consilium.simulations.datasets.table import TableSource
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import Scenario, divided_data

ROWS, Y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])


def scenario(
    folder: Path, owners: Any = ("a", "a", "b", "c"), patients: Any = None, public: Any = None, **changed: Any
):
    council = Council(**{"unit": "party", **changed})
    rows = GivenRows.of(ROWS, Y, None if owners is None else list(owners), patients, public, council.classes)
    return scenario_of(council.get_params(deep=False), rows, folder)


def test_what_is_left_out_takes_the_noise_of_epsilon(tmp_path: Path) -> None:
    table = scenario(tmp_path)
    assert table["federation"]["privacy"] == {"unit": "party", "neighbouring": "replace", "delta": 1e-5, "epsilon": 1.0}
    assert (table["federation"]["collection"], table["federation"]["minimum_parties"]) == ("plaintext", 2)
    assert "mechanism" not in table["federation"]  # what it is follows from the classes
    assert table["student"] == {"public_labels": 0}
    assert table["simulation"]["noise"] == "system"
    assert table["data"]["public"] == {"by": "owner", "share": 0.2}


CASES: list[tuple[dict[str, Any], tuple[str, ...], Any]] = [
    ({"teacher": "ridge"}, ("federation", "teacher"), {"model": "ridge"}),
    ({"teacher": {"model": "estimator", "factory": "a:b"}}, ("simulation", "own_teacher", "factory"), "a:b"),
    ({"student": "a.B"}, ("student", "trainer"), {"name": "estimator", "factory": "a.B"}),
    ({"student": {"name": "ridge", "alpha": 2.0}}, ("student", "trainer", "alpha"), 2.0),
    ({"settings": {"student.rounds": 2}}, ("student", "rounds"), 2),
    ({"mechanism": {"name": "gnmax", "sigma": 4.0}}, ("federation", "mechanism", "sigma"), 4.0),
    ({"mechanism": "histogram", "queries": 5}, ("federation", "query_budget"), {"queries": 5}),
    ({"owners": None, "parties": 2, "patients": ["p", "p", "q", "q"]}, ("data", "partition"), "groups"),
    ({"public": ["b"]}, ("data", "public"), {"by": "owner", "owners": ("b",)}),
]


@pytest.mark.parametrize(("changed", "key", "expected"), CASES)
def test_each_parameter_reaches_its_key(
    tmp_path: Path, changed: dict[str, Any], key: tuple[str, ...], expected: Any
) -> None:
    found: Any = scenario(tmp_path, **changed)
    for part in key:
        found = found[part]
    assert found == expected


def test_estimators_go_into_files_that_their_users_read(tmp_path: Path) -> None:
    table = scenario(tmp_path, teacher=GaussianNB(var_smoothing=1e-3), student=GaussianNB())
    own = table["simulation"]["own_teacher"]
    assert own["model"] == "pickled"
    assert table["student"]["trainer"]["name"] == "pickled"
    assert read_estimator(Path(own["file"]), own["sha256"], 0).var_smoothing == 1e-3
    assert Path(own["file"]).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("teachers", "parties"), [(1, 9), (3, 7)])
def test_the_same_table_has_the_same_parties_by_both_doors(tmp_path: Path, teachers: int, parties: int) -> None:
    """Owners with 1 to 11 rows, two of them public: one row for each teacher is enough."""
    sizes = range(1, 12)
    frame = pl.DataFrame({"site": [f"S{n:02}" for n in sizes for _ in range(n)]}).with_columns(
        age=pl.int_range(pl.len()).cast(pl.Float64), ill=pl.int_range(pl.len()) % 2
    )
    frame.write_csv(tmp_path / "rows.csv")
    public = {"by": "owner", "owners": ["S10", "S11"]}
    keys = {"set": "table", "path": str(tmp_path / "rows.csv"), "label": "ill", "owner": "site", "public": public}
    federation: dict[str, Any] = {
        "name": "x",
        "minimum_parties": 2,
        "teachers_per_party": teachers,
        "collection": "plaintext",
        "privacy": {"unit": "record", "delta": 1e-5},
        "mechanism": {"name": "gnmax", "sigma": 9.0},
        "query_budget": {"queries": 3, "answers": 3},
    }
    by_file = Scenario.model_validate({"data": keys, "federation": federation})

    council = Council(
        unit="record", teachers_per_party=teachers, mechanism={"name": "gnmax", "sigma": 9.0}, queries=3, epsilon=None
    )
    rows = GivenRows.of(frame, "ill", "site", None, ["S10", "S11"], None)
    table = scenario_of(council.get_params(deep=False), rows, tmp_path)
    source = TableSource.of_frame(rows.frame, DataSpec.model_validate(table["data"]), rows.public)
    in_memory = completed(table, 0, source)

    found = [divided_data(by_file, 0)[1], divided_data(in_memory, 0, source)[1]]
    assert [len(each.parties) for each in found] == [parties, parties]
    assert [each.left_out for each in found] == [9 - parties, 9 - parties]
    assert list(found[0].parties) == list(found[1].parties)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"unit": None}, "unit is not said, and it has no default: whose data is the promise about"),
    ({"teacher": nn.Linear(2, 2)}, "teacher is a torch module"),
    ({"owners": None}, "nobody says whose rows are whose"),
    ({"unit": "patient"}, "unit is 'patient', and nobody says whose rows are whose"),
]


@pytest.mark.parametrize(("changed", "told"), WRONG)
def test_what_parameters_may_not_say(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    with pytest.raises(BadSetting, match=told) as error:
        scenario(tmp_path, **changed)
    assert isinstance(error.value, ValueError)
