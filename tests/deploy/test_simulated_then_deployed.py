"""The same file simulated, then provisioned and run as processes on loopback: equal promise, equal digest."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.provision import kits
from consilium.protocol.config_files import load
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from tests.deploy.kits import PARTIES, STUDENT, accept_all, write_data, write_pool
from tests.deploy.test_kits_loopback import Node, audit, command, wait_for
from tests.simulations.test_one_federation import write_deployment, write_scenario

pytestmark = [pytest.mark.deploy, pytest.mark.proofs, pytest.mark.timeout(1500)]


def test_what_was_simulated_runs_from_its_kits(tmp_path: Path) -> None:
    scenario = load_scenario(str(write_scenario(tmp_path)), [])
    simulated = run_scenario(
        "few", scenario, "local", 1, tmp_path / "simulated", lambda _: contextlib.nullcontext(), device="cpu"
    )
    manifest = json.loads((tmp_path / "simulated" / "manifest.json").read_text())
    out = tmp_path / "kits"
    made = kits.make(write_deployment(tmp_path, "few.toml"), out)
    for seed, name in enumerate(PARTIES):
        write_data(out / f"party-{name}", seed)
    accept_all(out)
    logs = tmp_path / "logs"
    logs.mkdir()
    with contextlib.ExitStack() as stack:
        coordinator = Node(logs / "coordinator", "node", "start", str(out / "coordinator"))
        nodes = [coordinator, *(Node(logs / name, "node", "start", str(out / f"party-{name}")) for name in PARTIES)]
        for node in nodes:
            stack.callback(node.end)
        wait_for(lambda: "students may ask" in coordinator.said, 500, nodes)
        asked = command(
            "student", "run", str(out / f"student-{STUDENT}"), "--wait", "500",
            "--public", str(write_pool(tmp_path / "public.npz", count=20)), "--out", str(tmp_path / "student"),
        )  # fmt: skip
        assert asked.returncode == 0, asked.stderr
        closed = command("node", "close", str(out / "coordinator"))
        assert closed.returncode == 0, closed.stderr
        assert coordinator.process.wait(300) == 0
    config = load(out / "coordinator" / "federation.json", FederationConfig)
    run = out / "coordinator" / "state" / f"run-{config.digest()[:12]}"
    deployed = json.loads((run / "coordinator.json").read_text())
    digests = [item["federation_digest"] for item in (simulated, manifest, deployed)]
    assert digests == [made.federation_digest] * 3
    assert made.promised is not None
    assert made.promised.epsilon == simulated["privacy"]["epsilon_guaranteed"]
    assert made.promised.epsilon == deployed["privacy"]["guarantee"]["epsilon"]
    assert audit(out, tmp_path / "student")["holds"]
