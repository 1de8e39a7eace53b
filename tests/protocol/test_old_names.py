"""Names of 0.9 give the same model as today's, with a note, in each kind of file; hashes that parties accepted stay."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from consilium.aggregator.policy import AggregatorPolicy
from consilium.coordinator.config import Federation, FederationConfig
from consilium.coordinator.provision.plan import RowsPlan, plan_table
from consilium.node.acceptance import read_policy
from consilium.party.dry_run import FederationFile
from consilium.party.home import LIMITS, Policy
from consilium.protocol import old_names
from consilium.protocol.errors import ConfigError
from consilium.protocol.messages import Terms
from consilium.protocol.models import Frozen
from consilium.protocol.records import BODY, from_record, to_record
from consilium.simulations.scenario import Scenario, load_scenario, scenario_table
from consilium.simulations.study.results import read_results
from consilium.simulations.study.spec import StudySpec, load_study
from tests.federation import make_config

TODAY: dict[str, Any] = {
    "name": "small",
    "minimum_parties": 2,
    "collection": "plaintext",
    "public_least_distance": 0.1,
    "privacy": {"unit": "party", "delta": 1e-5},
    "query_budget": {"queries": 9, "answers": 9},
    "mechanism": {"name": "gnmax", "sigma": 9.0},
    "voting_rule": {"rule": "relative"},
}
POLICY = {"allowed_classes": ["no", "yes"], "collection": "plaintext", "open_queries": True}
FEDERATION_OLD = {
    "votes": "collection",
    "caps": "query_budget",
    "ballot": "voting_rule",
    "pool_least_distance": "public_least_distance",
}
CASES: list[tuple[type[Frozen], dict[str, Any], dict[str, str]]] = [
    (Federation, TODAY, FEDERATION_OLD),
    (Policy, POLICY, {"votes": "collection", "open_pool": "open_queries"}),
    (AggregatorPolicy, {"open_queries": True}, {"open_pool": "open_queries"}),
    (RowsPlan, {"classes": ["a", "b"], "public": "p.csv", "queries": "q.csv"}, {"pool": "queries"}),
]
"""Model, a table of it, and keys of 0.9 with today's."""
EACH = [
    pytest.param(*case[:2], old, new, id=f"{case[0].__name__}.{old}") for case in CASES for old, new in case[2].items()
]


@pytest.fixture(autouse=True)
def _notes_anew() -> Iterator[None]:
    old_names.note.cache_clear()
    yield


def of_0_9(table: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    value = "clear" if table[new] == "plaintext" else table[new]
    return {old if key == new else key: value if key == new else other for key, other in table.items()}


@pytest.mark.parametrize(("model", "table", "old", "new"), EACH)
class TestEachKey:
    def test_it_is_read_with_a_note(
        self, model: type[Frozen], table: dict[str, Any], old: str, new: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        today = model.model_validate(table)
        assert caplog.records == []
        with caplog.at_level(logging.WARNING):
            assert model.model_validate(of_0_9(table, old, new)) == today
        assert caplog.messages == [f"{model.__name__}: {old} of version 0.9 is called {new} now"]

    def test_it_is_written_under_the_name_of_today(
        self, model: type[Frozen], table: dict[str, Any], old: str, new: str
    ) -> None:
        written = model.model_validate(of_0_9(table, old, new)).model_dump(mode="json")
        assert new in written and old not in written

    def test_both_at_once_are_refused(self, model: type[Frozen], table: dict[str, Any], old: str, new: str) -> None:
        with pytest.raises(ValidationError, match=f"{new} was called {old} in version 0.9, and both are there"):
            model.model_validate({**table, old: table[new]})


@pytest.mark.parametrize("model", [Federation, Policy, AggregatorPolicy])
def test_an_unknown_key_is_refused_still(model: type[Frozen]) -> None:
    with pytest.raises(ValidationError, match="ballots"):
        model.model_validate({"ballots": 1})


TOML = """
[data]
set = "stroke"
[federation]
name = "small"
minimum_parties = 2
{federation}
[federation.privacy]
unit = "party"
delta = 1e-5
[federation.mechanism]
name = "gnmax"
sigma = 9.0
{rest}
"""
OLD = TOML.format(
    federation='votes = "clear"',
    rest="""[federation.caps]
queries = 9
answers = 9
[federation.ballot]
rule = "relative"
""",
)


def test_a_scenario_of_0_9(tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text(OLD)
    scenario = load_scenario(str(tmp_path / "old.toml"))
    assert scenario.federation.collection == "plaintext"
    assert (scenario.federation.query_budget.queries, scenario.federation.voting_rule.rule) == (9, "relative")
    assert Scenario.model_validate_json(scenario.model_dump_json()) == scenario


@pytest.mark.parametrize("key", ["federation.votes", "federation.collection"])
def test_a_change_by_either_name(tmp_path: Path, key: str) -> None:
    """Whatever name the file has."""
    (tmp_path / "old.toml").write_text(OLD)
    changed = load_scenario(str(tmp_path / "old.toml"), [f"{key}=secure"])
    assert changed.federation.collection == "secure"


def test_both_names_in_a_scenario_are_refused(tmp_path: Path) -> None:
    (tmp_path / "both.toml").write_text(OLD.replace('votes = "clear"', 'votes = "clear"\ncollection = "secure"'))
    with pytest.raises(ConfigError, match=r"collection was called votes in version 0\.9, and both are there"):
        scenario_table(str(tmp_path / "both.toml"))


def test_a_study_of_0_9(tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text(
        """
[study]
scenario = "stroke"
[base.federation]
votes = "clear"
[[axis]]
key = "federation.votes"
values = ["clear", "secure"]
[[axis]]
name = "size"
points = { small = { federation = { votes = "secure" } }, large = { data = { parties = 9 } } }
[[except]]
"federation.votes" = "clear"
"""
    )
    spec = load_study(str(tmp_path / "old.toml"), ["federation.votes=secure"])
    assert spec.base["federation"] == {"collection": "secure"}
    assert (spec.axis[0].key, spec.axis[0].column) == ("federation.collection", "federation.collection")
    assert spec.axis[1].points["small"] == {"federation": {"collection": "secure"}}
    assert spec.exceptions == ({"federation.collection": "clear"},)
    assert StudySpec.model_validate(spec.model_dump(mode="json", by_alias=True)) == spec.model_copy(
        update={"name": "study", "folder": Path()}
    )


def test_results_of_a_study_of_0_9(tmp_path: Path) -> None:
    """An axis without a name of its own is a column under its key."""
    table = pl.DataFrame({"federation.votes": ["clear"], "metric": ["epsilon_promised"], "value": [1.0]})
    table.write_parquet(tmp_path / "results.parquet")
    read = read_results(tmp_path / "results.parquet")
    assert read.columns == ["federation.collection", "metric", "value"]
    assert read["metric"].to_list() == ["epsilon_guaranteed"]


def test_an_operators_file_of_0_9(tmp_path: Path) -> None:
    (tmp_path / "federation.toml").write_text(OLD)
    assert plan_table(tmp_path / "federation.toml")["federation"]["collection"] == "clear"
    (tmp_path / "named.toml").write_text('federation = "federation.toml"')
    assert plan_table(tmp_path / "named.toml")["federation"]["collection"] == "clear"


def test_limits_of_0_9(tmp_path: Path) -> None:
    """In a kit's policy.toml; they bind as those of today do."""
    (tmp_path / "policy.toml").write_text('[limits]\nvotes = "clear"\nopen_pool = false\n')
    limits = read_policy(tmp_path, Policy, LIMITS).limits
    assert limits == {"collection": "plaintext", "open_queries": False}


@pytest.mark.parametrize("name", ["public.npy", "public.npz"])
def test_a_file_of_public_rows(tmp_path: Path, name: str) -> None:
    """That of today is taken where both are there, and named where none is."""
    old = tmp_path / name.replace("public", "pool")
    assert old_names.public_file(tmp_path, name) == tmp_path / name
    old.touch()
    assert old_names.public_file(tmp_path, name) == old
    (tmp_path / name).touch()
    assert old_names.public_file(tmp_path, name) == tmp_path / name


class TestHashesAndWire:
    """As 0.9 computed them; what parties have accepted and ledgers are bound to."""

    def test_a_federation(self) -> None:
        digest = "80015c8294bb2b3affd1ed75633c83c9fd67aac7a7517da7b358165440c59371"
        assert Federation.model_validate(TODAY).federation_digest() == digest

    def test_a_configuration_and_its_terms(self) -> None:
        config = make_config()
        assert config.digest() == "e1924a18dab51df4bad1e0bd29ac09937d131226205df38f95c7b0f2b143b54c"
        assert config.terms().digest() == "f82f1811b938c26e977bf3955a008577b664bee58a3ea6301f2ca31c9ac9d586"

    def test_terms_travel_under_the_names_of_0_9(self, caplog: pytest.LogCaptureFixture) -> None:
        terms = make_config().terms()
        assert (terms.collection, json.loads(terms.model_dump_json())["votes"]) == ("plaintext", "clear")
        record = to_record(terms)
        body = record[BODY]
        assert body["votes"] == "clear" and "collection" not in body  # pyright: ignore
        assert from_record(record, Terms) == terms
        assert caplog.records == []

    def test_a_file_of_a_kit(self) -> None:
        config = make_config()
        text = config.model_dump_json()
        old = config.model_dump_json(by_alias=True)
        assert '"collection":"plaintext"' in text and '"votes":"clear"' in old
        assert FederationConfig.model_validate_json(old) == config
        assert FederationFile.model_validate_json(old) == FederationFile.model_validate_json(text)
