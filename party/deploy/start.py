"""`consilium party start`: the party's SuperNode under supervision."""

from __future__ import annotations

import threading
from pathlib import Path

from party.deploy.installed_app import write_programs
from party.home import open_home
from protocol.deploy.files import held
from protocol.deploy.flower import flower_environment, program
from protocol.deploy.kit import Kit
from protocol.deploy.supervisor import BackOff, Program, Supervisor, Tell, end_leftovers
from protocol.errors import ConfigError

NEWS = {
    "SuperNode ID:": "connected to the coordinator",
    "Failed to activate SuperNode": "the coordinator refused this node: its key is not registered (yet, or any more),"
    " it was killed less than a minute ago, or another process uses its key",
    "CERTIFICATE_VERIFY_FAILED": "the coordinator's certificate is not accepted: run consilium doctor",
    "Connection attempt failed": "a connection could not be made; trying on",
    "address already in use": "node_port in kit.json is taken by another program: choose another",
}


def supernode(kit: Kit) -> Program:
    """The SuperNode of a kit. Raises EngineError if Flower is not installed."""
    folder: Path = kit.state / "flower"
    return Program(
        name="supernode",
        command=[
            program("flower-supernode"), "--root-certificates", str(kit.authority),
            "--superlink", kit.coordinator.superlink, "--auth-supernode-private-key", str(kit / "node.key"),
            "--host", "127.0.0.1", "--port", str(kit.node_port), "--node-config", f'home="{kit.folder}"',
        ],
        folder=kit.state,
        log=kit.logs / "supernode.log",
        environment=flower_environment(folder, write_programs(kit.state / "programs")),
        news=NEWS,
    )  # fmt: skip


def start(kit: Kit, tell: Tell, stop: threading.Event, backoff: BackOff | None = None) -> None:
    """Serve until `stop` is set.

    Raises
    ------
    ConfigError : the party's settings cannot be read, or it is started already.
    """
    home = open_home(kit.folder)
    if home.name != kit.name:
        raise ConfigError(
            f"party.toml says name {home.name!r}, the kit is that of {kit.name!r}", "Set name back in party.toml"
        )
    if '"' in str(kit.folder) or " " in str(kit.folder):
        raise ConfigError(f"{kit.folder}: a path with spaces or quotes", "Move the kit: Flower cannot pass it on")
    with held(kit.state / "lock", f"party {kit.name}"):
        end_leftovers(kit.logs, tell)
        tell("party", f"{kit.name} serves {kit.federation!r} at {kit.coordinator.superlink}")
        with Supervisor([supernode(kit)], tell, backoff):
            stop.wait()
        tell("party", "stopped")
