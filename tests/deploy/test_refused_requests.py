"""What a party or a second aggregator would refuse when it is asked, its doctor has said before; or it is listed why it
cannot."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from consilium.aggregator.deployed import AGGREGATOR
from consilium.aggregator.home import open_home as open_second
from consilium.coordinator.config import FederationConfig
from consilium.node import kinds
from consilium.node.kit import open_kit
from consilium.party.deployed import PARTY
from consilium.protocol.config_files import load
from consilium.protocol.messages import PROTOCOL_VERSION
from consilium.protocol.refusals import CURES, CURES_OF_SECOND, Refused, Rule
from consilium.sums.verified.messages import AggregatorRequest
from tests.deploy.kits import SECOND, write_data
from tests.deploy.spoiled import (
    Spoil,
    answered_elsewhere,
    changed_terms,
    found_by_doctor,
    other_columns,
    other_roster,
    policy,
    signed_so,
    written,
)  # fmt: skip
from tests.federation import hello_of, node_at

PARTY_KIT, SECOND_KIT = "party-ward-a", f"aggregator-{SECOND}"


class Foreseen(NamedTuple):
    """spoil: makes the node refuse by the rule. name: the check of doctor that says so."""

    spoil: Spoil
    name: str = "policy"


FORESEEN: dict[str, dict[Rule, Foreseen]] = {
    PARTY_KIT: {
        Rule.CLASSES: Foreseen(policy('"ill"', '"sick"')),
        Rule.MOST_TEACHERS: Foreseen(policy("most_teachers = 4", "most_teachers = 3")),
        Rule.VOTES: Foreseen(policy('collection = "secure"', 'collection = "verified"')),
        Rule.MOST_EPSILON: Foreseen(policy("most_epsilon = ", "most_epsilon = 0.1 # ")),
        Rule.MOST_QUERIES: Foreseen(answered_elsewhere),
        Rule.LEAST_PARTIES: Foreseen(policy("least_parties = 3", "least_parties = 5"), "roster"),
        Rule.LEAST_ROWS: Foreseen(lambda kit: write_data(kit, 1, rows=30), "data"),
        Rule.SCHEMA: Foreseen(other_columns, "data"),
        Rule.DATA: Foreseen(written("data.npz", "x"), "data"),
    },
    SECOND_KIT: {
        Rule.VOTES: Foreseen(changed_terms(collection="secure")),
        Rule.MALFORMED: Foreseen(changed_terms(public="{}")),
        Rule.MOST_EPSILON: Foreseen(policy("most_epsilon = ", "most_epsilon = 0.1 # ")),
        Rule.LEAST_PARTIES: Foreseen(policy("least_parties = 3", "least_parties = 5")),
        Rule.ROSTER_MISMATCH: Foreseen(signed_so(other_roster)),
        Rule.SIMULATION: Foreseen(changed_terms(simulation=True)),
    },
}


def ask_party(nodes: Path) -> None:
    """The coordinator enrols it and has it train."""
    config = load(nodes / "coordinator" / "federation.json", FederationConfig)
    terms = json.loads((nodes / PARTY_KIT / "terms.json").read_text())
    node = node_at(nodes / PARTY_KIT)
    node.hello(hello_of(config, public=terms["public"]))
    node.train(config.train_request())


def ask_second(nodes: Path) -> str:
    """The coordinator comes with the terms that the kit has; the name that it is told."""
    home = open_second(nodes / SECOND_KIT)
    terms = home.pinned_terms()
    assert terms is not None
    fields: dict[str, Any] = {**terms.model_dump(), "program": "", "protocol_version": PROTOCOL_VERSION}
    return home.node().hello(AggregatorRequest(**fields)).name


@pytest.mark.parametrize(("node", "rule"), [(node, rule) for node, rules in FORESEEN.items() for rule in rules])
def test_what_a_node_would_refuse_its_doctor_says(nodes: Path, node: str, rule: Rule) -> None:
    kit, case = nodes / node, FORESEEN[node][rule]
    assert found_by_doctor(kit, case.name).level == "ok"
    case.spoil(kit)
    found = found_by_doctor(kit, case.name)
    with pytest.raises(Refused) as refused:
        (ask_party if node == PARTY_KIT else ask_second)(nodes)
    assert (found.level, refused.value.refusal.rule) == ("wrong", rule)
    if case.name != "data":  # there, `consilium party dry-run --data-only` has every problem of every column
        assert str(refused.value.refusal) in found.what
        assert found.action.startswith((CURES if node == PARTY_KIT else CURES_OF_SECOND)[rule])
    if node == SECOND_KIT:
        assert "party" not in f"{found.what} {found.action}".replace("for a party", "")


def test_nothing_is_refused_by_sound_kits(nodes: Path) -> None:
    """The control; and the terms of the second aggregator's kit are those that the coordinator comes with."""
    ask_party(nodes)
    config = load(nodes / "of-second" / "federation.json", FederationConfig)
    assert open_second(nodes / SECOND_KIT).pinned_terms() == config.terms()
    assert ask_second(nodes) == SECOND


@pytest.mark.parametrize("node", FORESEEN)
def test_a_node_that_would_refuse_starts_and_says_so(nodes: Path, monkeypatch: pytest.MonkeyPatch, node: str) -> None:
    """It joins once its policy is mended, without a restart; until then its own log has the doctor's words."""
    kit, told, stop = nodes / node, [], threading.Event()
    FORESEEN[node][Rule.MOST_EPSILON].spoil(kit)
    stop.set()
    monkeypatch.setattr(kinds, "Supervisor", lambda *_: ExitStack())
    monkeypatch.setattr(kinds, "supernode", lambda *_: None)
    (PARTY if node == PARTY_KIT else AGGREGATOR).start(open_kit(kit), lambda *line: told.append(line), stop)
    found = found_by_doctor(kit, "policy")
    assert ("policy", f"{found.what}. {found.action}") in told
