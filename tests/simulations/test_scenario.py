"""Scenarios, data set and partition: bad input is found before anything is written; what is simulated is what is
provisioned; every shipped scenario of a data set in a folder, with few parties and queries, from files to report."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.mechanisms import table_of
from consilium.coordinator.privacy import promised
from consilium.coordinator.provision.folder import provision
from consilium.coordinator.provision.plan import read_plan
from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.audit import audit_path
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.divide import federation_config
from consilium.simulations.population.partitions import divided
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import divided_data, load_scenario
from consilium.simulations.shipped import Shipped
from tests.coordinator.provision.desk import plan_table, read, write_plan


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


LEAST = [
    "federation.query_budget.queries=30",
    "federation.query_budget.answers=30",
    "federation.minimum_parties=5",
    "federation.timeouts.enrol=600",
]
GNMAX = [*LEAST, "federation.mechanism.sigma=2"]
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


FEW = """
[data]
set = "stroke"
classes = ["independent", "dead or dependent"]
least_rows = 150

[federation]
name = "few hospitals"
minimum_parties = 3
teachers_per_party = 2
collection = "plaintext"

[federation.teacher]
model = "logistic_regression"
C = 0.3

[federation.mechanism]
name = "confident"
threshold = 4

[federation.privacy]
unit = "record"
delta = 1e-5
epsilon = 8.0

[federation.query_budget]
queries = 30
answers = 20

[student]
queries = 25

[student.trainer]
name = "logistic_regression"
C = 0.002
"""


def write_scenario(folder: Path, text: str = FEW) -> Path:
    """A scenario whose noise is left to be calibrated."""
    path = folder / "few.toml"
    path.write_text(text)
    return path


def write_deployment(folder: Path, federation: str, **changes: object) -> Path:
    """federation.toml of the three wards, which names a scenario."""
    return write_plan(folder, {**plan_table(), "federation": federation, **changes})


@pytest.mark.parametrize(("votes", "epsilon"), [("plaintext", 8.0), ("secure", 1.0)])
def test_what_is_simulated_is_what_is_provisioned(tmp_path: Path, votes: str, epsilon: float) -> None:
    text = FEW.replace('"plaintext"', f'"{votes}"').replace("epsilon = 8.0", f"epsilon = {epsilon}")
    scenario = load_scenario(str(write_scenario(tmp_path, text)), [])
    data, partition = divided_data(scenario, 0)
    simulated = federation_config(scenario, data, partition, 0)

    rows = {"features": list(data.features), "center": [0.0] * len(data.features), "scale": [1.0] * len(data.features)}
    provision(write_deployment(tmp_path, "few.toml", rows=rows), tmp_path / "out")
    deployed = read(tmp_path / "out").config
    digests = {federation.federation_digest() for federation in (scenario.federation, simulated, deployed)}
    assert len(digests) == 1
    assert promised(simulated) == promised(deployed)
    assert 0.995 * epsilon <= promised(deployed).epsilon <= epsilon == deployed.privacy.epsilon
    written = json.loads((tmp_path / "out" / "federation" / "federation.json").read_text())
    assert written["config"]["mechanism"] == table_of(simulated.mechanism)  # written out, where the file leaves it open


def test_a_shipped_scenario_is_deployed_by_its_name_and_what_is_none_is_said(tmp_path: Path) -> None:
    for federation, said in (
        ("absent.toml", "cannot read .*absent"),
        ("federation.toml", r"has no table \[federation"),
    ):
        with pytest.raises(ConfigError, match=said):
            read_plan(write_deployment(tmp_path, federation))
    plan, _ = read_plan(write_deployment(tmp_path, "stroke"))
    assert plan.federation == load_scenario("stroke", []).federation
    assert plan.rows.classes == ("well", "ill")  # its own, where [rows] says them


def test_rows_take_from_the_scenario_what_they_do_not_say(tmp_path: Path) -> None:
    write_scenario(tmp_path)
    plan, rows = read_plan(
        write_deployment(tmp_path, "few.toml", rows={"features": ["a"], "center": [0], "scale": [1]})
    )
    assert plan.rows.classes == rows.classes == ("independent", "dead or dependent")
    write_scenario(tmp_path, FEW.replace("least_rows", 'representation = "scattering"\nleast_rows'))
    pixels = [f"pixel{number}" for number in range(784)]
    plan, rows = read_plan(write_deployment(tmp_path, "few.toml", rows={"features": pixels}))
    assert rows.representation == "scattering"
    assert set(rows.scale) == {1.0}


@pytest.mark.parametrize(
    ("overrides", "teacher"),
    [
        (["federation.teacher.alpha=3", "federation.teacher.model=ridge"], ("balanced", 3.0)),
        (['federation.teacher={model="ridge"}'], ("none", 1.0)),
    ],
)
def test_another_kind_drops_what_it_does_not_have(overrides: list[str], teacher: tuple[str, float]) -> None:
    found = load_scenario("stroke", overrides).federation.teacher.model_dump()
    assert found == {"model": "ridge", "class_weight": teacher[0], "alpha": teacher[1]}
    for key in ("federation.teacher.alpha=3", "student.trainer.trees=3", "federation.mechanism.gamma=3"):
        with pytest.raises(ConfigError, match="unknown key"):
            load_scenario("stroke", [key])


PROMISED = {"glyphs": 1.0, "mnist-250": 0.399, "mnist-writers": 0.399, "stroke": 0.799, "stroke-secure": 0.799}
PROMISED |= dict.fromkeys(("adult-250", "diabetes-rf", "fashion-250", "pneumonia"), 0.995)


@pytest.mark.parametrize("name", PROMISED)
def test_the_shipped_scenarios_promise_what_they_say(name: str) -> None:
    assert promised(load_scenario(name, []).federation).epsilon == pytest.approx(PROMISED[name], abs=0.005)
