"""What somebody may do to a simulated run, which check finds it, and the command line in this process."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from consilium import cli
from tests.coordinator.verify.runs import Tamper, edit, flip_label, sql


def change_votes(run: Path) -> None:
    """One party votes for the other class everywhere."""
    path = sorted((run / "private").glob("votes-*.npz"))[0]
    with np.load(path) as file:
        content = dict(file)
    content["choices"][0] = 1 - content["choices"][0]
    np.savez_compressed(path, **content)


LEDGER, SUMS = "ledger.db: structure, hash chain and counts", "SHA256SUMS: every file"
TAMPERING: dict[str, tuple[Tamper, str]] = {
    "a label in the ledger": (sql("UPDATE releases SET label = 1 - label WHERE outcome = 1"), LEDGER),
    "evidence": (sql("UPDATE releases SET histogram = probabilities"), LEDGER),
    "promised epsilon": (
        edit("coordinator.json", lambda c: c["privacy"]["guarantee"].update(epsilon=0.1)),
        "coordinator.json: counts and epsilon",
    ),
    "worst case, slightly": (
        edit("summary.json", lambda c: c["privacy"].update(epsilon_spent=c["privacy"]["epsilon_guaranteed"] - 1e-4)),
        "summary.json: epsilon",
    ),
    "the report": (
        edit("private/report.json", lambda c: c["guarantees"]["data_dependent"].update(epsilon=0.2)),
        "private/report.json: epsilon",
    ),
    "the student's card": (
        edit("student/student.json", lambda c: c["privacy"].update(epsilon=0.3)),
        "student/student.json: federation and epsilon",
    ),
    "a label of the student": (flip_label, "labels.parquet: those of the ledger"),
    "votes": (change_votes, "private/votes-*.npz: votes of the evidence"),
}


def reclosed(change: Callable[[dict], None]) -> Tamper:
    """Another closing, with the right hash: what a coordinator that cheats would write."""

    def apply(run: Path) -> None:
        with sqlite3.connect(run / "ledger.db") as ledger:
            at, result, previous = ledger.execute("SELECT at, result, previous FROM closing").fetchone()
            content = json.loads(result)
            change(content)
            text = json.dumps(content, sort_keys=True)
            link = hashlib.sha256(json.dumps([previous, "closing", at, text], separators=(",", ":")).encode())
            ledger.execute("UPDATE closing SET result = ?, hash = ?", (text, link.hexdigest()))

    return apply


def main(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The command line in this process: exit code, stdout, stderr."""
    monkeypatch.setattr(sys, "argv", ["consilium", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    told = capsys.readouterr()
    return int(end.value.code or 0), told.out, told.err
