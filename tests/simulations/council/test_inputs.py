"""From what people hold in memory, and the arguments and parameters of a fit, to the scenario that is run: the same
table whatever holds it; what is left out follows from public rows."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.naive_bayes import GaussianNB

from consilium.coordinator.config import Federation
from consilium.models.naming import read_estimator
from consilium.protocol.config_files import validate
from consilium.simulations.council.estimator import Council
from consilium.simulations.council.frames import BadSetting, GivenRows, frame_of, has_names
from consilium.simulations.council.settings import completed, scenario_of
from consilium.simulations.datasets.table import TableSource
from consilium.simulations.population.specs import DataSpec
from tests.simulations.council.warm import hospitals

TABLE = pl.DataFrame({"n": [1.5, None, 3.0], "t": ["a", None, "b"], "b": [True, False, None]})


class Arrow:
    """Something that gives Arrow's C stream, and has nothing else."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


def test_named_tables_are_the_same_whatever_holds_them() -> None:
    for held in (TABLE, TABLE.lazy(), Arrow()):
        assert has_names(held)
        assert frame_of(held).to_dict(as_series=False) == TABLE.to_dict(as_series=False)


BIG = 2**53 + 1
"""float64 has no such number."""
ARRAYS: list[tuple[str, Any, dict[str, list[Any]]]] = [
    ("floats", np.array([[1.0, np.nan], [2.0, 3.0]]), {"x0": [1.0, 2.0], "x1": [None, 3.0]}),
    ("truth values", np.array([[True], [False]]), {"x0": [True, False]}),
    ("texts", np.array([["a", "b"], ["c", "d"]]), {"x0": ["a", "c"], "x1": ["b", "d"]}),
    ("mixed", np.array([[1, "b"], [None, "d"]], dtype=object), {"x0": [1.0, None], "x1": ["b", "d"]}),
    ("numbers and texts", np.array([[1], ["> 89"]], dtype=object), {"x0": ["1", "> 89"]}),
    ("dates", np.array([[datetime.date(2020, 1, 2)], [None]], dtype=object), {"x0": ["2020-01-02", None]}),
    ("large beside fractions", np.array([[BIG], [0.5]], dtype=object), {"x0": [str(BIG), "0.5"]}),
    ("moments in seconds", np.array([["1970-01-02"]], dtype="M8[s]"), {"x0": [datetime.datetime(1970, 1, 2)]}),
]


@pytest.mark.parametrize(("rows", "expected"), [case[1:] for case in ARRAYS], ids=[case[0] for case in ARRAYS])
def test_arrays_get_names_of_their_own(rows: Any, expected: dict[str, list[Any]]) -> None:
    assert not has_names(rows)
    found = frame_of(rows)
    assert found.to_dict(as_series=False) == expected


SITES = pl.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "ill": ["n", "y", "n", "y"], "site": ["a", "a", "b", "c"]})
ROWS, Y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])


def given(rows: Any = SITES, y: Any = "ill", owners: Any = "site", **named: Any) -> GivenRows:
    return GivenRows.of(rows, y, owners, named.get("patients"), named.get("public"), named.get("classes"))


def test_arrays_become_columns_beside_those_that_are_there() -> None:
    rows = SITES.rename({"ill": "y", "site": "owner"})
    found = given(rows, Y, ["p", "p", "q", "r"])
    assert (found.features, found.label, found.owner) == (("age", "y", "owner"), "y_", "owner_")
    assert found.frame["owner_"].to_list() == ["p", "p", "q", "r"]


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


def test_with_epsilon_alone_labels_are_asked_with_the_noise_that_it_takes() -> None:
    rows = hospitals(20, rows=20)
    council = Council(unit="party", epsilon=10.0, random_state=0, manual_labels="none").fit(rows, "ill", "hospital")
    told = json.loads((council.run_.path / "manifest.json").read_text())["config"]["federation"]
    assert (told["mechanism"]["name"], told["teachers_per_party"]) == ("gnmax", 1)
    assert told["query_budget"] == {"queries": 40, "answers": 40}
    assert 9.9 < council.privacy_.epsilon <= 10.0


PUBLIC = hospitals(2, rows=60, seed=1).drop("hospital")
"""Public rows that are nobody's."""


def planned(rows: pl.DataFrame, public: Any = None, owners: str | None = "hospital", **settings: Any) -> Federation:
    patients = "patient" if "patient" in rows.columns else None
    given = GivenRows.of(rows, "ill", owners, patients, public, None)
    table = scenario_of(Council(epsilon=60.0, **settings).get_params(), given, Path())
    source = TableSource.of_frame(given.frame, validate(table["data"], DataSpec, "test"), given.public)
    return completed(table, 0, source).federation


def with_patients(rows: pl.DataFrame, each: int) -> pl.DataFrame:
    return rows.with_columns(patient=pl.int_range(pl.len()) // each)


LARGE = hospitals(5, rows=70)


@pytest.mark.parametrize(
    ("rows", "settings", "teachers"),
    [
        (LARGE, {"unit": "party", "public": PUBLIC}, 1),
        (LARGE, {"unit": "record", "public": PUBLIC}, 7),
        (LARGE, {"unit": "record", "public": ["H04"]}, 7),
        (LARGE, {"unit": "record", "public": ["H04"], "neighbouring": "add_or_remove"}, 7),
        (LARGE.drop("hospital"), {"unit": "record", "public": PUBLIC, "owners": None, "parties": 5}, 7),
        (LARGE, {"unit": "record", "public": PUBLIC, "neighbouring": "add_or_remove", "teachers_per_party": 3}, 3),
        (with_patients(LARGE, 2), {"unit": "patient", "public": PUBLIC}, 3),
        (with_patients(LARGE, 2), {"unit": "patient", "public": ["H04"]}, 3),
        (hospitals(3, rows=300), {"unit": "record", "public": PUBLIC}, 25),
    ],
)
def test_how_many_teachers_an_owner_has(rows: pl.DataFrame, settings: dict[str, Any], teachers: int) -> None:
    assert planned(rows, **settings).teachers_per_party == teachers


@pytest.mark.parametrize(
    "settings",
    [
        {"neighbouring": "add_or_remove"},
        {"neighbouring": "add_or_remove", "owners": None, "parties": 5},
        {"settings": {"data.duplicates": "drop"}},
        {"settings": {"data.partition": "dirichlet", "data.alpha": 1.0}},
        # how many rows each patient has would decide
        {"unit": "patient", "settings": {"data.least_rows": 30}},
        {"unit": "patient", "owners": None, "parties": 5, "settings": {"data.most_rows": 30}},
        {"unit": "patient", "owners": None, "parties": 5, "settings": {"data.partition": "iid"}},
        {"public": None, "owners": None, "parties": 5, "patients": True},
    ],
)
def test_it_is_asked_for_where_it_would_tell_of_one_record(settings: dict[str, Any]) -> None:
    table = {"unit": "record", "public": PUBLIC} | settings
    rows = LARGE.drop("hospital") if "parties" in settings else LARGE
    rows = with_patients(rows, 2) if table.pop("patients", table["unit"] == "patient") else rows
    with pytest.raises(BadSetting, match=f"hangs on one {table['unit']}") as refused:
        planned(rows, **table)
    assert "teachers_per_party" in str(refused.value)


@pytest.mark.parametrize("unit", ["record", "patient"])
def test_neighbours_have_as_many_teachers(unit: str) -> None:
    """On the border: with one row or patient fewer in the median there would be a teacher fewer. In the neighbour one
    record, or one patient with all rows, is another one, as unlike as can be; a patient's place takes one of 9 rows."""
    rows = with_patients(hospitals(3, rows=70 if unit == "record" else 140), 1 if unit == "record" else 2)
    mine = pl.col("patient") == 0
    more = 1 if unit == "record" else 9
    other = pl.concat([rows.filter(~mine), *[rows.filter(mine)[:1].with_columns(age=pl.lit(-99.0))] * more])
    other = other.with_columns(ill=pl.when(mine).then(pl.lit("yes")).otherwise("ill"), patient=-(pl.col("patient")))
    fewer = rows.filter(~pl.col("patient").is_in([0, 70, 140]))
    found = [planned(table, PUBLIC, unit=unit).teachers_per_party for table in (rows, other, fewer)]
    assert found == [7, 7, 6]


def test_equal_public_rows_are_one_query() -> None:
    rows = hospitals(6, rows=20)
    private, public = (rows.filter((pl.col("hospital") == "H05") == known) for known in (False, True))
    budget = planned(pl.concat([private, public, public, public]), ["H05"], unit="party").query_budget
    assert 10 <= budget.queries == budget.answers <= 20


def test_a_council_releases_a_difference_where_it_takes_half_the_noise() -> None:
    rows = hospitals(6, rows=20)
    three = rows.with_columns(pl.when(pl.col("age") > 70).then(pl.lit("old")).otherwise("ill").alias("ill"))
    for table, changed, expected in (
        (rows, {}, "difference"),
        (rows, {"neighbouring": "replace"}, "gnmax"),
        (rows, {"unit": "record", "teachers_per_party": 2}, "gnmax"),
        (rows, {"mechanism": "histogram"}, "histogram"),
        (rows, {"settings": {"federation.collection": "secure"}}, "gnmax"),
        (three, {}, "gnmax"),
    ):
        settings = {"unit": "party", "neighbouring": "add_or_remove", **changed}
        assert planned(table, ["H00"], **settings).mechanism.name == expected
