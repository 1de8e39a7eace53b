"""`consilium doctor`: every fault that a site can have is found, and said with what to do."""

from __future__ import annotations

import email.utils
import http.server
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from consilium import cli
from consilium.coordinator.deploy.deployed import COORDINATOR
from consilium.node import checks
from consilium.node.checks import CheckResult, examine
from consilium.node.kit import Kit, open_kit
from consilium.party.deployed import PARTY
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.files import held
from consilium.student.deployed import StudentKind
from tests.deploy.kits import STUDENT, make_kits, write_pool
from tests.deploy.spoiled import foreign_identity, other_authority
from tests.federation import CLASSES, FEATURES, make_rows


class Https:
    """The coordinator's public port, as far as a doctor asks it, with a clock of its own."""

    def __init__(self, kit: Kit, ahead: float = 0) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response_only(403)
                self.send_header("Date", email.utils.formatdate(time.time() + ahead, usegmt=True))
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", kit.coordinator.superlink_port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(kit.server_tls.certificate, kit.server_tls.key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def levels(findings: list[CheckResult]) -> dict[str, str]:
    return {found.name: found.level for found in findings}


def wanting(findings: list[CheckResult]) -> dict[str, str]:
    """Levels of what is not in order."""
    return {name: level for name, level in levels(findings).items() if level != "ok"}


def wrong(findings: list[CheckResult], *but: str) -> list[CheckResult]:
    return [found for found in findings if found.level == "wrong" and found.name not in but]


def test_sound_kits_are_sound(sound: Path) -> None:
    coordinator_kit = open_kit(sound / "coordinator")
    found = examine(COORDINATOR.checks(coordinator_kit, running=False))
    assert wanting(found) == {"expectation": "advice"}
    assert {"roster", "certificate", "label port", "ledger", "nodes"} <= levels(found).keys()
    with Https(coordinator_kit):
        found = examine(PARTY.checks(open_kit(sound / "party-ward-a"), running=False))
        assert wanting(found) == {"expectation": "advice"}
        assert {"policy", "data", "roster", "port", "coordinator"} <= levels(found).keys()


@pytest.mark.parametrize(("teachers", "expected"), [(4, {"expectation": "advice"}), (60, {})])
def test_what_may_be_expected_of_it(tmp_path: Path, teachers: int, expected: dict[str, str]) -> None:
    """Twelve votes at epsilon 5 are below the noise, 180 are not; a party is told of epsilon alone."""
    privacy = {"unit": "record", "delta": 1e-5}
    query_budget, mechanism = {"queries": 40, "answers": 40}, {"name": "gnmax", "sigma": 13.08}
    out = make_kits(
        tmp_path,
        teachers_per_party=teachers,
        privacy=privacy,
        query_budget=query_budget,
        mechanism=mechanism,
        collection="plaintext",
    )
    found = examine(COORDINATOR.checks(open_kit(out / "coordinator"), running=True))
    assert {name: level for name, level in wanting(found).items() if name != "gateway"} == expected
    told = next(each for each in found if each.name == "expectation")
    assert ("little-information" in told.what) == bool(expected)
    party = examine(PARTY.checks(open_kit(out / "party-ward-a"), running=True))
    assert levels(party)["expectation"] == "ok"


def bad_rows(kit: Path) -> None:
    np.savez(
        kit / "data.npz",
        x=np.zeros((50, 2)),
        y=np.zeros(50, int),
        features=np.array(FEATURES[:2]),
        classes=np.array(CLASSES),
    )


PARTY_CASES: dict[str, tuple[Callable[[Path], object], str, str, str]] = {
    "key others can read": (lambda kit: (kit / "node.key").chmod(0o644), "keys", "others than its owner", "chmod 600"),
    "open folder": (lambda kit: kit.chmod(0o755), "keys", "others than its owner may look", "chmod 700"),
    "authority damaged": (lambda kit: (kit / "ca.crt").write_text("x"), "authority", "not a PEM", "Unpack"),
    "no data": (lambda kit: (kit / "data.npz").unlink(), "data", "data.npz", "a table (.csv, .parquet) with a heading"),
    "column missing": (bad_rows, "data", "do not fit", "consilium party dry-run"),
    "foreign identity": (foreign_identity, "roster", "no entry", "ask the operator"),
    "roster lost": (lambda kit: (kit / "roster.json").unlink(), "roster", "No such file", "operator"),
}  # fmt: skip


@pytest.mark.parametrize("case", PARTY_CASES)
def test_faults_of_a_party(out: Path, case: str) -> None:
    spoil, name, said, action = PARTY_CASES[case]
    kit = out / "party-ward-a"
    spoil(kit)
    findings = wrong(examine(PARTY.checks(open_kit(kit), running=True)), "coordinator")
    found = next(found for found in findings if found.name == name)
    assert said in found.what
    assert action in found.action
    assert "Traceback" not in found.what


def test_a_taken_port_is_found(out: Path) -> None:
    kit = open_kit(out / "party-ward-a")
    with socket.socket() as other:
        other.bind(("127.0.0.1", kit.node_port))
        other.listen()
        found = wrong(examine(PARTY.checks(kit, running=False)), "coordinator")
    assert [(item.name, "node_port" in item.action) for item in found] == [("port", True)]


def test_a_full_disk_is_found(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = {"state": 1}  # often a disk of its own
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**13, 1, free.get(path.name, 10**12))
    )
    for kit, module in (("party-ward-a", PARTY), ("coordinator", COORDINATOR)):
        found = examine(module.checks(open_kit(out / kit), running=True))
        assert next(item.action for item in found if item.name == "disk") == "Make room"


@pytest.mark.parametrize(("ahead", "said"), [(0, ""), (60, ""), (-8, "8 s ahead of"), (500, "500 s behind")])
def test_clocks_are_compared(out: Path, ahead: float, said: str) -> None:
    """A SuperLink refuses what is signed 5 s in its future, or 305 s in its past. `ahead`: the coordinator's clock."""
    with Https(open_kit(out / "coordinator"), ahead):
        found = examine([("coordinator", lambda: checks.check_coordinator(open_kit(out / "party-ward-a")))])[0]
    assert found.level == ("wrong" if said else "ok")
    if said:
        assert "this clock is" in found.what
        assert said.split(" s ")[1] in found.what


def test_a_coordinator_of_another_federation_is_found(out: Path, tmp_path: Path) -> None:
    other_authority(out / "coordinator")
    with Https(open_kit(out / "coordinator")):
        found = examine([("coordinator", lambda: checks.check_coordinator(open_kit(out / "party-ward-a")))])[0]
    assert "its certificate is not accepted" in found.what


@pytest.mark.parametrize(
    ("days", "level", "said"),
    [(-3, "wrong", "valid from"), (715, "advice", "expires on"), (740, "wrong", "expired on")],
)
def test_certificates_have_their_time(out: Path, days: int, level: str, said: str) -> None:
    kit = open_kit(out / f"student-{STUDENT}")
    now = datetime.now(UTC) + timedelta(days=days)
    found = examine([("certificate", lambda: checks.check_certificate(kit.client_tls, now=now))])[0]
    assert found.level == level
    assert said in found.what


def test_a_student_checks_its_pool(out: Path, tmp_path: Path) -> None:
    kit = open_kit(out / f"student-{STUDENT}")
    pool = write_pool(tmp_path / "public.npz")
    found = examine(StudentKind(pool).checks(kit, False))
    assert levels(found)["public rows"] == "ok"
    np.savez(pool, features=np.array(FEATURES), queries=np.vstack([make_rows(400, 1000)[0][:3], np.zeros((2, 3))]))
    told = next(each for each in examine(StudentKind(pool).checks(kit, False)) if each.name == "public rows")
    assert told.what == "2 of 5 rows are none of the public rows that the federation is fixed to (first: row 4)"
    np.savez(pool, features=np.array(["a"]), queries=np.zeros((3, 1)))
    assert levels(examine(StudentKind(pool).checks(kit, False)))["public rows"] == "wrong"


def test_the_command_prints_one_line_each_and_exits_with_1(out: Path) -> None:
    done = CliRunner().invoke(cli.app, ["doctor", str(out / "coordinator")])
    assert done.exit_code == 0, done.output
    assert len(done.output.splitlines()) == 25
    (out / "coordinator" / "server.key").chmod(0o644)
    done = CliRunner().invoke(cli.app, ["doctor", str(out / "coordinator")])
    assert done.exit_code == 1
    assert "Run: chmod 600" in done.output


def test_a_program_that_is_not_the_operators_is_found(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "program_versions", lambda: "consilium-pate 9.9, flwr 1.41.0")
    assert levels(examine(PARTY.checks(open_kit(out / "party-ward-a"), running=True)))["versions"] == "advice"


def test_a_clock_that_was_set_back_is_found(out: Path) -> None:
    kit = open_kit(out / "party-ward-a")
    (kit.state / "party.db").touch()
    assert checks.check_clock(kit)
    with pytest.raises(ConsiliumError):
        checks.check_clock(kit, time.time() - 1000)


def test_a_kit_that_is_started_already_is_not_started(out: Path) -> None:
    kit = open_kit(out / "party-ward-a")
    with held(kit.state / "lock", "party ward-a"), pytest.raises(ConsiliumError, match="already started"):
        PARTY.start(kit, lambda *_: None, threading.Event())
