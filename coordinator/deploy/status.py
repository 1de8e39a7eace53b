"""`consilium status`: what the coordinator is doing, from its files; it asks no process."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from consilium.coordinator.deploy.flower import NodesFile
from consilium.coordinator.deploy.start import configuration, listens, run_folder
from consilium.coordinator.ledger.left import use_of_phases
from consilium.coordinator.ledger.privacy import promised
from consilium.coordinator.ledger.store import Ledger
from consilium.protocol.config_files import load
from consilium.protocol.node.kit import Kit

MOST_ERRORS = 5


@dataclass
class Status:
    """Of the current federation. `epsilon_promised` is the worst case at the caps; nothing here is data-dependent.

    phases: of each phase of a schedule what `ledger.left.PhaseUse` tells; empty where there is none.
    """

    federation: str
    stage: str = "not started"
    since: str = ""
    running: bool = False
    parties: dict[str, str] = field(default_factory=dict)
    queries_left: int = 0
    answers_left: int = 0
    epsilon_promised: float = 0.0
    delta: float = 0.0
    phases: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def status(kit: Kit) -> Status:
    """Parties, stage, budget and last errors.

    Raises
    ------
    ConfigError, LedgerError : files of the kit cannot be read.
    """
    config = configuration(kit)
    ledger_file = run_folder(kit) / "ledger.db"
    ledger = Ledger(ledger_file, config.digest(), "", read_only=True) if ledger_file.exists() else None
    try:
        used = use_of_phases(config, ledger)
    finally:
        if ledger is not None:
            ledger.close()
    found = Status(
        federation=kit.federation,
        running=listens(kit.coordinator.internal_port),
        parties=dict.fromkeys(sorted(load(kit / "nodes.json", NodesFile).nodes), "may connect"),
        queries_left=sum(phase.queries_left for phase in used),
        answers_left=sum(phase.answers_left for phase in used),
        epsilon_promised=promised(config).epsilon,
        delta=config.privacy.delta,
        phases=[phase.to_json() for phase in used] if config.schedule else [],
    )
    _follow(run_folder(kit) / "events.jsonl", found)
    return found


def _follow(path: Path, found: Status) -> None:
    """Stage and errors, by reading the events in order."""
    errors: deque[str] = deque(maxlen=MOST_ERRORS)
    for event in _events(path):
        match event.get("event"):
            case "stage":
                found.stage, found.since = event["stage"], event["at"]
            case "waiting":
                found.stage = f"waiting for parties: {event['connected']} of {event['required']}"
                found.since = event["at"]
            case "serving":
                found.stage, found.since = f"serving students at {event['address']}", event["at"]
            case "released":
                found.stage, found.since = "serving students", event["at"]
            case "left-out":
                errors.append(f"{event['at']} {event['party']} left out of stage {event['stage']}: {event['reason']}")
                if event["party"] in found.parties:
                    found.parties[event["party"]] = f"left out: {event['reason']}"
            case "failed":
                found.stage, found.since = "failed", event["at"]
                errors.append(f"{event['at']} {event['what']}. {event['action']}")
            case "closed":
                found.stage, found.since = "closed", event["at"]
    found.errors = list(errors)


def _events(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    events = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:  # the last line of a process that was killed
            continue
    return events
