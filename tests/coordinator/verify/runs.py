"""A run of three wards in a coordinator's folder, in one process; and what a crash or a liar makes of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import FederationRun
from consilium.coordinator.federation import run_of as place_of
from consilium.coordinator.ledger import GENESIS, batch_hash, chain_link
from consilium.coordinator.verify import Finding, verify_run
from consilium.protocol.files import private_folder
from consilium.student.config import StudentSpec
from consilium.student.pool import load_pool
from consilium.student.run import run_student
from tests.deploy.site import write_public
from tests.federation import FakeTransport, make_home
from tests.node.folders import PARTIES, make_small

Tamper = Callable[[Path], object]
SANITISED = {"order": 2.5, "beta": 0.05, "sigma_ss": 6.0}


WARDS: dict[str, Any] = {
    "teachers_per_party": 4,
    "minimum_parties": 2,
    "mechanism": {"name": "confident", "threshold": 7, "sigma1": 3.0, "sigma2": 3.0},
    "privacy": {"unit": "record", "delta": 1e-5},
    "query_budget": {"queries": 40, "answers": 30},
}


def node_run(folder: Path, **changes: Any) -> Path:
    """A closed run in a coordinator's folder, of plaintext votes: returns `folder`, with coordinator and student in
    it."""
    made = make_small(folder, **{**WARDS, **changes})
    run = place_of(made.nodes["coordinator"])
    pool = load_pool(write_public(folder / "public.npz", count=20))
    log = EventLog(private_folder(run.path) / "events.jsonl")

    def student(source) -> None:
        run_student(source, pool, StudentSpec(batch=5, queries=20), folder / "student", 3)

    homes = [
        make_home(folder / "homes" / name, name, 240, seed, most_teachers=4, unit="record")
        for seed, name in enumerate(PARTIES)
    ]
    try:
        FederationRun(FakeTransport(homes), run.config, run.path, log, student, PLAINTEXT).run()
    finally:
        log.close()
    return folder


def run_of(folder: Path) -> Path:
    return next((folder / "coordinator" / "state").glob("run-*"), folder)


def findings(folder: Path) -> list[Finding]:
    student = folder / "student"
    found = verify_run(folder / "coordinator", [student]).findings
    return [replace(finding, check=finding.check.removeprefix(f"{student}/")) for finding in found]


def wrong(found: list[Finding]) -> list[str]:
    return [finding.check for finding in found if not finding.holds]


def sql(*statements: str) -> Tamper:
    """Changes the ledger, and leaves its hashes as they are."""

    def apply(folder: Path) -> None:
        with sqlite3.connect(run_of(folder) / "ledger.db") as ledger:
            for statement in statements:
                ledger.execute(statement)

    return apply


def rechained(*statements: str) -> Tamper:
    """Changes the ledger and computes all its hashes anew: a coordinator that lies with care."""

    def apply(folder: Path) -> None:
        sql(*statements)(folder)
        rechain(run_of(folder) / "ledger.db")

    return apply


def rechain(path: Path) -> None:
    with sqlite3.connect(path) as ledger:
        previous = GENESIS
        (salt,) = ledger.execute("SELECT value FROM meta WHERE key = 'salt'").fetchone()
        for seq, at, event, parties in ledger.execute(
            "SELECT seq, at, event, parties FROM batches ORDER BY seq"
        ).fetchall():
            rows = ledger.execute(
                "SELECT query_id, outcome, label, counts, histogram, probabilities"
                " FROM releases WHERE seq = ? ORDER BY position",
                (seq,),
            ).fetchall()
            link = batch_hash(salt, previous, seq, at, event, parties, rows)
            ledger.execute("UPDATE batches SET previous = ?, hash = ? WHERE seq = ?", (previous, link, seq))
            previous = link
        closing = ledger.execute("SELECT at, result FROM closing").fetchone()
        if closing is not None:
            link = chain_link([previous, "closing", *closing])
            ledger.execute("UPDATE closing SET previous = ?, hash = ?", (previous, link))


def edit(name: str, change: Callable[[dict], Any]) -> Tamper:
    """Changes one JSON file, whose name is given from the folder of the run, or of the student."""

    def apply(folder: Path) -> None:
        path = run_of(folder) / name
        path = path if path.exists() else folder / "student" / name
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return apply


def flip_label(folder: Path) -> None:
    path = folder / "labels.parquet"
    path = path if path.exists() else folder / "student" / "labels.parquet"
    frame = pl.read_parquet(path)
    names = sorted(set(frame["label"].drop_nulls().to_list()))
    labels = frame["label"].to_list()
    at = frame["outcome"].to_list().index("answered")
    labels[at] = next(name for name in [*names, "another"] if name != labels[at])
    frame.with_columns(pl.Series("label", labels)).write_parquet(path)


def hot_journal(ledger: Path, out: Path) -> None:
    """Copies a ledger as a crash in the middle of a write leaves it: half-written pages, and the journal beside it."""
    work = out.with_name("work.db")
    work.write_bytes(ledger.read_bytes())
    connection = sqlite3.connect(work, isolation_level=None)
    try:
        connection.execute("PRAGMA cache_size=1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE batches SET event = event || ' '")
        connection.execute("UPDATE releases SET histogram = NULL")
        many = ((f"{number:064x}",) for number in range(5000))
        connection.executemany("INSERT INTO releases VALUES (?, 1, 0, 2, -1, NULL, NULL, NULL)", many)
        out.write_bytes(work.read_bytes())
        out.with_name(out.name + "-journal").write_bytes(work.with_name("work.db-journal").read_bytes())
        connection.execute("ROLLBACK")
    finally:
        connection.close()
        work.unlink()
