"""The unit and the compose file of examples/, and the image: well formed, and of commands that there are."""

from __future__ import annotations

import shlex
from pathlib import Path

import yaml

from tests.command_line import consilium

ROOT = Path(__file__).resolve().parents[2]
UNIT, COMPOSE = ROOT / "examples" / "consilium@.service", ROOT / "examples" / "compose.yaml"


def test_the_unit_starts_again_whatever_ended_the_node() -> None:
    lines = [line.partition("=") for line in UNIT.read_text().splitlines() if line and line[0] not in "#["]
    table = {key: value for key, _, value in lines}
    assert (table["Restart"], table["RestartSec"], table["StartLimitIntervalSec"]) == ("on-failure", "5", "0")
    assert "RestartPreventExitStatus" not in table
    assert (table["ProtectSystem"], table["ReadWritePaths"]) == ("strict", "/srv/consilium/%i")
    program, *words, folder = shlex.split(table["ExecStart"])
    assert (program, folder) == ("/opt/consilium/bin/consilium", "/srv/consilium/%i")
    assert consilium(*words, "--help").exit_code == 0


def test_the_compose_file() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert services.keys() == {"node", "coordinator"}
    for name, service in services.items():
        assert service["command"] == ["node", "start", "/node"]
        assert (service["read_only"], service["cap_drop"], service["restart"]) == (True, ["ALL"], "unless-stopped")
        assert service.get("ports", []) == (["8443:8443", "8444:8444"] if name == "coordinator" else [])


def test_the_image_copies_what_is_there_and_runs_as_nobody_special() -> None:
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    copied = [line.split()[1:] for line in lines if line.startswith("COPY")]
    assert copied == [[".", "/src"], ["--from=build", "/opt/consilium", "/opt/consilium"]]
    final = lines[max(index for index, line in enumerate(lines) if line.startswith("FROM")) :]
    assert [line for line in final if line.startswith("USER")] == ["USER 1000:1000"]
