"""What somebody may do to a simulated run, which check finds it, and the command line in this process."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from consilium import cli


def sql(statement: str) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        with sqlite3.connect(run / "ledger.db") as ledger:
            ledger.execute(statement)

    return apply


def edit(name: str, change: Callable[[dict], None]) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        content = json.loads((run / name).read_text())
        change(content)
        (run / name).write_text(json.dumps(content))

    return apply


def flip_label(run: Path) -> None:
    frame = pl.read_parquet(run / "labels.parquet")
    answered = np.flatnonzero((frame["outcome"] == "answered").to_numpy())[0]
    labels = frame["label"].to_list()
    labels[answered] = {"independent": "dead or dependent", "dead or dependent": "independent"}[labels[answered]]
    frame.with_columns(pl.Series("label", labels)).write_parquet(run / "labels.parquet")


def change_rows(change: Callable[[list[int]], list[int]]) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        frame = pl.read_parquet(run / "labels.parquet")
        changed = pl.Series("row", change(frame["row"].to_list()), dtype=pl.Int64)
        frame.with_columns(changed).write_parquet(run / "labels.parquet")

    return apply


def change_votes(run: Path) -> None:
    """One party votes for the other class everywhere."""
    path = sorted((run / "private").glob("votes-*.npz"))[0]
    with np.load(path) as file:
        content = dict(file)
    content["choices/00000"][0] = 1 - content["choices/00000"][0]
    np.savez_compressed(path, **content)


LEDGER = "ledger.db: structure, hash chain and counts"
ORIGIN = "manifest.json: scenario and data give this federation"
SUMS = "SHA256SUMS: every file"
NODES = "private/report.json: what the nodes wrote"
TAMPERING: dict[str, tuple[Callable[[Path], None], str]] = {
    "a label in the ledger": (sql("UPDATE releases SET label = 1 - label WHERE outcome = 1"), LEDGER),
    "evidence": (sql("UPDATE evidence SET log_q_label = log_q_label - 1"), LEDGER),
    "the configuration": (sql("UPDATE meta SET value = replace(value, '\"sigma2\":8.0', '\"sigma2\":80.0')"), LEDGER),
    "promised epsilon": (
        edit("coordinator.json", lambda c: c["privacy"]["guarantee"].update(epsilon=0.1)),
        "coordinator.json: epsilon",
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
    "the student's accuracy": (
        edit("summary.json", lambda c: c["student"].update(accuracy=0.99)),
        "summary.json: what the nodes wrote",
    ),
    "fewer parties than the division made": (
        edit("summary.json", lambda c: c.update(parties_made=c["parties_made"] - 1)),
        "summary.json: warnings",
    ),
    "a warning kept back": (edit("summary.json", lambda c: c["warnings"].pop()), "summary.json: warnings"),
    "a warning kept out of the report": (edit("private/report.json", lambda c: c["warnings"].pop()), NODES),
    "a label of the student": (flip_label, "labels.parquet: those of the ledger"),
    "a row of the student": (
        change_rows(lambda rows: [rows[1], rows[0], *rows[2:]]),
        "labels.parquet: every public row that was asked",
    ),
    "votes": (change_votes, "private/votes-*.npz: votes of the evidence"),
    "another seed": (edit("manifest.json", lambda c: c.update(seed=5)), ORIGIN),
    "seeded noise called real, in the card": (
        edit("student/student.json", lambda c: c["privacy"].update(noise="system")),
        "student/student.json: federation and epsilon",
    ),
    "seeded noise called real": (edit("manifest.json", lambda c: c.update(noise="system")), ORIGIN),
}  # fmt: skip


def main(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The command line in this process: exit code, stdout, stderr."""
    monkeypatch.setattr(sys, "argv", ["consilium", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    told = capsys.readouterr()
    return int(end.value.code or 0), told.out, told.err
