"""The coordinator on a machine of its own: what is particular to it among nodes, see `node.kinds`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from consilium.coordinator.deploy.ready import ports, set_up
from consilium.coordinator.deploy.start import closed_in_words, start
from consilium.coordinator.deploy.status import rows_left, settle, status
from consilium.coordinator.events import read_events
from consilium.coordinator.privacy import expected
from consilium.coordinator.run_folders import run_of
from consilium.coordinator.run_state import PartyState, RunState
from consilium.coordinator.served import ServedFederation
from consilium.node.checks import Advice, Check, check_coordinator, expectation
from consilium.node.folder import NodeFolder
from consilium.node.join import joined
from consilium.node.kinds import NodeKind, NodeOutcome
from consilium.node.supervisor import Tell
from consilium.protocol.files import is_held
from consilium.report.warnings import warnings_of


class CoordinatorKind(NodeKind):
    """See `NodeKind`."""

    name = "coordinator"
    least_free_bytes = 2_000_000_000

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
        return [
            ("expectation", lambda: _expectation(folder)),
            ("rows left", lambda: _rows(folder)),
            ("parties", lambda: _parties(folder)),
            *([("gateway", lambda: check_coordinator(folder))] if running else ports(folder)),
        ]

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


def _expectation(folder: NodeFolder) -> str:
    file = joined(folder, ServedFederation)
    return expectation(warnings_of(expected(file.config, len(file.parties))))


def _rows(folder: NodeFolder) -> str:
    """Of fixed public rows, whether as many can still be asked as the query budget leaves queries."""
    run = run_of(folder)
    if run.config.public is None:
        return "the queries are not fixed: rows do not run out"
    if run.closed:
        return "the federation is closed: nothing can be asked"
    left = run.use().queries_left
    still, spent = rows_left(folder, run)
    sentence = f"{still} public rows can still be asked, {left} queries are left"
    if still < left:
        before = (
            f", since the second aggregator gave {spent} in earlier federations and gives none twice" if spent else ""
        )
        raise Advice(f"{sentence}{before}", "More public rows need federation.toml, rows.queries, provisioned anew")
    return sentence


def _parties(folder: NodeFolder) -> str:
    """Who was refused or left out, and who runs another version, as the run has it so far."""
    file = joined(folder, ServedFederation)
    state = RunState.of(read_events(run_of(folder, file).events), file.parties)
    settle(state, file, is_held(folder.lock))
    out = [
        f"{name}: {entry.words}"
        for name, entry in state.roll.entries.items()
        if entry.state in (PartyState.REFUSED, PartyState.LEFT_OUT)
    ]
    out += state.versions.values()
    if out:
        raise Advice("; ".join(out), "Each is asked again by itself once that is mended")
    return "nobody is refused or left out" if state.starts else "not asked yet: start the coordinator"
