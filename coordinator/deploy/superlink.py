"""Flower's SuperLink in the coordinator's own process: its fleet API for the gateway, its nodes, and the one run.

Flower's program serves three APIs on one port, without login: whoever reaches it may submit, stop and list. Here only
the fleet API is ever called; the ServerApp calls Flower's handlers as functions, and no port is open behind the
gateway's. What a SuperLink knows is in memory, and nothing of it outlives the process: the ledger is the record. Nodes
and the run have the same numbers at every start (`number_of`): a SuperNode that is still connected
goes on, and needs no restart when the coordinator has one.

It rests on names inside Flower, which are asserted before anything starts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import tomli_w
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
from flwr.serverapp import Grid

from consilium.coordinator.run_state import SECOND
from consilium.coordinator.served import ServedFederation
from consilium.node.flower import require_flower
from consilium.node.keys import PublicKeys
from consilium.protocol.errors import ConfigError

STATE, MAIN = "flwr.server.superlink.linkstate.in_memory_linkstate", "flwr.superlink.main"
GRID, HANDLERS = "flwr.superlink.grid.http_grid", "flwr.superlink.servicer.runtime.runtime_handlers"
IDENTITY = "flwr.supercore.task_identity"
DRAW = "generate_rand_int_from_bytes"
CALLS = {
    "GetNodes": "get_nodes",
    "PushMessages": "push_messages",
    "PullMessages": "pull_messages",
    "PushObject": "push_object",
    "PullObject": "pull_object",
    "ConfirmMessageReceived": "confirm_message_received",
}
"""What a grid calls of the Runtime API, and Flower's handler of it."""
NAMES = {
    STATE: (DRAW, "InMemoryLinkState.create_node", "InMemoryLinkState.create_run"),
    MAIN: ("create_app",),
    GRID: ("HttpGrid.set_run", "HttpGrid._runtime_client"),
    HANDLERS: tuple(CALLS.values()),
    IDENTITY: ("TaskIdentity",),
    "flwr.cli.build": ("build_fab_from_files",),
    "flwr.common.constant": ("HEARTBEAT_DEFAULT_INTERVAL", "NOOP_ACCOUNT_NAME", "NOOP_FLWR_AID"),
    "flwr.supercore.constant": ("NOOP_FEDERATION_ID", "TaskType.SERVER_APP"),
    "flwr.supercore.fab": ("Fab",),
}
"""Names that are not Flower's public API, and are used here."""
CHANGES = ("FLWR_DATABASE", "FLWR_ENABLE_EVENT_LOG", "FLWR_OIDC_ENABLED")
"""Variables by which Flower would keep another state, or another log, than the one in memory."""
BEAT_SECONDS = 10.0
"""Between two signs of life of the ServerApp: Flower takes a run for dead after 60 s without one."""


def number_of(text: str) -> int:
    """The number of a node, by its public key, and of a run, by the federation: the same at every start."""
    return int.from_bytes(sha256(text.encode()).digest()[:8]) | 2  # 0 and 1 are Flower's own


def pem_of(key: str) -> bytes:
    """A node's key, an OpenSSH line, as a SuperNode sends it."""
    return load_ssh_public_key(key.encode()).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


class RegisteredNodes:
    """See `KnownNodes`: those of the federation that is served; the second aggregator as "aggregator NAME"."""

    def __init__(self, file: ServedFederation) -> None:
        self._names = frozenset(file.parties)
        self._by_number = {number_of(keys.key): called(name, keys) for name, keys in file.members.items()}

    def names(self) -> Collection[str]:
        return self._names

    def name(self, node: int) -> str | None:
        return self._by_number.get(node)


def called(name: str, keys: PublicKeys) -> str:
    """What a node is called in logs: no party can be called as the second aggregator is."""
    return f"{SECOND}{name}" if keys.kind == "aggregator" else name


class SuperLink:
    """Flower's own, on memory. app: its ASGI application, of which the gateway lets the fleet API through."""

    def __init__(self, members: Mapping[str, PublicKeys]) -> None:
        """members: nodes that may connect, by name. Raises EngineError: another Flower. ConfigError: the environment
        changes how it remembers."""
        require_flower(NAMES)
        if changed := [name for name in CHANGES if name in os.environ]:
            raise ConfigError(f"{changed[0]} is set in the environment", "Unset it: nothing of Flower's is kept here")
        self.app = import_module(MAIN).create_app()
        self.app.state.enable_supernode_auth = True
        self._state = self.app.state.linkstate_factory.state()
        self._constants: Any = import_module("flwr.common.constant")
        known = self._constants
        for name, keys in members.items():
            with _numbered(number_of(keys.key)):
                self._state.create_node(
                    known.NOOP_FLWR_AID, known.NOOP_ACCOUNT_NAME, pem_of(keys.key), known.HEARTBEAT_DEFAULT_INTERVAL,
                    name=name,
                )  # fmt: skip

    def begin(self, name: str) -> tuple[Grid, int]:
        """Begin the one run, as if it had been submitted and its ServerApp been started: the grid that that is called
        with, and the run's number, which is made from `name`."""
        state, core = self._state, import_module("flwr.supercore.constant")
        bundle = _bundle()
        fab = import_module("flwr.supercore.fab").Fab(sha256(bundle).hexdigest(), bundle, {})
        state.store_fab(fab)
        with _numbered(number_of(name)):
            run_id = state.create_run(
                "consilium/consilium-flower", version("flwr"), fab.hash_str, {}, core.NOOP_FEDERATION_ID, None,
                self._constants.NOOP_FLWR_AID, core.TaskType.SERVER_APP,
            )  # fmt: skip
        (run,) = state.get_run_info(run_ids=[run_id])
        state.claim_task(run.primary_task_id)
        state.activate_task(run.primary_task_id)
        (task,) = state.get_tasks(task_ids=[run.primary_task_id])
        threading.Thread(target=self._beat, args=(run.primary_task_id,), name="heartbeat", daemon=True).start()
        handlers = import_module(HANDLERS)
        grid = import_module(GRID).HttpGrid(token="none: its calls do not leave the process")
        grid._client = SimpleNamespace(
            **{call: partial(getattr(handlers, of), state=state, task=task) for call, of in CALLS.items()}
        )
        grid.set_run(run)
        identity: Any = import_module(IDENTITY).TaskIdentity
        identity.run_id, identity.task_id, identity.node_id = run_id, task.task_id, grid.node.node_id
        return grid, run_id

    def _beat(self, task_id: int) -> None:
        while self._state.acknowledge_task_heartbeat(task_id):
            threading.Event().wait(BEAT_SECONDS)


@contextmanager
def _numbered(number: int) -> Iterator[None]:
    """What Flower creates meanwhile has this number, and not one at random."""
    module: Any = import_module(STATE)
    draw = vars(module)[DRAW]
    setattr(module, DRAW, lambda *_, **__: number)
    try:
        yield
    finally:
        setattr(module, DRAW, draw)


def _bundle() -> bytes:
    """A bundle without code, since Flower asks for one. Nodes do not open it: they run what is installed there."""
    project = {"name": "consilium-flower", "version": version("flwr"), "license": "Apache-2.0", "dependencies": []}
    components = {"serverapp": "consilium_flower:app", "clientapp": "consilium_flower:app"}
    app = {"publisher": "consilium", "components": components, "config": {}}
    files = {
        "pyproject.toml": tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}}).encode(),
        "consilium_flower/__init__.py": b"app = None\n",
    }
    content, _ = import_module("flwr.cli.build").build_fab_from_files(files)
    return content
