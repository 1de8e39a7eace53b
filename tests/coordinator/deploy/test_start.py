"""The coordinator around the process that serves: what is closed, what it ends of, room on its disk."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from consilium.coordinator.deploy import deployed as module
from consilium.coordinator.deploy.deployed import close, start
from consilium.coordinator.deploy.ready import LEAST_BYTES
from consilium.coordinator.events import EventLog
from consilium.coordinator.run_folders import RunFolder, earlier_runs, run_of
from consilium.coordinator.verify.run import verify_run
from consilium.node.folder import NodeFolder
from consilium.node.join import join
from consilium.protocol.errors import (
    ConfigError,
    ConsiliumError,
    EngineError,
    LedgerError,
    NotEnoughParties,
    StorageError,
)
from consilium.protocol.files import held, replace_text
from consilium.sums.errors import SecAggError, ThresholdNotMet
from tests.coordinator.deploy.charged import asked
from tests.node.folders import PARTIES, Made

FULL, ROOM = 1_000_000, 10 * LEAST_BYTES


@pytest.fixture(autouse=True)
def ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ports", lambda folder: [])


def serving(patch: pytest.MonkeyPatch, run: RunFolder, end: ConsiliumError | str, looks: int = 1) -> list[str]:
    """In place of the process that serves: it looks, and then ends for this error, closed, or without a word."""
    told: list[str] = []

    def run_program(program: Any, tell: Any, stop: threading.Event, look: Callable[[], None]) -> None:
        told.extend(program.command[3:])
        for _ in range(looks):
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
    "end",
    [
        NotEnoughParties("1 of 3", "Wait"),
        LedgerError("x", "y"),
        ConfigError("a", "b"),
        ThresholdNotMet("masked", 4, 5, ["p07"]),
        "without a word",
    ],
)
def test_a_run_that_failed_ends_the_node_with_why(
    folder: NodeFolder, monkeypatch: pytest.MonkeyPatch, end: ConsiliumError | str
) -> None:
    replace_text(folder.state / "old", "")
    serving(monkeypatch, run_of(folder), end)
    kind = (
        SecAggError if isinstance(end, SecAggError) else type(end) if isinstance(end, ConsiliumError) else EngineError
    )
    with pytest.raises(kind, match=re.escape(str(end)) if isinstance(end, ConsiliumError) else "ended"):
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


def test_close_needs_neither_a_party_nor_a_process(folder: NodeFolder) -> None:
    with pytest.raises(ConfigError, match="was never started"):
        close(folder, 1)
    run = run_of(folder)
    asked(run, 7)
    summary = close(folder, 1)
    assert (summary["asked"], summary["parties"]) == (7, list(PARTIES))
    assert run.closed and close(folder, 1) == summary


def test_closing_a_coordinator_that_runs_waits_and_says_so(folder: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
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
