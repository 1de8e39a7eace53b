"""Flower's programs as processes of a simulation, on loopback: SuperLink and `flwr run`.

The app that is submitted is a shim that imports the installed packages: what runs is what is installed at each node.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import tomli_w

from consilium.node.flower import program
from consilium.node.supervisor import stop_group
from consilium.protocol.errors import EngineError
from consilium.protocol.versions import DISTRIBUTION

CONNECTION = "consilium"
START_SECONDS, PATIENCE = 60, 10
RAY_ALONE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_DOCKER_CPU_WARNING": "1", "RAY_ADDRESS": "local"}
"""A Ray of its own, for as long as the run takes: without an address Ray joins any cluster that it finds on the
machine, whose owner would hold parties' rows and votes, and which may have no processor left."""


NODE_APP = "import consilium.node_app\n\napp = consilium.node_app.app\n"


def write_shim(folder: Path, run_config: dict[str, str], client: str = NODE_APP) -> Path:
    """A Flower app that only imports the installed coordinator and party. client: the code of its ClientApp."""
    package = folder / "consilium_flower"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""Imports the installed Consilium."""\n')
    (package / "server.py").write_text(
        "import consilium.coordinator.server_app\n\napp = consilium.coordinator.server_app.app\n"
    )
    (package / "client.py").write_text(client)
    project = {
        "project": {
            "name": "consilium-flower",
            "version": version(DISTRIBUTION),
            "description": "Consilium, as it is installed",
            "license": "Apache-2.0",
            "dependencies": [f"flwr=={version('flwr')}"],
        },
        "tool": {
            "flwr": {
                "app": {
                    "publisher": "consilium",
                    "fab-include": ["consilium_flower/*.py"],
                    "components": {
                        "serverapp": "consilium_flower.server:app",
                        "clientapp": "consilium_flower.client:app",
                    },
                    "config": run_config,
                }
            }
        },
    }
    (folder / "pyproject.toml").write_text(tomli_w.dumps(project))
    return folder


def write_connection(home: Path, address: str) -> None:
    """Tell `flwr` where the SuperLink is."""
    home.mkdir(parents=True, exist_ok=True)
    table = {"superlink": {"default": CONNECTION, CONNECTION: {"address": address, "insecure": True}}}
    (home / "config.toml").write_text(tomli_w.dumps(table))


@contextmanager
def super_link(folder: Path, environment: dict[str, str], *arguments: str) -> Iterator[str]:
    """A SuperLink on loopback while the context is open; yields host:port. Logs to `folder`."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "superlink.log", "wb") as output:
        process = subprocess.Popen(
            [
                program("flower-superlink"), "--insecure", "--host", "127.0.0.1", "--port", str(port), *arguments,
            ],
            env=environment, cwd=folder, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        try:
            wait_for_port(port, process)
            yield f"127.0.0.1:{port}"
        finally:
            stop_group(process, PATIENCE)


def free_port() -> int:
    """A TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port: int, process: subprocess.Popen) -> None:
    """Wait until somebody listens; EngineError if the process dies or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise EngineError(f"the SuperLink ended with exit code {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise EngineError(f"the SuperLink does not listen after {START_SECONDS} s")


def flwr_run(app: Path, address: str, folder: Path, environment: dict[str, str], *arguments: str) -> int:
    """Submit an app and wait for its end; returns the exit code of `flwr run`. Its output goes to a log in `folder`."""
    write_connection(Path(environment["FLWR_HOME"]), address)
    command = [program("flwr"), "run", str(app), CONNECTION, "--stream", *arguments]
    with open(folder / "flwr-run.log", "wb") as output:
        return subprocess.run(command, env=environment, cwd=folder, stdout=output, stderr=output).returncode
