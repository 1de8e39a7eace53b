"""The coordinator as a node that can be looked at."""

from __future__ import annotations

from consilium.coordinator.deploy.console.metrics import coordinator_metrics
from consilium.coordinator.deploy.console.page import page
from consilium.coordinator.deploy.console.view import ConsoleReader, certificates_of
from consilium.node.kit import Kit
from consilium.node.log import Heard
from consilium.node.monitor import Lasting, Watched, as_json


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
