"""Weights from federation.toml to kits: in the roster, in each party's own limit, and in what the party is told."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.privacy import promised, promised_at
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.registry import load_registry
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.messages import PROTOCOL_VERSION, HelloReply, HelloRequest
from consilium.sums.roster import Roster
from tests.command_line import consilium
from tests.deploy.kits import PARTIES, make_kits, plan_table, write_plan
from tests.federation import UNTOLD


def weighted(weights: tuple[int, int, int], most: int = 3, **changes: Any) -> dict[str, Any]:
    """The plan of three wards with these weights."""
    table = plan_table(most_weight=most, **changes)
    parties = [{**party, "weight": weight} for party, weight in zip(table["party"], weights, strict=True)]
    return {**table, "party": parties}


def hello(kit: Path) -> HelloReply:
    """What the party of a kit answers to its own terms."""
    home = open_home(kit)
    terms = home.pinned_terms()
    assert terms is not None
    fields = {"protocol_version": PROTOCOL_VERSION, "ledger": "0" * 64, "batch": 0, "head": "0" * 64, **UNTOLD}
    return PartyNode(home).hello(HelloRequest(**terms.model_dump(), **fields))


@pytest.mark.parametrize("votes", ["plaintext", "secure"])
def test_a_partys_kit_allows_just_its_own_weight(tmp_path: Path, votes: str) -> None:
    weights = (1, 2, 3) if votes == "plaintext" else (2, 2, 2)
    out = make_kits(tmp_path, **weighted(weights, collection=votes))
    config = load(out / "coordinator" / "federation.json", FederationConfig)
    for name, weight in zip(PARTIES, weights, strict=True):
        kit = out / f"party-{name}"
        limit = tomllib.loads((kit / "policy.toml").read_text())["policy"]["most_epsilon"]
        own = promised_at(config, weight).epsilon
        assert own <= limit <= 1.01 * own + 0.01
        assert hello(kit).weight == weight
    assert promised(config).epsilon == promised_at(config, 3).epsilon
    assert {name: record.weight for name, record in load_registry(out).parties.items()} == dict(
        zip(PARTIES, weights, strict=True)
    )
    if votes == "secure":
        assert Roster.load(out / "coordinator" / "roster.json").weights == weights


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (weighted((1, 4, 1)), "party ward-b has weight 4, federation.most_weight is 3"),
        (weighted((1, 2, 2), collection="secure"), "have 2 parties, 3 must be in a sum; in none are ward-a"),
        (weighted((0, 1, 1)), "party.0.weight: must be at least 1, got 0"),
    ],
)
def test_weights_that_cannot_be_provisioned(tmp_path: Path, table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        kits.make(write_plan(tmp_path, **table), tmp_path / "kits")
    assert not (tmp_path / "kits").exists()


def test_a_party_that_is_added_gets_its_weight(tmp_path: Path) -> None:
    out = make_kits(tmp_path, **weighted((1, 1, 1)))
    kits.add_party(out, "ward-d", weight=2)
    assert load_registry(out).parties["ward-d"].weight == 2
    with pytest.raises(ConfigError, match="weight 4 of 'ward-e' is not from 1 to the federation's most_weight 3"):
        kits.add_party(out, "ward-e", weight=4)


def test_a_party_that_made_its_own_keys_gets_its_weight(tmp_path: Path) -> None:
    out = make_kits(tmp_path, own=["ward-b"], **weighted((1, 2, 3)))
    assert load_registry(out).parties["ward-b"].weight == 2
    assert hello(out / "party-ward-b").weight == 2


def test_the_party_is_told_its_weight_and_its_own_epsilon(tmp_path: Path) -> None:
    out = make_kits(tmp_path, **weighted((1, 2, 3)))
    config = load(out / "coordinator" / "federation.json", FederationConfig)
    kit = out / "party-ward-b"
    own = promised_at(config, 2).epsilon
    checked = consilium("party", "dry-run", "--data-only", kit, kit / "federation.json")
    assert (
        f"weight     2 of at most 3: each of your answers counts as 2 votes; your own epsilon is at most {own:.3f}"
        in checked.stdout
    )
    told = consilium("party", "dry-run", "--data-only", kit, kit / "federation.json", "--format", "json").json()
    assert told["share"] == {"weight": 2, "epsilon": pytest.approx(own)}
    plain = make_kits(tmp_path / "plain") / "party-ward-b"
    assert "weight" not in consilium("party", "dry-run", "--data-only", plain, plain / "federation.json").stdout
