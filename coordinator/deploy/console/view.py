"""What the console shows: everything is public to the federation, or about this machine.

How many questions were answered is left out, since it depends on votes: a page and its metrics are seen and kept by
more people than the ledger.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.deploy.runs import current_run
from consilium.coordinator.deploy.start import listens
from consilium.coordinator.deploy.status import Status, status
from consilium.coordinator.events import EventTail
from consilium.coordinator.ledger.kit_runs import LEDGER
from consilium.coordinator.ledger.privacy import most_so_far
from consilium.coordinator.ledger.store import Ledger
from consilium.coordinator.run_state import MOST_TROUBLES, RunState, Trouble
from consilium.node.checks import SOON
from consilium.node.kit import Kit
from consilium.node.log import Heard
from consilium.node.metrics import ages, processes_of
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.versions import DISTRIBUTION

RUN, AGAIN = "run", "; again in "
"""Under this name the node tells what is in the event log, and with these words that an attempt failed."""


@dataclass(frozen=True)
class PartyLine:
    """One party. state: a word or two of few; told: all that is known. connected: as the SuperLink sees it now."""

    name: str
    state: str
    told: str
    connected: bool = False


@dataclass(frozen=True)
class CertificateLine:
    """One certificate file of the kit. level: ok, soon or over."""

    name: str
    until: str
    age_days: int | None
    days_left: int | None
    level: str


@dataclass(frozen=True)
class ProcessLine:
    """One process with what it started. ended: times that it ended by itself."""

    name: str
    processes: int
    megabytes: float
    cpu_seconds: float
    open_files: int
    ended: int


@dataclass(frozen=True)
class ConsoleView:
    """At one moment, of the federation that runs. next: the other one that the kit holds, where an update made it one.

    aggregators: how the second aggregator stands, by its name, where votes are verified.
    epsilon_so_far: if every question so far had been answered, of epsilon_guaranteed; all epsilons at `delta`, see
    `status.Status`. rows_open: rows of the fixed
    pool that can still be asked, None without a pool.
    """

    at: str
    federation: str
    version: str
    flower_version: str
    run: str = ""
    next: str = ""
    running: bool = False
    stage: str = "not started"
    since: str = ""
    kind_of_stage: str = "not started"
    done: int = 0
    total: int = 0
    parties: list[PartyLine] = field(default_factory=list)
    aggregators: dict[str, str] = field(default_factory=dict)
    queries_asked: int = 0
    queries_most: int = 0
    rows_open: int | None = None
    epsilon_so_far: float = 0.0
    epsilon_guaranteed: float = 0.0
    epsilon_student: float = 0.0
    epsilon_nodes: float | None = None
    towards_student: str = ""
    towards_nodes: str = ""
    delta: float = 0.0
    unit: str = ""
    troubles: list[Trouble] = field(default_factory=list)
    trouble_counts: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    certificates: list[CertificateLine] = field(default_factory=list)
    processes: list[ProcessLine] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @property
    def states(self) -> dict[str, int]:
        """How many parties are in each state, most first."""
        counts = Counter(party.state for party in self.parties)
        return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def party_lines(found: Status) -> list[PartyLine]:
    """Parties by name with their states: the one place where the console learns them."""
    return [
        PartyLine(name, entry["state"], entry["words"], entry["connected"])
        for name, entry in sorted(found.roll.items())
    ]


class ConsoleReader:
    """Reads the kit again each time it is asked, and the event log from where it was. For one thread at a time."""

    def __init__(self, kit: Kit, heard: Heard) -> None:
        self._kit = kit
        self._heard = heard
        self._run: Path | None = None
        self._state, self._tail = RunState(), EventTail(Path())

    def view(self, now: datetime | None = None) -> ConsoleView:
        """What there is to see. A file that cannot be read is a trouble on the page."""
        now = now or datetime.now(UTC)
        common = {
            "at": now.isoformat(timespec="seconds"),
            "federation": self._kit.federation,
            "version": version(DISTRIBUTION),
            "flower_version": version("flwr"),
            "certificates": certificate_lines(self._kit, now),
            "processes": self._processes(),
        }
        try:
            return ConsoleView(**common, **self._of_run())
        except ConsiliumError as error:
            trouble = Trouble(common["at"], "failed", error.what, error.action)
            return ConsoleView(**common, troubles=[trouble, *self._own_troubles()][:MOST_TROUBLES])

    def ready(self) -> list[str]:
        """What is missing before parties can connect and students can be answered by what they bring."""
        place = self._kit.coordinator
        ports = (
            ("SuperLink", "127.0.0.1", place.internal_port),
            ("gateway", self._host(), place.superlink_port),
        )
        return [f"the {name} does not listen" for name, where, port in ports if not listens(port, where)]

    def serves_students(self) -> bool:
        """Whether the label service listens."""
        return listens(self._kit.coordinator.label_port, self._host())

    def _host(self) -> str:
        """Where this machine reaches the ports that others use."""
        listen = self._kit.coordinator.listen
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)

    def _of_run(self) -> dict[str, Any]:
        run, found = current_run(self._kit), status(self._kit)
        config = run.config
        if run.folder != self._run:
            self._run, self._state, self._tail = run.folder, RunState(), EventTail(run.events)
        for event in self._tail.fresh():
            self._state.take(event)
        state, asked = self._state, _asked(config, run / LEDGER)
        troubles = sorted([*state.troubles, *self._own_troubles()], key=lambda trouble: trouble.at, reverse=True)
        return {
            "run": found.run,
            "next": found.next,
            "running": found.running,
            "stage": found.stage,
            "since": found.since,
            "kind_of_stage": state.kind_of_stage,
            "done": state.done,
            "total": state.total,
            "parties": party_lines(found),
            "aggregators": found.aggregators,
            "queries_asked": sum(asked.values()),
            "queries_most": config.whole_budget.queries,
            "rows_open": found.rows_open,
            "epsilon_so_far": most_so_far(config, asked),
            "epsilon_guaranteed": found.epsilon_guaranteed,
            "epsilon_student": found.epsilon_student,
            "epsilon_nodes": found.epsilon_nodes,
            "towards_student": found.towards_student,
            "towards_nodes": found.towards_nodes,
            "delta": found.delta,
            "unit": config.privacy.unit.value,
            "troubles": troubles[:MOST_TROUBLES],
            "trouble_counts": dict(state.counts),
            "warnings": list(state.warnings.values()),
        }

    def _own_troubles(self) -> list[Trouble]:
        """What the node's own processes said that is no news of the run."""
        return [
            Trouble(
                datetime.fromtimestamp(said.at, UTC).isoformat(timespec="milliseconds"),
                said.level, f"{said.name}: {said.what}", "Run `consilium doctor .` in this kit; see state/logs.",
            )
            for said in self._heard.troubles
            if said.name != RUN or self._is_news(said.what)
        ]  # fmt: skip

    def _is_news(self, what: str) -> bool:
        """Whether a failed attempt is not in the event log, since its process died before it could write there."""
        return AGAIN in what and not any(trouble.what in what for trouble in self._state.troubles)

    def _processes(self) -> list[ProcessLine]:
        ended = self._heard.ended
        return [
            ProcessLine(
                name, use.processes, round(use.resident_bytes / 1e6, 1), round(use.cpu_seconds, 1), use.open_files,
                ended.get(name, 0),
            )
            for name, use in processes_of(self._kit).items()
        ]  # fmt: skip


def certificates_of(kit: Kit) -> tuple[Path, ...]:
    """The coordinator's own and the authority's."""
    return (kit.server_tls.certificate, kit.authority)


def certificate_lines(kit: Kit, now: datetime) -> list[CertificateLine]:
    """How old they are, and until when they are good."""
    return [
        CertificateLine(
            age.name,
            "cannot be read" if age.until is None else f"{age.until:%Y-%m-%d}",
            age.age_days(now),
            age.days_left(now),
            _level(age.days_left(now)),
        )
        for age in ages(certificates_of(kit))
    ]


def _level(days_left: int | None) -> str:
    if days_left is None or days_left < 0:
        return "over"
    return "soon" if days_left < SOON.days else "ok"


def _asked(config: FederationConfig, ledger_file: Path) -> dict[int | None, int]:
    """Queries asked so far, by phase. Raises LedgerError."""
    if not ledger_file.exists():
        return dict.fromkeys(config.phase_numbers, 0)
    ledger = Ledger(ledger_file, config.digest(), "", read_only=True)
    try:
        return {number: ledger.spent(number)[0] for number in config.phase_numbers}
    finally:
        ledger.close()
