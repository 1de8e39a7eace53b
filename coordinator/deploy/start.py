"""`consilium node start`: SuperLink, gateway, registered nodes, and the run, until it closes or is stopped."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from consilium.coordinator.collection.ways import IDENTITY_FILE, ROSTER_FILE, SEALING_FILE, WAYS
from consilium.coordinator.deploy.ready import label_port, ports, set_up
from consilium.coordinator.deploy.runs import (
    CLOSE,
    FAILURE,
    ROSTER,
    KitRun,
    begin,
    close_unserved,
    current_run,
    to_serve,
)
from consilium.coordinator.deploy.superlink import follow_run, prepare, super_link, sync_nodes, write_app
from consilium.coordinator.events import (
    EventLog,
    EventTail,
    Excluded,
    NotAnswered,
    Promised,
    ResumedSession,
    SessionLost,
)
from consilium.coordinator.kit_runs import FEDERATION
from consilium.coordinator.privacy import expected, promise_in_words
from consilium.coordinator.rosters import NodesFile
from consilium.node.checks import check_disk, hold, wait_for_ports
from consilium.node.flower import flower_environment, python_module
from consilium.node.keys import SEALING
from consilium.node.kit import Kit
from consilium.node.manifest import check_signed
from consilium.node.supervisor import BackOff, Program, Supervisor, Tell, end_leftovers, stop_group, wait_until
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
from consilium.protocol.files import held, is_held
from consilium.report.before_run import before_run

START_SECONDS = 300
HEARD_SECONDS = 12
"""That the gateway stays after a close: a node asks every 10 s how it stands."""
RETRY = BackOff(first=5, most=60)
FINAL = {kind.__name__: kind for kind in (ConfigError, DataError, LedgerError, BudgetExceeded, ServiceError)}
"""Failures of a run that another attempt would only repeat."""
NOT_TOLD = (Excluded, Promised, ResumedSession, SessionLost)
"""Events that the node's log leaves out: they are said otherwise there, or are for the coordinator's operator alone."""


def gateway(kit: Kit) -> Program:
    """What stands before the SuperLink, at the port that parties connect to."""
    return Program(
        name="gateway",
        command=python_module("consilium.coordinator.deploy.gateway", str(kit.folder)),
        folder=kit.state,
        log=kit.logs / "gateway.log",
        environment=flower_environment(kit.state / "flower"),
        news={"address already in use": "superlink_port in kit.json is taken by another program"},
    )


def start(kit: Kit, tell: Tell, stop: threading.Event, go_on: bool = False) -> dict[str, Any] | None:
    """Serve until the federation is closed, whose summary is returned, or `stop` is set (None).

    A run that ended for want of parties, or with its process, is submitted again: ledger and sessions go on.

    go_on: serve the federation that is open, though an update for the next one was unpacked.

    Raises
    ------
    FederationOpen : an update for the next federation was unpacked, and one is open.
    ConsiliumError : what doctor finds wrong, or what another attempt would only repeat.
    """
    with held(kit.state / "lock", "the coordinator"):
        end_leftovers(kit.logs, tell)
        check_signed(kit)
        run = to_serve(kit, go_on)
        if run.closed:
            tell("coordinator", "this federation is closed already")
            return run.summary()
        hold(set_up(kit, lambda: run), tell)
        wait_for_ports(ports(kit), tell, stop)
        run = begin(kit, go_on)
        _tell_promise(kit, run, tell)
        prepare(kit, tell)
        _await_all(kit, run)
        app = write_app(kit, run_config(kit, run))
        tell("coordinator", f"{kit.federation!r} ({run.short}): parties connect to {kit.coordinator.superlink}")
        with Supervisor([super_link(kit)], tell), _Watch(run.events, tell):
            return _serve(kit, run, app, tell, stop)


def _await_all(kit: Kit, run: KitRun) -> None:
    """Nobody is connected yet, whatever the log says of the last time that this kit was started, or of another copy."""
    log = EventLog(run.events)
    log.write("awaiting", parties=sorted(load(kit / "nodes.json", NodesFile).nodes))
    log.close()


def _tell_promise(kit: Kit, run: KitRun, tell: Tell) -> None:
    """What is promised, and what there is to warn of, before anybody is asked."""
    config, nodes = run.config, load(kit / "nodes.json", NodesFile).nodes
    tell("promise", promise_in_words(config))
    for warning in before_run(expected(config, len(nodes))):
        tell("warning", f"{warning.text} ({warning.code})")


def run_config(kit: Kit, run: KitRun) -> dict[str, str]:
    """The run configuration that the ServerApp gets: the files that the run began with, whatever the kit holds now."""
    files = {ROSTER_FILE: run / ROSTER, IDENTITY_FILE: kit / "identity.pem", SEALING_FILE: kit / SEALING}
    needed = WAYS[run.config.collection].files
    return {
        "federation-file": str(run / FEDERATION),
        "run-dir": str(run.folder),
        **{key: str(path) if key in needed else "" for key, path in files.items()},
        "public-file": str(kit.folder / "public.npy") if run.config.public else "",
        "kit": str(kit.folder),
    }


def _serve(kit: Kit, run: KitRun, app: Path, tell: Tell, stop: threading.Event) -> dict[str, Any] | None:
    port = kit.coordinator.internal_port
    wait_until(lambda: listens(port), START_SECONDS, "the SuperLink does not listen", stop)
    if run.closing:
        return close_unserved(run)
    nodes = _Nodes(kit, tell)
    if not stop.is_set():
        nodes.sync()  # first: to a party that comes before its key is registered Flower says that it is refused
    with Supervisor([gateway(kit)], tell):
        return _submit(kit, run, app, nodes, tell, stop)


def _submit(
    kit: Kit, run: KitRun, app: Path, nodes: _Nodes, tell: Tell, stop: threading.Event
) -> dict[str, Any] | None:
    """Submit the run until it is closed, or cannot be served."""
    room = Room(kit, tell)
    failures, told = 0, ""
    while not stop.is_set():
        if run.closing:
            return close_unserved(run)
        nodes.sync()
        wait_for_ports([label_port(kit)], tell, stop, START_SECONDS)
        room.wait(stop)
        if stop.is_set():
            break
        failure = run / FAILURE
        failure.unlink(missing_ok=True)
        if not told:
            tell("run", "submitted")
        process = follow_run(kit, app)
        try:
            while process.poll() is None and not stop.wait(1):
                nodes.sync()
        finally:
            stop_group(process, 5)
        if stop.is_set():
            break
        if run.closed:
            stop.wait(HEARD_SECONDS)  # the nodes hear of it
            return run.summary()
        error = room.meant(_failure(failure))
        if type(error) in FINAL.values():
            raise error
        failures += 1
        if str(error) != told:  # the same again is no news
            told = str(error)
            tell("run", f"{error}; again in {RETRY.pause(failures):g} s, and from then on")
        _pause(run, RETRY.pause(failures), stop)
    tell("coordinator", "stopped")
    return None


def _pause(run: KitRun, seconds: float, stop: threading.Event) -> None:
    """Wait, unless the node is stopped or the federation is to be closed meanwhile."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not run.closing and not stop.wait(min(0.5, seconds)):
        pass


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
        self._tail = EventTail.from_now(path)

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
                again = event.words == last and not isinstance(event, NotAnswered)  # each failed question is one
                if event.words and not again and not isinstance(event, NOT_TOLD):
                    self._tell("run", event.words)
                    last = event.words


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody listens on this port now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
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


def close(kit: Kit, seconds: float, sleep: Callable[[float], None] = time.sleep) -> dict[str, Any]:
    """Close the federation that is open, whatever the kit holds by now, and return its summary.

    A coordinator that runs is asked to, and waited for; where none runs it is closed here, from its ledger.

    Raises
    ------
    ConfigError : none was ever started. EngineError : it did not close in time; it still will.
    """
    run = current_run(kit)
    if run.closed:
        return run.summary()
    lock = kit.state / "lock"
    if not is_held(lock):
        with held(lock, "the coordinator"):
            return close_unserved(run)
    (run / CLOSE).touch(mode=0o600)
    for _ in range(max(1, int(seconds * 2))):
        if run.closed:
            return run.summary()
        sleep(0.5)
    raise EngineError(
        f"federation {run.short} is not closed after {seconds:g} s",
        "It closes as soon as the parties have trained, or the question under way is answered: see consilium status",
    )


LEAST_BYTES = 50_000_000
"""Below this much room a run is not begun: Flower's database, the ledger and the logs grow with each request."""
MOST_IN_A_ROW = 5
"""Runs that may end for want of storage although there is room, as under a quota, before the coordinator ends."""


class Room:
    """On the disk of a coordinator's state."""

    def __init__(self, kit: Kit, tell: Tell, seconds: float = 10) -> None:
        """seconds: between two looks."""
        self._kit, self._tell, self._seconds = kit, tell, seconds
        self._in_a_row = 0

    def wait(self, stop: threading.Event) -> None:
        """Until there is room, or `stop` is set."""
        why = self.lack()
        if why is None:
            return
        self._tell("disk", f"{why}. The federation goes on when there is room; nothing is lost")
        while self.lack() is not None and not stop.wait(self._seconds):
            pass
        if not stop.is_set():
            self._tell("disk", "there is room again")

    def meant(self, error: ConsiliumError) -> ConsiliumError:
        """What the end of a run means: want of room also where the run had none to write so.

        Raises
        ------
        StorageError : the disk has room, and yet took nothing for several runs in a row.
        """
        lack = self.lack()
        if lack is not None:
            return lack
        self._in_a_row = self._in_a_row + 1 if isinstance(error, StorageError) else 0
        if self._in_a_row >= MOST_IN_A_ROW:
            raise error
        return error

    def lack(self) -> StorageError | None:
        """What is wanting, or None."""
        try:
            check_disk(self._kit.state, LEAST_BYTES)
        except ConfigError as error:
            return StorageError(error.what, error.action)
        return None
