"""The coordinator node around its processes: which nodes may connect, which failures end it, and its status."""

from __future__ import annotations

import json
import re
import shutil
import threading
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from consilium.coordinator.deploy import start as node
from consilium.coordinator.deploy import superlink as flower
from consilium.coordinator.deploy.runs import begin, current_run
from consilium.coordinator.deploy.start import close
from consilium.coordinator.deploy.status import state_of, status
from consilium.coordinator.deploy.superlink import DATABASE, MOVED, prepare, sync_nodes
from consilium.coordinator.events import EventLog, event_of
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.authority import Authority
from consilium.coordinator.rosters import REGISTERED
from consilium.node import keys as own_keys
from consilium.node.kit import Kit, open_kit
from consilium.node.supervisor import Program, Tell
from consilium.protocol.errors import (
    ConfigError,
    ConsiliumError,
    EngineError,
    LedgerError,
    NotEnoughParties,
    ServiceError,
)
from consilium.protocol.files import held
from consilium.protocol.pool import PoolTree
from tests.deploy.kits import PARTIES, STUDENT, make_kits, server_of, write_plan
from tests.deploy.spoiled import sign


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    return make_kits(tmp_path_factory.mktemp("sound"), collection="secure")


@pytest.fixture
def kit(sound: Path, tmp_path: Path) -> Kit:
    return open_kit(Path(shutil.copytree(sound / "coordinator", tmp_path / "coordinator")))


class Superlink:
    """`flwr supernode`, answered as Flower 1.41 does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes: dict[str, int] = {}
        self.next = 100
        monkeypatch.setattr(flower, "flwr", self.answer)

    def answer(self, kit: Kit, *arguments: str) -> dict:
        if arguments[1] == "register":
            key = Path(arguments[2]).read_text().strip()
            if key in self.nodes:
                return {"success": False, "error-message": "x\n\n[code: 23] Public key already in use."}
            self.next += 1
            self.nodes[key] = self.next
            return {"success": True, "node-id": self.next}
        known = {node: key for key, node in self.nodes.items()}
        if int(arguments[2]) not in known:
            return {"success": False, "error-message": "no such node"}
        del self.nodes[known[int(arguments[2])]]
        return {"success": True}


def keys(kit: Kit) -> dict[str, str]:
    return json.loads((kit / "nodes.json").read_text())["nodes"]


def test_exactly_the_listed_nodes_may_connect(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    superlink, told = Superlink(monkeypatch), []
    nodes = keys(kit)
    sync_nodes(kit, lambda _, what: told.append(what))
    assert sorted(superlink.nodes) == sorted(nodes.values())
    assert told == [f"{name} may connect" for name in PARTIES]
    sync_nodes(kit, lambda *_: pytest.fail("nothing to do"))
    (kit / "nodes.json").write_text(json.dumps({"nodes": {name: nodes[name] for name in PARTIES[1:]}}))
    sync_nodes(kit, lambda _, what: told.append(what))
    assert sorted(superlink.nodes) == sorted(nodes[name] for name in PARTIES[1:])
    assert not list(kit.state.glob("*.pub"))


def test_a_registration_that_was_not_written_down_is_taken_over(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    superlink = Superlink(monkeypatch)
    nodes = keys(kit)
    superlink.nodes[nodes["ward-a"]] = 7  # and then the coordinator was killed
    sync_nodes(kit, lambda *_: None)
    assert len(superlink.nodes) == 3
    (kit / "nodes.json").write_text(json.dumps({"nodes": {"ward-b": nodes["ward-b"]}}))
    with pytest.raises(EngineError, match="unknown id could not be unregistered"):
        sync_nodes(kit, lambda *_: None)


def test_a_new_database_knows_nobody(kit: Kit) -> None:
    (kit.state / REGISTERED).write_text("{}")
    (kit.state / DATABASE).touch()
    prepare(kit, lambda *_: None)
    assert (kit.state / REGISTERED).exists()
    (kit.state / DATABASE).unlink()
    prepare(kit, lambda *_: None)
    assert not (kit.state / REGISTERED).exists()


def test_a_copy_of_the_kit_knows_no_connection_of_the_first(kit: Kit, tmp_path: Path) -> None:
    """Control: the same folder, started again, keeps its database, in which heartbeats stand."""
    said: list[str] = []
    prepare(kit, lambda _, what: said.append(what))
    (kit.state / DATABASE).write_text("ward-a is online")
    prepare(kit, lambda _, what: said.append(what))
    assert (kit.state / DATABASE).exists() and said == []
    copy = open_kit(Path(shutil.copytree(kit.folder, tmp_path / "elsewhere")))
    prepare(copy, lambda _, what: said.append(what))
    assert not (copy.state / DATABASE).exists() and said == [MOVED]
    run = begin(copy)
    log = EventLog(run.events)
    log.write("connected", parties=["ward-a"])
    log.write("takes-part", parties=["ward-a"])
    log.close()
    node._await_all(copy, run)
    entry = state_of(copy, run).roll.entries["ward-a"]
    assert (entry.state.value, entry.connected) == ("awaited", False)


class Attempts:
    """Runs that end one after another as told: with a failure, an outcome, or nothing."""

    def __init__(self, kit: Kit, monkeypatch: pytest.MonkeyPatch, *ends: ConsiliumError | str) -> None:
        self.kit, self.ends, self.count = kit, list(ends), 0
        self.before: list[str] = []
        """What was done before the first run, in its order."""
        monkeypatch.setattr(node, "follow_run", self.run)
        monkeypatch.setattr(node, "HEARD_SECONDS", 0)
        monkeypatch.setattr(node, "sync_nodes", lambda *_: self.before.append("nodes registered"))
        monkeypatch.setattr(node, "Supervisor", self.supervise)
        monkeypatch.setattr(node, "stop_group", lambda *_: None)
        monkeypatch.setattr(node, "listens", lambda port, *_: port == kit.coordinator.internal_port)
        monkeypatch.setattr(node, "RETRY", node.BackOff(first=0.01, most=0.01))

    def run(self, *_: object):
        self.count += 1
        end = self.ends.pop(0)
        if isinstance(end, ConsiliumError):
            failure = {"error": type(end).__name__, "what": end.what, "action": end.action}
            (current_run(self.kit) / "failure.json").write_text(json.dumps(failure))
        elif end == "closed":
            (current_run(self.kit) / "coordinator.json").write_text('{"asked": 3}')
        return self

    def poll(self) -> int:
        return 0

    def supervise(self, programs: list[Program], _: Tell) -> AbstractContextManager[None]:
        self.before += [f"{program.name} started" for program in programs]
        return nullcontext()


def test_parties_reach_the_gateway_when_their_keys_are_registered(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, Flower tells them that they are refused, and their nodes end."""
    attempts = Attempts(kit, monkeypatch, "closed")
    node._serve(kit, begin(kit), kit.folder, lambda *_: None, threading.Event())
    assert attempts.before == ["nodes registered", "gateway started"]


@pytest.mark.parametrize("end", [NotEnoughParties("1 of 3"), EngineError("x"), "nothing"])
def test_what_may_pass_is_tried_again(kit: Kit, monkeypatch: pytest.MonkeyPatch, end: ConsiliumError | str) -> None:
    attempts = Attempts(kit, monkeypatch, end, end, "closed")
    told: list[str] = []
    run = begin(kit)
    assert node._serve(kit, run, kit.folder, lambda _, what: told.append(what), threading.Event()) == {"asked": 3}
    assert attempts.count == 3
    assert sum("again in" in what for what in told) == 1  # the same once more is no news


@pytest.mark.parametrize("end", [ConfigError("x"), LedgerError("x"), ServiceError("x")])
def test_what_would_only_be_repeated_ends_the_node(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, end: ConsiliumError
) -> None:
    attempts = Attempts(kit, monkeypatch, end)
    with pytest.raises(type(end)):
        node._serve(kit, begin(kit), kit.folder, lambda *_: None, threading.Event())
    assert attempts.count == 1


def test_a_closed_federation_is_not_run_again(kit: Kit) -> None:
    (begin(kit) / "coordinator.json").write_text('{"asked": 5}')
    assert node.start(kit, lambda *_: None, threading.Event()) == {"asked": 5}
    assert close(kit, 1) == {"asked": 5}


def test_closing_a_coordinator_that_runs_waits_and_says_so(kit: Kit) -> None:
    run = begin(kit)
    with held(kit.state / "lock", "the coordinator"), pytest.raises(EngineError, match="not closed after 1 s"):
        close(kit, 1, sleep=lambda _: None)
    assert run.closing


def test_status_reads_the_files(kit: Kit) -> None:
    found = status(kit)
    assert (found.stage, found.running, found.queries_left) == ("not started", False, 40)
    assert found.parties == dict.fromkeys(PARTIES, "awaited, not connected")
    run = begin(kit)
    log = EventLog(run.events)
    log.write("waiting", connected=1, required=2)
    assert status(kit).stage == "waiting for parties; connected: 1, needed: 2"
    log.write("stage", stage="train", total=3)
    log.write("left-out", stage="train", party="ward-b", reason="refused: data", rule="data")
    log.write("serving", address="127.0.0.1:1")
    log.close()
    with open(run.events, "a") as file:
        file.write('{"event": "clo')  # a process that was killed
    Ledger(run / "ledger.db", run.config.digest(), "{}").close()
    found = status(kit)
    assert found.stage == "serving students at 127.0.0.1:1"
    assert found.parties["ward-b"] == "refused: data. The party's data do not fit: consilium party dry-run --data-only"
    assert len(found.errors) == 1
    assert (found.rows_open, found.rows_spent) == (PoolTree.load(kit / "public.npy").terms(0.05).size, 0)
    assert found.epsilon_guaranteed > 0


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            {
                "event": "waiting",
                "connected": 3,
                "required": 3,
                "awaited": ["b"],
                "refused": ["c"],
                "at_most_seconds": 9,
            },
            "parties connected: 3, needed: 3; waiting for b; refused: c, at most 9 s more",
        ),
        (
            {"event": "left-out", "party": "b", "stage": "enrol", "reason": "refused: storage", "rule": "storage"},
            "b left out of stage enrol: refused: storage. Make room on the party's disk",
        ),
        (
            {"event": "released", "asked": 5, "answered": 3, "parties": 3, "release": "winner"},
            "5 queries asked, 3 answered",
        ),
    ],
)
def test_events_in_words(event: dict, words: str) -> None:
    assert event_of(event).words == words


def test_the_example_of_the_guide_can_be_provisioned(tmp_path: Path) -> None:
    guide = (Path(__file__).resolve().parents[3] / "docs" / "deploy.md").read_text(encoding="utf-8")
    example = re.search(r"```toml\n(.*?)```", guide, re.DOTALL)
    assert example is not None
    write_plan(tmp_path)
    (tmp_path / "federation.toml").write_text(example[1])
    for name in re.findall(r'keys = "(.*?)\.enrol\.json"', example[1]):
        own_keys.make("party", name, tmp_path / f"keys-{name}")
        shutil.copy(tmp_path / f"keys-{name}" / f"{name}.enrol.json", tmp_path)
    made = kits.make(tmp_path / "federation.toml", tmp_path / "kits")
    assert [path.name for path in made.kits] == [
        "coordinator",
        *(f"party-{name}" for name in ("cleveland", "budapest", "zurich", "long-beach")),
        f"student-{STUDENT}",
    ]


def test_an_expired_certificate_ends_the_start_and_an_old_one_is_told(
    sound: Path, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(sound / "operator", kit.folder.parent / "operator")
    authority = Authority.load(sound / "operator")
    told: list[str] = []

    def begin(days: int) -> None:
        kit.server_tls.key.unlink()
        now = datetime.now(UTC) - timedelta(days=100)
        server_of(authority, kit.coordinator.hosts, days=days, now=now).save(kit.folder, "server")
        sign(kit.folder)
        node.start(kit, lambda _, what: told.append(what), threading.Event())

    monkeypatch.setattr(node, "prepare", lambda *_: (_ for _ in ()).throw(EngineError("reached", "")))
    with pytest.raises(ConfigError, match="expired on"):
        begin(days=99)
    with pytest.raises(EngineError, match="reached"):
        begin(days=110)
    assert any("expires on" in line for line in told)
