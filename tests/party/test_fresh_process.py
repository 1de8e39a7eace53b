"""A message in a process of its own: it waits for no library that only training and accounting need, and an epsilon
that was computed before is found again for exactly what it was computed of."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from math import inf
from pathlib import Path

import pytest
from flwr.app import RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as Proto

from consilium.accounting.mechanisms import GNMax
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.collection.admission import Greeting, enrol, train
from consilium.coordinator.collection.base import Queries
from consilium.coordinator.collection.exchange import Failure
from consilium.coordinator.collection.means import Collecting
from consilium.coordinator.collection.secure import SecureCollector, SecureKeys
from consilium.node import limits
from consilium.node.folder import NodeFolder
from consilium.node.keys import IDENTITY
from consilium.node.limits import NodePolicy, epsilon, kept_epsilon
from consilium.party.deployed import PARTY
from consilium.party.node import PartyNode
from consilium.party.store import Store
from consilium.protocol.identity import Identity
from consilium.protocol.messages import WireModel
from consilium.protocol.queries import canonical_queries
from consilium.protocol.records import to_record
from consilium.sums.roster import Roster
from consilium.sums.terms import NO_LEDGER
from tests.federation import FakeTransport, make_config, make_rows, standing
from tests.node.folders import Made, allow, asked_of, make_small

HEAVY = ("scipy", "polars", "sklearn", "torch", "pandas", "matplotlib")
ANSWER = f"""
import sys
from flwr.app import Context, Message, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as Proto
from consilium.party.client_app import app
from consilium.simulations.engines.flower import assign_message_id, assume_identity
folder, kind = sys.argv[1:]
assume_identity(1, 1)
message = Message(recorddict_from_proto(Proto.FromString(sys.stdin.buffer.read())), dst_node_id=2, message_type=kind)
assign_message_id(message)
assume_identity(1, 2)
reply = app(message, Context(1, 2, {{"folder": folder}}, RecordDict(), {{}}))
sys.stdout.buffer.write(recorddict_to_proto(reply.content).SerializeToString())
print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""


class Fresh(FakeTransport):
    """Parties, of which each answer of the first is a process. loaded: what that had to load, by kind of message."""

    def __init__(self, folders: list[NodeFolder]) -> None:
        super().__init__([])
        homes = [PARTY.open_home(folder) for folder in folders]
        self.parties = {at: PartyNode(home.settings(), home.rows(), home.store()) for at, home in enumerate(homes)}
        self.first, self.loaded = str(folders[0].path), dict[str, set[str]]()

    def _reply(self, node: int, request: WireModel) -> RecordDict | Failure:
        if node > 0:
            return super()._reply(node, request)
        done = subprocess.run(
            [sys.executable, "-c", ANSWER, self.first, request.kind],
            input=recorddict_to_proto(to_record(request)).SerializeToString(), capture_output=True, check=True,
        )  # fmt: skip
        self.loaded[request.kind] = set(done.stderr.decode().split("\n")[-2].split())
        return recorddict_from_proto(Proto.FromString(done.stdout))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Three parties whose people allow what is asked."""
    made = make_small(tmp_path, "secure", mechanism=GNMax(sigma=60.0))
    for name in made.file.parties:
        allow(made.nodes[name], **asked_of(made.nodes[name]))
    return made


def parties(made: Made) -> list[NodeFolder]:
    return [made.nodes[name] for name in made.file.parties]


def test_no_message_but_that_to_train_waits_for_what_others_need(made: Made, tmp_path: Path, log) -> None:
    for folder in parties(made):
        PARTY.allowed(PARTY.open_home(folder))  # as the start of a node does
    transport, config, roster = Fresh(parties(made)), made.file.config, made.file.sum_roster()
    greeting = Greeting(lambda: NO_LEDGER)
    members = train(transport, config, enrol(transport, config, NO_LEDGER.ledger, log, greeting), log).members
    assert isinstance(roster, Roster)
    keys = SecureKeys(roster, Identity.load(made.nodes["coordinator"].keys / IDENTITY))
    means = Collecting(transport, config, members, tmp_path, standing(), greeting, log)
    queries = canonical_queries(make_rows(4, 1)[0], 3)
    counts = SecureCollector(means, keys).collect(Queries(queries), 60.0)
    assert counts.votes.shape == (4, 2)
    assert len(transport.loaded) == 7  # a greeting, the training, five stages of the sum
    assert "scipy" in transport.loaded.pop("train.teacher")
    assert set().union(*transport.loaded.values()) == set()


class TestKeptEpsilons:
    PROMISE = make_config(collection="secure", roster="0" * 64).promise()
    POLICY = NodePolicy(unit=Unit.RECORD, delta=1e-5)

    def kept(self, store: Store, policy: NodePolicy = POLICY, times: int = 1, rough: bool = False) -> float:
        return kept_epsilon(store.execute, (self.PROMISE,) * times, policy, rough=rough)

    def test_is_what_is_computed_and_computed_once(self, tmp_path: Path, monkeypatch) -> None:
        with closing(Store(tmp_path / "party.db")) as store:
            truth = {rough: epsilon((self.PROMISE,), self.POLICY, rough=rough) for rough in (False, True)}
            assert truth == {rough: self.kept(store, rough=rough) for rough in (False, True)}
        monkeypatch.setattr(limits, "epsilon", None)
        with closing(Store(tmp_path / "party.db")) as store:
            assert truth == {rough: self.kept(store, rough=rough) for rough in (False, True)}

    @pytest.mark.parametrize(
        "another",
        [
            {"policy": POLICY.model_copy(update={"unit": Unit.PARTY})},
            {"policy": POLICY.model_copy(update={"neighbouring": Neighbouring.ADD_OR_REMOVE})},
            {"policy": POLICY.model_copy(update={"delta": 1e-6})},
            {"times": 2},
            {"rough": True},
        ],
    )
    def test_of_anything_else_is_not_used(self, another: dict) -> None:
        store = Store.in_memory()
        self.kept(store)
        store.execute("UPDATE epsilons SET epsilon = 0")
        assert self.kept(store) == 0  # it would be
        assert self.kept(store, **another) > 0

    def test_that_other_code_computed_is_not_used(self, monkeypatch, tmp_path: Path) -> None:
        store = Store.in_memory()
        self.kept(store)
        store.execute("UPDATE epsilons SET epsilon = 0")
        monkeypatch.setattr(limits, "PROGRAM", ("another", *limits.PROGRAM[1:]))
        assert self.kept(store) > 0
        (tmp_path / "limits.py").write_text("")
        monkeypatch.setattr(limits, "__file__", str(tmp_path / "limits.py"))
        assert limits._program() != limits.PROGRAM[0]  # what adds promises up is code too

    def test_that_is_unbounded_stays_so(self, monkeypatch) -> None:
        store = Store.in_memory()
        monkeypatch.setattr(limits, "epsilon", lambda *_, **__: inf)
        assert [self.kept(store) for _ in range(2)] == [inf, inf]
