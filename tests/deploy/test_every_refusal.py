"""What a start or an enrolment refuses, doctor has said before, in the same words; or it is listed why it cannot."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import consilium.aggregator.deploy.doctor
import consilium.coordinator.deploy.doctor
import consilium.party.deploy.doctor
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.deploy import start as coordinator
from consilium.coordinator.deploy.runs import begin, current_run
from consilium.coordinator.ledger.store import Ledger
from consilium.coordinator.provision.authority import Authority
from consilium.party.deploy import start as party
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.party.policy import Policy
from consilium.party.spend import SpendStore
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.node import flower
from consilium.protocol.node.checks import Check, CheckResult, examine
from consilium.protocol.node.kit import open_kit
from consilium.protocol.node.manifest import MANIFEST
from consilium.protocol.node.ports import wait_for_ports
from consilium.protocol.parties.cures import CURES
from consilium.protocol.parties.refusals import Refused, Rule
from consilium.protocol.rows.pool import PoolTree
from consilium.protocol.secagg.identity import Identity
from tests.deploy.kits import edit, make_kits, write_data
from tests.federation import CLASSES, FEATURES, hello_of, make_rows

Spoil = Callable[[Path], object]
DOCTORS: dict[str, Callable[..., list[Check]]] = {
    "coordinator": consilium.coordinator.deploy.doctor.checks,
    "party": consilium.party.deploy.doctor.checks,
    "aggregator": consilium.aggregator.deploy.doctor.checks,
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """Kits with secure votes in which nothing is wrong; not to be changed."""
    return make_kits(tmp_path_factory.mktemp("sound"), votes="secure")


@pytest.fixture
def out(sound: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    return Path(shutil.copytree(sound, tmp_path / "kits"))


def found_by_doctor(kit: Path, name: str) -> CheckResult:
    node = open_kit(kit)
    checks = DOCTORS[node.kind](node, running=False)
    return next(found for found in examine(checks) if found.name == name)


def said_by_start(kit: Path, start: Callable[..., object]) -> tuple[str, str]:
    """Of a start that is refused: what is wrong, and what to do."""
    with pytest.raises(ConsiliumError) as refused:
        start(open_kit(kit), lambda *_: None, threading.Event())
    return refused.value.what, refused.value.action


# The coordinator.


def replaced(kit: Path, name: str, content: bytes) -> None:
    """A file that is not what it should be, in a kit that was not signed: else the signature says so first."""
    (kit / name).unlink()
    (kit / name).write_bytes(content)


def unsigned(spoil: Spoil) -> Spoil:
    def spoiled(kit: Path) -> None:
        (kit / MANIFEST).unlink()
        spoil(kit)

    return spoiled


def other_key(kit: Path) -> None:
    (kit / "server.key").unlink()
    Authority.create("other").server(["127.0.0.1"]).save(kit, "server2")
    (kit / "server2.key").rename(kit / "server.key")


def other_authority(kit: Path) -> None:
    for stem in ("server.key", "server.crt"):
        (kit / stem).unlink()
    Authority.create("other").server(["127.0.0.1"]).save(kit, "server")


def fewer_nodes(kit: Path) -> None:
    nodes = json.loads((kit / "nodes.json").read_text())["nodes"]
    replaced(kit, "nodes.json", json.dumps({"nodes": {"ward-a": nodes["ward-a"]}}).encode())


def foreign_identity(kit: Path) -> None:
    (kit / "identity.pem").unlink()
    Identity.generate().save(kit / "identity.pem")


def other_pool(kit: Path) -> None:
    (kit / "pool.npy").unlink()
    PoolTree.of_rows(make_rows(50, 5)[0]).save(kit / "pool.npy")


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
        unsigned(lambda kit: edit(kit / "federation.json", '"caps"', '"cap"')), "federation", "cap",
    ),
    "old roster": (
        unsigned(lambda kit: edit(kit / "roster.json", '"least_difference": 2', '"least_difference": 3')),
        "roster", "the federation asks for",
    ),
    "foreign identity": (unsigned(foreign_identity), "roster", "no entry with this node's name and key"),
    "another pool": (unsigned(other_pool), "pool", "other rows than the federation is fixed to"),
    "pool lost": (unsigned(lambda kit: (kit / "pool.npy").unlink()), "pool", "pool.npy"),
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

        checks = [consilium.party.deploy.doctor.port_check(kit)]
        wait_for_ports(checks, tell, threading.Event(), seconds=100)
    assert len(told) == 1


def test_a_party_needs_its_port_too(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = out / "party-ward-a"
    monkeypatch.setattr(party, "wait_for_ports", partial(wait_for_ports, seconds=0.0))
    with socket.socket() as other:
        other.bind(("127.0.0.1", open_kit(kit).node_port))
        other.listen()
        found = found_by_doctor(kit, "port")
        assert (found.what, found.action) == said_by_start(kit, party.start)


def newer_database(kit: Path, name: str) -> None:
    with closing(sqlite3.connect(open_kit(kit).state / name)) as connection:
        connection.execute("PRAGMA user_version = 99")


PARTY: dict[str, tuple[Spoil, str, str]] = {
    "a file was changed": (lambda kit: (kit / "terms.json").write_text("{}"), "signature", "not as the federation's"),
    "a newer program's state": (newer_state, "versions", "used by consilium-pate 9.9, in format 99"),
    "another name": (lambda kit: edit(kit / "party.toml", 'name = "ward-a"', 'name = "w"'), "place", "the kit is that"),
    "settings unreadable": (lambda kit: edit(kit / "party.toml", "[policy]", "[policy"), "place", "not valid TOML"),
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


@pytest.mark.parametrize("case", PARTY)
def test_a_party_is_refused_in_the_words_of_its_doctor(out: Path, case: str) -> None:
    spoil, name, said = PARTY[case]
    kit = out / "party-ward-a"
    spoil(kit)
    found = found_by_doctor(kit, name)
    assert (found.level, said in found.what) == ("wrong", True), found
    assert (found.what, found.action) == said_by_start(kit, party.start)


def test_a_path_that_flower_cannot_pass_on(out: Path) -> None:
    kit = out / "ward a"
    (out / "party-ward-a").rename(kit)
    found = found_by_doctor(kit, "place")
    assert (found.what, found.action) == said_by_start(kit, party.start)
    assert "a path with spaces" in found.what


@pytest.mark.parametrize(("node", "start"), [("coordinator", coordinator.start), ("party-ward-a", party.start)])
def test_another_flower_is_refused(out: Path, monkeypatch: pytest.MonkeyPatch, node: str, start: Any) -> None:
    monkeypatch.setattr(flower, "version", lambda _: "1.50.0")
    found = found_by_doctor(out / node, "flower")
    assert "flwr 1.50.0 is installed, and it is another version" in found.what
    assert (found.what, found.action) == said_by_start(out / node, start)


# What a party refuses when it is asked.


def policy(old: str, new: str) -> Spoil:
    return lambda kit: edit(kit / "party.toml", old, new)


def asked_elsewhere(kit: Path) -> None:
    """The party answered 40 queries in another federation."""
    store = SpendStore(open_home(kit).spend_file)
    terms = load(kit / "federation.json", FederationConfig).terms().model_copy(update={"federation": "a" * 64})
    free = Policy(allowed_classes=CLASSES, most_queries=40, most_epsilon=float("inf"))
    store.enrol(terms, "0" * 64, free)
    rows = np.eye(40, len(FEATURES))
    store.charge(terms, "t", "s", [f"{at:064x}" for at in range(40)], rows, 0.0, free)


def unsafe_federation(kit: Path) -> None:
    """The terms that were sent are of secure votes on any question."""
    terms = json.loads((kit / "terms.json").read_text())
    (kit / "terms.json").write_text(json.dumps({**terms, "pool": ""}))


def other_columns(kit: Path) -> None:
    x, y = make_rows(240, 0)
    np.savez(kit / "data.npz", x=x, y=y, features=np.array(("age", "weight", "drowsy")), classes=np.array(CLASSES))


def no_table(kit: Path) -> None:
    (kit / "data.npz").write_text("x")


@dataclass(frozen=True)
class Foreseen:
    """spoil: makes the party refuse by the rule. name: the check of doctor that says so."""

    spoil: Spoil
    name: str = "policy"


FORESEEN: dict[Rule, Foreseen] = {
    Rule.CLASSES: Foreseen(policy('"ill"', '"sick"')),
    Rule.MOST_TEACHERS: Foreseen(policy("most_teachers = 4", "most_teachers = 3")),
    Rule.VOTES: Foreseen(policy('votes = "secure"', 'votes = "distributed"')),
    Rule.POOL: Foreseen(unsafe_federation),
    Rule.MOST_EPSILON: Foreseen(policy("most_epsilon = ", "most_epsilon = 0.1 # ")),
    Rule.MOST_QUERIES: Foreseen(asked_elsewhere),
    Rule.LEAST_PARTIES: Foreseen(policy("least_parties = 3", "least_parties = 5"), "roster"),
    Rule.LEAST_DIFFERENCE: Foreseen(policy("least_difference = 2", "least_difference = 4"), "roster"),
    Rule.LEAST_ROWS: Foreseen(lambda kit: write_data(kit, 1, rows=30), "data"),
    Rule.SCHEMA: Foreseen(other_columns, "data"),
    Rule.DATA: Foreseen(no_table, "data"),
}
OTHER_CHECKS: dict[Rule, str] = {
    Rule.UNIT: "policy: tests/party/teachers/test_shards.py",
    Rule.ROSTER_MISMATCH: "roster: the cases of a coordinator above, and tests/deploy/test_kits_doctor.py",
    Rule.BAD_KEY: "roster and own keys: tests/coordinator/provision/test_own_keys.py",
    Rule.BAD_SIGNATURE: "roster and own keys, as BAD_KEY",
    Rule.POLICY: "policy, place and state, by whichever file it is",
    Rule.SIMULATION: "policy: no kit is of a simulated federation",
    Rule.STORAGE: "disk: tests/deploy/test_troubles.py",
    Rule.VERSION: "versions, against those of the operator; the student's against the coordinator: terms",
    Rule.PROMISE: "policy, where the terms cannot be promised at all",
    Rule.MALFORMED: "versions",
    Rule.ALREADY_ANSWERED: "rows left at the coordinator, terms at the student",
    Rule.OVERFLOW_RISK: "refused when it is provisioned",
}
"""Foreseen, and shown elsewhere."""
AT_RUN_TIME: dict[Rule, str] = {
    Rule.NODE_KIND: "a kit starts the app of its own kind: tests/aggregator/test_kinds.py",
    Rule.TERMS: "it takes two kits to see that they differ; each has its own signature and version",
    Rule.NEAR_QUERY: "what a student will ask is not known; a fixed pool has no such rows",
    Rule.LEDGER: "only the party knows what it saw, and only the coordinator where its ledger stands",
    Rule.NOT_TRAINED: "a step of the protocol",
    Rule.INTERNAL: "a bug",
    Rule.UNSAFE_SESSION: "somebody lies, or two kits differ",
    Rule.INCONSISTENT_VIEW: "somebody lies",
    Rule.REPLAY: "a step of the protocol",
    Rule.SET_TOO_CLOSE: "who is there when a question is asked",
    Rule.STAGE_ORDER: "a step of the protocol",
    Rule.THRESHOLD: "who is there when a question is asked",
}
"""Nobody can know before."""


def test_every_rule_is_foreseen_or_it_is_said_why_not() -> None:
    lists = [set(FORESEEN), set(OTHER_CHECKS), set(AT_RUN_TIME)]
    assert set().union(*lists) == set(Rule)
    assert sum(map(len, lists)) == len(Rule)


def refusal_of(out: Path, kit: Path) -> Refused:
    """Of the party, when the coordinator enrols it and has it train."""
    config = load(out / "coordinator" / "federation.json", FederationConfig)
    terms = json.loads((kit / "terms.json").read_text())
    node = PartyNode(open_home(kit))
    with pytest.raises(Refused) as refused:
        node.hello(hello_of(config, pool=terms["pool"]))
        node.train(config.train_request())
    return refused.value


@pytest.mark.parametrize("rule", FORESEEN)
def test_what_a_party_would_refuse_its_doctor_says(out: Path, rule: Rule) -> None:
    kit, case = out / "party-ward-a", FORESEEN[rule]
    case.spoil(kit)
    found, refused = found_by_doctor(kit, case.name), refusal_of(out, kit)
    assert (found.level, refused.refusal.rule) == ("wrong", rule)
    if case.name != "data":  # there, `consilium party check` has every problem of every column
        assert str(refused.refusal) in found.what
        assert found.action.startswith(CURES[rule])


def test_a_party_that_would_refuse_starts_and_says_so(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It joins once its policy is mended, without a restart; until then its own log has the doctor's words."""
    kit, told, stop = out / "party-ward-a", [], threading.Event()
    FORESEEN[Rule.MOST_EPSILON].spoil(kit)
    stop.set()
    monkeypatch.setattr(party, "Supervisor", lambda *_: ExitStack())
    monkeypatch.setattr(party, "supernode", lambda *_: None)
    party.start(open_kit(kit), lambda *line: told.append(line), stop)
    found = found_by_doctor(kit, "policy")
    assert ("policy", f"{found.what}. {found.action}") in told


@pytest.mark.parametrize("node", ["coordinator", "party-ward-a"])
def test_a_start_tells_what_is_promised(out: Path, monkeypatch: pytest.MonkeyPatch, node: str) -> None:
    class Reached(Exception):
        pass

    def reached(*_: object) -> None:
        raise Reached

    monkeypatch.setattr(coordinator, "prepare", reached)
    monkeypatch.setattr(party, "supernode", reached)
    told: list[tuple[str, str]] = []
    start = coordinator.start if node == "coordinator" else party.start
    with pytest.raises(Reached):
        start(open_kit(out / node), lambda *line: told.append(line), threading.Event())
    by_name = dict(told)
    assert by_name["promise"] == found_by_doctor(out / node, "promise").what
    assert "one record (a single case at one party)" in by_name["promise"]
    warned = by_name["warning" if node == "coordinator" else "expectation"]
    assert "above 5: an outcome may be 10^38 times as likely with it as without" in warned
    assert "Ask fewer queries, add noise, or find more parties" in warned
