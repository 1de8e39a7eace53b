"""What is used of Flower and is not its public API, and its processes on this machine: SuperLink, `flwr run`.

Written for flwr 1.41. Outside Flower's own processes nobody sets the identity that `Message` and `ClientApp` read, nor
the ids by which replies are matched. The app that is submitted is a shim that imports the installed packages: what
runs is what is installed at each node."""

from __future__ import annotations

import functools
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tomli_w
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from consilium.node.flower import free_port, program, require_flower, unknown_flower
from consilium.node.supervisor import end
from consilium.protocol.errors import EngineError
from consilium.protocol.versions import DISTRIBUTION

RUN_ID = COORDINATOR_NODE = 1
FIRST_NODE = COORDINATOR_NODE + 1
"""Of the nodes that answer."""
RAISED = 2
"""Flower's code for an app that raised."""
IDENTITY = "flwr.supercore.task_identity"
NAMES = {IDENTITY: ("TaskIdentity", "TaskIdentity._run_id", "TaskIdentity._task_id", "TaskIdentity._node_id")}


@functools.cache
def _task_identity() -> Any:
    require_flower(NAMES)
    return import_module(IDENTITY).TaskIdentity


def assume_identity(run_id: int, node_id: int) -> None:
    """Be that node of that run in this process, as Flower's launcher would set it. Raises EngineError: this Flower
    keeps the identity elsewhere, or is another version."""
    identity = _task_identity()
    identity.run_id = run_id
    identity.task_id = 1
    identity.node_id = node_id


def assign_message_id(message: Message) -> str:
    """Give a message its id, as the SuperLink would. Raises EngineError if this Flower keeps it elsewhere."""
    message_id = uuid.uuid4().hex
    message.metadata.__dict__["_message_id"] = message_id
    if message.metadata.message_id != message_id:
        raise unknown_flower("its messages keep their ids elsewhere")
    return message_id


class NodesGrid(Grid):
    """So many nodes, from `FIRST_NODE` on. A subclass says how they are asked."""

    def __init__(self, nodes: int) -> None:
        self._nodes = range(FIRST_NODE, FIRST_NODE + nodes)

    def set_run(self, run: object) -> None:
        """Not needed: there is one run."""

    @property
    def run(self) -> Any:
        """Flower's Run object; there is none without a SuperLink."""
        raise NotImplementedError("nodes on this machine have no SuperLink run")

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """See flwr.serverapp.Grid."""
        return Message(content, dst_node_id=dst_node_id, message_type=message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        """See flwr.serverapp.Grid."""
        return self._nodes


def answered(app: ClientApp, message: Message) -> Message:
    """What a node's app answers in this process; its context has the node's place as `partition-id`. The text of what
    it raises is not kept."""
    node = message.metadata.dst_node_id
    assume_identity(RUN_ID, node)
    context = Context(RUN_ID, node, {"partition-id": node - FIRST_NODE}, RecordDict(), {})
    try:
        return app(message, context)
    except Exception:
        return Message(Error(code=RAISED, reason="ClientApp raised"), reply_to=message)


CONNECTION = "consilium"
START_SECONDS, PATIENCE = 60, 10
RAY_ALONE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_DOCKER_CPU_WARNING": "1", "RAY_ADDRESS": "local"}
"""A Ray of its own, for as long as the run takes: without an address Ray joins any cluster that it finds on the
machine, whose owner would hold parties' rows and votes, and which may have no processor left."""


APP = "consilium.simulations.engines.ray_app"


def write_shim(folder: Path, run_config: dict[str, str], modules: Sequence[str] = ()) -> Path:
    """A Flower app that only imports the installed coordinator and nodes. modules: folders in which both also find
    modules, after all others."""
    also = f"import sys\n\nsys.path += [each for each in {list(modules)!r} if each not in sys.path]\n\n"
    package = folder / "consilium_flower"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""Imports the installed Consilium."""\n')
    (package / "apps.py").write_text(f"{also}import {APP}\n\nserver = {APP}.server\nclient = {APP}.app\n")
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
                        "serverapp": "consilium_flower.apps:server",
                        "clientapp": "consilium_flower.apps:client",
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
            end(process, PATIENCE)


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
