"""The coordinator on a machine of its own: what is particular to it among nodes, see `node.kinds`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from consilium.coordinator.deploy.ready import ports, set_up
from consilium.coordinator.deploy.start import closed_in_words, start
from consilium.coordinator.deploy.status import status
from consilium.coordinator.served import ServedFederation
from consilium.node.checks import Check, check_coordinator
from consilium.node.folder import NodeFolder
from consilium.node.join import joined
from consilium.node.kinds import NodeKind, NodeOutcome
from consilium.node.supervisor import Tell


class CoordinatorKind(NodeKind):
    """See `NodeKind`."""

    name = "coordinator"

    def joined(self, folder: NodeFolder) -> NodeOutcome:
        file = joined(folder, ServedFederation)
        place, others = file.coordinator, [*file.members, *file.of_kind("student")]
        values = {"federation": file.terms.federation, "nodes": place.nodes, "labels": place.labels}
        return NodeOutcome(
            values,
            (
                f"nodes       {len(others)}: {', '.join(others)}",
                f"ports       {place.node_port} for nodes, {place.label_port} for students: open them in the firewall",
            ),
        )

    def set_up(self, folder: NodeFolder) -> list[Check]:
        return set_up(folder)

    def further_checks(self, folder: NodeFolder, running: bool) -> list[Check]:
        return [("gateway", lambda: check_coordinator(folder))] if running else ports(folder)

    def status(self, folder: NodeFolder) -> NodeOutcome:
        return status(folder)

    def start(self, folder: NodeFolder, tell: Tell, stop: threading.Event) -> NodeOutcome:
        """See `NodeKind`: until the federation is closed; and `start.start`."""
        summary = start(folder, tell, stop)
        return NodeOutcome({"closed": False}) if summary is None else closed(summary)


COORDINATOR = CoordinatorKind()


def closed(summary: Mapping[str, Any]) -> NodeOutcome:
    """What is said of a federation that was closed."""
    values = {"closed": True, **{key: summary[key] for key in ("asked", "answered", "parties", "collection")}}
    return NodeOutcome(values, (f"closed: {closed_in_words(summary)}",))
