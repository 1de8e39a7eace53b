"""What a party remembers: one file for its owner alone, whole or not at all, whoever is killed when; and an
epsilon is computed once."""

from __future__ import annotations

import os
import signal
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from consilium.accounting.units import Neighbouring, Unit
from consilium.node import limits
from consilium.node.limits import NodePolicy, epsilon, kept_epsilon
from consilium.party.store import SECRET_BYTES, Store
from consilium.protocol.refusals import Refused
from tests.federation import make_config, make_rows
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


def test_processes_that_start_together_agree_on_the_secret(path: Path) -> None:
    together = threading.Barrier(8)

    def first_use(_: int) -> bytes:
        together.wait()
        with closing(Store(path)) as store:
            return store.own_secret()

    with ThreadPoolExecutor(8) as pool:
        (secret,) = set(pool.map(first_use, range(8)))
    assert Store(path).secret() == secret and len(secret) == SECRET_BYTES


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
