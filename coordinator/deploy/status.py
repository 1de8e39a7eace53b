"""How a coordinator stands, from its files: `consilium status`."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from itertools import islice

from consilium.coordinator.deploy.ready import check_ledger, check_room
from consilium.coordinator.events import read_events
from consilium.coordinator.privacy import promised, towards_coordinator, towards_nodes
from consilium.coordinator.run_folders import RunFolder, asked_before, pool_of, run_of
from consilium.coordinator.run_state import AWAY, PartyState, RollEntry, RunState
from consilium.coordinator.served import ServedFederation
from consilium.node.checks import check_certificate, check_clock, examine
from consilium.node.folder import NodeFolder
from consilium.node.join import joined
from consilium.node.kinds import NodeOutcome
from consilium.protocol.errors import LedgerError
from consilium.protocol.files import is_held
from consilium.report.disclosure import epsilon_text

MOST_ERRORS = 5


def status(folder: NodeFolder) -> NodeOutcome:
    """Of the federation that was joined last: parties, stage, budget, what is wrong now and what failed last. Nothing
    here is data-dependent. Its values:

    epsilon_student: towards the student and the public, the query budget used up. epsilon_nodes: towards the
    coordinator; None where it sees votes. run: its digest, as far as people compare it. started, starts: when, and how
    often. parties: how each stands, in words; roll: the same in parts. aggregators: how the second one stands.
    problems: what is wrong now. errors: what failed last. queries_asked, queries_left, answers_left: None where the
    ledger cannot be read now; unanswered: of those asked. rows_open, rows_spent: of fixed public rows, those that can
    still be asked, and that were in earlier federations; None without.

    Raises ConfigError: it joined no federation.
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
    use, rows_open, rows_spent = None, None, None
    if not any(result.name == "ledger" for result in wrong):
        with contextlib.suppress(LedgerError):  # it is locked since
            use = run.use()
            rows_open, rows_spent = rows_left(folder, run) if config.public is not None else (None, None)
    student, nodes = promised(config).epsilon, towards_coordinator(config)
    stands = {name: entry.words for name, entry in roll.items()}
    seconds = {name: state.second_words(name) if running else AWAY for name in file.of_kind("aggregator")}
    problems = [f"{result.name}: {result.what}. {result.action}" for result in wrong] + [*state.versions.values()]
    errors = [*islice(state.troubles, MOST_ERRORS)][::-1]
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
        "roll": {name: {**asdict(entry), "words": stands[name]} for name, entry in roll.items()},
        "aggregators": seconds,
        "problems": problems,
        "errors": errors,
        "queries_asked": use and use.asked,
        "unanswered": use and use.unanswered.queries,
        "queries_left": use and use.queries_left,
        "answers_left": use and use.answers_left,
        "rows_open": rows_open,
        "rows_spent": rows_spent,
    }
    since = f" since {state.started}" if state.started else ""
    again = f", started {state.starts} times" if state.starts > 1 else ""
    towards = f"epsilon at most {epsilon_text(student)} towards the student and the public"
    spent = f"; {rows_spent} were answered in earlier federations" if rows_spent else ""
    rows = [
        ("federation", f"{config.name} ({run.short}), version {file.version}"),
        ("coordinator", f"running{since}{again}" if running else "not running"),
        *(("problem", text) for text in problems),
        ("stage", f"{state.stage_words}{f', since {state.since}' if state.since else ''}"),
        ("budget", use.describe() if use else "not known: the ledger cannot be read now"),
        *([("public rows", f"{rows_open} rows can still be asked{spent}")] if rows_open is not None else []),
        ("guarantee", f"{towards}, the whole query budget used up, at delta {config.privacy.delta:g}"),
        ("", towards_nodes(config)),
        *(("party", f"{name}: {words}") for name, words in stands.items()),
        *(("aggregator", f"{name}: {words}") for name, words in seconds.items()),
        *(("error", text) for text in errors),
    ]
    return NodeOutcome(values, [f"{head:11}  {words}" for head, words in rows])


def settled(state: RunState, file: ServedFederation, running: bool) -> dict[str, RollEntry]:
    """What the events say, of the nodes that may connect, and of parties that took part before they were revoked, in
    the order of their names. Where no coordinator runs, nobody is connected."""
    roll = {name: state.roll.get(name, RollEntry()) for name in sorted(file.parties.keys() | state.roll.keys())}
    for name, entry in roll.items():
        entry.connected = entry.connected and running and name in file.parties
        if name not in file.parties:
            entry.state, entry.rule = PartyState.REVOKED, None
    return roll


def rows_left(folder: NodeFolder, run: RunFolder) -> tuple[int, int]:
    """Public rows that can still be asked, and those that earlier ones asked. Raises ConfigError, LedgerError."""
    tree = pool_of(folder, run.config)
    rows, spent = 0 if tree is None else len(tree.leaves), asked_before(folder, run)
    return rows - len(spent | run.asked()), len(spent)
