"""Simulated parties whose policies differ: the weights that follow, a run to its report, and what refuses weights."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from consilium.coordinator.privacy import promised_at
from consilium.protocol.errors import ConfigError
from consilium.simulations.audit import audit_path
from consilium.simulations.population.parties import own_limits, simulated_weights
from consilium.simulations.population.specs import SimulationSpec
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import Scenario, load_scenario
from tests.simulations.engines.test_engines_agree import quiet
from tests.simulations.test_resume import SMALL

PLAIN = load_scenario("stroke", SMALL)
LIMIT = promised_at(PLAIN.federation, 1).epsilon * 1.01
TIGHT = f"simulation.policies=[{{share=0.4,most_epsilon={LIMIT}}},{{share=0.1,most_epsilon=0.001}}]"
WEIGHTED = ["federation.most_weight=3", TIGHT, "federation.minimum_parties=5"]


def scenario(*more: str) -> Scenario:
    return load_scenario("stroke", [*SMALL, *WEIGHTED, *more])


def test_policies_are_drawn_by_lot_and_give_the_weights() -> None:
    chosen, names = scenario(), [f"p{at}" for at in range(50)]
    limits = own_limits(chosen.simulation.policies, 50, seed=3)
    assert Counter(limits.values()) == {LIMIT: 20, 0.001: 5}
    assert limits == own_limits(chosen.simulation.policies, 50, seed=3) != own_limits(chosen.simulation.policies, 50, 4)
    weights = simulated_weights(names, chosen.federation, chosen.simulation.policies, 3)
    # who is too tight for weight 1 has it in the roster, and refuses when it is asked
    assert Counter(weights.values()) == {1: 25, 3: 25}
    assert {name for name, weight in weights.items() if weight == 1} == {f"p{at}" for at in limits}


def test_where_weights_are_not_allowed_policies_give_none() -> None:
    assert set(simulated_weights(["a", "b"], PLAIN.federation, scenario().simulation.policies, 0).values()) == {1}


def test_shares_of_policies_are_of_one_whole() -> None:
    shares = [{"share": 0.6, "most_epsilon": 1.0}, {"share": 0.5, "most_epsilon": 2.0}]
    with pytest.raises(ValueError, match=r"the shares of policies sum to 1\.1, more than 1"):
        SimulationSpec.model_validate({"policies": shares})


def test_a_plan_refuses_weights_and_says_what_to_do() -> None:
    open_mechanism = ["federation.mechanism.name=auto", "federation.privacy.epsilon=2.0", "federation.most_weight=2"]
    with pytest.raises(ConfigError, match="most_weight is 2: how often each party's answers count") as caught:
        load_scenario("stroke", open_mechanism)
    assert "Plan with most_weight = 1" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("votes", ["plaintext", pytest.param("secure", marks=pytest.mark.proofs)])
def test_a_run_of_parties_with_weights_from_scenario_to_report(tmp_path: Path, votes: str) -> None:
    chosen = scenario(f"federation.collection={votes}")
    summary = run_scenario("weighted", chosen, "local", 4, tmp_path / "run", quiet)
    federation = chosen.federation
    assert {own["weight"] for own in summary["by_party"].values()} == {1, 3}
    assert len(summary["by_party"]) == summary["parties"]
    for own in summary["by_party"].values():
        assert own["epsilon"] == promised_at(federation, own["weight"]).epsilon
    assert summary["privacy"]["epsilon_guaranteed"] == promised_at(federation, 3).epsilon
    told = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    refused = {event["reason"] for event in told if event["event"] == "left-out"}
    assert any(reason.startswith("refused: most-epsilon") and "limit 0.001" in reason for reason in refused)
    assert [finding for finding in audit_path(tmp_path / "run").findings if not finding.holds] == []
    assert 'id="weights"' in (tmp_path / "run" / "report.html").read_text()
