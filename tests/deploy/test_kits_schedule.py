"""A federation of two phases from its kits, as processes on loopback, and a crash between the phases."""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path

import polars as pl
import pytest

from consilium.coordinator.config import FederationConfig
from consilium.node.kit import open_kit
from consilium.protocol.config_files import load
from consilium.protocol.errors import BudgetExceeded
from consilium.student.deployed import open_channel
from tests.deploy.kits import PARTIES, STUDENT, make_kits, write_pool
from tests.deploy.test_kits_loopback import Node, audit, command, wait_for
from tests.federation import make_rows

pytestmark = [pytest.mark.proofs, pytest.mark.timeout(3000)]

INTERACTIVE = {"name": "interactive", "threshold": 7, "sigma1": 3.0, "sigma2": 1.5, "confidence": 0.9}
SCHEDULE = [{"mechanism": INTERACTIVE, "query_budget": {"queries": 15, "answers": 15}}]
SPEC = {"queries": 12, "later": [{"queries": 10, "selection": "margin"}]}


@pytest.mark.parametrize("votes", ["plaintext", pytest.param("secure", marks=pytest.mark.proofs)])
def test_two_phases_from_their_kits(tmp_path: Path, votes: str) -> None:
    query_budget, patient = (
        {"queries": 20, "answers": 20},
        dict.fromkeys(("enrol", "train", "vote", "secure", "student"), 2000),
    )
    out = make_kits(
        tmp_path, collection=votes, minimum_parties=3, query_budget=query_budget, schedule=SCHEDULE, timeouts=patient
    )
    kit, student = out / "coordinator", open_kit(out / f"student-{STUDENT}")
    rows = make_rows(400, 1000)[0]
    spec, logs = tmp_path / "student.json", tmp_path / "logs"
    spec.write_text(json.dumps(SPEC))
    logs.mkdir()
    with contextlib.ExitStack() as stack:
        coordinator = Node(logs / "coordinator", "node", "start", str(kit))
        parties = [Node(logs / name, "node", "start", str(out / f"party-{name}")) for name in PARTIES]
        for node in (coordinator, *parties):
            stack.callback(node.end)
        wait_for(lambda: "students may ask" in coordinator.said, 1000, [coordinator, *parties])
        with open_channel(student, 1000) as channel:
            first = channel.phases()[0].ask(rows[:5])

        # the coordinator's process is gone, and comes back to where its ledger stands
        coordinator.process.send_signal(signal.SIGKILL)
        coordinator.process.wait(300)
        again = Node(logs / "again", "node", "start", str(kit))
        stack.callback(again.end)
        wait_for(lambda: "students may ask" in again.said, 1000, [again, *parties])
        with open_channel(student, 1000) as channel:
            one, two = channel.phases()
            assert (one.describe().queries_left, two.describe().queries_left) == (15, 15)
            assert (one.ask(rows[:5]).labels == first.labels).all()
            assert one.describe().queries_left == 15

        asked = command(
            "student", "run", str(student.folder), "--public", str(write_pool(tmp_path / "public.npz", count=60)),
            "--out", str(tmp_path / "student"), "--config", str(spec), "--format", "json",
        )  # fmt: skip
        assert asked.returncode == 0, asked.stderr
        with open_channel(student, 1000) as channel, pytest.raises(BudgetExceeded, match="stage 1, which is over"):
            channel.phases()[0].ask(rows[100:101])
        seen = json.loads(command("status", str(kit), "--format", "json").stdout)
        assert [phase["over"] for phase in seen["stages"]] == [True, False]
        left = seen["stages"][1]["queries_left"]
        assert 5 <= left <= 10  # of the student's ten rows, those that are among the first five cost nothing
        checked = command("doctor", str(kit))
        assert checked.returncode == 0, checked.stdout
        closed = command("node", "close", str(kit))
        assert closed.returncode == 0, closed.stderr
        assert again.process.wait(300) == 0

    config = load(kit / "federation.json", FederationConfig)
    told = json.loads((kit / "state" / f"run-{config.digest()[:12]}" / "coordinator.json").read_text())
    assert len(pl.read_parquet(tmp_path / "student" / "labels.parquet")) == 22
    assert [phase["asked"] for phase in told["stages"]][1] == 15 - left
    assert 12 <= told["stages"][0]["asked"] <= 17  # the student's rows, and the five before, of which it may share some
    assert audit(out, tmp_path / "student")["holds"]
