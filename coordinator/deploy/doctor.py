"""Checks of the coordinator's kit before, and while, it serves."""

from __future__ import annotations

from consilium.coordinator.deploy.flower import NodesFile
from consilium.coordinator.deploy.runs import configuration, current_run, run_of_kit, still_open
from consilium.coordinator.expectation import expected
from consilium.coordinator.ledger.kit_runs import LEDGER
from consilium.coordinator.ledger.left import use_of_phases
from consilium.coordinator.ledger.privacy import promised
from consilium.coordinator.ledger.store import Ledger
from consilium.coordinator.quorum import least_parties
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.monitor.checks import monitor_checks
from consilium.protocol.node.checks import (
    Check,
    check_certificate,
    check_coordinator,
    check_disk,
    check_kit,
    check_port,
    check_roster,
    expectation,
)
from consilium.protocol.node.kit import Kit
from consilium.protocol.node.state import check_versions
from consilium.protocol.secagg.roster import Roster
from consilium.protocol.warnings.before import before_run

LEAST_FREE_BYTES = 2_000_000_000


def checks(kit: Kit, running: bool) -> list[Check]:
    """In the order in which to mend. running: the coordinator is started, so that its ports are taken by itself."""
    place = kit.coordinator
    found: list[Check] = [
        *check_kit(kit, ["server.key", "identity.pem"]),
        ("versions", lambda: check_versions(kit)),
        ("certificate", lambda: check_certificate(kit.server_tls, place.hosts)),
        ("federation", lambda: _federation(kit)),
        ("open federation", lambda: _open(kit)),
        ("nodes", lambda: _nodes(kit)),
        ("expectation", lambda: _expectation(kit)),
        ("ledger", lambda: _ledger(kit)),
        ("disk", lambda: check_disk(kit.state, LEAST_FREE_BYTES)),
        *monitor_checks(kit, running),
    ]
    if (kit / "roster.json").exists():
        found.append(("roster", lambda: check_roster(kit, configuration(kit).roster, None)))
    if running:
        return [*found, ("gateway", lambda: check_coordinator(kit))]
    return [
        *found,
        ("superlink port", lambda: check_port(place.superlink_port, place.listen, "superlink_port")),
        ("label port", lambda: check_port(place.label_port, place.listen, "label_port")),
        ("internal port", lambda: check_port(place.internal_port, "127.0.0.1", "internal_port")),
    ]


def _federation(kit: Kit) -> str:
    config = configuration(kit)
    guarantee = promised(config)
    return (
        f"{config.votes} votes, {config.describe()}, at most {config.all_caps.queries} queries:"
        f" epsilon at most {guarantee.epsilon:.3f} at delta {config.privacy.delta:g}, unit {config.privacy.unit.value}"
    )


def _open(kit: Kit) -> str:
    now, held = current_run(kit), run_of_kit(kit)
    if now.open and now.folder != held.folder:
        raise still_open(kit, now, held)
    return f"{now.short} is {'closed' if now.closed else 'open' if now.begun else 'not started yet'}"


def _nodes(kit: Kit) -> str:
    nodes, config = load(kit / "nodes.json", NodesFile).nodes, configuration(kit)
    least = least_parties(config, None if config.votes == "clear" else Roster.load(kit / "roster.json"))
    if len(nodes) < least:
        raise ConfigError(f"{len(nodes)} parties may connect, {least} are required", "Add parties: consilium provision")
    return f"{len(nodes)} parties may connect, {least} are required"


def _expectation(kit: Kit) -> str:
    config, nodes = configuration(kit), load(kit / "nodes.json", NodesFile).nodes
    return expectation(before_run(expected(config, len(nodes), len(config.rows.classes))))


def _ledger(kit: Kit) -> str:
    run = current_run(kit)
    config, path = run.config, run / LEDGER
    if not path.exists():
        return "none yet"
    ledger = Ledger(path, config.digest(), "", read_only=True)
    try:
        ledger.batches()  # follows the hash chain
        used = use_of_phases(config, ledger)
    finally:
        ledger.close()
    return "; ".join(phase.describe() for phase in used)
