"""A whole federation from kits, as processes on loopback: TLS, node keys, votes in every mode, students over mTLS."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.config import FederationConfig
from consilium.node.kit import open_kit
from consilium.party.store import Store
from consilium.protocol.config_files import load
from tests.command_line import consilium
from tests.deploy.kits import NOISY, PARTIES, STUDENT, make_kits, write_data, write_pool

pytestmark = [pytest.mark.deploy, pytest.mark.slow, pytest.mark.timeout(1500)]
ROOT = Path(__file__).resolve().parents[2]


class Node:
    """One `consilium` command that stays, with what it says."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.log = log
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "consilium", *arguments],
                cwd=ROOT, stdout=output, stderr=output, text=True,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return self.log.read_text()

    def end(self, seconds: float = 300) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # it says where each of its threads stands
            self.process.wait()
            pytest.fail(f"{self.log.name} did not stop within {seconds:g} s\n{self.said}")
        finally:
            self.process.kill()


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """One `consilium` command that ends; in this process, since half of its time would go into its imports."""
    done = consilium(*arguments)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def audit(out: Path, student: Path) -> dict[str, Any]:
    """What the audit says of the coordinator's run and a student."""
    done = command("audit", str(out / "coordinator"), "--student", str(student), "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def wait_for(true: Callable[[], bool], seconds: float, nodes: list[Node]) -> None:
    """For what must come as long as every node runs."""
    deadline = time.monotonic() + seconds
    while not true():
        going_on = time.monotonic() < deadline and all(node.process.poll() is None for node in nodes)
        assert going_on, "\n".join(f"== {node.log.name}\n{node.said}" for node in nodes)
        time.sleep(0.1)


def with_text(text: str) -> list[int]:
    """Processes whose command line has this text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("votes", ["plaintext", pytest.param("secure", marks=pytest.mark.proofs)])
def test_a_federation_from_its_kits(tmp_path: Path, votes: str) -> None:
    # all three: a sum of two is refused, and on a busy machine the third connects late
    changes: dict[str, Any] = {"minimum_parties": 3}
    if votes == "secure":
        changes |= {**NOISY, "voting_rule": {"rule": "relative", "reference": 50}}
    out = make_kits(tmp_path, own=["ward-b"], **{"collection": votes, **changes})
    write_data(out / "party-ward-c", 2, label=1)  # all its rows have one class, and it is a party like any other
    logs = tmp_path / "logs"
    logs.mkdir()
    student = str(out / f"student-{STUDENT}")
    with contextlib.ExitStack() as stack:
        coordinator = Node(logs / "coordinator", "node", "start", str(out / "coordinator"))
        nodes = [coordinator, *(Node(logs / name, "node", "start", str(out / f"party-{name}")) for name in PARTIES)]
        for node in nodes:
            stack.callback(node.end)

        first = Node(
            logs / "student", "student", "run", student, "--wait", "500", "--format", "json",
            "--public", str(write_pool(tmp_path / "pool-1.npz", count=20)), "--out", str(tmp_path / "student-1"),
        )  # fmt: skip
        stack.callback(first.end)
        wait_for(lambda: all("connected to the coordinator" in node.said for node in nodes[1:]), 500, nodes)
        wait_for(lambda: "students may ask" in coordinator.said, 500, nodes)

        # while it serves, every node finds itself in order
        for name in ("coordinator", "party-ward-a", f"student-{STUDENT}"):
            checked = command("doctor", str(out / name))
            assert checked.returncode == 0, checked.stdout
        again = command("node", "start", str(out / "coordinator"))
        assert again.returncode == 2
        assert "already started" in again.stderr

        # whoever has no certificate does not come in
        address = open_kit(out / "coordinator").coordinator.labels
        stranger = command(
            "student", "run", "--coordinator", address, "--wait", "2",
            "--public", str(tmp_path / "pool-1.npz"), "--out", str(tmp_path / "stranger"),
        )  # fmt: skip
        assert stranger.returncode == 9

        assert first.process.wait(500) == 0, first.said
        result = json.loads(first.said.splitlines()[-1])
        assert result["asked"] == 20
        assert result["answered"] > 0

        # a second run of a student, on the same cases: from the ledger, and it costs nothing
        second = command(
            "student",
            "run",
            student,
            "--public",
            str(tmp_path / "pool-1.npz"),
            "--out",
            str(tmp_path / "2"),
            "--format",
            "json",
        )
        assert second.returncode == 0, second.stderr
        assert json.loads(second.stdout)["answered"] == result["answered"]

        serving = audit(out, tmp_path / "student-1")
        assert serving["holds"] and not serving["finished"]
        assert "its coordinator is serving" in {finding["found"] for finding in serving["findings"]}

        seen = json.loads(command("status", str(out / "coordinator"), "--format", "json").stdout)
        assert seen["queries_left"] == 20
        assert seen["queries_asked"] == 20
        assert seen["running"]
        assert sorted(seen["parties"]) == sorted(PARTIES)
        assert seen["errors"] == []

        closed = command("node", "close", str(out / "coordinator"), "--format", "json")
        assert closed.returncode == 0, closed.stderr
        assert json.loads(closed.stdout)["parties"] == sorted(PARTIES)
        assert coordinator.process.wait(300) == 0
        assert [node.end() for node in nodes[1:]] == [0, 0, 0]

    assert with_text(str(out)) == []
    assert nodes[1].said.splitlines()[-1].endswith("party: stopped")
    config = load(out / "coordinator" / "federation.json", FederationConfig)
    run = out / "coordinator" / "state" / f"run-{config.digest()[:12]}"
    assert json.loads((run / "coordinator.json").read_text())["collection"] == votes
    assert not list(run.glob("private/*"))
    for student_out in ("student-1", "2"):
        closed_run = audit(out, tmp_path / student_out)
        assert closed_run["holds"] and closed_run["finished"]
    drawn = command("report", str(out / "coordinator"), "--student", str(tmp_path / "student-1"))
    assert drawn.returncode == 0, drawn.stderr
    assert "What this report cannot show" in (run / "report.html").read_text()
    for name in PARTIES:
        kit = out / f"party-{name}"
        assert len(Store(kit / "state" / "party.db").teachers(config.digest()).teachers) == 4
        assert not list((kit / "state" / "flower").rglob("*.py"))  # no code came with the run
    keys = [
        (out / f"party-{name}" / key).read_bytes().split(b"\n")[1]
        for name in PARTIES
        for key in ("node.key", "identity.pem")
    ]
    for path in out.glob("*/state/**/*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(key in content for key in keys), path
