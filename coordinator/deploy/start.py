"""`consilium node start` of a coordinator: what it rests on, earlier federations closed, the process that serves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from consilium.coordinator.conclusion import conclude_unserved, failure_of
from consilium.coordinator.deploy.ready import check_room, ports, set_up
from consilium.coordinator.events import EventTail
from consilium.coordinator.privacy import expected, promise_in_words
from consilium.coordinator.run_folders import RunFolder, earlier_runs, run_of
from consilium.coordinator.served import ServedFederation
from consilium.node.checks import hold, own_checks
from consilium.node.flower import flower_environment, python_module
from consilium.node.folder import THE_COORDINATOR, NodeFolder
from consilium.node.join import joined
from consilium.node.supervisor import Program, Tell, run_program
from consilium.protocol.errors import ConfigError, EngineError
from consilium.protocol.files import held, is_held
from consilium.report.warnings import warnings_of

HOLDER = "the coordinator"


def start(folder: NodeFolder, tell: Tell, stop: threading.Event) -> dict[str, Any] | None:
    """Serve until the federation that was joined last is closed, whose summary is returned, or `stop` is set (None).

    Raises
    ------
    ConsiliumError : what doctor finds wrong; why the run failed; or another folder was joined meanwhile, in which a
        node may be added or shut out. Started again it goes on: ledger and sessions are the record.
    """
    with held(folder.state / folder.lock.name, HOLDER):
        hold([*own_checks(folder), *set_up(folder)], tell)
        stamp, file = folder.joined_at, joined(folder, ServedFederation)
        run = run_of(folder, file)
        close_earlier(folder, run, tell)
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


def close_earlier(folder: NodeFolder, run: RunFolder, tell: Tell) -> None:
    """Close all earlier federations that are open, from their ledgers, which takes no party. Raises LedgerError."""
    for earlier in earlier_runs(folder, run):
        if not earlier.closed:
            done = conclude_unserved(earlier.config, earlier.path)
            tell(THE_COORDINATOR, f"the earlier federation {earlier.short} is closed: {closed_in_words(done)}")


def closed_in_words(summary: Mapping[str, Any]) -> str:
    """What became of a federation that is closed."""
    parties = ", ".join(summary["parties"]) or "nobody"
    return (
        f"{summary['asked']} queries asked, {summary['answered']} answered, {summary['collection']} votes of {parties}"
    )


def close(folder: NodeFolder, seconds: float, sleep: Callable[[float], None] = time.sleep) -> dict[str, Any]:
    """Close the federation that was joined last, and return its summary.

    A coordinator that runs is asked to, and waited for; where none runs it is closed here, from its ledger.

    Raises
    ------
    ConfigError : it was never started. EngineError : it did not close in time; it still will.
    """
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
        "It closes as soon as the parties have trained, or the question under way is answered: see consilium status",
    )


def _tell_promise(file: ServedFederation, tell: Tell) -> None:
    """What is promised, and what there is to warn of, before anybody is asked."""
    tell("promise", promise_in_words(file.config))
    for warning in warnings_of(expected(file.config, len(file.parties))):
        tell("warning", f"{warning['text']} ({warning['code']})")
