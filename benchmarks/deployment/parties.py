"""SIGKILL and SIGTERM of one party of four, and of the student."""

from __future__ import annotations

import signal
import time

from benchmarks.deployment.federation import BATCH, COORDINATOR, FAULTY, STUDENT_HOST, Federation, federation, row


def party_faults() -> None:
    """SIGKILL and SIGTERM of one party of four, and of the student."""
    with federation() as these:
        these.start_all()
        before_training(these, signal.SIGKILL, 0)
        begun, count, pool = time.monotonic(), len(these.events()), these.batch()
        student = these.ask(pool, "killed")
        these.wait_event(count, 200, event="stage", stage="secure sum: masked")
        these.hosts[STUDENT_HOST].kill()
        student.wait(30)
        outcome = these.finish(these.ask(pool, "killed-again"), "killed-again")
        row("student SIGKILL while it waits for labels, then again",
            f"{outcome}; {these.left_out(count)}; {these.checked(BATCH)}", begun)  # fmt: skip
        for number in (signal.SIGKILL, signal.SIGTERM):
            for stage, words in (("masked", "while voting"), ("consistency", "between masked votes and unmasking")):
                begun, count, pool = time.monotonic(), len(these.events()), these.batch()
                name = f"{stage}-{number.name}"
                student = these.ask(pool, name)
                these.wait_event(count, 200, event="stage", stage=f"secure sum: {stage}")
                position = strike(these, number)
                outcome = these.finish(student, name)
                row(f"party {number.name} {words}, started again",
                    f"{outcome}; {these.left_out(count)}; {these.checked(BATCH)}", begun)  # fmt: skip
                these.connected(FAULTY, position)
        these.kill(COORDINATOR, signal.SIGTERM)
        count = len(these.events())
        these.start(COORDINATOR)
        before_training(these, signal.SIGTERM, count)


def before_training(these: Federation, number: signal.Signals, count: int) -> None:
    """End the faulty party as the others are asked to train, after the first `count` events, and start it again."""
    begun = time.monotonic()
    these.wait_event(count, 200, event="stage", stage="train")
    strike(these, number)
    these.serving(count)
    attempts = sum(event["event"] == "failed" for event in these.events()[count:])
    row(
        f"party {number.name} before training, started again",
        f"{these.left_out(count) or 'nobody left out'}; {attempts} runs ended for want of parties; then served by all",
        begun,
    )


def strike(these: Federation, number: signal.Signals) -> int:
    """End the faulty party and start it again at once; returns where what it says begins."""
    position = these.position(FAULTY)
    these.kill(FAULTY, number)
    these.start(FAULTY)
    return position
