"""The unit, the compose file and the script of a kit: of one node, well formed, and of commands that there are."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from consilium.cli import app
from tests.deploy.kits import make_kits

ROOT = Path(__file__).resolve().parents[3]
NODES = {
    "coordinator": "coordinator",
    "party": "party-ward-a",
    "aggregator": "aggregator-board",
    "student": "student-university",
}
PATHS_OF_OPTIONS = ("ReadWritePaths", "ProtectSystem", "UMask", "Type", "Restart", "KillMode", "WatchdogSec")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return make_kits(tmp_path_factory.mktemp("made"), collection="verified")


def takes(words: list[str]) -> bool:
    """Whether the program has these commands, up to the first word that is none."""
    command = get_command(app)
    for word in words:
        commands = getattr(command, "commands", None)
        if commands is None:
            return True
        if word not in commands:
            return False
        command = commands[word]
    return True


def options(unit: str) -> list[tuple[str, str]]:
    """Of a unit, in order."""
    lines = [line for line in unit.splitlines() if line and line[0] not in "#["]
    return [(key, value) for key, _, value in (line.partition("=") for line in lines)]


@pytest.mark.parametrize("kind", ["coordinator", "party", "aggregator"])
def test_the_unit(made: Path, kind: str) -> None:
    unit = (made / NODES[kind] / f"consilium-{kind}.service").read_text()
    found = options(unit)
    assert [key for key, count in Counter(key for key, _ in found).items() if count > 1] == []
    table, place = dict(found), f"/srv/consilium/{NODES[kind]}"
    assert {key: table[key] for key in PATHS_OF_OPTIONS} == {
        "ReadWritePaths": f"{place}/state",
        "ProtectSystem": "strict",
        "UMask": "0077",
        "Type": "notify",
        "Restart": "on-failure",
        "KillMode": "mixed",
        "WatchdogSec": "900",
    }
    program, *words = shlex.split(table["ExecStart"])
    assert (program, words) == ("/opt/consilium/bin/consilium", ["node", "start", place])
    assert takes(words)


def command_of(kind: str) -> str:
    """The command that starts it, or runs it."""
    return "student run" if kind == "student" else "node start"


@pytest.mark.parametrize("kind", NODES)
def test_the_compose_file(made: Path, kind: str) -> None:
    ((name, service),) = yaml.safe_load((made / NODES[kind] / "compose.yaml").read_text())["services"].items()
    assert (name, " ".join(service["command"][:2])) == (kind, command_of(kind))
    assert takes(service["command"])
    assert service["user"] == "${KIT_USER:-1000:1000}"
    assert service["volumes"] == [".:/kit:ro", "./state:/kit/state"]
    assert (service["read_only"], service["cap_drop"], service["tmpfs"]) == (True, ["ALL"], ["/tmp"])
    assert len(service.get("ports", ())) == (2 if kind == "coordinator" else 0)
    assert service["restart"] == ("no" if kind == "student" else "unless-stopped")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("kind", ["coordinator", "party", "aggregator"])
def test_systemd_knows_every_option(made: Path, tmp_path: Path, kind: str) -> None:
    unit = (made / NODES[kind] / f"consilium-{kind}.service").read_text()
    there = tmp_path / f"consilium-{kind}.service"
    there.write_text(unit.replace("/opt/consilium/bin/consilium", "/bin/true").replace("User=consilium", "User=root"))
    done = subprocess.run(["systemd-analyze", "verify", str(there)], capture_output=True, text=True, check=False)
    assert there.name not in done.stderr, done.stderr


def test_the_image_copies_what_is_there_and_runs_as_nobody_special() -> None:
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    copied = [line.split()[1:] for line in lines if line.startswith("COPY")]
    assert copied == [[".", "/src"], ["--from=build", "/opt/consilium", "/opt/consilium"]]
    final = lines[max(index for index, line in enumerate(lines) if line.startswith("FROM")) :]
    assert [line for line in final if line.startswith("USER")] == ["USER 1000:1000"]
    assert not any(line.startswith("COPY . ") for line in final)  # sources and wheels stay in no layer
