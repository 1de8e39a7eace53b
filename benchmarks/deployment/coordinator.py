"""SIGKILL of the coordinator's machine at every step of one batch, each time started again."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.deployment.federation import BATCH, COORDINATOR, PARTIES, federation, row

STAGES = ("advertise", "share", "masked", "consistency", "unmask")


def coordinator_faults() -> None:
    """SIGKILL of the coordinator's machine at every step of one batch, each time started again."""
    with federation() as these:
        these.start_all()
        for stage in ("enrol", "train"):
            begun, count = time.monotonic(), len(these.events())
            these.wait_event(count if stage == "train" else 0, 200, event="stage", stage=stage)
            these.kill(COORDINATOR)
            count = len(these.events())
            these.start(COORDINATOR)
            if stage == "train":
                these.serving(count)
            else:
                these.wait_event(count, 200, event="stage", stage="enrol")
            row(f"coordinator killed at {stage}", "started again: goes on from enrolment", begun)
        begun, pool = time.monotonic(), these.batch()
        count = len(these.events())
        outcome = these.finish(these.ask(pool, "baseline"), "baseline")
        row("none: a batch in peace", f"{outcome}; {these.left_out(count)}; {these.checked(BATCH)}", begun)
        pool = these.batch()
        steps = [*(f"secure sum: {stage}" for stage in STAGES), "after votes, before labels", "after labels"]
        for number, step in enumerate(steps):
            begun, count, name = time.monotonic(), len(these.events()), f"try-{number}"
            student = these.ask(pool, name)
            with before_commit(these.run / "ledger.db") if step.startswith("after votes") else contextlib.nullcontext():
                if step == "after labels":
                    these.wait_event(count, 300, event="released")
                elif step.startswith("after votes"):
                    these.wait_event(count, 300, event="progress", stage="secure sum: unmask", done=len(PARTIES))
                    time.sleep(2)  # the sum is known, and its labels wait for the ledger that we hold
                else:
                    these.wait_event(count, 300, event="stage", stage=step)
                these.kill(COORDINATOR)
            student.wait(150)
            count = len(these.events())
            these.start(COORDINATOR)
            these.serving(count)
            after = these.checked(BATCH if step == "after labels" else 0)
            row(f"coordinator killed at {step}", f"student: {these.finish(student, name)}; restarted: {after}", begun)
        begun, count = time.monotonic(), len(these.events())
        outcome = these.finish(these.ask(pool, "again"), "again")
        resumed = [event["stage"] for event in these.events() if event["event"] == "resumed-session"]
        lost = [event["reason"] for event in these.events() if event["event"] == "session-lost"]
        row(
            "the same student asks again after all these",
            f"{outcome}; {these.checked(0)}; sessions resumed at {resumed}, lost {lost}",
            begun,
        )


@contextlib.contextmanager
def before_commit(ledger: Path) -> Iterator[None]:
    """Hold the ledger's write lock, so that a batch is decided but cannot be charged."""
    connection = sqlite3.connect(ledger, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()
