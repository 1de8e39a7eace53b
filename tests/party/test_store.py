"""What a party remembers: one file for its owner alone, whole or not at all, whoever is killed when; and no message
waits for what computes an epsilon that is known."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as Proto

from consilium.accounting.mechanisms import GNMax
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.ledger import Ledger
from consilium.node import limits
from consilium.node.limits import NodePolicy, epsilon, kept_epsilon
from consilium.party.store import SECRET_BYTES, Store
from consilium.protocol.errors import LedgerError
from consilium.protocol.records import refusal_from_record, to_record
from consilium.protocol.refusals import Refused
from tests.federation import hello_of, make_config, make_rows
from tests.node.folders import allow, asked_of, make_small
from tests.party.test_node import HASH, member, node, vote


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "party.db"


def test_the_file_is_for_its_owner_alone(path: Path) -> None:
    path.touch(0o644)
    Store(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_store_goes_on_in_another_process_or_in_memory(tmp_path: Path) -> None:
    party, (x, _) = member(tmp_path), make_rows(30, 1)
    said = party.vote(vote(x)).choices
    for again in (Store.in_memory(party.store.content()), node(tmp_path).store):
        assert again.federation(HASH) == party.store.federation(HASH)
        assert again.answered() == again.answered_in(HASH, 1) == 30
        assert again.teachers(HASH).digest == party.teachers(HASH).digest
        assert (again.teachers(HASH).teachers[0].predict(x) == party.teachers(HASH).teachers[0].predict(x)).all()
        assert again.teachers(HASH) is again.teachers(HASH)
    assert len(said) == 30


def test_teachers_can_be_forgotten_and_what_was_given_stays(tmp_path: Path) -> None:
    party, (x, _) = member(tmp_path), make_rows(30, 1)
    party.vote(vote(x))
    assert party.store.forget_teachers() == 1
    with pytest.raises(Refused, match="not-trained"):
        party.vote(vote(x))
    assert party.store.answered() == 30


def test_a_ledger_of_another_format_is_refused(path: Path) -> None:
    with closing(Ledger(path, "0" * 64, "{}")) as ledger:
        ledger._file.execute("UPDATE meta SET value = '5' WHERE key = 'format'")
    with pytest.raises(LedgerError, match="another federation or format"):
        Ledger(path, "0" * 64, "{}")


def test_processes_that_start_together_agree_on_the_secret(path: Path) -> None:
    found: list[bytes] = []
    start = threading.Barrier(8)

    def first_use() -> None:
        start.wait()
        with closing(Store(path)) as store:
            found.append(store.own_secret())

    threads = [threading.Thread(target=first_use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert Store(path).secret() == found[0]
    assert len(found[0]) == SECRET_BYTES


def test_what_is_undone_or_deleted_leaves_nothing(path: Path) -> None:
    store, secret = Store(path), os.urandom(5000)
    with pytest.raises(ZeroDivisionError), store.transaction():
        store.give(HASH, "t", 1, secret, 1)
        with store.transaction():  # a part of the one around it
            store.give(HASH, "t", 1, secret, 1)
        raise ZeroDivisionError
    assert store.answered() == 0
    store.give(HASH, "t", 1, secret, 1)
    assert secret[:500] in path.read_bytes()
    store.execute("DELETE FROM given")
    assert secret[:500] not in path.read_bytes()


@pytest.mark.parametrize("after", [False, True])
def test_a_party_that_is_killed_has_charged_all_that_can_have_left(tmp_path: Path, after: bool) -> None:
    member(tmp_path).store.close()
    commit = Store.commit

    def killed(store: Store) -> None:
        if after:
            commit(store)
        os.kill(os.getpid(), signal.SIGKILL)

    if not (child := os.fork()):
        Store.commit = killed
        node(tmp_path).vote(vote(make_rows(30, 1)[0]))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    again = node(tmp_path)
    assert again.store.answered() == (30 if after else 0)
    assert again.store.federation(HASH).asked == int(after)
    again.vote(vote(np.concatenate([make_rows(30, 1)[0], make_rows(10, 2)[0]])))
    assert again.store.answered() == 40


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
