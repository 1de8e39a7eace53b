"""`consilium status`: what the coordinator is doing, from its files; it asks no process."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from consilium.coordinator.deploy.runs import KitRun, asked_before, current_run, run_of_kit
from consilium.coordinator.deploy.start import listens
from consilium.coordinator.events import read_events
from consilium.coordinator.kit_runs import LEDGER, asked_in
from consilium.coordinator.privacy import promised, towards_coordinator, towards_nodes
from consilium.coordinator.rosters import NodesFile
from consilium.coordinator.run_state import AWAY, PartyState, RunState, SecondEntry, shown
from consilium.node.kit import Kit
from consilium.node.standing import NodeStanding
from consilium.protocol.config_files import load
from consilium.protocol.pool import PoolTree
from consilium.report.disclosure import epsilon_text
from consilium.report.words import many

MOST_ERRORS = 5


@dataclass
class Status:
    """Of the federation that was begun last. Nothing here is data-dependent.

    epsilon_guaranteed: the worst case at the query budget. epsilon_student: towards the student and the public.
    epsilon_nodes: towards the coordinator; None where it sees exact sums, or votes. towards_student, towards_nodes:
    both in words.

    run: its digest, as far as people compare it. next: that of the federation that the kit holds, where an update made
    it another one. parties: how each stands, in words; roll: the same in parts.
    aggregators: how the second aggregator of verified votes stands, by its name. rows_open, rows_spent: of the fixed
    pool, how many can still be asked, and how many the parties answered in earlier federations; None without a pool.
    queries_asked: those of `unanswered` among them, which are told of in `not_answered`.
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
    closed: bool = False
    queries_asked: int = 0
    unanswered: int = 0
    not_answered: str = ""
    queries_left: int = 0
    answers_left: int = 0
    rows_open: int | None = None
    rows_spent: int | None = None
    epsilon_guaranteed: float = 0.0
    epsilon_student: float = 0.0
    epsilon_nodes: float | None = None
    towards_student: str = ""
    towards_nodes: str = ""
    delta: float = 0.0
    errors: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For people."""
        rows = [
            ("federation", f"{self.federation} ({self.run})"),
            *([("next", f"the kit holds another federation, {self.next}: close this one first")] if self.next else []),
            ("coordinator", "running" if self.running else "not running"),
            ("stage", f"{self.stage}{f', since {self.since}' if self.since else ''}"),
            ("left", "closed: nothing can be asked" if self.closed else self._left_words()),
            *([("", self.not_answered)] if self.not_answered else []),
            *([("public rows", self._pool_words())] if self.rows_open is not None and not self.closed else []),
            ("guarantee", f"{self.towards_student}, the whole query budget used up, at delta {self.delta:g}"),
            ("", self.towards_nodes),
            *(("party", f"{name}: {state}") for name, state in self.parties.items()),
            *(("aggregator", f"{name}: {state}") for name, state in self.aggregators.items()),
            *(("error", text) for text in self.errors),
        ]
        return [f"{head:11}  {words}" for head, words in rows]

    def _left_words(self) -> str:
        return f"{many(self.queries_left, 'query')}, {many(self.answers_left, 'answer')}"

    def _pool_words(self) -> str:
        spent = f"; {self.rows_spent} were answered in earlier federations" if self.rows_spent else ""
        return f"{self.rows_open} rows can still be asked{spent}"


def status(kit: Kit) -> Status:
    """See `look`."""
    return look(kit, current_run(kit))[0]


def look(kit: Kit, run: KitRun) -> tuple[Status, RunState]:
    """Parties, stage, budget and last errors of the federation that runs, and whether the kit holds another one.

    Raises
    ------
    ConfigError, LedgerError : files of the kit cannot be read.
    """
    held, config = run_of_kit(kit), run.config
    used = run.use()
    student, nodes = promised(config).epsilon, towards_coordinator(config)
    found = Status(
        federation=kit.federation,
        run=run.short,
        next="" if held.folder == run.folder else held.short,
        running=listens(kit.coordinator.internal_port),
        closed=run.closed,
        queries_asked=used.asked,
        unanswered=used.unanswered.queries,
        not_answered=used.unanswered.words if used.unanswered.queries else "",
        queries_left=used.queries_left,
        answers_left=used.answers_left,
        epsilon_guaranteed=promised(config).epsilon,
        epsilon_student=student,
        epsilon_nodes=None if nodes is None else nodes.epsilon,
        towards_student=f"epsilon at most {epsilon_text(student)} towards the student and the public",
        towards_nodes=towards_nodes(config),
        delta=config.privacy.delta,
    )
    if config.public is not None and (kit.folder / "public.npy").exists():
        found.rows_open, found.rows_spent = rows_of_pool(kit, run)
    state = state_of(kit, run)
    found.parties = {name: entry.words for name, entry in state.roll.entries.items()}
    found.roll = {name: entry.to_json() for name, entry in state.roll.entries.items()}
    found.aggregators = {name: entry.words for name, entry in state.roll.seconds.items()}
    found.stage, found.since = state.stage_words, state.since
    found.errors = [trouble.words for trouble in reversed(state.troubles[:MOST_ERRORS])]
    return found, state


def standings(kit: Kit) -> dict[str, NodeStanding]:
    """How each node that may connect stands, for itself, by what it is called in logs. Raises as `look`."""
    run = current_run(kit)
    found, state = look(kit, run)
    every = {"federation": run.short, "closed": run.closed, "unanswered": found.unanswered}
    parties = {
        name: NodeStanding(state=entry.state, words=entry.words, **every) for name, entry in state.roll.entries.items()
    }
    seconds = {
        shown(name): NodeStanding(state=AWAY if entry.words == AWAY else "connected", words=entry.words, **every)
        for name, entry in state.roll.seconds.items()
    }
    return parties | seconds


def state_of(kit: Kit, run: KitRun) -> RunState:
    """What the run's events say: of the parties that may connect, and those that took part before they were revoked, in
    the order of their names; of second aggregators, those that may connect.

    Where no coordinator runs, nobody is connected. Raises ConfigError.
    """
    nodes, running = load(kit / "nodes.json", NodesFile), listens(kit.coordinator.internal_port)
    state = RunState.of(read_events(run.events), nodes.nodes)
    roll = state.roll
    for name, entry in roll.entries.items():
        entry.connected = entry.connected and running and name in nodes.nodes
        if name not in nodes.nodes:
            entry.state, entry.rule = PartyState.REVOKED, None
    roll.entries = dict(sorted(roll.entries.items()))
    roll.seconds = {name: roll.seconds.get(name, SecondEntry()) for name in nodes.aggregators}
    for second in roll.seconds.values():
        second.connected = second.connected and running
    return state


def rows_of_pool(kit: Kit, run: KitRun) -> tuple[int, int]:
    """Rows of the pool that can still be asked, and those that parties answered in earlier federations."""
    rows = len(PoolTree.load(kit.folder / "public.npy").leaves)
    spent = asked_before(kit, run)
    asked = asked_in(run / LEDGER) if (run / LEDGER).exists() else frozenset()
    return rows - len(spent | asked), len(spent)
