"""Scenarios, data set and partition: bad input is found before anything is written; what is simulated is what is
provisioned; every shipped scenario of a data set in a folder, from files to report. The plan: what an epsilon costs,
whether votes stand out of it, and what a scenario need not say."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from consilium.accounting.drowned import signal
from consilium.accounting.target import worst_case
from consilium.coordinator.config import Federation
from consilium.coordinator.mechanisms import table_of
from consilium.coordinator.privacy import promised
from consilium.coordinator.provision.folder import provision
from consilium.coordinator.provision.plan import read_plan
from consilium.protocol.errors import ConfigError, DataError, NotEnoughParties, NothingToGain
from consilium.report.warnings import LEAST_SIGNAL
from consilium.simulations.audit import audit_path
from consilium.simulations.council.estimator import Council
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.divide import federation_config
from consilium.simulations.plan import EPSILONS, SignalRule, plan_of
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import MOST_QUERIES, divided_data, load_scenario, scenario_table
from consilium.simulations.shipped import Shipped
from tests.command_line import consilium
from tests.coordinator.provision.desk import plan_table, read, write_plan
from tests.simulations.council.warm import hospitals


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
        (["federation.mechanism.sigma1=-1"], "sigma1.*at least 0.01, got -1"),
        (["federation.mechanism.sigma1=many"], "sigma1.*a number, got 'many'"),
        (["federation.query_budget.answers=801"], "answers 801 exceeds queries 800"),
        (["federation.teachers_per_party=30"], "least_rows 1 leaves no row"),
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
    assert summary["student"]["accuracy"] > least
    assert summary["baselines"]["pooled"]["auc"] > 0.55
    assert [finding for finding in audit_path(tmp_path / "run").findings if not finding.holds] == []
    page = (tmp_path / "run" / "report.html").read_text()
    assert scenario.federation.name in page and all(label in page for label in scenario.data.classes)


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

    provision(write_deployment(tmp_path, "few.toml", rows={"public": "public.csv"}), tmp_path / "out")
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
    plan, rows = read_plan(write_deployment(tmp_path, "few.toml", rows={"public": "public.csv"}))
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


PRIVACY = 'federation.privacy={unit="party", delta=1e-5, epsilon=1.0}'
SCENARIO = """
[data]
set = "table"
path = "rows.csv"
label = "ill"
owner = "hospital"
public = {{ by = "owner", owners = ["H00", "H01"] }}

[federation]
name = "made up"
minimum_parties = 2
collection = "plaintext"
mechanism = {{ name = "{mechanism}" }}
privacy = {{ unit = "party", delta = 1e-5, epsilon = 1.0, neighbouring = "{neighbouring}" }}
"""


def written(folder: Path, rows: pl.DataFrame, mechanism: str = "gnmax", neighbouring: str = "replace") -> str:
    rows.write_csv(folder / "rows.csv")
    path = folder / "made-up.toml"
    path.write_text(SCENARIO.format(mechanism=mechanism, neighbouring=neighbouring), encoding="utf-8")
    return str(path)


def test_the_plan_of_a_shipped_scenario() -> None:
    plan = plan_of("stroke-secure", [PRIVACY, "federation.collection=plaintext"])
    assert plan["votes"] == plan["parties"] > 100
    assert [cost["epsilon"] for cost in plan["costs"]] == list(EPSILONS)
    for cost in plan["costs"]:
        assert cost["rule"] == signal(plan["parties"], cost["epsilon"], 1e-5, 10)
        table = scenario_table("stroke-secure")["federation"] | {"collection": "plaintext"}
        table["mechanism"] = {"name": plan["mechanism"], **cost["noise"]}
        promised = worst_case(Federation.model_validate(table).promised_events(), 1e-5).epsilon
        assert 0.7 * cost["epsilon"] < promised <= cost["epsilon"]  # quick, and never too little


def test_a_plan_and_a_run_of_fine_shares_of_noise_promise_the_same() -> None:
    small = ["federation.query_budget.queries=20", "federation.query_budget.answers=20"]
    noise = [*small, "federation.mechanism={name='gnmax', sigma=15.5}"]
    scenario = load_scenario("stroke-secure", noise)
    run = promised(federation_config(scenario, *divided_data(scenario, 0), 0)).epsilon
    assert plan_of("stroke-secure", noise)["promised"] == run > 1.01 * promised(scenario.federation).epsilon
    scenario = load_scenario("stroke-secure", [*noise, f"federation.privacy.epsilon={run * 0.999}"])
    with pytest.raises(ConfigError, match=r"raise sigma to .* or collect votes as verified"):
        federation_config(scenario, *divided_data(scenario, 0), 0)


@pytest.mark.parametrize("wrong", ["epsilon=0", "epsilon=much", "sanitised=7"])
def test_a_plan_refuses_what_a_run_refuses(wrong: str) -> None:
    with pytest.raises(ConfigError, match=f"federation.privacy.{wrong.split('=', maxsplit=1)[0]}"):
        plan_of("stroke", [f"federation.privacy.{wrong}"])


@pytest.mark.parametrize("parties", [8, 40, 200])
def test_each_way_out_is_enough_and_little_less_is_not(parties: int) -> None:
    federation = load_scenario("stroke").federation
    rule = SignalRule.of(federation, 0.3, parties, 12)
    assert SignalRule.of(federation, rule.epsilon, parties, 12).number >= LEAST_SIGNAL
    assert SignalRule.of(federation, 0.3, rule.parties, 12).number >= LEAST_SIGNAL
    assert SignalRule.of(federation, rule.epsilon - 0.01, parties, 12).number < LEAST_SIGNAL
    assert SignalRule.of(federation, 0.3, rule.parties - 1, 12).number < LEAST_SIGNAL


def test_no_private_value_changes_it(tmp_path: Path) -> None:
    rows = hospitals(12, rows=20)
    private = ~rows["hospital"].is_in(["H00", "H01"])
    other = rows.with_columns(
        pl.when(private).then(90.0).otherwise(pl.col("age")).alias("age"),
        pl.when(private).then(pl.lit("no")).otherwise(pl.col("ill")).alias("ill"),
    )
    first, second = (plan_of(written(tmp_path, each)) for each in (rows, other))
    assert first == second
    assert first["parties"] == 10
    assert first["labels"]["leaves_chance"]


def test_all_public_rows_are_asked_where_no_budget_is_written(tmp_path: Path) -> None:
    scenario = load_scenario(written(tmp_path, hospitals(12, rows=20), "histogram"))
    assert (
        scenario.federation.query_budget.queries == scenario.federation.query_budget.answers == 20
    )  # of 40, half judge
    many = load_scenario(written(tmp_path, hospitals(4, rows=700), "histogram"))
    assert many.federation.query_budget.queries == MOST_QUERIES
    assert many.federation.mechanism.sigma > scenario.federation.mechanism.sigma  # pyright: ignore


def test_twice_the_signal_where_a_party_is_added_or_removed(tmp_path: Path) -> None:
    rows = hospitals(12, rows=20)
    whole = plan_of(written(tmp_path, rows))
    half = plan_of(written(tmp_path, rows, "difference", "add_or_remove"))
    assert half["rule"]["number"] == 2 * whole["rule"]["number"]
    for one, two in zip(whole["costs"], half["costs"], strict=True):
        # on the difference of two counts: sqrt(2) of the noise on one, and half of that
        assert two["noise"]["sigma"] == pytest.approx(one["noise"]["sigma"] / np.sqrt(2), rel=2e-3)


def test_the_command_says_it_in_a_few_lines(tmp_path: Path) -> None:
    path = written(tmp_path, hospitals(12, rows=20))
    told = consilium("plan", path)
    assert told.exit_code == 0
    assert "10 parties, 10 votes on each of 20 queries" in told.stdout
    assert "3 is reached at epsilon" in told.stdout
    assert json.loads(consilium("plan", path, "--format", "json").stdout)["rule"]["number"] < 3
    assert consilium("plan", "no-such").exit_code == 2


def test_a_council_that_can_learn_nothing_says_so_before_anything_is_asked(tmp_path: Path) -> None:
    council = Council(unit="party", epsilon=8.0, random_state=0, manual_labels="none", out=tmp_path / "run")
    with pytest.raises(NothingToGain, match=r"drowns the votes of 4 parties: .* is 1\.7, and below 3") as caught:
        council.fit(hospitals(5, rows=20), "ill", "hospital")
    assert not (tmp_path / "run").exists()
    assert caught.value.exit_code == NotEnoughParties.exit_code
    record = "unit='record' with teachers_per_party="
    for way in ("epsilon=", " parties", "neighbouring='add_or_remove'", record, "public_labels=", "mechanism="):
        assert way in caught.value.action
