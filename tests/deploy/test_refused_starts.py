"""What a start refuses, doctor has said before, in the same words."""

from __future__ import annotations

import socket
import sqlite3
import threading
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.deploy import start as coordinator
from consilium.coordinator.deploy.runs import begin, current_run
from consilium.coordinator.ledger.store import Ledger
from consilium.node import flower, kinds
from consilium.node.checks import wait_for_ports
from consilium.node.kit import open_kit
from consilium.node.manifest import MANIFEST
from consilium.party.deployed import PARTY
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.identity import Identity
from consilium.protocol.rows.pool import PoolTree
from tests.deploy.kits import edit
from tests.deploy.refusals import (
    Spoil,
    fewer_nodes,
    found_by_doctor,
    other_authority,
    other_key,
    replaced,
    said_by_start,
)
from tests.federation import make_rows


def unsigned(spoil: Spoil) -> Spoil:
    def spoiled(kit: Path) -> None:
        (kit / MANIFEST).unlink()
        spoil(kit)

    return spoiled


def foreign_identity(kit: Path) -> None:
    (kit / "identity.pem").unlink()
    Identity.generate().save(kit / "identity.pem")


def other_pool(kit: Path) -> None:
    (kit / "public.npy").unlink()
    PoolTree.of_rows(make_rows(50, 5)[0]).save(kit / "public.npy")


def damaged_ledger(kit: Path) -> None:
    run = begin(open_kit(kit))
    Ledger(run / "ledger.db", run.config.digest(), "{}").close()
    with closing(sqlite3.connect(run / "ledger.db")) as connection:
        connection.execute("UPDATE meta SET value = '9' WHERE key = 'format'")
        connection.commit()


def damaged_positions(kit: Path) -> None:
    (begin(open_kit(kit)) / "seen.json").write_text("[")


def newer_state(kit: Path) -> None:
    (open_kit(kit).state / "version.json").write_text('{"format": 99, "program": "consilium-pate 9.9"}')


COORDINATOR: dict[str, tuple[Spoil, str, str]] = {
    "a file was changed": (lambda kit: (kit / "roster.json").write_text("{}"), "signature", "not as the federation's"),
    "a newer program's state": (newer_state, "versions", "used by consilium-pate 9.9, in format 99"),
    "key of another certificate": (unsigned(other_key), "certificate", "is not the key of"),
    "certificate of another authority": (unsigned(other_authority), "certificate", "not of the authority"),
    "host not in the certificate": (
        lambda kit: edit(kit / "kit.json", '"localhost"', '"moved.example.org"'), "certificate", "moved.example.org",
    ),
    "nodes unreadable": (unsigned(lambda kit: replaced(kit, "nodes.json", b"{")), "flower", "nodes.json"),
    "a party's key is none": (
        unsigned(lambda kit: replaced(kit, "nodes.json", b'{"nodes": {"ward-a": "x"}}')), "flower", "key of ward-a",
    ),
    "federation damaged": (
        unsigned(lambda kit: edit(kit / "federation.json", '"query_budget"', '"cap"')), "federation", "cap",
    ),
    "old roster": (
        unsigned(lambda kit: edit(kit / "roster.json", '"t": 3', '"t": 2')),
        "roster", "the federation asks for",
    ),
    "foreign identity": (unsigned(foreign_identity), "roster", "no entry with this node's name and key"),
    "another pool": (unsigned(other_pool), "public rows", "other rows than the federation is fixed to"),
    "pool lost": (unsigned(lambda kit: (kit / "public.npy").unlink()), "public rows", "public.npy"),
    "too few parties": (unsigned(fewer_nodes), "nodes", "1 parties may connect, 3 are required"),
    "students unreadable": (
        unsigned(lambda kit: replaced(kit, "students.json", b'{"university": "x"}')), "students", "nobody would be let",
    ),
    "ledger of another format": (damaged_ledger, "ledger", "format"),
    "positions damaged": (damaged_positions, "ledger", "seen.json"),
}  # fmt: skip


@pytest.mark.parametrize("case", COORDINATOR)
def test_a_coordinator_is_refused_in_the_words_of_its_doctor(out: Path, case: str) -> None:
    spoil, name, said = COORDINATOR[case]
    kit = out / "coordinator"
    spoil(kit)
    found = found_by_doctor(kit, name)
    assert (found.level, said in found.what) == ("wrong", True), found
    assert (found.what, found.action) == said_by_start(kit, coordinator.start)
    assert found.action or "did you mean" in found.what


PORTS = {"superlink port": "superlink_port", "label port": "label_port", "internal port": "internal_port"}


@pytest.mark.parametrize("name", PORTS)
def test_a_taken_port_is_said_at_once(out: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """And again by the refusal, when it stays taken."""
    kit, told = out / "coordinator", []
    monkeypatch.setattr(coordinator, "wait_for_ports", partial(wait_for_ports, seconds=0.5))
    with socket.socket() as other:
        other.bind(("127.0.0.1", getattr(open_kit(kit).coordinator, PORTS[name])))
        other.listen()
        found = found_by_doctor(kit, name)
        with pytest.raises(ConsiliumError) as refused:
            coordinator.start(open_kit(kit), lambda *line: told.append(line), threading.Event())
    assert (found.level, f"change {PORTS[name]} in kit.json" in found.action) == ("wrong", True)
    assert (found.what, found.action) == (refused.value.what, refused.value.action)
    assert [line for line in told if line[0] == name] == [(name, f"{refused.value}. Waiting 0.5 s for it")]
    assert not current_run(open_kit(kit)).begun


def test_an_address_that_is_not_this_machines(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = out / "coordinator"
    monkeypatch.setattr(coordinator, "wait_for_ports", partial(wait_for_ports, seconds=0.0))
    edit(kit / "kit.json", '"listen": "127.0.0.1"', '"listen": "192.0.2.77"')
    found = found_by_doctor(kit, "superlink port")
    assert (found.what, found.action) == said_by_start(kit, coordinator.start)
    assert "correct listen in kit.json" in found.action


def test_a_port_that_becomes_free_is_taken(out: Path) -> None:
    kit, told = open_kit(out / "party-ward-a"), []
    with ExitStack() as stack:
        other = stack.enter_context(socket.socket())
        other.bind(("127.0.0.1", kit.node_port))
        other.listen()

        def tell(*line: str) -> None:
            told.append(line)
            stack.close()

        checks = [kinds.port_check(kit)]
        wait_for_ports(checks, tell, threading.Event(), seconds=100)
    assert len(told) == 1


def test_a_party_needs_its_port_too(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = out / "party-ward-a"
    monkeypatch.setattr(kinds, "wait_for_ports", partial(wait_for_ports, seconds=0.0))
    with socket.socket() as other:
        other.bind(("127.0.0.1", open_kit(kit).node_port))
        other.listen()
        found = found_by_doctor(kit, "port")
        assert (found.what, found.action) == said_by_start(kit, PARTY.start)


def newer_database(kit: Path, name: str) -> None:
    with closing(sqlite3.connect(open_kit(kit).state / name)) as connection:
        connection.execute("PRAGMA user_version = 99")


OF_PARTY: dict[str, tuple[Spoil, str, str]] = {
    "a file was changed": (lambda kit: (kit / "terms.json").write_text("{}"), "signature", "not as the federation's"),
    "a newer program's state": (newer_state, "versions", "used by consilium-pate 9.9, in format 99"),
    "another name": (lambda kit: edit(kit / "party.toml", 'name = "ward-a"', 'name = "w"'), "place", "the kit is that"),
    "settings unreadable": (lambda kit: edit(kit / "party.toml", "name = ", "name "), "place", "not valid TOML"),
    "policy unreadable": (lambda kit: edit(kit / "policy.toml", "[policy]", "[policy"), "place", "not valid TOML"),
    "sessions of a newer program": (
        partial(newer_database, name="sessions.db"),
        "state",
        "format 99, this program knows",
    ),
    "uploads of a newer program": (
        partial(newer_database, name="uploads.db"),
        "state",
        "format 99, this program knows",
    ),
}


@pytest.mark.parametrize("case", OF_PARTY)
def test_a_party_is_refused_in_the_words_of_its_doctor(out: Path, case: str) -> None:
    spoil, name, said = OF_PARTY[case]
    kit = out / "party-ward-a"
    spoil(kit)
    found = found_by_doctor(kit, name)
    assert (found.level, said in found.what) == ("wrong", True), found
    assert (found.what, found.action) == said_by_start(kit, PARTY.start)


def test_a_path_that_flower_cannot_pass_on(out: Path) -> None:
    kit = out / "ward a"
    (out / "party-ward-a").rename(kit)
    found = found_by_doctor(kit, "place")
    assert (found.what, found.action) == said_by_start(kit, PARTY.start)
    assert "a path with spaces" in found.what


@pytest.mark.parametrize(("node", "start"), [("coordinator", coordinator.start), ("party-ward-a", PARTY.start)])
def test_another_flower_is_refused(out: Path, monkeypatch: pytest.MonkeyPatch, node: str, start: Any) -> None:
    monkeypatch.setattr(flower, "version", lambda _: "1.50.0")
    found = found_by_doctor(out / node, "flower")
    assert "flwr 1.50.0 is installed, and it is another version" in found.what
    assert (found.what, found.action) == said_by_start(out / node, start)


@pytest.mark.parametrize("node", ["coordinator", "party-ward-a"])
def test_a_start_tells_what_is_promised(out: Path, monkeypatch: pytest.MonkeyPatch, node: str) -> None:
    class Reached(Exception):
        pass

    def reached(*_: object) -> None:
        raise Reached

    monkeypatch.setattr(coordinator, "prepare", reached)
    monkeypatch.setattr(kinds, "supernode", reached)
    told: list[tuple[str, str]] = []
    start = coordinator.start if node == "coordinator" else PARTY.start
    with pytest.raises(Reached):
        start(open_kit(out / node), lambda *line: told.append(line), threading.Event())
    by_name = dict(told)
    assert by_name["promise"] == found_by_doctor(out / node, "promise").what
    assert "one record (a single case at one party)" in by_name["promise"]
    warned = by_name["warning" if node == "coordinator" else "expectation"]
    assert "above 5: an outcome may be 10^38 times as likely with it as without" in warned
    assert "Ask fewer queries, add noise, or find more parties" in warned
