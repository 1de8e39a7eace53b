"""What a council does not say follows from public rows; where noise drowns it, nothing is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.protocol.config_files import validate
from consilium.simulations.council.defaults import _directions, completed
from consilium.simulations.council.estimator import Council
from consilium.simulations.council.frames import Given, NothingToGain
from consilium.simulations.council.settings import ObjectFiles, scenario_of
from consilium.simulations.datasets.table import TableSource
from consilium.simulations.population.specs import DataSpec
from tests.simulations.council.warm import hospitals

pytestmark = pytest.mark.slow

FEW = hospitals(5, rows=40)


def test_too_few_hospitals_are_told_with_figures_and_nothing_is_charged(tmp_path: Path) -> None:
    council = Council(unit="party", epsilon=0.5, random_state=0, out=tmp_path / "run")
    with pytest.raises(NothingToGain) as error:
        council.fit(FEW, "ill", owners="hospital")
    assert "4 parties cannot have a useful student at epsilon 0.500 for a party" in error.value.what
    assert "standard deviations out of the noise, below 3" in error.value.what
    assert "More hospitals help most" in error.value.action
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("quick")
def test_it_is_run_all_the_same_where_somebody_wants_it() -> None:
    council = Council(
        unit="party", epsilon=0.5, mechanism="histogram", queries=20, if_hopeless="warn", hand_labels="none"
    )
    with pytest.warns(UserWarning, match="4 parties cannot have a useful student"):
        council.fit(FEW, "ill", owners="hospital")
    assert council.privacy_.epsilon <= 0.5


def asked_of(council: Council) -> dict[str, Any]:
    """The federation that was run."""
    return json.loads((council.run_.path / "manifest.json").read_text())["config"]["federation"]


@pytest.mark.usefixtures("quick")
def test_with_epsilon_alone_labels_are_asked_with_the_noise_that_it_takes() -> None:
    rows = hospitals(20, rows=20)
    council = Council(unit="party", epsilon=10.0, random_state=0, hand_labels="none").fit(rows, "ill", "hospital")
    told = asked_of(council)
    assert (told["mechanism"]["name"], told["teachers_per_party"]) == ("gnmax", 1)
    assert told["query_budget"] == {"queries": 40, "answers": 40}
    assert 9.9 < council.privacy_.epsilon <= 10.0


@pytest.mark.usefixtures("quick")
def test_a_record_gets_as_many_teachers_as_public_rows_allow() -> None:
    records = {"unit": "record", "neighbouring": "add_or_remove", "epsilon": 20.0, "mechanism": "histogram"}
    settings: dict[str, Any] = {**records, "queries": 20, "random_state": 0, "hand_labels": "none"}
    council = Council(**settings).fit(hospitals(8, rows=40), "ill", "hospital")
    assert asked_of(council)["teachers_per_party"] == 4


def test_equal_public_rows_are_one_query() -> None:
    rows = hospitals(6, rows=20)
    private, public = (rows.filter((pl.col("hospital") == "H05") == known) for known in (False, True))
    council = Council(unit="party", epsilon=60.0)
    given = Given.of(pl.concat([private, public, public, public]), "ill", "hospital", None, ["H05"], None)
    table = scenario_of(council.get_params(), given, ObjectFiles(Path()))
    source = TableSource.of_frame(given.frame, validate(table["data"], DataSpec, "test"), None)
    budget = completed(table, 0, source)[0]["federation"]["query_budget"]
    assert 10 <= budget["queries"] == budget["answers"] <= 20


def test_directions_are_weighed_by_their_size() -> None:
    rows = np.random.default_rng(0).normal(size=(100_000, 4))
    assert _directions(rows) == pytest.approx(4, rel=0.01)
    assert _directions(rows * [1, 1, 1e-3, 1e-3]) == pytest.approx(2, rel=0.01)
    assert _directions(rows[:, :1] @ np.ones((1, 7))) == pytest.approx(1)
