"""One file, simulated and then provisioned: the same federation by its digest, and the same promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consilium.coordinator.mechanisms import table_of
from consilium.coordinator.privacy import promised
from consilium.coordinator.provision.folder import provision
from consilium.coordinator.provision.plan import read_plan
from consilium.protocol.errors import ConfigError
from consilium.simulations.divide import federation_config
from consilium.simulations.scenario import divided_data, load_scenario
from tests.coordinator.provision.desk import plan_table, read, write_plan

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


def test_a_shipped_scenario_is_deployed_by_its_name(tmp_path: Path) -> None:
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
    ("federation", "said"),
    [("absent.toml", "cannot read .*absent.toml"), ("federation.toml", r"has no table \[federation\]")],
)
def test_a_federation_that_cannot_be_found(tmp_path: Path, federation: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_plan(write_deployment(tmp_path, federation))


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
