"""Flower ServerApp of the coordinator: Grid and Context in, one call of `FederationRun`.

run_config: `folder`, the coordinator's. The federation that it joined last is served: one student after another, until
the file `close` is in its run folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from consilium.coordinator.collection.exchange import FlowerTransport
from consilium.coordinator.collection.ways import WAYS
from consilium.coordinator.conclusion import telling_failure
from consilium.coordinator.events import Event, EventLog
from consilium.coordinator.federation import FederationRun
from consilium.coordinator.label_server import Door, serve
from consilium.coordinator.nodes import RegisteredNodes
from consilium.coordinator.run_folders import asked_before, pool_of, run_of
from consilium.coordinator.served import ServedFederation
from consilium.node.folder import THE_COORDINATOR, open_folder
from consilium.node.join import joined as read_joined
from consilium.node.keys import OwnKeys
from consilium.node.signed import joined
from consilium.node.supervisor import tell_time
from consilium.protocol.files import private_folder

app = ServerApp()
NOT_TOLD = {"excluded", "failed", "promised", "resumed-session", "session-lost"}
"""Events that the node's log leaves out: they are said otherwise there, or are for the coordinator's operator alone."""
REPEATED = {"not-answered", "waiting"}
"""Events that are news also where the same was told last."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One run. Raises ConsiliumError."""
    folder = open_folder(Path(str(context.run_config["folder"])), THE_COORDINATOR)
    file = read_joined(folder, ServedFederation)
    run = run_of(folder, file)
    config, place = file.config, file.coordinator
    log = EventLog(private_folder(run.path) / run.events.name, telling())
    with contextlib.closing(log), telling_failure(run.path, log):
        keys = WAYS[config.collection].keys(file.sum_roster(), OwnKeys.load(folder).keys)
        address = joined(place.listen, place.label_port)
        door = Door(folder, run.close_file, address)
        students = partial(serve, door, config, log)
        FederationRun(
            FlowerTransport(grid, at_once=1), config, run.path, log, students, keys, run.close_file.exists,
            pool_of(folder, config), RegisteredNodes(file), asked_before(folder, run),
        ).run()  # fmt: skip


def telling() -> Callable[[Event], None]:
    """Tells people of events, each once in a row."""
    last = ""

    def tell(event: Event) -> None:
        nonlocal last
        if event.words and event.kind not in NOT_TOLD:
            if event.words != last or event.kind in REPEATED:
                tell_time("run", event.words)
            last = event.words

    return tell
