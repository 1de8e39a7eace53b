"""What a coordinator's start rests on: `doctor` shows the same checks, so that a start is refused in the same words."""

from __future__ import annotations

from importlib.metadata import version

from consilium.coordinator.collection.admission import SEEN_FILE, SeenPositions
from consilium.coordinator.config import check_sanitised, check_threshold
from consilium.coordinator.deploy.superlink import NAMES
from consilium.coordinator.run_folders import earlier_runs, pool_of, run_of
from consilium.coordinator.served import ServedFederation, check_sums, least_parties
from consilium.node.checks import Advice, Check, check_certificate, check_disk, check_port
from consilium.node.flower import fleet_scheme, require_flower
from consilium.node.folder import NodeFolder
from consilium.node.join import joined
from consilium.protocol.databases import check_usable
from consilium.protocol.errors import ConfigError, StorageError

LEAST_BYTES = 50_000_000
"""Below this much room nothing is begun: the ledger and the event log grow with each question."""


def set_up(folder: NodeFolder) -> list[Check]:
    """In the order in which to mend."""
    return [
        ("room", lambda: check_room(folder)),
        ("flower", _flower),
        ("certificate", lambda: check_certificate(folder.tls, joined(folder, ServedFederation).coordinator.hosts)),
        ("roster", lambda: _roster(folder)),
        ("public rows", lambda: _pool(folder)),
        ("nodes", lambda: _nodes(folder)),
        ("students", lambda: _students(folder)),
        ("ledger", lambda: check_ledger(folder)),
    ]


def ports(folder: NodeFolder) -> list[Check]:
    """The two ports that others reach."""
    place = joined(folder, ServedFederation).coordinator
    return [
        ("node port", lambda: check_port(place.node_port, place.listen, "node_port")),
        ("label port", lambda: check_port(place.label_port, place.listen, "label_port")),
    ]


def check_room(folder: NodeFolder) -> str:
    """On the disk of its state. Raises StorageError."""
    try:
        return check_disk(folder.state, LEAST_BYTES)
    except ConfigError as error:
        raise StorageError(error.what, error.action) from None


def check_ledger(folder: NodeFolder) -> str:
    """All ledgers can be read and written, their chains hold, and what is left. Raises LedgerError."""
    run = run_of(folder)
    SeenPositions(run.path / SEEN_FILE)
    for each in (run, *earlier_runs(folder, run)):
        if each.ledger.exists():
            check_usable(each.ledger)
            each.check()
    return run.use().describe() if run.ledger.exists() else "none yet"


def _flower() -> str:
    fleet_scheme()
    require_flower(NAMES)
    return f"flwr {version('flwr')} is one that was tested"


def _roster(folder: NodeFolder) -> str:
    file = joined(folder, ServedFederation)
    roster = file.sum_roster()
    if roster is None:
        return "none: votes are clear"
    check_sums(file.config, roster)
    if roster.second is not None and file.aggregator is None:
        raise Advice(
            "the second aggregator was shut out: nothing is answered", "Add another: consilium provision add, and join"
        )
    return f"hash {roster.digest[:12]}, {roster.n} parties"


def _pool(folder: NodeFolder) -> str:
    tree = pool_of(folder, joined(folder, ServedFederation).config)
    return "none is fixed: students may ask any rows" if tree is None else f"{len(tree.leaves)} rows may be asked"


def _nodes(folder: NodeFolder) -> str:
    file = joined(folder, ServedFederation)
    config, there, least = file.config, len(file.parties), least_parties(file.config, file.sum_roster())
    said = f"{there} parties may connect, {least} are required"
    if there < least:
        raise Advice(f"{said}: nothing is answered", "Add parties: consilium provision add, and join")
    votes = config.teachers_per_party * there
    check_threshold(config, votes)
    check_sanitised(config, votes)
    return said


def _students(folder: NodeFolder) -> str:
    listed = sorted(joined(folder, ServedFederation).of_kind("student"))
    if not listed:
        raise Advice("no student may ask", "Have the operator add one: consilium provision add")
    return f"{len(listed)} may ask: {', '.join(listed)}"
