"""The peers' common round: whose rows are whose, what a teacher says, and that ways to do it differ in nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from benchmarks.peers import flower, ours, processes, table
from benchmarks.peers.loop import by_own_fit, in_block, votes
from benchmarks.peers.task import Rows, votes_of
from consilium.simulations.engines.flower import assume_identity


@pytest.fixture(scope="module")
def rows() -> Rows:
    return ours.rows(380)


def test_hospitals_come_first_and_then_parties_of_their_rows(rows: Rows) -> None:
    sizes = np.diff(rows.ends, prepend=0)
    alone = ours.rows(371)
    assert (rows.ends[:371] == alone.ends).all()
    assert (rows.x[: rows.ends[370]] == alone.x).all()
    assert rows.queries.shape == (300, alone.x.shape[1])
    assert ((sizes[371:] >= 6) & (sizes[371:] <= 20)).all()
    known = {row.tobytes() for row in alone.x}
    assert all(row.tobytes() in known for row in rows.x[rows.ends[370] :])


def test_all_ways_give_the_same_votes(rows: Rows, tmp_path: Path) -> None:
    rows.save(tmp_path)
    chosen = np.array([0, 1, 370, 375, 379])
    expected = votes(rows, chosen)
    assert expected.shape == (5, 300)
    assert 0 < expected.mean() < 1
    assert np.array_equal(in_block(tmp_path, chosen), expected)
    assert np.array_equal(votes(rows, chosen, by_own_fit), expected)


def test_rows_of_one_class_say_that_class(rows: Rows) -> None:
    x, y = rows.of(0)
    assert (votes_of(x, np.full_like(y, 1), rows.queries) == 1).all()


def test_the_app_of_flower_is_of_these_modules(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies in a folder of its own, without this repository; its node says what the loop does."""
    rows.save(tmp_path / "rows")
    folder = flower.write_app(tmp_path / "app", tmp_path / "rows", tmp_path)
    monkeypatch.syspath_prepend(str(folder))
    client = __import__(f"{flower.PACKAGE}.client", fromlist=["app"])
    assume_identity(1, 2)
    question = RecordDict({"question": ConfigRecord({"rows": str(tmp_path / "rows")})})
    context = Context(1, 2, {"partition-id": 370, "num-partitions": 380}, RecordDict(), {})
    reply = client.app(Message(question, dst_node_id=2, message_type="query"), context)
    assert np.array_equal(reply.content.array_records["votes"]["votes"].numpy(), votes(rows, np.array([370]))[0])


def test_processor_time_is_that_of_all_marked_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that began with the mark count; this one, which began without it, does not."""
    monkeypatch.setenv(processes.MARK, os.urandom(8).hex())
    assert processes.processor_seconds() == 0
    busy = [sys.executable, "-S", "-c", "sum(range(3_000_000)); print(flush=True); input()"]
    with subprocess.Popen(busy, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert processes.processor_seconds() > 0
        process.communicate(b"\n")


def test_a_peer_that_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    one = table.Round(2.0, 3.0, 9.0, 0, "a 1.0"), np.zeros((380, 300), dtype=np.uint8)
    monkeypatch.setattr(table, "interpreter", lambda: None)
    monkeypatch.setattr(table, "done", lambda *_: one)
    assert [row[1] for row in table.rows([380])] == ["a 1.0"] * 3 + ["pfl: not installed"] + ["a 1.0"] * 2
