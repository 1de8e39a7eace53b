"""What a start refuses, doctor has said before, in the same words."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from consilium.aggregator.deployed import AGGREGATOR, NOT_YET
from consilium.coordinator.deploy import start as coordinator
from consilium.coordinator.deploy.runs import current_run
from consilium.node import flower, kinds
from consilium.node.checks import wait_for_ports
from consilium.node.kit import open_kit
from consilium.protocol.errors import ConsiliumError
from tests.deploy.kits import SECOND
from tests.deploy.spoiled import (
    STARTS,
    Spoil,
    changed_terms,
    damaged_earlier,
    damaged_given,
    damaged_ledger,
    damaged_positions,
    edited,
    fewer_nodes,
    foreign_identity,
    found_by_doctor,
    lost,
    other_content,
    other_database,
    other_given,
    other_key,
    other_pool,
    policy,
    said_by_start,
    served,
    signed_so,
    written,
)  # fmt: skip

REFUSED: dict[str, dict[str, tuple[Spoil, str, str]]] = {
    "coordinator": {
        "a file was changed": (written("roster.json", "{}"), "signature", "not as the federation's"),
        "key of another certificate": (signed_so(other_key), "certificate", "is not the key of"),
        "host not in the certificate": (
            edited("kit.json", '"localhost"', '"moved.example.org"'), "certificate", "moved.example.org",
        ),
        "a party's key is none": (
            other_content("nodes.json", b'{"nodes": {"ward-a": "x"}}'), "flower", "key of ward-a",
        ),
        "federation damaged": (
            signed_so(edited("federation.json", '"query_budget"', '"query_budge"')), "federation", "query_budge",
        ),
        "foreign identity": (signed_so(foreign_identity), "roster", "no entry with this node's name and key"),
        "another pool": (signed_so(other_pool), "public rows", "other rows than the federation is fixed to"),
        "too few parties": (signed_so(fewer_nodes), "nodes", "1 parties may connect, 3 are required"),
        "ledger of another format": (damaged_ledger, "ledger", "format"),
        "positions damaged": (damaged_positions, "ledger", "seen.json"),
    },
    "party-ward-a": {
        "a file was changed": (written("terms.json", "{}"), "signature", "not as the federation's"),
        "another name": (edited("party.toml", 'name = "ward-a"', 'name = "w"'), "place", "the kit is that"),
        "state of another format": (
            partial(other_database, name="party.db"), "state", "format 99, this program knows",
        ),
    },
    f"aggregator-{SECOND}": {
        "a file was changed": (written("terms.json", "{}"), "signature", "not as the federation's"),
        "another name": (
            edited("aggregator.toml", f'name = "{SECOND}"', 'name = "bored"'), "place", "the kit is that of 'board'",
        ),
        "settings unreadable": (policy("[policy]", "[policy"), "place", "not valid TOML"),
        "no terms pinned": (edited("aggregator.toml", 'terms = "terms.json"', ""), "state", "pins no terms"),
        "a promise of nonsense": (changed_terms(promise="[1]"), "state", "terms.json: malformed-request"),
        "given.db of another format": (other_given, "state", "format 99, this program knows"),
        "terms of an earlier federation are damaged": (damaged_earlier, "state", "given.db"),
        "its own keys were lost": (lost("sealing.pem"), "own keys", "holds no sealing.pem"),
    },
}  # fmt: skip
"""Node -> what is wrong with its kit -> how it comes about, the check of doctor that says so, a part of its words."""


@pytest.mark.parametrize(("node", "case"), [(node, case) for node, cases in REFUSED.items() for case in cases])
def test_a_start_is_refused_in_the_words_of_doctor(nodes: Path, node: str, case: str) -> None:
    (spoil, name, said), kit = REFUSED[node][case], nodes / node
    assert found_by_doctor(kit, name).level == "ok"
    spoil(kit)
    found = found_by_doctor(kit, name)
    assert (found.level, said in found.what) == ("wrong", True), found
    assert (found.what, found.action) == said_by_start(kit)
    assert found.action or "did you mean" in found.what
    if node.startswith("aggregator"):
        assert "party" not in f"{found.what} {found.action}"


@contextmanager
def taken(port: int) -> Iterator[socket.socket]:
    """Somebody listens there."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        yield other


PORTS = {"superlink port": "superlink_port", "label port": "label_port", "internal port": "internal_port"}


@pytest.mark.parametrize("name", PORTS)
def test_a_taken_port_is_said_at_once(nodes: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """And again by the refusal, when it stays taken."""
    kit, told = nodes / "coordinator", []
    monkeypatch.setattr(coordinator, "wait_for_ports", partial(wait_for_ports, seconds=0.5))
    with taken(getattr(open_kit(kit).coordinator, PORTS[name])):
        found = found_by_doctor(kit, name)
        with pytest.raises(ConsiliumError) as refused:
            coordinator.start(open_kit(kit), lambda *line: told.append(line), threading.Event())
    assert (found.level, f"change {PORTS[name]} in kit.json" in found.action) == ("wrong", True)
    assert (found.what, found.action) == (refused.value.what, refused.value.action)
    assert [line for line in told if line[0] == name] == [(name, f"{refused.value}. Waiting 0.5 s for it")]
    assert not current_run(open_kit(kit)).begun


OTHERS = ["party-ward-a", f"aggregator-{SECOND}"]


@pytest.mark.parametrize("node", OTHERS)
def test_a_node_needs_its_port_too(nodes: Path, monkeypatch: pytest.MonkeyPatch, node: str) -> None:
    kit = nodes / node
    monkeypatch.setattr(kinds, "wait_for_ports", partial(wait_for_ports, seconds=0.0))
    with taken(open_kit(kit).node_port):
        found = found_by_doctor(kit, "port")
        assert (found.what, found.action) == said_by_start(kit)
    assert "change node_port in kit.json" in found.action


@pytest.mark.parametrize("node", REFUSED)
def test_another_flower_is_refused(nodes: Path, monkeypatch: pytest.MonkeyPatch, node: str) -> None:
    monkeypatch.setattr(flower, "version", lambda _: "1.50.0")
    found = found_by_doctor(nodes / node, "flower")
    assert "flwr 1.50.0 is installed, and it is another version" in found.what
    assert (found.what, found.action) == said_by_start(nodes / node)


@pytest.mark.parametrize("spoil", [other_given, damaged_given])
def test_whoever_tells_where_a_second_aggregator_stands_goes_on(nodes: Path, spoil: Spoil) -> None:
    """A state that becomes unreadable while it runs does not end what watches it."""
    kit = nodes / f"aggregator-{SECOND}"
    assert AGGREGATOR.standing(open_kit(kit)) == NOT_YET
    served(kit)
    assert AGGREGATOR.standing(open_kit(kit)) == "serves, no sum given yet"
    spoil(kit)
    assert AGGREGATOR.standing(open_kit(kit)) == "its files cannot be read: consilium doctor"


@pytest.mark.parametrize("node", ["coordinator", "party-ward-a"])
def test_a_start_tells_what_is_promised(nodes: Path, monkeypatch: pytest.MonkeyPatch, node: str) -> None:
    class Reached(Exception):
        pass

    def reached(*_: object) -> None:
        raise Reached

    monkeypatch.setattr(coordinator, "prepare", reached)
    monkeypatch.setattr(kinds, "supernode", reached)
    told: list[tuple[str, str]] = []
    with pytest.raises(Reached):
        STARTS[open_kit(nodes / node).kind](open_kit(nodes / node), lambda *line: told.append(line), threading.Event())
    by_name = dict(told)
    assert by_name["promise"] == found_by_doctor(nodes / node, "promise").what
    assert "one record (a single case at one party)" in by_name["promise"]
    warned = by_name["warning" if node == "coordinator" else "expectation"]
    assert "above 5: an outcome may be 10^40 times as likely with it as without" in warned
    assert "Ask fewer queries, add noise, or find more parties" in warned
