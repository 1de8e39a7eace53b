"""Files and `--set` keys of version 0.2: the error prints the new form, and the new form is what the file meant."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from consilium.coordinator.provision.plan import Plan, read_plan
from consilium.protocol.config_files import read_table, validate
from consilium.protocol.errors import ConfigError
from consilium.simulations.old_keys import new_scenario
from consilium.simulations.scenario import Scenario, load_scenario

OLD = Path(__file__).parent / "version_0_2"


def told_table(error: ConfigError) -> dict[str, Any]:
    """The file that an error says to write."""
    return tomllib.loads(str(error).partition("\n\n")[2])


@pytest.mark.parametrize(("name", "now"), [("stroke", "stroke-labels")])
def test_an_old_scenario_is_answered_with_its_new_form(name: str, now: str) -> None:
    with pytest.raises(ConfigError, match=r"form of version 0\.2") as caught:
        load_scenario(str(OLD / f"{name}.toml"), [])
    new, shipped = validate(told_table(caught.value), Scenario, "new"), load_scenario(now, [])
    # the shipped file has a description, provenance and a cost of labels of its own, and leaves least_rows out
    described = {"description": shipped.description, "provenance": shipped.provenance}
    data = new.data.model_copy(update={"least_rows": None, "label_cost": shipped.data.label_cost})
    assert new.model_copy(update={**described, "data": data}) == shipped


def test_an_old_scenario_keeps_what_the_shipped_one_says_no_longer() -> None:
    with pytest.raises(ConfigError, match=r"form of version 0\.2") as caught:
        load_scenario(str(OLD / "mnist-250.toml"), [])
    new = validate(told_table(caught.value), Scenario, "new")
    said = new.student.trainer.model_dump(include={"name", "networks", "steps", "settled"})
    assert said == {"name": "graph_cnn", "networks": 3, "steps": 2000, "settled": 0}
    assert new.federation.mechanism.model_dump() == {"name": "gnmax", "sigma": 55.0}
    assert (new.student.queries, new.federation.caps.queries) == (30, 30)


def test_an_old_provisioning_file_is_answered_with_its_new_form() -> None:
    with pytest.raises(ConfigError, match=r"form of version 0\.2") as caught:
        read_plan(OLD / "federation.toml")
    old, new = read_table(OLD / "federation.toml"), validate(told_table(caught.value), Plan, "new")
    federation = new.federation.model_dump(mode="json")
    same = ("name", "votes", "teachers_per_party", "minimum_parties", "colluders", "mechanism", "caps")
    assert {key: federation[key] for key in same} == {key: old[key] for key in same}
    assert new.rows.pool == old["pool"]["file"]
    assert new.federation.pool_least_distance == old["pool"]["least_distance"]
    assert new.federation.timeouts.student == old["timeouts"]["student"]
    assert [party.name for party in new.party] == [party["name"] for party in old["parties"]]
    assert [student.name for student in new.student] == [student["name"] for student in old["students"]]


def test_old_defaults_stay_what_they_were() -> None:
    old = read_table(OLD / "stroke.toml")
    assert "votes" not in old
    assert new_scenario(old)["federation"]["votes"] == "clear"


def test_keys_of_other_kinds_that_were_never_used_are_left_out(tmp_path: Path) -> None:
    old = read_table(OLD / "stroke.toml")
    old["teacher"] |= {"trees": 9, "hidden": 7}
    old["student"] |= {"networks": 3, "queries": 20}
    old["teachers"] = [{"share": 0.5, "teacher": {"model": "ridge", "alpha": 2.0, "C": 1.0}}]
    (tmp_path / "old.toml").write_text(tomli_w.dumps(old))
    with pytest.raises(ConfigError) as caught:
        load_scenario(str(tmp_path / "old.toml"), [])
    new = validate(told_table(caught.value), Scenario, "new")
    shipped = load_scenario("stroke-labels", ["student.queries=20"])
    assert (new.federation, new.student) == (shipped.federation, shipped.student)
    assert new.simulation.teachers[0].teacher.model_dump() == {"class_weight": "none", "model": "ridge", "alpha": 2.0}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mechanism.sigma2=80", "federation.mechanism.sigma2=80"),
        ("mechanism={name='gnmax', sigma=9}", "federation.mechanism={name='gnmax', sigma=9}"),
        ("votes=secure", "federation.votes=secure"),
        ("parties.minimum=5", "federation.minimum_parties=5"),
        ("parties.teachers_per_party=2", "federation.teachers_per_party=2"),
        ("parties.most_queries=9", "simulation.most_queries=9"),
        ("pool.least_distance=0", "federation.pool_least_distance=0"),
        ("privacy.delta=1e-6", "federation.privacy.delta=1e-6"),
        ("caps.queries=9", "federation.caps.queries=9"),
        ("timeouts.enrol=9", "federation.timeouts.enrol=9"),
        ("teacher.model=ridge", "federation.teacher.model=ridge"),
        ("title=x", "federation.name=x"),
        ("noise=system", "simulation.noise=system"),
        ("teachers=[]", "simulation.teachers=[]"),
        ("student.trainer=mlp", "student.trainer.name=mlp"),
        ("student.C=1", "student.trainer.C=1"),
        ("student.networks=2", "student.trainer.networks=2"),
    ],
)
def test_an_old_key_is_answered_with_the_new_one(old: str, new: str) -> None:
    with pytest.raises(ConfigError, match=r"key of version 0\.2") as caught:
        load_scenario("stroke", [old])
    assert caught.value.action == f"Write --set {new}"


@pytest.mark.parametrize(
    "change",
    [
        {"teacher": {"C": 0.3}},
        {"teacher": 3},
        {"student": "mlp"},
        {"teachers": [3]},
        {"parties": 5},
        {"pool": {"least_distance": 0.1}, "timeouts": {}},
    ],
)
def test_any_old_file_gets_an_answer_that_is_toml(tmp_path: Path, change: dict) -> None:
    (tmp_path / "old.toml").write_text(tomli_w.dumps({**read_table(OLD / "stroke.toml"), **change}))
    with pytest.raises(ConfigError) as caught:
        load_scenario(str(tmp_path / "old.toml"), [])
    assert told_table(caught.value)["federation"]["mechanism"]["name"] == "confident"


def test_nulls_of_an_old_json_file_are_left_out(tmp_path: Path) -> None:
    plan = {**read_table(OLD / "federation.toml"), "least_survivors": None}
    (tmp_path / "old.json").write_text(json.dumps(plan))
    with pytest.raises(ConfigError) as caught:
        read_plan(tmp_path / "old.json")
    assert "least_survivors" not in told_table(caught.value)["federation"]
