"""The coordinator as a node that can be looked at."""

from __future__ import annotations

from consilium.coordinator.deploy.console.metrics import coordinator_metrics
from consilium.coordinator.deploy.console.page import page
from consilium.coordinator.deploy.console.view import ConsoleReader, certificates_of
from consilium.protocol.monitor.answers import as_json
from consilium.protocol.monitor.heard import Heard
from consilium.protocol.monitor.lasting import Lasting
from consilium.protocol.monitor.node import Watched
from consilium.protocol.node.kit import Kit


def watched(kit: Kit, heard: Heard) -> Watched:
    """Health, metrics, the page and the same as JSON."""
    reader = ConsoleReader(kit, heard)
    view = Lasting(reader.view)
    return Watched(
        kit,
        heard,
        Lasting(reader.ready),
        certificates_of(kit),
        lambda: coordinator_metrics(view(), reader.serves_students()),
        {"/": lambda: page(view()), "/status.json": lambda: as_json(view().to_json())},
    )
