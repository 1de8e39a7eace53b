"""Whatever happens, every surface says the same of it: status, doctor, and the node's own.

A world of parties is led through 50 events drawn at random, and writes what a coordinator would write. What is true of
it then is held against each surface. Nothing here knows how the surfaces come to their words.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.deploy import deployed, start, status
from consilium.coordinator.deploy.gateway import Gateway
from consilium.coordinator.deploy.runs import begin, current_run
from consilium.coordinator.events import EventLog
from consilium.coordinator.ledger import Batch, Ledger
from consilium.coordinator.rosters import NodeKeys
from consilium.node import standing
from consilium.node.checks import examine
from consilium.node.keys import NodeKey
from consilium.node.kit import Kit, open_kit
from consilium.node.standing import NodeStanding, check_standing, keep_standing, signed_headers
from consilium.party.deployed import PARTY
from consilium.protocol.label_source import Unanswered
from consilium.protocol.refusals import CURES, Rule
from tests.deploy.kits import PARTIES, make_kits


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_kits(tmp_path_factory.mktemp("sound"))


@dataclass
class Truth:
    """Of one party. place: how far it has come since the coordinator was started last."""

    connected: bool = False
    place: str = "awaited"
    revoked: bool = False


@dataclass
class World:
    """What is, and what the coordinator writes of it."""

    kit: Kit
    running: bool = False
    closed: bool = False
    parties: dict[str, Truth] = field(default_factory=lambda: {name: Truth() for name in PARTIES})
    failed: set[str] = field(default_factory=set)
    asked: int = 0

    def write(self, event: str, **fields: object) -> None:
        log = EventLog(begin(self.kit).events)
        log.write(event, **fields)
        log.close()

    def act(self, action: str, name: str) -> None:
        party = self.parties[name]
        if self.closed:
            return
        if action == "start" and not self.running:
            self.running = True
            for each in self.parties.values():
                each.connected, each.place = False, "awaited"
            self.write("awaiting", parties=[name for name, each in self.parties.items() if not each.revoked])
        elif action == "kill":  # it writes nothing any more
            self.running = False
            for each in self.parties.values():
                each.connected = False
        elif action == "revoke" and not party.revoked:
            party.revoked, party.connected = True, False
            path = self.kit / "nodes.json"
            nodes = json.loads(path.read_text())
            del nodes["nodes"][name]
            path.write_text(json.dumps(nodes))
        elif self.running and not party.revoked:
            self.of_party(action, name, party)

    def of_party(self, action: str, name: str, party: Truth) -> None:
        if action == "come" and not party.connected:
            party.connected = True
            self.write("connected", parties=[name])
        elif action == "go" and party.connected:
            party.connected = False
            self.write("lost", parties=[name])
        elif action == "enrol" and party.connected and party.place in ("awaited", "refused", "left out"):
            party.place = "enrolled"
            self.write("enrolled", parties=[name])
        elif action == "refuse" and party.connected and party.place in ("awaited", "refused"):
            party.place = "refused"
            self.write("left-out", stage="enrol", party=name, reason="refused: storage", rule="storage", silent=False)
        elif action == "silent" and party.place == "enrolled":
            party.place = "left out"
            self.write("left-out", stage="train", party=name, reason="no answer within 9 s", rule=None, silent=True)
        elif action == "train" and party.place == "enrolled" and party.connected:
            party.place = "takes part"
            self.write("takes-part", parties=[name])
        elif action in ("ask", "fail") and sum(each.place == "takes part" for each in self.parties.values()) >= 2:
            self.ask(fails=action == "fail")

    def ask(self, fails: bool) -> None:
        """One more question, of all that take part; a failed one is asked again first."""
        run = begin(self.kit)
        there = [name for name, each in self.parties.items() if each.place == "takes part"]
        name = min(self.failed, default=f"{self.asked:064x}")
        if self.asked >= 30:
            return
        with closing(Ledger(run / "ledger.db", run.config.digest(), run.config.model_dump_json())) as ledger:
            self.asked += name not in self.failed
            ledger.voted_on([name], there)
            self.failed.add(name)
            if fails:
                used = ledger.unanswered(None, {name})
                self.write(
                    "not-answered", error="NotEnoughParties", reason="2 parties", asked=1,
                    unanswered=used.queries, parties=list(used.parties),
                )  # fmt: skip
            else:
                ledger.commit(batch_of(run.config, [name], [0]), 40, 30)
                self.failed.discard(name)

    def close(self) -> None:
        if not self.closed and (begin(self.kit) / "ledger.db").exists():
            self.closed, self.running = True, False
            start.close(self.kit, 1)
            for each in self.parties.values():
                each.connected = False


def batch_of(config: FederationConfig, query_ids: list[str], labels: list[int]) -> Batch:
    """One batch with these labels."""
    return Batch(
        event=config.event(len(labels), len(labels)).to_json(),
        parties=3,
        query_ids=tuple(query_ids),
        labels=np.array(labels, dtype=np.int64),
        reinforced=np.zeros(len(labels), dtype=bool),
        log_q_check=None,
        log_q_label=None,
        histogram=None,
        probabilities=None,
    )


def state(party: Truth) -> str:
    return "revoked" if party.revoked else party.place


ACTIONS = ("start", "kill", "revoke", "come", "go", "enrol", "refuse", "silent", "train", "ask", "fail")
HISTORIES = st.lists(st.tuples(st.sampled_from((*ACTIONS, *["come", "enrol", "train"] * 3)), st.sampled_from(PARTIES)),
                     min_size=50, max_size=50)  # fmt: skip


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Whether a coordinator runs, as far as its port says."""
    now = {"running": False}
    monkeypatch.setattr(status, "listens", lambda *_: now["running"])

    def told(running: bool) -> None:
        now["running"] = running

    return told


def of_gateway(kit: Kit, world: World) -> Iterator[tuple[str, NodeStanding]]:
    """What each party is told that asks with its own key, whether it is still listed or not."""
    keys = NodeKeys(kit / "nodes.json")
    gateway = Gateway("127.0.0.1:1", kit.authority, keys, standings=lambda: status.standings(kit))
    with TestClient(gateway.app()) as client:
        for name in world.parties:
            key = NodeKey.load(kit.folder.parent / f"party-{name}" / "node.key")
            reply = client.post(standing.PATH, headers=signed_headers(key))
            yield name, NodeStanding.model_validate_json(reply.content)


def check_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = world.kit
    found = status.status(kit)
    unanswered = Unanswered(len(world.failed)).words.partition(" put to")[0] if world.failed else ""
    # the federation
    assert found.closed == world.closed
    assert found.queries_asked == world.asked
    assert found.unanswered == len(world.failed)
    assert found.not_answered.startswith(unanswered)
    assert found.queries_left == (0 if world.closed else 40 - world.asked)
    assert found.running == world.running
    # each party
    told = dict(of_gateway(kit, world))
    doctor = " ".join(result.what for result in examine([("parties", lambda: deployed._parties(kit))]))
    for name, party in world.parties.items():
        expected = state(party)
        assert found.roll[name]["state"] == expected
        assert found.roll[name]["connected"] == party.connected
        words = found.parties[name]
        said = told[name]
        assert (said.state, said.words) == (expected, words)
        assert said.closed == (world.closed and not party.revoked)
        assert said.unanswered == (0 if party.revoked else len(world.failed))
        assert (f"{name}: " in doctor) == (expected in ("refused", "left out"))
        own = open_kit(kit.folder.parent / f"party-{name}")
        keep_standing(own, said)
        assert any(said.sentence in line for line in PARTY.status(own).lines())
        monkeypatch.setattr(standing, "ask_standing", lambda _, said=said: said)
        monkeypatch.setattr(standing, "check_coordinator", lambda _: "it answers")
        (result,) = examine([("coordinator", lambda own=own: check_standing(own))])
        bad = expected in ("revoked", "refused", "left out")
        assert result.level == ("wrong" if bad else "advice" if world.closed else "ok")
        if expected == "refused":
            assert CURES[Rule.STORAGE] in result.what


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORIES, closes=st.booleans())
def test_every_surface_agrees_with_the_truth(
    sound: Path, listening: Callable[[bool], None], history: list[tuple[str, str]], closes: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        shutil.copytree(sound, Path(folder) / "kits")
        world = World(open_kit(Path(folder) / "kits" / "coordinator"))
        begin(world.kit)
        for number, (action, name) in enumerate([("start", PARTIES[0]), *history], 1):
            world.act(action, name)
            if number % 17 == 0:
                listening(world.running)
                check_all(world, patch)
        if closes:
            world.close()
        listening(world.running)
        check_all(world, patch)
        assert current_run(world.kit).closed == world.closed


def test_control_a_reader_that_believes_the_log_alone_is_found(
    sound: Path, tmp_path: Path, listening: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the one before, for which a revoked party was enrolled, and connected after the coordinator was gone."""
    shutil.copytree(sound, tmp_path / "kits")
    world = World(open_kit(tmp_path / "kits" / "coordinator"))
    begin(world.kit)
    for action in ("start", "come", "enrol", "train", "revoke"):
        world.act(action, "ward-a")
    listening(world.running)
    check_all(world, monkeypatch)

    def believing(kit: Kit, run):
        return status.RunState.of(status.read_events(run.events), PARTIES)

    monkeypatch.setattr(status, "state_of", believing)
    with pytest.raises(AssertionError):
        check_all(world, monkeypatch)
