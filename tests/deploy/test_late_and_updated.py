"""Nodes from kits, as processes: a party that comes late, an update unpacked over an open federation, and its close."""

from __future__ import annotations

import contextlib
import json
import tarfile
from pathlib import Path

import pytest

from consilium.coordinator.provision import kits
from tests.deploy.kits import PARTIES, STUDENT, make_kits, write_pool
from tests.deploy.test_kits_loopback import Node, command, wait_for

pytestmark = [pytest.mark.proofs, pytest.mark.timeout(1500)]  # in parts, without processes: tests/coordinator
CONFIDENT = {"name": "confident", "threshold": 5, "sigma1": 3.0, "sigma2": 1.5}


def told(*arguments: str) -> dict:
    done = command(*arguments, "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_who_is_late_takes_part_and_what_was_begun_is_what_is_closed(tmp_path: Path) -> None:
    timeouts = {"enrol": 250, "join": 1, "train": 250, "vote": 250, "secure": 250, "student": 500}
    out = make_kits(tmp_path, timeouts=timeouts, mechanism=CONFIDENT)
    place, logs = str(out / "coordinator"), tmp_path / "logs"
    logs.mkdir()
    with contextlib.ExitStack() as stack:

        def start(name: str, *arguments: str) -> Node:
            node = Node(logs / name, *arguments)
            stack.callback(node.end)
            return node

        coordinator = start("coordinator", "node", "start", place)
        nodes = [coordinator, *(start(name, "node", "start", str(out / f"party-{name}")) for name in PARTIES[:2])]
        wait_for(lambda: "students may ask" in coordinator.said, 500, nodes)
        assert f"waiting for {PARTIES[2]}" in coordinator.said
        shown = told("status", place)
        assert shown["parties"][PARTIES[0]] == "takes part, connected, in no sum yet"
        assert shown["parties"][PARTIES[2]] == "awaited, not connected"

        # the third comes when students are served already
        nodes.append(start(PARTIES[2], "node", "start", str(out / f"party-{PARTIES[2]}")))
        wait_for(lambda: f"late, and in sums from the next questions on: {PARTIES[2]}" in coordinator.said, 500, nodes)
        wait_for(lambda: "takes part; it came late" in nodes[-1].said, 100, nodes)
        own = told("status", str(out / f"party-{PARTIES[2]}"))
        assert own["standing"] == "takes part; it came late, and votes from the next questions on"
        assert own["connection"].startswith("connected")

        # an update for another federation: what runs is what is shown, asked and closed
        kits.revoke(out, STUDENT)
        kits.add_student(out, "institute")
        (out / "coordinator" / "federation.json").write_text(
            (out / "coordinator" / "federation.json").read_text().replace('"queries": 40', '"queries": 39')
        )
        with tarfile.open(out / "updates" / "0003" / "coordinator.tar.gz") as archive:
            archive.extractall(out / "coordinator", filter="data")
        result = told(
            "student", "run", str(out / "student-institute"), "--wait", "100",
            "--public", str(write_pool(tmp_path / "public.npz", count=10)), "--out", str(tmp_path / "student"),
        )  # fmt: skip
        assert result["asked"] == 10
        shown = told("status", place)
        assert shown["next"] not in ("", shown["run"])
        assert set(shown["parties"].values()) == {"takes part, connected, in sums"}
        closed = told("node", "close", place)
        assert (closed["asked"], closed["parties"]) == (10, list(PARTIES))
        assert coordinator.process.wait(300) == 0
