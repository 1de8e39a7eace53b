"""The coordinator on a machine of its own: what is particular to it among nodes, see `node.kinds`.

How it starts: what it rests on, earlier federations closed, the process that serves. How it stands, from its files.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from consilium.coordinator.config import check_sanitised, check_threshold
from consilium.coordinator.deploy.gateway import NAMES
from consilium.coordinator.events import EventTail, PartyState, RollEntry, RunState, read_events
from consilium.coordinator.federation import conclude_unserved, earlier_runs, failure_of, pool_of, run_of
from consilium.coordinator.privacy import expected, promise_in_words, promised, towards_coordinator, towards_nodes
from consilium.coordinator.served import ServedFederation, check_sums, least_parties
from consilium.node.checks import (
    Advice,
    Check,
    check_certificate,
    check_clock,
    check_coordinator,
    check_disk,
    check_port,
    examine,
    hold,
    own_checks,
)
from consilium.node.flower import fleet_scheme, flower_environment, python_module, require_flower
from consilium.node.folder import THE_COORDINATOR, NodeFolder
from consilium.node.kinds import NodeKind, NodeOutcome
from consilium.node.signed import joined
from consilium.node.supervisor import Program, Tell, run_program
from consilium.protocol.databases import check_usable
from consilium.protocol.errors import ConfigError, EngineError, LedgerError
from consilium.protocol.files import held, is_held
from consilium.report.disclosure import epsilon_text
from consilium.report.warnings import warnings_of

HOLDER = "the coordinator"
LEAST_BYTES = 50_000_000
"""Below this much room nothing is begun: the ledger and the event log grow with each question."""


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

    def further_checks(self, folder: NodeFolder, running: bool) -> list[Check]:
        return [("gateway", lambda: check_coordinator(folder))] if running else ports(folder)

    def status(self, folder: NodeFolder) -> NodeOutcome:
        """Of the federation that was joined last; nothing is data-dependent. What the ledger says is None where it
        cannot be read now. epsilon_nodes: towards the coordinator; None where it sees votes. roll: parties, in parts.
        """
        file = joined(folder, ServedFederation)
        run, config, running = run_of(folder, file), file.config, is_held(folder.lock)
        state = RunState.of(read_events(run.events), file.parties)
        roll = settled(state, file, running)
        checks = [
            ("clock", lambda: check_clock(folder)),
            ("disk", lambda: check_room(folder)),
            ("certificate", lambda: check_certificate(folder.tls, file.coordinator.hosts)),
            ("ledger", lambda: check_ledger(folder)),
        ]
        wrong = [result for result in examine(checks) if result.level != "ok"]
        use = None
        if not any(result.name == "ledger" for result in wrong):
            with contextlib.suppress(LedgerError):  # it is locked since
                use = run.use()
        student, nodes = promised(config).epsilon, towards_coordinator(config)
        seconds = {name: roll.pop(name).words for name in file.of_kind("aggregator")}
        stands = {name: entry.words for name, entry in roll.items()}
        problems = [f"{result.name}: {result.what}. {result.action}" for result in wrong] + [*state.versions.values()]
        values = {
            "federation": config.name,
            "version": file.version,
            "run": run.short,
            "stage": state.stage_words,
            "since": state.since,
            "running": running,
            "started": state.started,
            "starts": state.starts,
            "closed": run.closed,
            "epsilon_student": student,
            "epsilon_nodes": None if nodes is None else nodes.epsilon,
            "delta": config.privacy.delta,
            "parties": stands,
            "roll": {name: asdict(entry) for name, entry in roll.items()},
            "aggregators": seconds,
            "problems": problems,
            "errors": [*state.troubles],
            "queries_asked": use and use.asked,
            "unanswered": use and use.unanswered,
            "queries_left": use and use.queries_left,
            "answers_left": use and use.answers_left,
        }
        since = f" since {state.started}" if state.started else ""
        again = f", started {state.starts} times" if state.starts > 1 else ""
        towards = f"epsilon at most {epsilon_text(student)} towards the student and the public"
        rows = [
            ("federation", f"{config.name} ({run.short}), version {file.version}"),
            ("coordinator", f"running{since}{again}" if running else "not running"),
            *(("problem", text) for text in problems),
            ("stage", f"{state.stage_words}{f', since {state.since}' if state.since else ''}"),
            ("budget", use.describe() if use else "not known: the ledger cannot be read now"),
            ("guarantee", f"{towards}, the whole query budget used up, at delta {config.privacy.delta:g}"),
            ("", towards_nodes(config)),
            *(("party", f"{name}: {words}") for name, words in stands.items()),
            *(("aggregator", f"{name}: {words}") for name, words in seconds.items()),
            *(("error", text) for text in state.troubles),
        ]
        return NodeOutcome(values, [f"{head:11}  {words}" for head, words in rows])

    def start(self, folder: NodeFolder, tell: Tell, stop: threading.Event) -> NodeOutcome:
        summary = start(folder, tell, stop)
        return NodeOutcome({"closed": False}) if summary is None else closed(summary)


COORDINATOR = CoordinatorKind()


def start(folder: NodeFolder, tell: Tell, stop: threading.Event) -> dict[str, Any] | None:
    """Serve until the federation that was joined last is closed, whose summary is returned, or `stop` is set (None).
    Raises ConsiliumError : what doctor finds wrong; why the run failed; or another folder was joined meanwhile, in
    which a node may be added or shut out. Started again it goes on: ledger and sessions are the record."""
    with held(folder.state / folder.lock.name, HOLDER):
        hold([*own_checks(folder), *COORDINATOR.set_up(folder)], tell)
        stamp, file = folder.joined_at, joined(folder, ServedFederation)
        run = run_of(folder, file)
        for earlier in earlier_runs(folder, run):
            if not earlier.closed:
                done = conclude_unserved(earlier.config, earlier.path)
                tell(THE_COORDINATOR, f"the earlier federation {earlier.short} is closed: {closed_in_words(done)}")
        if run.closed or run.close_file.exists():
            return run.summary() if run.closed else conclude_unserved(run.config, run.path)
        hold(ports(folder), tell)
        _tell_promise(file, tell)
        log = EventTail(run.events)
        log.fresh()  # of earlier starts
        tell(THE_COORDINATOR, f"{run.config.name!r} ({run.short}): nodes connect to {file.coordinator.nodes}")

        def look() -> None:
            nonlocal stamp
            if stamp != folder.joined_at:
                stamp = folder.joined_at
                if joined(folder, ServedFederation) != file:
                    raise EngineError(
                        "another folder was joined", "Start again, as systemd and docker do: it is served"
                    )

        environment = flower_environment(folder.state / "flower")
        command = python_module("consilium.coordinator.deploy.serving", str(folder.path))
        try:
            run_program(Program("serving", command, folder.state, environment), tell, stop, look)
        except EngineError as error:
            if not run.closed:
                check_room(folder)  # without room it could not write why
                raise failure_of(log.fresh()) or error from None
        tell(THE_COORDINATOR, "closed" if run.closed else "stopped")
        return run.summary() if run.closed else None


def closed_in_words(summary: Mapping[str, Any]) -> str:
    """What became of a federation that is closed."""
    parties = ", ".join(summary["parties"]) or "nobody"
    return (
        f"{summary['asked']} queries asked, {summary['answered']} answered, {summary['collection']} votes of {parties}"
    )


def close(folder: NodeFolder, seconds: float, sleep: Callable[[float], None] = time.sleep) -> dict[str, Any]:
    """Close the federation that was joined last, and return its summary. A coordinator that runs is asked to, and
    waited for; else it is closed here, from its ledger. Raises ConfigError : it was never started. EngineError : it did
    not close in time; it still will."""
    run = run_of(folder)
    if run.closed:
        return run.summary()
    if not is_held(folder.lock):
        if not run.ledger.exists():
            raise ConfigError(f"federation {run.short} was never started: there is nothing to close", "See its status")
        with held(folder.lock, HOLDER):
            return conclude_unserved(run.config, run.path)
    run.path.mkdir(mode=0o700, exist_ok=True)
    run.close_file.touch(mode=0o600)
    for _ in range(max(1, int(seconds * 2))):
        if run.closed:
            return run.summary()
        sleep(0.5)
    raise EngineError(
        f"federation {run.short} is not closed after {seconds:g} s",
        "It closes as soon as the parties have trained, or has given up the question under way: see consilium status",
    )


def closed(summary: Mapping[str, Any]) -> NodeOutcome:
    """What is said of a federation that was closed."""
    values = {"closed": True, **{key: summary[key] for key in ("asked", "answered", "parties", "collection")}}
    return NodeOutcome(values, (f"closed: {closed_in_words(summary)}",))


def _tell_promise(file: ServedFederation, tell: Tell) -> None:
    """What is promised, and what there is to warn of, before anybody is asked."""
    tell("promise", promise_in_words(file.config))
    for warning in warnings_of(expected(file.config, len(file.parties))):
        tell("warning", f"{warning['text']} ({warning['code']})")


def settled(state: RunState, file: ServedFederation, running: bool) -> dict[str, RollEntry]:
    """What the events say, of the nodes that may connect, and of parties that did before they were revoked, by name.
    Where no coordinator runs, nobody is connected."""
    no_parties = {name for name, keys in file.revoked.items() if keys.kind != "party"}
    names = (file.members.keys() | state.roll.keys()) - no_parties
    roll = {name: state.roll.get(name, RollEntry()) for name in sorted(names)}
    for name, entry in roll.items():
        entry.connected = entry.connected and running and name in file.members
        if name not in file.members:
            entry.state, entry.rule = PartyState.REVOKED, None
    return roll


def ports(folder: NodeFolder) -> list[Check]:
    """The two ports that others reach."""
    place = joined(folder, ServedFederation).coordinator
    return [
        ("node port", lambda: check_port(place.node_port, place.listen, "node_port")),
        ("label port", lambda: check_port(place.label_port, place.listen, "label_port")),
    ]


def check_room(folder: NodeFolder) -> str:
    """On the disk of its state. Raises StorageError."""
    return check_disk(folder.state, LEAST_BYTES)


def check_ledger(folder: NodeFolder) -> str:
    """All ledgers can be read and written, their chains hold, and what is left. Raises LedgerError."""
    run = run_of(folder)
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
