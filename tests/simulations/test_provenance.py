"""Shipped scenarios and trainers say on which rows tuned values were chosen; what no longer holds is dropped."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from consilium.models import evidence, shares
from consilium.models.images import graph_cnn
from consilium.models.provenance import Provenance, keys_of, uncovered
from consilium.models.specs import TRAINERS
from consilium.models.train import constants_of
from consilium.protocol.errors import ConfigError
from consilium.simulations.scenario import Scenario, load_scenario, scenario_json, scenario_table
from consilium.simulations.shipped import Shipped
from consilium.simulations.study.cells import plots
from consilium.simulations.study.spec import load_study

TUNABLE = (
    "data.least_rows",
    "data.most_rows",
    "data.representation",
    "federation.voting_rule.",
    "federation.query_budget.",
    "federation.mechanism.",
    "federation.most_weight",
    "federation.schedule",
    "federation.teacher.",
    "federation.teachers_per_party",
    "student.",
)
"""What somebody chooses in view of what comes out. Epsilon, delta and unit are what is asked for."""


def defaults(scenario: Scenario) -> dict[str, Any]:
    """The values that the same kinds would have by themselves, nested."""
    federation = scenario.federation
    kinds = {"teacher": federation.teacher, "voting_rule": federation.voting_rule, "mechanism": federation.mechanism}
    plain = {name: {key: each.default for key, each in type(kind).model_fields.items()} for name, kind in kinds.items()}
    fields = type(scenario.student).model_fields
    trainer = {key: each.default for key, each in type(scenario.student.trainer).model_fields.items()}
    for table, tag in ((plain["teacher"], "model"), (plain["mechanism"], "name"), (plain["voting_rule"], "rule")):
        table.pop(tag)  # a kind is a choice
    trainer.pop("name")
    return {
        "federation": {**plain, "teachers_per_party": 1, "most_weight": 1, "query_budget": {}},
        "student": {**{key: each.default for key, each in fields.items() if key != "trainer"}, "trainer": trainer},
        "data": {key: each.default for key, each in type(scenario.data).model_fields.items()},
    }


def at(table: Any, key: str) -> Any:
    for part in key.split("."):
        table = table.get(part) if isinstance(table, dict) else None
    return table


def tuned(name: str) -> set[str]:
    """Keys of a shipped file that are tunable and differ from the default of their kind."""
    table = tomllib.loads(Shipped.SCENARIO.files()[name].read_text(encoding="utf-8"))
    plain = defaults(load_scenario(name))
    table.pop("provenance", None)
    leaves = {key for key in keys_of(table) if not isinstance(at(table, key), dict)}
    return {key for key in leaves if key.startswith(TUNABLE) and at(table, key) != at(plain, key)}


@pytest.mark.parametrize("name", Shipped.SCENARIO.files())
def test_every_shipped_scenario_says_where_each_tuned_value_is_from(name: str) -> None:
    scenario = load_scenario(name)
    stated = {key for entry in scenario.provenance for key in entry.keys}
    assert tuned(name) - stated == set()
    assert tuned(name) >= {"federation.query_budget.queries", "federation.mechanism.name"}  # or the test is blind


@pytest.mark.parametrize("name", Shipped.SCENARIO.files())
def test_what_was_chosen_on_rows_that_judge_is_said(name: str) -> None:
    """MNIST's penalty and graph and the students of stroke are known to have been; no file may forget it."""
    scenario = load_scenario(name)
    judged = {key for each in scenario.provenance if each.rows == "judged" for key in each.keys}
    if name in ("mnist-250", "mnist-writers"):
        assert {"federation.teacher.alpha", "student.trainer.neighbours", "student.trainer.gamma"} <= judged
    if scenario.student.trainer.name == "logistic_regression":
        assert [each.rows for each in constants_of(scenario.student.trainer)] == ["judged"]
    assert "own" not in {each.votes for each in scenario.provenance}


def test_every_constant_that_a_trainer_states_is_in_its_module_and_reaches_a_kind() -> None:
    stated = {}
    for module in (evidence, shares, graph_cnn):
        for name, entry in vars(module).items():
            if isinstance(entry, Provenance):
                stated[name] = entry
                assert all(hasattr(module, key) for key in entry.keys), name
    assert len(stated) == 5
    made = [{"name": kind.model_fields["name"].default} for kind in TRAINERS if "factory" not in kind.model_fields]
    kinds = {kind.model_fields["name"].default: kind for kind in TRAINERS}
    reached = []
    for table in made:
        if table["name"] == "pickled":
            continue
        even = {"even": True} if "even" in kinds[table["name"]].model_fields else {}
        reached += constants_of(kinds[table["name"]].model_validate(even))
    assert all(entry in reached for entry in stated.values())


def test_what_set_changes_has_no_provenance_any_more() -> None:
    def stated(*overrides: str) -> set[str]:
        return {key for entry in load_scenario("stroke", overrides).provenance for key in entry.keys}

    whole = stated()
    assert whole - stated("federation.query_budget.queries=300") == {"federation.query_budget.queries"}
    assert whole - stated("federation.query_budget={queries=300, answers=300}") == {
        "federation.query_budget.queries",
        "federation.query_budget.answers",
    }
    other = stated("federation.mechanism={name='gnmax', sigma=100}", "federation.query_budget.queries=300")
    assert not {key for key in other if key.startswith("federation.mechanism")}
    assert whole == stated("simulation.noise=system")


def test_a_study_changes_what_it_says_and_has_none() -> None:
    assert "provenance" in scenario_table("stroke")
    found = plots(load_study("hospitals", seeds=1))
    assert found and all("provenance" not in plot.table for plot in found)


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        (
            [{"keys": ["federation.query_budget.querys"], "rows": "none", "where": "x"}],
            "no key federation.query_budget.querys",
        ),
        ([{"keys": ["data.set"], "rows": "none", "where": "x"}] * 2, "stated twice"),
        ([{"keys": ["data.set"], "rows": "test", "where": "x"}], "rows"),
        ([{"keys": [], "rows": "none", "where": "x"}], "keys"),
        ([{"keys": ["data.set"], "rows": "none"}], "where"),
        ([{"keys": ["data.set"], "rows": "none", "where": "x", "seeds": 3}], "seeds"),
        ([{"keys": ["data.set"], "rows": "none", "where": "x", "votes": "some"}], "votes"),
        ("none", "provenance"),
    ],
)
def test_entries_that_are_none_are_refused_in_a_line(tmp_path, entries: Any, told: str) -> None:
    import tomli_w

    table = tomllib.loads(Shipped.SCENARIO.files()["stroke"].read_text(encoding="utf-8")) | {"provenance": entries}
    (tmp_path / "own.toml").write_text(tomli_w.dumps(table))
    with pytest.raises(ConfigError, match=told):
        load_scenario(str(tmp_path / "own.toml"))


def test_a_scenario_without_it_is_the_same_federation() -> None:
    table = scenario_table("stroke")
    del table["provenance"]
    plain, stated = Scenario.model_validate(table), load_scenario("stroke")
    assert plain.federation.federation_digest() == stated.federation.federation_digest()
    assert scenario_json(stated)["provenance"][0]["rows"] == "none"
    assert uncovered(stated.provenance) and not uncovered(plain.provenance)


def test_a_student_of_a_scenario_states_nothing_of_its_own() -> None:
    entry = {"keys": ["queries"], "rows": "none", "where": "x"}
    with pytest.raises(ConfigError, match="provenance"):
        load_scenario("stroke", [f"student.provenance=[{{keys=['queries'], rows='none', where='{entry['where']}'}}]"])
