"""`consilium status`: what the coordinator is doing, from its files; it asks no process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from consilium.coordinator.collection.roll import LeftOut, Roll, RollEntry, SecondEntry, read_events
from consilium.coordinator.deploy.flower import NodesFile
from consilium.coordinator.deploy.runs import KitRun, asked_before, current_run, run_of_kit
from consilium.coordinator.deploy.start import listens
from consilium.coordinator.expectation import towards_nodes
from consilium.coordinator.ledger.kit_runs import LEDGER, asked_in, use_of_phases
from consilium.coordinator.ledger.privacy import promised, promised_to_student, towards_coordinator
from consilium.coordinator.ledger.store import Ledger
from consilium.node.kit import Kit
from consilium.protocol.config_files import load
from consilium.protocol.rows.pool import PoolTree
from consilium.report.disclosure import epsilon_text

MOST_ERRORS = 5
REVOKED = "revoked: it is not in nodes.json"


@dataclass
class Status:
    """Of the federation that was begun last. Nothing here is data-dependent.

    epsilon_promised: the worst case at the caps. epsilon_student: towards the student and the public. epsilon_nodes:
    towards the coordinator; None where it sees exact sums, or votes. towards_student, towards_nodes: both in words.

    run: its digest, as far as people compare it. next: that of the federation that the kit holds, where an update made
    it another one. parties: how each stands, in words; roll: the same in parts.
    aggregators: how the second aggregator of verified votes stands, by its name. rows_open, rows_spent: of the fixed
    pool, how many can still be asked, and how many the parties answered in earlier federations; None without a pool.
    phases: of each phase of a schedule what `ledger.left.PhaseUse` tells; empty where there is none.
    """

    federation: str
    run: str = ""
    next: str = ""
    stage: str = "not started"
    since: str = ""
    running: bool = False
    parties: dict[str, str] = field(default_factory=dict)
    roll: dict[str, dict[str, Any]] = field(default_factory=dict)
    aggregators: dict[str, str] = field(default_factory=dict)
    queries_left: int = 0
    answers_left: int = 0
    rows_open: int | None = None
    rows_spent: int | None = None
    epsilon_promised: float = 0.0
    epsilon_student: float = 0.0
    epsilon_nodes: float | None = None
    towards_student: str = ""
    towards_nodes: str = ""
    delta: float = 0.0
    phases: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def status(kit: Kit) -> Status:
    """Parties, stage, budget and last errors of the federation that runs, and whether the kit holds another one.

    Raises
    ------
    ConfigError, LedgerError : files of the kit cannot be read.
    """
    run, held = current_run(kit), run_of_kit(kit)
    config = run.config
    ledger = Ledger(run / LEDGER, config.digest(), "", read_only=True) if (run / LEDGER).exists() else None
    try:
        used = use_of_phases(config, ledger)
    finally:
        if ledger is not None:
            ledger.close()
    student, nodes = promised_to_student(config).epsilon, towards_coordinator(config)
    found = Status(
        federation=kit.federation,
        run=run.short,
        next="" if held.folder == run.folder else held.short,
        running=listens(kit.coordinator.internal_port),
        queries_left=sum(phase.queries_left for phase in used),
        answers_left=sum(phase.answers_left for phase in used),
        epsilon_promised=promised(config).epsilon,
        epsilon_student=student,
        epsilon_nodes=None if nodes is None else nodes.epsilon,
        towards_student=f"epsilon at most {epsilon_text(student)} towards the student and the public",
        towards_nodes=towards_nodes(config),
        delta=config.privacy.delta,
        phases=[phase.to_json() for phase in used] if config.schedule else [],
    )
    if config.pool is not None and (kit / "pool.npy").exists():
        found.rows_open, found.rows_spent = rows_of_pool(kit, run)
    for name, entry in parties(kit, run).items():
        found.parties[name] = entry.words
        found.roll[name] = entry.to_json()
    found.aggregators = {name: entry.words for name, entry in seconds(kit, run).items()}
    _follow(read_events(run.events), found)
    return found


def parties(kit: Kit, run: KitRun) -> dict[str, RollEntry]:
    """How each party stands, by name: those that may connect, and those that took part before they were revoked.

    Where no coordinator runs, nobody is connected. Raises ConfigError.
    """
    names = load(kit / "nodes.json", NodesFile).nodes
    roll, running = Roll.of(read_events(run.events), names), listens(kit.coordinator.internal_port)
    for name, entry in roll.entries.items():
        entry.connected = entry.connected and running and name in names
        if name not in names:
            entry.reason, entry.rule = REVOKED, None
    return dict(sorted(roll.entries.items()))


def seconds(kit: Kit, run: KitRun) -> dict[str, SecondEntry]:
    """How the second aggregator that may connect stands, by its name. Raises ConfigError."""
    names, running = load(kit / "nodes.json", NodesFile).aggregators, listens(kit.coordinator.internal_port)
    found = Roll.of(read_events(run.events)).seconds
    told = {name: found.get(name, SecondEntry()) for name in names}
    for entry in told.values():
        entry.connected = entry.connected and running
    return told


def rows_of_pool(kit: Kit, run: KitRun) -> tuple[int, int]:
    """Rows of the pool that can still be asked, and those that parties answered in earlier federations."""
    rows = len(PoolTree.load(kit / "pool.npy").leaves)
    spent = asked_before(kit, run)
    asked = asked_in(run / LEDGER) if (run / LEDGER).exists() else frozenset()
    return rows - len(spent | asked), len(spent)


def _follow(events: Iterable[dict[str, Any]], found: Status) -> None:
    """Stage and errors, by reading the events in order."""
    errors: deque[str] = deque(maxlen=MOST_ERRORS)
    for event in events:
        match event.get("event"):
            case "stage":
                found.stage, found.since = event["stage"], event["at"]
            case "waiting":
                found.stage = f"waiting for parties; connected: {event['connected']}, needed: {event['required']}"
                found.since = event["at"]
            case "serving":
                found.stage, found.since = f"serving students at {event['address']}", event["at"]
            case "released":
                found.stage, found.since = "serving students", event["at"]
            case "left-out":
                errors.append(f"{event['at']} {LeftOut.read(event).words}")
            case "failed":
                found.stage, found.since = "failed", event["at"]
                errors.append(f"{event['at']} {event['what']}. {event['action']}")
            case "closed":
                found.stage, found.since = "closed", event["at"]
    found.errors = list(errors)
