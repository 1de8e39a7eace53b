"""What a council does not say follows from public rows; what is wrong is said before anything is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from consilium.protocol.config_files import validate
from consilium.simulations.council.estimator import Council
from consilium.simulations.council.frames import BadSetting, GivenRows
from consilium.simulations.council.settings import completed, scenario_of
from consilium.simulations.datasets.table import TableSource
from consilium.simulations.population.specs import DataSpec
from tests.simulations.council.warm import hospitals

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("quick")
def test_too_few_hospitals_are_told_with_figures() -> None:
    """The run's own warning reaches Python."""
    with pytest.warns(UserWarning, match="little-information: noise of epsilon .* drowns 4 votes: .* more parties"):
        Council(unit="party", epsilon=0.5, mechanism="histogram", queries=20, manual_labels="none").fit(
            hospitals(5, rows=40), "ill", owners="hospital"
        )


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


@pytest.mark.usefixtures("quick")
def test_a_record_gets_as_many_teachers_as_public_rows_allow() -> None:
    records = {"unit": "record", "neighbouring": "add_or_remove", "epsilon": 20.0, "mechanism": "histogram"}
    settings: dict[str, Any] = {**records, "queries": 20, "random_state": 0, "manual_labels": "none"}
    council = Council(**settings).fit(hospitals(8, rows=40), "ill", "hospital")
    assert asked_of(council)["teachers_per_party"] == 4


def test_equal_public_rows_are_one_query() -> None:
    rows = hospitals(6, rows=20)
    private, public = (rows.filter((pl.col("hospital") == "H05") == known) for known in (False, True))
    council = Council(unit="party", epsilon=60.0)
    given = GivenRows.of(pl.concat([private, public, public, public]), "ill", "hospital", None, ["H05"], None)
    table = scenario_of(council.get_params(), given, Path())
    source = TableSource.of_frame(given.frame, validate(table["data"], DataSpec, "test"), None)
    budget = completed(table, 0, source).federation.query_budget
    assert 10 <= budget.queries == budget.answers <= 20
