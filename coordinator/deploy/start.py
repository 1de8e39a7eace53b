"""`consilium coordinator start`: SuperLink, gateway, registered nodes, and the run, until it closes or is stopped."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.deploy.flower import follow_run, prepare, super_link, sync_nodes, write_app
from consilium.coordinator.run_log import EventTail
from consilium.protocol.config_files import load
from consilium.protocol.errors import (
    BudgetExceeded,
    ConfigError,
    ConsiliumError,
    DataError,
    EngineError,
    LedgerError,
    NotEnoughParties,
    ServiceError,
    StorageError,
)
from consilium.protocol.files import held, private_folder
from consilium.protocol.node.checks import Advice, check_certificate
from consilium.protocol.node.flower import flower_environment, python_module
from consilium.protocol.node.kit import Kit
from consilium.protocol.node.supervisor import BackOff, Program, Supervisor, Tell, end_leftovers, stop_group, wait_until

START_SECONDS = 60
RETRY = BackOff(first=5, most=60)
FINAL = {kind.__name__: kind for kind in (ConfigError, DataError, LedgerError, BudgetExceeded, ServiceError)}
"""Failures of a run that another attempt would only repeat."""


def configuration(kit: Kit) -> FederationConfig:
    """The federation that the kit serves now. Raises ConfigError."""
    return load(kit / "federation.json", FederationConfig)


def run_folder(kit: Kit) -> Path:
    """Where ledger, events and outcome are. A new roster is a new federation with a ledger of its own."""
    return private_folder(kit.state / f"run-{configuration(kit).digest()[:12]}")


def programs(kit: Kit) -> list[Program]:
    """The coordinator's lasting processes. Raises EngineError if Flower is not installed."""
    return [
        super_link(kit),
        Program(
            name="gateway",
            command=python_module("consilium.coordinator.deploy.gateway", str(kit.folder)),
            folder=kit.state,
            log=kit.logs / "gateway.log",
            environment=flower_environment(kit.state / "flower"),
            news={"address already in use": "superlink_port in kit.json is taken by another program"},
        ),
    ]


def start(
    kit: Kit, tell: Tell, stop: threading.Event, console: AbstractContextManager[None] | None = None
) -> dict[str, Any] | None:
    """Serve until the federation is closed, whose summary is returned, or `stop` is set (None).

    A run that ended for want of parties, or with its process, is submitted again: ledger and sessions go on.

    console: open while the node's processes run.

    Raises
    ------
    ConsiliumError : what another attempt would only repeat.
    """
    config = configuration(kit)
    with held(kit.state / "lock", "the coordinator"):
        end_leftovers(kit.logs, tell)
        if (run_folder(kit) / "coordinator.json").exists():
            tell("coordinator", "this federation is closed already")
            return _summary(kit)
        try:
            check_certificate(kit.server_tls, kit.coordinator.hosts)
        except Advice as advice:
            tell("certificate", str(advice))
        prepare(kit)
        app = write_app(kit, run_config(kit, config))
        tell("coordinator", f"{kit.federation!r}: parties connect to {kit.coordinator.superlink}")
        with (
            console or nullcontext(),
            Supervisor(programs(kit), tell),
            _Watch(run_folder(kit) / "events.jsonl", tell),
        ):
            return _serve(kit, app, tell, stop)


def run_config(kit: Kit, config: FederationConfig) -> dict[str, str]:
    """The run configuration that the ServerApp gets."""
    secure = config.votes != "clear"
    return {
        "federation-file": str(kit / "federation.json"),
        "run-dir": str(run_folder(kit)),
        "student": "socket",
        "party-root": "",
        "roster-file": str(kit / "roster.json") if secure else "",
        "identity-file": str(kit / "identity.pem") if secure else "",
        "pool-file": str(kit / "pool.npy") if config.pool else "",
        "kit": str(kit.folder),
    }


def _serve(kit: Kit, app: Path, tell: Tell, stop: threading.Event) -> dict[str, Any] | None:
    port = kit.coordinator.internal_port
    wait_until(lambda: listens(port), START_SECONDS, "the SuperLink does not listen", stop)
    nodes = _Nodes(kit, tell)
    failures = 0
    while not stop.is_set():
        nodes.sync()
        wait_until(
            lambda: not listens(kit.coordinator.label_port), START_SECONDS, "the label service's port is not free", stop
        )
        failure = run_folder(kit) / "failure.json"
        failure.unlink(missing_ok=True)
        tell("run", "submitted")
        process = follow_run(kit, app)
        try:
            while process.poll() is None and not stop.wait(1):
                nodes.sync()
        finally:
            stop_group(process, 5)
        if stop.is_set():
            break
        if (run_folder(kit) / "coordinator.json").exists():
            return _summary(kit)
        error = _failure(failure)
        if type(error) in FINAL.values():
            raise error
        failures += 1
        tell("run", f"{error}; again in {RETRY.pause(failures):g} s")
        stop.wait(RETRY.pause(failures))
    tell("coordinator", "stopped")
    return None


class _Nodes:
    """Applies `nodes.json` to the SuperLink whenever the file changes, so that a revoked node is out at once."""

    def __init__(self, kit: Kit, tell: Tell) -> None:
        self._kit = kit
        self._tell = tell
        self._applied = 0

    def sync(self) -> None:
        stamp = (self._kit / "nodes.json").stat().st_mtime_ns if (self._kit / "nodes.json").exists() else -1
        if stamp == self._applied:
            return
        try:
            sync_nodes(self._kit, self._tell)
            self._applied = stamp
        except ConsiliumError as error:
            if self._applied == 0:
                raise
            self._tell("nodes", f"{error}")


class _Watch:
    """Tells what the run writes into its event log, from now on."""

    def __init__(self, path: Path, tell: Tell) -> None:
        self._tell = tell
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._tail = EventTail(path, path.stat().st_size if path.exists() else 0)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        last = ""
        while not self._stop.wait(0.5):
            for event in self._tail.fresh():
                words = in_words(event)
                if words and words != last:
                    self._tell("run", words)
                    last = words


def in_words(event: dict[str, Any]) -> str:
    """One event of the run for a person, or nothing if it is not worth a line."""
    match event.get("event"):
        case "waiting":
            return f"{event['connected']} of {event['required']} parties connected"
        case "stage":
            return f"stage {event['stage']}: {event['total']} parties"
        case "left-out":
            return f"{event['party']} left out of stage {event['stage']}: {event['reason']}"
        case "warned":
            return f"warning: {event['text']} ({event['code']})"
        case "serving":
            return f"students may ask at {event['address']}"
        case "released":
            return f"{event['asked']} queries asked, {event['answered']} answered"
        case "failed":
            return f"failed: {event['what']}. {event['action']}"
        case "closed":
            return f"closed after {event['asked']} queries and {event['answered']} answers"
    return ""


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody listens on this port now."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


def _failure(path: Path) -> ConsiliumError:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return EngineError("the run ended without an outcome", "See state/logs/superlink.log and run.log in the kit")
    kind = {**FINAL, "NotEnoughParties": NotEnoughParties, "StorageError": StorageError}.get(
        table["error"], EngineError
    )
    return kind(table["what"], table["action"])


def _summary(kit: Kit) -> dict[str, Any]:
    return json.loads((run_folder(kit) / "coordinator.json").read_text(encoding="utf-8"))


def close(kit: Kit, seconds: float, sleep: Callable[[float], None] = time.sleep) -> dict[str, Any]:
    """Ask a serving coordinator to close the federation, and wait for its summary.

    Raises
    ------
    EngineError : it did not close in time; it still will.
    """
    (run_folder(kit) / "close").touch(mode=0o600)
    for _ in range(max(1, int(seconds * 2))):
        if (run_folder(kit) / "coordinator.json").exists():
            return _summary(kit)
        sleep(0.5)
    raise EngineError(f"the federation is not closed after {seconds:g} s", "It closes when the coordinator serves")
