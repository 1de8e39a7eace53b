"""Whatever happens, every surface says the same of the coordinator and of a party: status, doctor, and what the
gateway tells the node itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from consilium.accounting.mechanisms import Confident
from consilium.coordinator.deploy.deployed import COORDINATOR
from consilium.coordinator.deploy.gateway import Gateway
from consilium.coordinator.deploy.start import close
from consilium.coordinator.deploy.status import Standings, status
from consilium.coordinator.events import EventLog
from consilium.coordinator.nodes import JoinedFederation, NodeKeys
from consilium.coordinator.run_folders import run_of
from consilium.node import standing
from consilium.node.checks import CheckResult, examine
from consilium.node.folder import NodeFolder
from consilium.node.join import join
from consilium.node.keys import NODE_KEY, NodeKey
from consilium.node.kinds import NodeOutcome
from consilium.node.standing import NodeStanding, signed_headers
from consilium.protocol.files import held, private_folder
from consilium.protocol.pool import PoolTree
from consilium.protocol.refusals import CURES, Rule
from tests.coordinator.deploy.charged import ROWS, asked
from tests.node.folders import PARTIES, Made, make_small, sign


def found(folder: NodeFolder, name: str) -> CheckResult:
    return next(each for each in examine(COORDINATOR.checks(folder, running=False)) if each.name == name)


def told(made: Made, name: str) -> NodeStanding:
    """What a party is told that asks with its own key, whether it is still listed or not."""
    folder = made.nodes["coordinator"]
    federation = JoinedFederation(folder)

    async def nowhere(*_: object) -> None:
        raise AssertionError

    client = TestClient(Gateway(nowhere, NodeKeys(federation), Standings(folder, federation)))
    key = NodeKey.load(made.nodes[name].keys / NODE_KEY)
    return NodeStanding.model_validate_json(client.post(standing.PATH, headers=signed_headers(key)).content)


def check_all(made: Made, states: Mapping[str, tuple[str, bool]], patch: pytest.MonkeyPatch) -> NodeOutcome:
    """states: of each party, and whether it is connected, which is true of it."""
    folder = made.nodes["coordinator"]
    current, doctor = status(folder), found(folder, "parties").what
    for name, (state, connected) in states.items():
        assert (current.values["roll"][name]["state"], current.values["roll"][name]["connected"]) == (state, connected)
        said = told(made, name)
        assert said.state == state
        if state != "revoked":
            assert said.words == current.values["parties"][name] or not current.values["running"]
            assert said.closed == current.values["closed"]
        assert (f"{name}: " in doctor) == (state in ("refused", "left out"))
        patch.setattr(standing, "ask_standing", lambda _, said=said: said)
        (result,) = examine([("coordinator", lambda own=made.nodes[name]: standing.standing(own))])
        bad = state in ("revoked", "refused", "left out")
        assert result.level == ("wrong" if bad else "advice" if current.values["closed"] else "ok")
        if state == "refused":
            assert CURES[Rule.STORAGE] in result.what
    return current


def test_every_surface_agrees_with_the_truth(made: Made, folder: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
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
        states = {first: ("enrolled", True), second: ("enrolled", True), third: ("refused", True)}
        assert check_all(made, states, monkeypatch).values["running"]
        log.write("takes-part", parties=[first])
        log.write("voted", parties=[first], queries=36)
        log.write("left-out", stage="train", party=second, reason="no answer within 9 s", rule=None, silent=True)
        log.write("lost", parties=[second])
        states = {first: ("takes part", True), second: ("left out", False), third: ("refused", True)}
        shown = check_all(made, states, monkeypatch)
        assert shown.values["parties"][first] == "takes part, connected, answered 36 queries"
        keys = made.file.nodes
        others = {name: each for name, each in keys.items() if name != third}
        join(made.again(nodes=others, revoked={third: keys[third]}).out, folder)
        check_all(made, {**states, third: ("revoked", False)}, monkeypatch)
        log.write("awaiting", parties=[first, second])  # it was started again: what a party answered stays
        shown = check_all(made, {first: ("awaited", False), third: ("revoked", False)}, monkeypatch)
        assert shown.values["parties"][first] == "awaited, not connected, answered 36 queries"
        assert (shown.values["starts"], "started 2 times" in "\n".join(shown.lines)) == (2, True)
    asked(run, 4)
    close(folder, 1)
    shown = check_all(made, {second: ("takes part", False), third: ("revoked", False)}, monkeypatch)
    assert (shown.values["closed"], shown.values["running"], shown.values["queries_asked"]) == (True, False, 4)


def test_a_coordinator_that_was_never_started(folder: NodeFolder) -> None:
    current = status(folder)
    expected = {"stage": "not started", "running": False, "queries_left": 100, "problems": []}
    assert {key: current.values[key] for key in expected} == expected
    assert current.values["parties"] == dict.fromkeys(PARTIES, "awaited, not connected")
    assert current.values["epsilon_student"] > 0
    assert found(folder, "parties").what == "not asked yet: start the coordinator"
    assert found(folder, "students").what == "1 may ask: anna"
    results = examine(COORDINATOR.checks(folder, running=False))
    assert [result.name for result in results if result.level == "wrong"] == []


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
    assert found(folder, "rows left").what == "60 public rows can still be asked, 55 queries are left"
    asked(run_of(folder), 30)
    assert (status(folder).values["rows_open"], status(folder).values["rows_spent"]) == (30, 0)
    close(folder, 1)
    config = made.file.config.model_copy(update={"edition": 1})
    again = made.again(config=config, terms=config.terms())
    join(sign(again.file, made.authority, made.out, ROWS), folder)
    advised = found(folder, "rows left")
    assert (advised.level, advised.what) == (
        "advice",
        "30 public rows can still be asked, 55 queries are left, since the second aggregator gave 30 in earlier"
        " federations and gives none twice",
    )
    join(
        sign(made.again(version=9, config=config, terms=config.terms()).file, made.authority, made.out, ROWS[1:]),
        folder,
    )
    assert found(folder, "public rows").level == "wrong"


def test_who_is_refused_and_who_runs_another_version_is_said_by_name(folder: NodeFolder) -> None:
    run = run_of(folder)
    with closing(EventLog(private_folder(run.path) / run.events.name)) as log:
        log.write("version", party=PARTIES[2], theirs="consilium-pate 0.1", ours="consilium-pate 0.7")  # it was mended
        log.write("awaiting", parties=list(PARTIES))
        assert found(folder, "parties").level == "ok"
        reason = "refused: most-queries, requested 300, limit 200"
        log.write("left-out", stage="enrol", party=PARTIES[0], reason=reason, rule="most-queries")
        log.write("version", party=PARTIES[1], theirs="consilium-pate 0.6", ours="consilium-pate 0.7")
    advised = found(folder, "parties")
    assert (advised.level, advised.what) == (
        "advice",
        f"{PARTIES[0]}: {reason}. {CURES[Rule.MOST_QUERIES]}; {PARTIES[1]} runs consilium-pate 0.6, this coordinator"
        " consilium-pate 0.7",
    )


def test_too_few_nodes_after_a_revocation_are_advised_and_waited_for(tmp_path: Path) -> None:
    made = make_small(tmp_path, mechanism=Confident(threshold=2, sigma1=2.0, sigma2=1.0))
    keys, folder = made.file.nodes, made.nodes["coordinator"]
    assert found(folder, "nodes").what == "3 parties may connect, 3 are required"
    left = {name: each for name, each in keys.items() if name != PARTIES[0]}
    join(made.again(nodes=left, revoked={PARTIES[0]: keys[PARTIES[0]]}).out, folder)
    advised = found(folder, "nodes")
    assert (advised.level, advised.what) == ("advice", "2 parties may connect, 3 are required: nothing is answered")
