"""The coordinator on a machine of its own: what is particular to it among nodes, see `node.kinds`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from consilium.coordinator.deploy.ready import ports, set_up
from consilium.coordinator.deploy.runs import ROSTER, configuration, current_run, run_of_kit, still_open
from consilium.coordinator.deploy.start import start
from consilium.coordinator.deploy.status import Status, rows_of_pool, state_of, status
from consilium.coordinator.privacy import expected
from consilium.coordinator.rosters import NodesFile
from consilium.coordinator.run_state import PartyState
from consilium.node.checks import Advice, Check, check_coordinator, check_kit, check_settings, expectation
from consilium.node.keys import IDENTITY, NOT_OURS, SEALING, SERVER_KEY, own_keys_for, put_into
from consilium.node.kinds import NodeKind, StartResult
from consilium.node.kit import THE_COORDINATOR, Kit, joined
from consilium.node.supervisor import Tell
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.report.before_run import before_run
from consilium.sums.modes import load_roster


class CoordinatorKind(NodeKind):
    """See `NodeKind`."""

    name = "coordinator"
    least_free_bytes = 2_000_000_000

    def join(self, kit: Kit, folder: Path) -> None:
        keys = own_keys_for(kit, THE_COORDINATOR, folder)
        roster = load_roster(configuration(kit).collection, kit / ROSTER)
        if roster is not None and roster.coordinator_key.hex() != keys.identity:
            raise ConfigError("the kit's roster lists another key for the coordinator", NOT_OURS)
        put_into(kit, keys)

    def kit_checks(self, kit: Kit) -> list[Check]:
        return check_kit(kit, [SERVER_KEY, IDENTITY, *([SEALING] if (kit / SEALING).exists() else [])])

    def set_up(self, kit: Kit) -> list[Check]:
        return set_up(kit, lambda: run_of_kit(kit))

    def further_checks(self, kit: Kit) -> list[Check]:
        return [
            ("open federation", lambda: _open(kit)),
            ("expectation", lambda: _expectation(kit)),
            ("rows left", lambda: _rows(kit)),
            ("parties", lambda: _parties(kit)),
            ("addresses", lambda: _addresses(kit)),
        ]

    def ports(self, kit: Kit) -> list[Check]:
        return ports(kit)

    def way_checks(self, kit: Kit, running: bool) -> list[Check]:
        return [("gateway", lambda: check_coordinator(kit))] if running else []

    def status(self, kit: Kit) -> Status:
        return status(kit)

    def start(self, kit: Kit, tell: Tell, stop: threading.Event, go_on: bool = False) -> StartResult:
        """See `NodeKind`: until the federation is closed; and `start.start`."""
        summary = start(kit, tell, stop, go_on)
        return StartResult({"closed": False}, ()) if summary is None else closed(summary)


COORDINATOR = CoordinatorKind()


def closed(summary: Mapping[str, Any]) -> StartResult:
    """What is said of a federation that was closed."""
    values = {"closed": True, **{key: summary[key] for key in ("asked", "answered", "parties", "collection")}}
    parties = ", ".join(summary["parties"]) or "nobody"
    asked = f"{summary['asked']} queries asked, {summary['answered']} answered"
    return StartResult(values, (f"closed: {asked}, {summary['collection']} votes of {parties}",))


def _open(kit: Kit) -> str:
    now, held = current_run(kit), run_of_kit(kit)
    if now.open and now.folder != held.folder:
        raise still_open(kit, now, held)
    return f"{now.short} is {'closed' if now.closed else 'open' if now.begun else 'not started yet'}"


def _expectation(kit: Kit) -> str:
    config, nodes = configuration(kit), load(kit / "nodes.json", NodesFile).nodes
    return expectation(before_run(expected(config, len(nodes))))


def _rows(kit: Kit) -> str:
    """Of a fixed pool, whether as many rows can still be asked as the query budget leaves queries."""
    run = current_run(kit)
    if run.config.public is None:
        return "the queries are not fixed: rows do not run out"
    if run.closed:
        return "the federation is closed: nothing can be asked"
    left = run.use().queries_left
    still, spent = rows_of_pool(kit, run)
    sentence = f"{still} public rows can still be asked, {left} queries are left"
    if still < left:
        before = (
            f", since the second aggregator gave {spent} in earlier federations and gives none twice" if spent else ""
        )
        raise Advice(f"{sentence}{before}", "More public rows need federation.toml, rows.queries, provisioned anew")
    return sentence


def _parties(kit: Kit) -> str:
    """Who was refused or left out, and who runs another version, as the run has it so far."""
    run = current_run(kit)
    state = state_of(kit, run)
    out = [
        f"{name}: {entry.words}"
        for name, entry in state.roll.entries.items()
        if entry.state in (PartyState.REFUSED, PartyState.LEFT_OUT)
    ]
    out += state.versions.values()
    if out:
        raise Advice("; ".join(out), "Each is asked again by itself once that is mended")
    return "nobody is refused or left out" if run.begun else "not asked yet: start the coordinator"


def _addresses(kit: Kit) -> str:
    """Where the coordinator listens, if that is still where the kits of parties and students look for it."""
    place, provisioned = kit.coordinator, configuration(kit).service
    labels = joined(place.listen, place.label_port)
    if provisioned.rpartition(":")[2] != str(place.label_port):
        raise Advice(
            f"students are served at {labels} as kit.json says; their kits were made for port"
            f" {provisioned.rpartition(':')[2]}",
            f"Set coordinator.label_port = {place.label_port} in every student's kit.json, or set it back here",
        )
    if not check_settings(kit):
        raise Advice(
            f"kit.json was changed since the operator made it: parties connect to port {place.superlink_port}, students"
            f" to {place.label_port}",
            "If you changed superlink_port or hosts[0], change them in the kit.json of every party and student too",
        )
    return f"parties connect to {place.superlink}, students to {place.labels}"
