"""Before anything runs: what an epsilon costs, whether votes stand out of it, and what a scenario need not say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from consilium.accounting.drowned import signal
from consilium.accounting.target import worst_case
from consilium.coordinator.config import Federation
from consilium.protocol.errors import NotEnoughParties, NothingToGain
from consilium.report.warnings import LEAST_SIGNAL
from consilium.simulations.council.estimator import Council
from consilium.simulations.plan import EPSILONS, SignalRule, plan_of
from consilium.simulations.scenario import MOST_QUERIES, load_scenario, scenario_table
from tests.command_line import consilium
from tests.simulations.council.warm import hospitals

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
