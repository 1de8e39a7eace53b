"""Flower's programs as processes on loopback: SuperLink, SuperNodes, `flwr run`.

The app that is submitted is a shim that imports the installed packages: what runs is what is installed at each node.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import tomli_w

from protocol.errors import EngineError

CONNECTION = "consilium"
START_SECONDS = 60
QUIET = {
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
}


def flower_environment(home: Path) -> dict[str, str]:
    """Environment of Flower's programs: quiet, with a home of their own, and able to find each other."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    return {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": path, "OMP_NUM_THREADS": "1"}


def program(name: str) -> str:
    """Path of one of Flower's programs, in this interpreter's environment."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        raise EngineError(f"program {name} is not installed", "pip install flwr")
    return found


def write_shim(folder: Path, run_config: dict[str, str]) -> Path:
    """A Flower app that only imports the installed coordinator and party."""
    package = folder / "consilium_flower"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""Imports the installed Consilium."""\n')
    (package / "server.py").write_text("import coordinator.server_app\n\napp = coordinator.server_app.app\n")
    (package / "client.py").write_text("import party.client_app\n\napp = party.client_app.app\n")
    project = {
        "project": {
            "name": "consilium-flower",
            "version": version("consilium"),
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
            stop_group(process)


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


def stop_group(process: subprocess.Popen) -> None:
    """End a process and all it started."""
    for sign, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            return
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
        if sign == signal.SIGTERM:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # whatever it left behind
            except ProcessLookupError:
                return
        return


@contextmanager
def super_node(folder: Path, environment: dict[str, str], address: str, name: str, home: Path) -> Iterator[int]:
    """A SuperNode for the party at `home`, connected to the SuperLink at `address`; yields its process id."""
    with open(folder / f"{name}.log", "wb") as output:
        process = subprocess.Popen(
            [
                program("flower-supernode"), "--insecure", "--superlink", address, "--port", str(free_port()),
                "--node-config", f'home="{home}"',
            ],
            env=environment, cwd=folder, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        try:
            yield process.pid
        finally:
            stop_group(process)


def flwr_run(app: Path, address: str, folder: Path, environment: dict[str, str], *arguments: str) -> int:
    """Submit an app and wait for its end; returns the exit code of `flwr run`. Its output goes to a log in `folder`."""
    write_connection(Path(environment["FLWR_HOME"]), address)
    command = [program("flwr"), "run", str(app), CONNECTION, "--stream", *arguments]
    with open(folder / "flwr-run.log", "wb") as output:
        return subprocess.run(command, env=environment, cwd=folder, stdout=output, stderr=output).returncode
