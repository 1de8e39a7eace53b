"""What a council does not say follows from public rows; what is wrong is said before anything is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from consilium.coordinator.config import Federation
from consilium.protocol.config_files import validate
from consilium.simulations.council.estimator import Council
from consilium.simulations.council.frames import BadSetting, GivenRows
from consilium.simulations.council.settings import completed, scenario_of
from consilium.simulations.datasets.table import TableSource
from consilium.simulations.population.specs import DataSpec
from tests.simulations.council.warm import hospitals

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0}, "epsilon"),
    ({"epsilon": None}, "epsilon"),
    ({"delta": "small"}, "delta"),
    ({"unit": "hospital"}, "unit"),
    ({"mechanism": object()}, "mechanism"),
    ({"teacher": {"alpha": 1.0}}, "model"),
    ({"settings": {"student.rouns": 2}}, "student.rouns"),
]


@pytest.mark.parametrize(("changed", "told"), WRONG)
def test_a_wrong_value_is_named(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"unit": "party", "out": tmp_path / "run", **changed}
    with pytest.raises(BadSetting, match=told):
        Council(**settings).fit(hospitals(6), "ill", owners="hospital")
    assert not (tmp_path / "run").exists()


def asked_of(council: Council) -> dict[str, Any]:
    """The federation that was run."""
    return json.loads((council.run_.path / "manifest.json").read_text())["config"]["federation"]


@pytest.mark.usefixtures("quick")
def test_with_epsilon_alone_labels_are_asked_with_the_noise_that_it_takes() -> None:
    rows = hospitals(20, rows=20)
    council = Council(unit="party", epsilon=10.0, random_state=0, manual_labels="none").fit(rows, "ill", "hospital")
    told = asked_of(council)
    assert (told["mechanism"]["name"], told["teachers_per_party"]) == ("gnmax", 1)
    assert told["query_budget"] == {"queries": 40, "answers": 40}
    assert 9.9 < council.privacy_.epsilon <= 10.0


FRAME = hospitals(2, rows=60, seed=1).drop("hospital")
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
        (LARGE, {"unit": "party", "public": FRAME}, 1),
        (LARGE, {"unit": "record", "public": FRAME}, 7),
        (LARGE, {"unit": "record", "public": ["H04"]}, 7),
        (LARGE, {"unit": "record", "public": ["H04"], "neighbouring": "add_or_remove"}, 7),
        (LARGE.drop("hospital"), {"unit": "record", "public": FRAME, "owners": None, "parties": 5}, 7),
        (LARGE, {"unit": "record", "public": FRAME, "neighbouring": "add_or_remove", "teachers_per_party": 3}, 3),
        (with_patients(LARGE, 2), {"unit": "patient", "public": FRAME}, 3),
        (with_patients(LARGE, 2), {"unit": "patient", "public": ["H04"]}, 3),
        (hospitals(3, rows=300), {"unit": "record", "public": FRAME}, 25),
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
    table = {"unit": "record", "public": FRAME} | settings
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
    found = [planned(table, FRAME, unit=unit).teachers_per_party for table in (rows, other, fewer)]
    assert found == [7, 7, 6]


def test_equal_public_rows_are_one_query() -> None:
    rows = hospitals(6, rows=20)
    private, public = (rows.filter((pl.col("hospital") == "H05") == known) for known in (False, True))
    budget = planned(pl.concat([private, public, public, public]), ["H05"], unit="party").query_budget
    assert 10 <= budget.queries == budget.answers <= 20
