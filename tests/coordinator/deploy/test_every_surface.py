"""Whatever happens, every surface says the same of a party: status, doctor, and the node's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from consilium.coordinator.deploy import deployed, start, status
from consilium.coordinator.deploy.gateway import Gateway
from consilium.coordinator.deploy.runs import begin
from consilium.coordinator.events import EventLog
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.rosters import NodeKeys
from consilium.node import standing
from consilium.node.checks import examine
from consilium.node.keys import NodeKey
from consilium.node.kit import Kit, open_kit
from consilium.node.standing import NodeStanding, check_standing, keep_standing, signed_headers
from consilium.party.deployed import PARTY
from consilium.protocol.refusals import CURES, Rule
from tests.deploy.kits import PARTIES, make_kits


def of_gateway(kit: Kit) -> Iterator[tuple[str, NodeStanding]]:
    """What each party is told that asks with its own key, whether it is still listed or not."""
    keys = NodeKeys(kit / "nodes.json")
    gateway = Gateway("127.0.0.1:1", kit.authority, keys, standings=lambda: status.standings(kit))
    with TestClient(gateway.app()) as client:
        for name in PARTIES:
            key = NodeKey.load(kit.folder.parent / f"party-{name}" / "node.key")
            reply = client.post(standing.PATH, headers=signed_headers(key))
            yield name, NodeStanding.model_validate_json(reply.content)


def check_all(kit: Kit, states: Mapping[str, tuple[str, bool]], closed: bool, patch: pytest.MonkeyPatch) -> None:
    """states: of each party, and whether it is connected, which is true of it."""
    patch.setattr(status, "listens", lambda *_: not closed)  # whether a coordinator runs
    found, told = status.status(kit), dict(of_gateway(kit))
    assert (found.closed, found.running) == (closed, not closed)
    doctor = " ".join(result.what for result in examine([("parties", lambda: deployed._parties(kit))]))
    for name, (state, connected) in states.items():
        assert (found.roll[name]["state"], found.roll[name]["connected"]) == (state, connected)
        said = told[name]
        assert (said.state, said.words) == (state, found.parties[name])
        assert said.closed == (closed and state != "revoked")
        assert (f"{name}: " in doctor) == (state in ("refused", "left out"))
        own = open_kit(kit.folder.parent / f"party-{name}")
        keep_standing(own, said)
        assert any(said.sentence in line for line in PARTY.status(own).lines())
        patch.setattr(standing, "ask_standing", lambda _, said=said: said)
        patch.setattr(standing, "check_coordinator", lambda _: "it answers")
        (result,) = examine([("coordinator", lambda own=own: check_standing(own))])
        bad = state in ("revoked", "refused", "left out")
        assert result.level == ("wrong" if bad else "advice" if closed else "ok")
        if state == "refused":
            assert CURES[Rule.STORAGE] in result.what


def test_every_surface_agrees_with_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = open_kit(make_kits(tmp_path) / "coordinator")
    run = begin(kit)
    first, second, third = PARTIES
    with closing(EventLog(run.events)) as log:
        log.write("awaiting", parties=list(PARTIES))
        log.write("connected", parties=list(PARTIES))
        log.write("enrolled", parties=[first, second])
        log.write("left-out", stage="enrol", party=third, reason="refused: storage", rule="storage", silent=False)
        states = {first: ("enrolled", True), second: ("enrolled", True), third: ("refused", True)}
        check_all(kit, states, False, monkeypatch)
        log.write("takes-part", parties=[first])
        log.write("left-out", stage="train", party=second, reason="no answer within 9 s", rule=None, silent=True)
        log.write("lost", parties=[second])
        states = {first: ("takes part", True), second: ("left out", False), third: ("refused", True)}
        check_all(kit, states, False, monkeypatch)
    nodes = json.loads((kit / "nodes.json").read_text())
    del nodes["nodes"][third]
    (kit / "nodes.json").write_text(json.dumps(nodes))
    check_all(kit, {**states, third: ("revoked", False)}, False, monkeypatch)
    Ledger(run / "ledger.db", run.config.digest(), run.config.model_dump_json()).close()
    start.close(kit, 1)
    states = {first: ("takes part", False), second: ("left out", False), third: ("revoked", False)}
    check_all(kit, states, True, monkeypatch)
