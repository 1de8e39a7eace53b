"""A message in a process of its own waits for no library that it does not need; an epsilon that was computed before is
found again for exactly what it was computed of."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from math import inf
from pathlib import Path

import pytest
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as Proto

from consilium.accounting.mechanisms import GNMax
from consilium.accounting.units import Neighbouring, Unit
from consilium.node import limits
from consilium.node.limits import NodePolicy, epsilon, kept_epsilon
from consilium.party.store import Store
from consilium.protocol.records import refusal_from_record, to_record
from tests.federation import hello_of, make_config
from tests.node.folders import allow, asked_of, make_small

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


def test_no_greeting_waits_for_what_computes_an_epsilon_that_is_known(tmp_path: Path) -> None:
    """The first computes it, which is the control; nothing else is waited for."""
    made = make_small(tmp_path, "secure", mechanism=GNMax(sigma=60.0))
    folder = made.nodes["p00"]
    allow(folder, **asked_of(folder))
    request = hello_of(made.file.config)
    content = recorddict_to_proto(to_record(request)).SerializeToString()
    for expected in ("scipy", ""):
        command = [sys.executable, "-c", ANSWER, str(folder.path), request.kind]
        done = subprocess.run(command, input=content, capture_output=True, check=True)
        assert refusal_from_record(recorddict_from_proto(Proto.FromString(done.stdout))) is None
        assert done.stderr.decode().split("\n")[-2] == expected


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
