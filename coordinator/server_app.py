"""Flower ServerApp of the coordinator: Grid and Context in, one call of `FederationRun`.

run_config: `folder`, the coordinator's. The federation that it joined last is served: one student after another, until
the file `close` is in its run folder.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from consilium.coordinator.collection.exchange import FlowerTransport
from consilium.coordinator.collection.ways import WAYS
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.deploy.nodes import JoinedFederation, RegisteredNodes
from consilium.coordinator.door import Door
from consilium.coordinator.events import (
    EventLog,
    Excluded,
    Failed,
    NotAnswered,
    Promised,
    ResumedSession,
    SessionLost,
    WaitingForParties,
    event_of,
)
from consilium.coordinator.federation import FederationRun
from consilium.coordinator.label_server import serve
from consilium.coordinator.run_folders import asked_before, run_of
from consilium.node.folder import FEDERATION_FILE, PUBLIC_FILE, THE_COORDINATOR, NodeFolder, open_folder
from consilium.node.keys import OwnKeys
from consilium.node.signed import joined
from consilium.node.supervisor import Tell, tell_time
from consilium.protocol.errors import ConfigError, ConsiliumError
from consilium.protocol.files import private_folder, replace_private, typed
from consilium.protocol.pool import PoolTree

app = ServerApp()
FAILURE = "failure.json"
NOT_TOLD = (Excluded, Failed, Promised, ResumedSession, SessionLost)
"""Events that the node's log leaves out: they are said otherwise there, or are for the coordinator's operator alone."""
REPEATED = (NotAnswered, WaitingForParties)
"""Events that are news also where the same was told last."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One run. Raises ConsiliumError."""
    folder = open_folder(Path(str(context.run_config["folder"])), THE_COORDINATOR)
    federation = JoinedFederation(folder)
    file, run = federation.file, run_of(folder, federation.file)
    config, place = file.config, file.coordinator
    log = EventLog(private_folder(run.path) / run.events.name, Told(tell_time))
    with contextlib.closing(log), telling_failure(run.path, log):
        keys = WAYS[config.collection].keys(file.sum_roster(), OwnKeys.load(folder).keys)
        address = joined(place.listen, place.label_port)
        door = Door(folder.tls, folder.federation / FEDERATION_FILE, run.close_file, address)
        students = partial(serve, door, config, log)
        FederationRun(
            FlowerTransport(grid), config, run.path, log, students, keys, door.closing, pool_of(folder, config),
            RegisteredNodes(federation), asked_before(folder, run),
        ).run()  # fmt: skip


class Told:
    """Tells people of events, each once in a row."""

    def __init__(self, tell: Tell) -> None:
        self._tell, self._last = tell, ""

    def __call__(self, record: dict[str, Any]) -> None:
        event = event_of(record)
        if event is None or isinstance(event, NOT_TOLD) or not event.words:
            return
        if event.words != self._last or isinstance(event, REPEATED):
            self._tell("run", event.words)
        self._last = event.words


def pool_of(folder: NodeFolder, config: FederationConfig) -> PoolTree | None:
    """The public rows that may be asked, where they are fixed. Raises ConfigError: they are not those of the terms."""
    if config.public is None:
        return None
    path = folder.federation / PUBLIC_FILE
    try:
        with np.load(path, allow_pickle=False) as file:
            tree = PoolTree.of_rows(file["queries"])
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise ConfigError(f"cannot read public rows {path}: {type(error).__name__}", NEWEST) from None
    if tree.terms(config.public.least_distance) != config.public:
        raise ConfigError(f"{path} holds other rows than the federation is fixed to", NEWEST)
    return tree


NEWEST = "Join the newest folder that the operator sent: consilium node join FOLDER"


@contextlib.contextmanager
def telling_failure(run_dir: Path, log: EventLog) -> Iterator[None]:
    """A typed error is written to the run folder as `failure.json`, and into its event log, before it is raised."""
    try:
        yield
    except (ConsiliumError, OSError) as error:
        known = error if isinstance(error, ConsiliumError) else typed(error, run_dir)
        if known is None:
            raise
        failure = {"error": type(known).__name__, "what": known.what, "action": known.action}
        with contextlib.suppress(OSError):  # on a full disk the error itself is what matters
            replace_private(run_dir / FAILURE, json.dumps(failure) + "\n")
            log.write("failed", **failure)
        raise
