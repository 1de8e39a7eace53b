"""What a party remembers: one file for its owner alone, whole or not at all, whoever is killed when."""

from __future__ import annotations

import os
import signal
import stat
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.ledger import Ledger
from consilium.party.store import SECRET_BYTES, Store
from consilium.protocol.errors import LedgerError
from consilium.protocol.refusals import Refused
from tests.federation import make_rows
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
