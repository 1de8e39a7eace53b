"""Scenarios, data set and partition: bad input is found before anything is written; every shipped scenario of a data
set in a folder, with few parties and few queries, from the files to the report."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.audit import audit_path
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.divide import federation_config
from consilium.simulations.population.partitions import divided
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from consilium.simulations.shipped import Shipped


@pytest.mark.parametrize("name", Shipped.SCENARIO.files())
def test_every_shipped_scenario_loads(name: str) -> None:
    scenario = load_scenario(name, [])
    assert scenario.data.label_cost
    try:
        data = load_dataset(scenario.data.set)
    except DataError as error:
        pytest.skip(str(error))
    except KeyError:
        pytest.skip("its rows hang on who is public: tests/simulations/datasets/test_digits.py")
    assert scenario.data.classes in ((), data.classes)  # none are said where there are 150


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["federation.mechanism.sigma3=1"], "mechanism.*sigma3: unknown key"),
        (["federation.mechanism.sigma1=-1"], "sigma1.*greater than 0, got -1"),
        (["federation.mechanism.sigma1=many"], "sigma1.*a number, got 'many'"),
        (["federation.query_budget.answers=801"], "answers 801 exceeds queries 800"),
        (["data.set=unknown"], "not a known data set, choose from"),
        (["federation.teachers_per_party=30"], "least_rows 1 leaves no row"),
        (["nonsense"], "is not key=value"),
        (["description.x=1"], "description is a value, not a table"),
        (['data.label_cost="a full stop."'], "label_cost"),
        (["data.path=my.csv"], 'path is .my.csv., but set = "stroke" is embedded.*of your own.*set = "table"'),
    ],
)
def test_what_a_scenario_may_not_say(overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        load_scenario("stroke", overrides)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    if "--set " in (caught.value.action or ""):  # the override that it shows is accepted
        load_scenario("stroke", [str(caught.value.action).split("--set ")[1]])


def test_what_a_label_takes_goes_with_the_data_set() -> None:
    other = ["data.set=heart", "data.partition=iid", "data.parties=5"]
    assert load_scenario("stroke").data.label_cost == "six months of follow-up"
    assert load_scenario("stroke", other).data.label_cost == ""
    assert load_scenario("stroke", ["data.label_cost=an angiography", *other]).data.label_cost == "an angiography"


def test_overrides_keep_their_type() -> None:
    scenario = load_scenario(
        "stroke", ["federation.mechanism.sigma2=50", "federation.name=a b", "data.classes=['x','y']"]
    )
    assert scenario.federation.mechanism.sigma2 == 50.0  # pyright: ignore
    assert scenario.federation.name == "a b"
    assert scenario.data.classes == ("x", "y")


def test_the_stroke_data_are_what_they_should_be() -> None:
    data = load_dataset("stroke")
    assert data.x.shape == (19_285, 48)
    assert len(np.unique(data.owner)) == 464  # of 466, two have no patient with a known outcome
    assert data.y.mean() == pytest.approx(0.62, abs=0.01)
    forbidden = ("RXASP", "RXHEP", "EXP", "DIED", "ID14", "SET14D", "OCCODE", "HOSPNUM", "CNTRYNUM")
    assert not [name for name in data.features if name.startswith(forbidden)]
    assert np.isfinite(data.x).all()


def test_standardisation_sees_the_pool_only_and_not_the_rows_that_judge() -> None:
    scenario = load_scenario("stroke", [])
    data = load_dataset("stroke")
    parts = divided(data, DataSpec(set="stroke", least_rows=20), 200, 0)
    config = federation_config(scenario, data, parts, 0)
    pool = data.x[parts.queries].astype(float)
    np.testing.assert_allclose(config.rows.center, pool.mean(axis=0), rtol=1e-12)
    varies = pool.std(axis=0) > 0
    np.testing.assert_allclose(np.array(config.rows.scale)[varies], pool.std(axis=0)[varies])
    for others in (data.x, data.x[np.concatenate([parts.queries, parts.test])]):
        assert config.rows.center[1] != pytest.approx(others[:, 1].astype(float).mean(), rel=1e-6)


def test_classes_that_do_not_match_the_data() -> None:
    scenario = load_scenario("stroke", ["data.classes=['well','ill']"])
    data = load_dataset("stroke")
    with pytest.raises(ConfigError, match=r"data.classes .* do not match data set 'stroke'"):
        federation_config(scenario, data, divided(data, DataSpec(set="stroke", least_rows=20), 200, 0), 0)


FEW = [
    "federation.query_budget.queries=30",
    "federation.query_budget.answers=30",
    "federation.minimum_parties=5",
    "federation.timeouts.enrol=600",
]
GNMAX = [*FEW, "federation.mechanism.sigma=2"]
TREES = ["federation.teacher.trees=10"]
SHARDS = ["data.parties=8", "data.most_rows=100"]
PIXELS = ["data.representation=none", "student.trainer.name=logistic_regression", "federation.teacher.alpha=50"]
"""Without scattering, which takes seconds for the 9,000 public images."""

# scenario -> overrides, number of parties, least accuracy of the student, which is far above chance
CASES: dict[str, tuple[list[str], int, float]] = {
    "adult-250": ([*GNMAX, *SHARDS, *TREES], 8, 0.7),
    "diabetes-rf": ([*GNMAX, "data.parties=8", "data.most_rows=200", "federation.teacher.trees=10"], 8, 0.5),
    "fashion-250": ([*GNMAX, *SHARDS, *PIXELS], 8, 0.3),
    "mnist-writers": ([*GNMAX, *PIXELS, "data.least_rows=129"], 33, 0.3),
    "pneumonia": ([*GNMAX, "data.parties=8", "data.most_rows=94"], 8, 0.6),
}

ABSENT = dict.fromkeys(("adult-250", "diabetes-rf"), "teachers of kind random_forest are not linear")
"""Scenarios without an average of weights, and why."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_a_small_one_from_files_to_report(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # one worker process: starting one takes longer than its work
    overrides, parties, least = CASES[name]
    scenario = load_scenario(name, [*overrides, f"data.path={shared_data}"])
    summary = run_scenario(name, scenario, "local", 1, tmp_path / "run")
    assert summary["parties"] == parties
    assert 0 < summary["queries"]["answered"] <= summary["queries"]["asked"] <= 30
    privacy = summary["privacy"]
    assert 0 < privacy["epsilon_data_dependent"] <= privacy["epsilon_spent"] <= privacy["epsilon_guaranteed"]
    assert set(summary["student"]["recall_per_class"]) == set(scenario.data.classes)
    noisy = summary["baselines"]["noisy_average"]
    assert noisy.get("absent") == ABSENT.get(name) and (name in ABSENT or noisy["accuracy"] > least - 0.2)
    assert summary["worth"]["released"]["labels"] == summary["queries"]["answered"]
    assert summary["worth"]["metric"] == ("auc" if len(scenario.data.classes) == 2 else "accuracy")
    assert summary["student"]["accuracy"] > least
    assert summary["baselines"]["pooled"]["auc"] > 0.55
    assert [finding for finding in audit_path(tmp_path / "run").findings if not finding.holds] == []
    page = (tmp_path / "run" / "report.html").read_text()
    assert scenario.federation.name in page
    assert all(label in page for label in scenario.data.classes)
    word = "writers" if name == "mnist-writers" else "parties"  # by lot they are parties, whoever owns the rows
    assert f"{parties} {word} voted on" in " ".join(page.split())
