"""The coordinator around the process that serves: what status, doctor and log say, what is closed, what it ends of."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.accounting.mechanisms import Confident
from consilium.coordinator.deploy import deployed as module
from consilium.coordinator.deploy.deployed import COORDINATOR, LEAST_BYTES, close, start
from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import RunFolder, asked_before, earlier_runs, run_of
from consilium.coordinator.ledger import Batch, Ledger
from consilium.coordinator.verify.run import verify_run
from consilium.node.checks import CheckResult, examine
from consilium.node.folder import NodeFolder
from consilium.node.signed import join
from consilium.protocol.errors import ConfigError, ConsiliumError, EngineError, LedgerError, StorageError
from consilium.protocol.files import held, private_folder, replace_text
from consilium.protocol.pool import PoolTree
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.sums.errors import SecAggError, ThresholdNotMet
from tests.federation import FEATURES, make_rows
from tests.node.folders import PARTIES, Made, make_small, sign

status = COORDINATOR.status
ROWS = canonical_queries(make_rows(60, 77)[0], len(FEATURES))
"""Public rows."""


def asked(run: RunFolder, count: int) -> None:
    nothing, none = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    log = EventLog(private_folder(run.path) / run.events.name)
    with closing(log), closing(Ledger.of(run.ledger, run.config)) as ledger:
        for event, more in (("awaiting", {}), ("takes-part", {}), ("voted", {"queries": count})):
            log.write(event, parties=list(PARTIES), **more)
        charge = run.config.event(count, count).to_json()
        ledger.commit(Batch(charge, 3, tuple(query_ids(ROWS)[:count]), nothing, none), 100, 100)
        log.write("released", asked=count, answered=count, counted=3, release="winner")


def found(folder: NodeFolder, name: str) -> CheckResult:
    return next(each for each in examine(COORDINATOR.checks(folder, running=False)) if each.name == name)


def test_how_parties_stand_is_said_as_it_changes(made: Made, folder: NodeFolder) -> None:
    run = run_of(folder)
    first, second, third = PARTIES
    log = EventLog(private_folder(run.path) / run.events.name)
    with held(folder.state / "lock", "the coordinator"), closing(log):
        log.write("awaiting", parties=list(PARTIES))
        log.write("connected", parties=list(PARTIES))
        log.write("takes-part", parties=[first])
        log.write("voted", parties=[first], queries=36)
        log.write("left-out", stage="train", party=second, reason="no answer within 9 s", rule=None, silent=True)
        said = status(folder).values
        assert said["running"] and said["parties"][first] == "takes part, connected, answered 36 queries"
        assert said["parties"][second] == "left out: no answer within 9 s"
        keys = made.file.nodes
        others = {name: each for name, each in keys.items() if name != third}
        join(made.again(nodes=others, revoked={third: keys[third]}).out, folder)
        assert status(folder).values["parties"][third].startswith("revoked")
        log.write("awaiting", parties=[first, second])  # it was started again: what a party answered stays
        log.write("version", party=second, theirs="consilium-pate 0.6", ours="consilium-pate 0.7")
        shown = status(folder)
        assert shown.values["parties"][first] == "awaited, not connected, answered 36 queries"
        assert (shown.values["starts"], "started 2 times" in "\n".join(shown.lines)) == (2, True)
        other = f"{second} runs consilium-pate 0.6, this coordinator consilium-pate 0.7"
        assert shown.values["problems"] == [other]
    asked(run, 4)
    close(folder, 1)
    assert run.summary()["parties"] == [*PARTIES]
    shown = status(folder)
    assert (shown.values["closed"], shown.values["running"], shown.values["queries_asked"]) == (True, False, 4)


def test_a_coordinator_that_was_never_started(folder: NodeFolder) -> None:
    current = status(folder)
    expected = {"stage": "not started", "running": False, "queries_left": 100, "problems": []}
    assert {key: current.values[key] for key in expected} == expected
    assert current.values["parties"] == dict.fromkeys(PARTIES, "awaited, not connected")
    assert current.values["epsilon_student"] > 0
    assert found(folder, "students").what == "1 may ask: anna"
    results = examine(COORDINATOR.checks(folder, running=False))
    assert [result.name for result in results if result.level == "wrong"] == []


def test_a_clock_that_went_back_and_a_full_disk_are_said(folder: NodeFolder, monkeypatch) -> None:
    asked(run_of(folder), 4)
    os.utime(run_of(folder).ledger, (time.time() + 7200,) * 2)
    monkeypatch.setattr(module, "LEAST_BYTES", 10**18)
    clock, disk = status(folder).values["problems"]
    assert clock.startswith("clock: this clock has gone back") and "NTP" in clock
    assert disk.startswith("disk: ") and "MB are needed" in disk
    assert [found(folder, name).level for name in ("clock", "room")] == ["wrong", "wrong"]


def test_a_locked_ledger_is_said_and_so_is_a_damaged_one(folder: NodeFolder) -> None:
    run = run_of(folder)
    asked(run, 4)
    assert status(folder).values["queries_left"] == 96
    with closing(sqlite3.connect(run.ledger)) as other:
        other.execute("BEGIN EXCLUSIVE")
        current = status(folder)
        assert current.values["queries_left"] is None and "cannot be read now" in "\n".join(current.lines)
        (problem,) = current.values["problems"]
        assert problem.startswith("ledger: ") and "another program holds it" in problem and ".backup" in problem
        assert found(folder, "ledger").level == "wrong"
    assert (status(folder).values["queries_left"], status(folder).values["problems"]) == (96, [])
    run.ledger.write_bytes(b"no ledger")
    assert "it is damaged" in status(folder).values["problems"][0]
    run.events.write_bytes(b"\xff\x00 no events")
    assert status(folder).values["stage"] == "not started"


def test_rows_that_an_earlier_federation_used_up_are_not_asked_again(tmp_path: Path) -> None:
    budget = {"queries": 55, "answers": 55}
    made = make_small(tmp_path, "verified", query_budget=budget, public=PoolTree.of_rows(ROWS).terms(0.05))
    folder = made.nodes["coordinator"]
    join(sign(made.file, made.authority, made.out, ROWS), folder)
    assert found(folder, "public rows").what == "60 rows may be asked"
    asked(run_of(folder), 30)
    config = made.file.config.model_copy(update={"edition": 1})
    again = made.again(config=config, terms=config.terms())
    join(sign(again.file, made.authority, made.out, ROWS), folder)
    assert asked_before(folder, run_of(folder)) == {*query_ids(ROWS)[:30]}
    again = made.again(version=9, config=config, terms=config.terms())
    join(sign(again.file, made.authority, made.out, ROWS[1:]), folder)
    assert found(folder, "public rows").level == "wrong"


def test_too_few_nodes_after_a_revocation_are_advised_and_waited_for(tmp_path: Path) -> None:
    made = make_small(tmp_path, mechanism=Confident(threshold=2, sigma1=2.0, sigma2=1.0))
    keys, folder = made.file.nodes, made.nodes["coordinator"]
    assert found(folder, "nodes").what == "3 parties may connect, 3 are required"
    left = {name: each for name, each in keys.items() if name != PARTIES[0]}
    join(made.again(nodes=left, revoked={PARTIES[0]: keys[PARTIES[0]]}).out, folder)
    advised = found(folder, "nodes")
    assert (advised.level, advised.what) == ("advice", "2 parties may connect, 3 are required: nothing is answered")


FULL, ROOM = 1_000_000, 10 * LEAST_BYTES


@pytest.fixture(autouse=True)
def ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ports", lambda folder: [])


def serving(patch: pytest.MonkeyPatch, run: RunFolder, end: ConsiliumError | str) -> list[str]:
    """In place of the process that serves: it looks, and then ends for this error, closed, or without a word."""
    told: list[str] = []

    def run_program(program: Any, tell: Any, stop: threading.Event, look: Callable[[], None]) -> None:
        told.extend(program.command[3:])
        look()
        run.path.mkdir(parents=True, exist_ok=True)
        if isinstance(end, ConsiliumError):
            failure = {"error": type(end).__name__, "what": end.what, "action": end.action}
            with closing(EventLog(run.events)) as log:
                log.write("failed", **failure)
        elif end == "closed":
            (run.path / "coordinator.json").write_text('{"asked": 3}')
        elif end == "stopped":
            return
        raise EngineError("serving ended (exit code 1)", "Its last words stand above")

    patch.setattr(module, "run_program", run_program)
    return told


def started(folder: NodeFolder) -> tuple[Any, list[str]]:
    told: list[str] = []
    return start(folder, lambda name, what: told.append(f"{name}: {what}"), threading.Event()), told


def test_a_close_is_a_clean_end_and_so_is_a_stop(folder: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = serving(monkeypatch, run_of(folder), "stopped")
    assert started(folder)[0] is None
    assert ran == ["consilium.coordinator.deploy.serving", str(folder.path)]
    serving(monkeypatch, run_of(folder), "closed")
    assert started(folder)[0] == {"asked": 3}
    serving(monkeypatch, run_of(folder), EngineError("not reached"))
    assert started(folder)[0] == close(folder, 1) == {"asked": 3}


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [("0", 0, ""), ("ServiceError('none')", 9, "none\n"), ("OSError(28, 'Full', 'x')", 12, "cannot write x: Full")],
)
def test_a_question_under_way_does_not_keep_the_process_that_serves(folder, end: str, code: int, said: str) -> None:
    """Its threads are not waited for, however the run ends; which is said in words."""
    program = f"""
import sys, time
from concurrent.futures import ThreadPoolExecutor
from consilium.coordinator.deploy import serving
from consilium.protocol.errors import ServiceError

def serve(folder):
    ThreadPoolExecutor().submit(time.sleep, 600)
    if end := {end}:
        raise end

serving.serve = serve
serving.main(sys.argv[1])
"""
    done = subprocess.run([sys.executable, "-c", program, str(folder.path)], capture_output=True, text=True, timeout=90)
    assert done.returncode == code and done.stderr.startswith(said) and done.stderr.count("\n") == bool(said)


@pytest.mark.parametrize("end", [LedgerError("x", "y"), ThresholdNotMet("masked", 4, 5, ["p07"]), "without a word"])
def test_a_run_that_failed_ends_the_node_with_why(
    folder: NodeFolder, monkeypatch: pytest.MonkeyPatch, end: ConsiliumError | str
) -> None:
    replace_text(folder.state / "old", "")
    serving(monkeypatch, run_of(folder), end)
    kind = SecAggError if isinstance(end, SecAggError) else LedgerError if isinstance(end, LedgerError) else EngineError
    with pytest.raises(kind, match="ended" if isinstance(end, str) else re.escape(str(end))):
        started(folder)
    serving(monkeypatch, run_of(folder), "stopped")
    assert started(folder)[0] is None  # what an earlier start failed of is no failure of this one


def test_it_is_refused_in_the_doctors_words(folder: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    serving(monkeypatch, run_of(folder), EngineError("not reached"))
    (folder.keys / "server.key").chmod(0o644)
    with pytest.raises(ConfigError, match=r"server\.key"):
        started(folder)
    (folder.keys / "server.key").chmod(0o600)
    run = run_of(folder)
    asked(run, 3)
    run.ledger.write_bytes(b"not a database" * 100)
    with pytest.raises(LedgerError, match=r"ledger\.db: it is damaged"):
        started(folder)
    with held(folder.lock, "the coordinator"), pytest.raises(ConsiliumError, match="already started"):
        started(folder)


def test_another_federation_that_is_joined_ends_it_and_the_next_start_closes_the_earlier_one(
    made: Made, folder: NodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run_of(folder)
    asked(first, 7)
    config = made.file.config.model_copy(update={"edition": 1})
    newer = made.again(config=config, terms=config.terms())

    monkeypatch.setattr(module, "_tell_promise", lambda *_: join(newer.out, folder))
    serving(monkeypatch, first, EngineError("not reached"))
    with pytest.raises(EngineError, match="another folder was joined"):
        started(folder)
    assert not first.closed
    second = run_of(folder)
    assert second.path != first.path
    assert [run.path for run in earlier_runs(folder, second)] == [first.path]
    serving(monkeypatch, second, "stopped")
    _, told = started(folder)
    assert first.closed and not second.closed
    said = f"the earlier federation {first.short} is closed: 7 queries asked, 7 answered, plaintext votes of p00, p01"
    assert sum(said in line for line in told) == 1
    assert first.summary()["federation"] == first.config.digest()
    assert first.summary()["parties"] == list(PARTIES)
    found = {each.check: each for each in verify_run(first.path).findings}
    assert found["coordinator.json: counts and epsilon"].holds  # the rest is of a ledger that is made up here
    serving(monkeypatch, second, "stopped")
    assert not any("earlier" in line for line in started(folder)[1])


def test_closing_a_coordinator_that_runs_waits_and_says_so(folder: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that does not run nothing is needed, neither a party nor a process."""
    with pytest.raises(ConfigError, match="was never started"):
        close(folder, 1)
    run = run_of(folder)
    asked(run, 7)
    with held(folder.state / "lock", "the coordinator"), pytest.raises(EngineError, match="not closed after 1 s"):
        close(folder, 1, sleep=lambda _: None)
    assert run.close_file.exists()
    serving(monkeypatch, run, EngineError("not reached"))
    assert started(folder)[0]["asked"] == 7  # its process was killed before it heard: the next start closes


def test_want_of_room_is_why_it_is_not_begun_and_why_it_ended(
    folder: NodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the run had no room to write why."""
    left = [FULL, ROOM, FULL]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 1, left.pop(0)))
    serving(monkeypatch, run_of(folder), "without a word")
    for _ in range(2):
        with pytest.raises(StorageError, match="1 MB free at"):
            started(folder)
    assert left == []
