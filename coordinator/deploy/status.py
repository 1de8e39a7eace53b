"""How a coordinator stands, from its files: `consilium status`, and what each node is told of itself."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from consilium.coordinator.deploy.ready import check_ledger
from consilium.coordinator.deploy.start import LEAST_BYTES
from consilium.coordinator.events import EventTail, read_events
from consilium.coordinator.nodes import JoinedFederation
from consilium.coordinator.privacy import promised, towards_coordinator, towards_nodes
from consilium.coordinator.run_folders import BudgetUse, RunFolder, asked_before, pool_of, run_of
from consilium.coordinator.run_state import AWAY, PartyState, RunState, SecondEntry, shown
from consilium.coordinator.served import ServedFederation
from consilium.node.checks import check_certificate, check_clock, check_disk, examine
from consilium.node.folder import NodeFolder
from consilium.node.join import joined
from consilium.node.standing import NodeStanding
from consilium.protocol.errors import LedgerError
from consilium.protocol.files import is_held
from consilium.report.disclosure import epsilon_text
from consilium.report.words import many

MOST_ERRORS, LOOK_SECONDS = 5, 6.0


@dataclass
class Status:
    """Of the federation that was joined last. Nothing here is data-dependent.

    epsilon_student: towards the student and the public, the query budget used up. epsilon_nodes: towards the
    coordinator; None where it sees votes. towards_student, towards_nodes: both in words.

    run: its digest, as far as people compare it. started: when, and how often. parties: how each stands, in words;
    roll: the same in parts. aggregators: how the second aggregator stands, by its name. queries_asked: those of
    `unanswered` among them; they and what is left are None where the ledger cannot be read now. rows_open, rows_spent:
    of fixed public rows, how many can still be asked, and how many were in earlier federations; None without.
    problems: what is wrong now. errors: what failed last.
    """

    federation: str
    version: int
    run: str
    stage: str
    since: str
    running: bool
    started: str
    starts: int
    closed: bool
    epsilon_student: float
    epsilon_nodes: float | None
    towards_student: str
    towards_nodes: str
    delta: float
    parties: dict[str, str]
    roll: dict[str, dict[str, Any]] = field(repr=False)
    aggregators: dict[str, str]
    problems: list[str]
    errors: list[str]
    queries_asked: int | None = None
    unanswered: int = 0
    not_answered: str = ""
    queries_left: int | None = None
    answers_left: int | None = None
    rows_open: int | None = None
    rows_spent: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For people."""
        again = f", started {self.starts} times" if self.starts > 1 else ""
        since = f" since {self.started}{again}" if self.started and self.running else ""
        rows = [
            ("federation", f"{self.federation} ({self.run}), version {self.version}"),
            ("coordinator", f"running{since}" if self.running else "not running"),
            *(("problem", text) for text in self.problems),
            ("stage", f"{self.stage}{f', since {self.since}' if self.since else ''}"),
            ("left", self._left_words()),
            *([("", self.not_answered)] if self.not_answered else []),
            *([("public rows", self._rows_words())] if self.rows_open is not None and not self.closed else []),
            ("guarantee", f"{self.towards_student}, the whole query budget used up, at delta {self.delta:g}"),
            ("", self.towards_nodes),
            *(("party", f"{name}: {state}") for name, state in self.parties.items()),
            *(("aggregator", f"{name}: {state}") for name, state in self.aggregators.items()),
            *(("error", text) for text in self.errors),
        ]
        return [f"{head:11}  {words}" for head, words in rows]

    def _left_words(self) -> str:
        if self.closed:
            return "closed: nothing can be asked"
        if self.queries_left is None or self.answers_left is None:
            return "not known: the ledger cannot be read now"
        return f"{many(self.queries_left, 'query')}, {many(self.answers_left, 'answer')}"

    def _rows_words(self) -> str:
        spent = f"; {self.rows_spent} were answered in earlier federations" if self.rows_spent else ""
        return f"{self.rows_open} rows can still be asked{spent}"


def status(folder: NodeFolder) -> Status:
    """Parties, stage, budget, what is wrong now and what failed last. Raises ConfigError: it joined no federation."""
    file = joined(folder, ServedFederation)
    run, config, running = run_of(folder, file), file.config, is_held(folder.lock)
    state = RunState.of(read_events(run.events), file.parties)
    settle(state, file, running)
    nodes, student = towards_coordinator(config), promised(config).epsilon
    checks = [
        ("clock", lambda: check_clock(folder)),
        ("disk", lambda: check_disk(folder.state, LEAST_BYTES)),
        ("certificate", lambda: check_certificate(folder.tls, file.coordinator.hosts)),
        ("ledger", lambda: check_ledger(folder)),
    ]
    wrong = [result for result in examine(checks, LOOK_SECONDS) if result.level != "ok"]
    found = Status(
        federation=config.name,
        version=file.version,
        run=run.short,
        stage=state.stage_words,
        since=state.since,
        running=running,
        started=state.started,
        starts=state.starts,
        closed=run.closed,
        epsilon_student=student,
        epsilon_nodes=None if nodes is None else nodes.epsilon,
        towards_student=f"epsilon at most {epsilon_text(student)} towards the student and the public",
        towards_nodes=towards_nodes(config),
        delta=config.privacy.delta,
        parties={name: entry.words for name, entry in state.roll.entries.items()},
        roll={name: entry.to_json() for name, entry in state.roll.entries.items()},
        aggregators={name: entry.words for name, entry in state.roll.seconds.items()},
        problems=[f"{result.name}: {result.what}. {result.action}" for result in wrong],
        errors=[trouble.words for trouble in reversed(state.troubles[:MOST_ERRORS])],
    )
    if not any(result.name == "ledger" for result in wrong):
        _add_use(found, run.use())
        if config.public is not None:
            found.rows_open, found.rows_spent = rows_left(folder, run)
    return found


def _add_use(found: Status, use: BudgetUse) -> None:
    found.queries_asked, found.unanswered = use.asked, use.unanswered.queries
    found.not_answered = use.unanswered.words if use.unanswered.queries else ""
    found.queries_left, found.answers_left = use.queries_left, use.answers_left


def settle(state: RunState, file: ServedFederation, running: bool) -> None:
    """What the events say, of the nodes that may connect, and of parties that took part before they were revoked, in
    the order of their names. Where no coordinator runs, nobody is connected."""
    roll = state.roll
    for name in file.parties.keys() - roll.entries.keys():
        roll.add(name)
    for name, entry in roll.entries.items():
        entry.connected = entry.connected and running and name in file.parties
        if name not in file.parties:
            entry.state, entry.rule = PartyState.REVOKED, None
    roll.entries = dict(sorted(roll.entries.items()))
    roll.seconds = {name: roll.seconds.get(name, SecondEntry()) for name in file.of_kind("aggregator")}
    for second in roll.seconds.values():
        second.connected = second.connected and running


def rows_left(folder: NodeFolder, run: RunFolder) -> tuple[int, int]:
    """Public rows that can still be asked, and those that earlier ones asked. Raises ConfigError, LedgerError."""
    tree = pool_of(folder, run.config)
    rows, spent = 0 if tree is None else len(tree.leaves), asked_before(folder, run)
    return rows - len(spent | run.asked()), len(spent)


class Standings:
    """How each node that may connect stands, for itself, by what it is called in logs: of the coordinator that runs in
    this process, whose events are read as they come."""

    def __init__(self, folder: NodeFolder, federation: JoinedFederation) -> None:
        self._federation, self._run = federation, run_of(folder, federation.file)
        self._tail, self._state = EventTail(self._run.events), RunState(federation.file.parties)
        self._unanswered = 0

    def __call__(self) -> Mapping[str, NodeStanding]:
        """Raises OSError: the event log cannot be read."""
        for event in self._tail.fresh():
            self._state.take(event)
        settle(self._state, self._federation.file, running=True)
        with contextlib.suppress(LedgerError):  # it is locked for a while: the number of before
            self._unanswered = self._run.use().unanswered.queries
        every = {"federation": self._run.short, "closed": self._run.closed, "unanswered": self._unanswered}
        parties = {
            name: NodeStanding(state=entry.state, words=entry.words, **every)
            for name, entry in self._state.roll.entries.items()
        }
        seconds = {
            shown(name): NodeStanding(state=AWAY if entry.words == AWAY else "connected", words=entry.words, **every)
            for name, entry in self._state.roll.seconds.items()
        }
        return parties | seconds
