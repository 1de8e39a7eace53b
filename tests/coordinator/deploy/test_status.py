"""What status and doctor say of a coordinator and of its parties."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from consilium.accounting.mechanisms import Confident
from consilium.coordinator.deploy import ready
from consilium.coordinator.deploy.deployed import COORDINATOR, close, status
from consilium.coordinator.events import EventLog
from consilium.coordinator.run_folders import run_of
from consilium.node.checks import CheckResult, examine
from consilium.node.folder import NodeFolder
from consilium.node.join import join
from consilium.protocol.files import held, private_folder
from consilium.protocol.pool import PoolTree
from consilium.protocol.refusals import CURES, Rule
from tests.coordinator.deploy.charged import ROWS, asked
from tests.node.folders import PARTIES, Made, make_small, sign


def found(folder: NodeFolder, name: str) -> CheckResult:
    return next(each for each in examine(COORDINATOR.checks(folder, running=False)) if each.name == name)


def stand(folder: NodeFolder) -> dict[str, str]:
    """What the status says of each party."""
    return status(folder).values["parties"]


def test_how_parties_stand_is_said_as_it_changes(made: Made, folder: NodeFolder) -> None:
    run = run_of(folder)
    first, second, third = PARTIES
    with (
        held(folder.state / "lock", "the coordinator"),
        closing(EventLog(private_folder(run.path) / run.events.name)) as log,
    ):
        log.write("awaiting", parties=list(PARTIES))
        log.write("connected", parties=list(PARTIES))
        log.write("enrolled", parties=[first, second])
        log.write("left-out", stage="enrol", party=third, reason="refused: storage", rule="storage", silent=False)
        said = stand(folder)
        assert said[first] == said[second] == "enrolled, connected"
        assert said[third] == f"refused: storage. {CURES[Rule.STORAGE]}"
        assert status(folder).values["running"]
        log.write("takes-part", parties=[first])
        log.write("voted", parties=[first], queries=36)
        log.write("left-out", stage="train", party=second, reason="no answer within 9 s", rule=None, silent=True)
        log.write("lost", parties=[second])
        said = stand(folder)
        assert said[first] == "takes part, connected, answered 36 queries"
        assert said[second].startswith("left out") and "no answer within 9 s" in said[second]
        keys = made.file.nodes
        others = {name: each for name, each in keys.items() if name != third}
        join(made.again(nodes=others, revoked={third: keys[third]}).out, folder)
        assert stand(folder)[third].startswith("revoked")
        log.write("awaiting", parties=[first, second])  # it was started again: what a party answered stays
        log.write("version", party=second, theirs="consilium-pate 0.6", ours="consilium-pate 0.7")
        shown = status(folder)
        assert shown.values["parties"][first] == "awaited, not connected, answered 36 queries"
        assert (shown.values["starts"], "started 2 times" in "\n".join(shown.lines)) == (2, True)
        other = f"{second} runs consilium-pate 0.6, this coordinator consilium-pate 0.7"
        assert shown.values["problems"] == [other]
    asked(run, 4)
    close(folder, 1)
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
    monkeypatch.setattr(ready, "LEAST_BYTES", 10**18)
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


def test_rows_that_an_earlier_federation_used_up_are_missed(tmp_path: Path) -> None:
    tree = PoolTree.of_rows(ROWS)
    limits = {"query_budget": {"queries": 55, "answers": 55}, "public": tree.terms(0.05)}
    made = make_small(tmp_path, "verified", **limits)
    folder = made.nodes["coordinator"]
    join(sign(made.file, made.authority, made.out, ROWS), folder)
    assert found(folder, "public rows").what == "60 rows may be asked"
    asked(run_of(folder), 30)
    assert (status(folder).values["rows_open"], status(folder).values["rows_spent"]) == (30, 0)
    close(folder, 1)
    config = made.file.config.model_copy(update={"edition": 1})
    again = made.again(config=config, terms=config.terms())
    join(sign(again.file, made.authority, made.out, ROWS), folder)
    assert "public rows  30 rows can still be asked; 30 were answered in earlier federations" in status(folder).lines
    join(
        sign(made.again(version=9, config=config, terms=config.terms()).file, made.authority, made.out, ROWS[1:]),
        folder,
    )
    assert found(folder, "public rows").level == "wrong"


def test_too_few_nodes_after_a_revocation_are_advised_and_waited_for(tmp_path: Path) -> None:
    made = make_small(tmp_path, mechanism=Confident(threshold=2, sigma1=2.0, sigma2=1.0))
    keys, folder = made.file.nodes, made.nodes["coordinator"]
    assert found(folder, "nodes").what == "3 parties may connect, 3 are required"
    left = {name: each for name, each in keys.items() if name != PARTIES[0]}
    join(made.again(nodes=left, revoked={PARTIES[0]: keys[PARTIES[0]]}).out, folder)
    advised = found(folder, "nodes")
    assert (advised.level, advised.what) == ("advice", "2 parties may connect, 3 are required: nothing is answered")
