"""Scenarios, data set and partition: bad input is found before anything is written."""

from __future__ import annotations

import json

import numpy as np
import pytest

from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.divide import federation_config
from consilium.simulations.population.partitions import divided
from consilium.simulations.population.specs import DataSpec
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
        pytest.skip("its rows hang on who is public: tests/simulations/datasets/test_images.py")
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
        (["data.path=my.csv"], 'path is .my.csv., but set = "stroke" is embedded.*of your own.*set = "table"'),
    ],
)
def test_what_a_scenario_may_not_say(overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        load_scenario("stroke", overrides)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_what_a_label_takes_goes_with_the_data_set() -> None:
    other = ["data.set=heart", "data.partition=iid", "data.parties=5"]
    assert load_scenario("stroke").data.label_cost == "six months of follow-up"
    assert load_scenario("stroke", other).data.label_cost == ""
    assert load_scenario("stroke", ["data.label_cost=an angiography", *other]).data.label_cost == "an angiography"


@pytest.mark.parametrize("cost", ["two\nlines", "a full stop.", "x" * 101])
def test_what_a_label_takes_is_part_of_a_line(cost: str) -> None:
    with pytest.raises(ConfigError, match="label_cost"):
        load_scenario("stroke", [f"data.label_cost={json.dumps(cost)}"])


def test_the_override_that_an_error_shows_is_accepted() -> None:
    with pytest.raises(ConfigError) as caught:
        load_scenario("stroke", ["nonsense"])
    load_scenario("stroke", [str(caught.value.action).split("--set ")[1]])


def test_overrides_keep_their_type() -> None:
    scenario = load_scenario(
        "stroke", ["federation.mechanism.sigma2=50", "federation.name=a b", "data.classes=['x','y']"]
    )
    assert scenario.federation.mechanism.sigma2 == 50.0  # pyright: ignore
    assert scenario.federation.name == "a b"
    assert scenario.data.classes == ("x", "y")


@pytest.mark.parametrize("name", ["absent", "/absent/file.toml"])
def test_absent_scenarios(name: str) -> None:
    with pytest.raises(ConfigError, match=r"neither a file nor one that ships"):
        load_scenario(name, [])


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
