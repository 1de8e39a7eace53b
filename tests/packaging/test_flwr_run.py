"""`flwr run .` in a checkout, as in docs/flower.md: prepared homes, Flower's own commands, a student over a socket."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from consilium.node.flower import QUIET
from consilium.simulations.engines import flower as processes
from consilium.simulations.engines.flower import RAY_ALONE, flwr_run, free_port, super_link
from tests.packaging.conftest import Installed, make_environment
from tests.simulations.small import SMALL


@pytest.mark.proofs
@pytest.mark.ray
@pytest.mark.timeout(900)
def test_the_bundle_of_a_checkout_is_all_that_flower_needs(
    checkout: Path, installed: Installed, hostile_folder: Path, tmp_path_factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower's processes have no Consilium but the bundle's; who prepares, and the student, have the installed one."""
    changes = [part for change in SMALL for part in ("--set", change)]
    service = f"127.0.0.1:{free_port()}"
    prepared = hostile_folder / "prepared"
    done = installed.run(
        "consilium", "prepare", "stroke", "--service", service, "--out", str(prepared), *changes, cwd=hostile_folder
    )
    assert done.returncode == 0, done.stderr
    parties = len(list((prepared / "private" / "work" / "parties").iterdir()))

    flower = tmp_path_factory.mktemp("flower")
    bare = make_environment(flower / "environment", None)
    monkeypatch.setattr(processes, "program", bare.program)
    environment = {**bare.variables, **QUIET, **RAY_ALONE, "FLWR_HOME": str(flower / "home")}
    pool = prepared / "private" / "work" / "public.npz"
    student = subprocess.Popen(
        [
            installed.program("consilium"), "student", "run", "--coordinator", service, "--wait", "600",
            "--public", str(pool), "--out", "results", "--format", "json",
        ],
        cwd=hostile_folder, env=installed.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        with super_link(flower / "link", environment, "--simulation", "--isolation", "subprocess") as address:
            options = ["--run-config", str(prepared / "run-config.toml")]
            nodes = ["--federation-config", f"num-supernodes={parties} client-resources-num-cpus=1"]
            code = flwr_run(checkout, address, flower / "link", environment, *options, *nodes)
        logs = b"".join(file.read_bytes() for file in (flower / "link").glob("*.log")).decode()
        assert code == 0, logs
        told, complaint = student.communicate(timeout=800)
        assert student.returncode == 0, complaint
    finally:
        student.kill()
        student.wait()
    assert json.loads(told)["answered"] > 0
    assert json.loads((prepared / "coordinator" / "coordinator.json").read_text())["answered"] > 0
