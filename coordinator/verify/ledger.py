"""The ledger of somebody who may have forged it: structure, configuration, hash chain and counts, then its content."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger import Batch, Ledger, Release, stored_config
from consilium.coordinator.verify.findings import Contradiction, Damaged, Unfinished
from consilium.protocol.config_files import validate
from consilium.protocol.label_source import NO_LABEL

TABLES = {"meta", "batches", "releases", "closing"}
JOURNAL = "-journal"


@dataclass(frozen=True)
class Recorded:
    """What a ledger says, after its chain was followed. closing: what it was closed with. Secret, as the ledger is.

    rolled_back: whether a crash broke off a write, so that its batch does not count.
    """

    config: FederationConfig
    batches: list[Batch] = field(repr=False)
    releases: dict[str, Release] = field(repr=False)
    closing: dict[str, Any] | None = field(repr=False)
    rolled_back: bool = False

    @property
    def asked(self) -> int:
        """Queries that were charged."""
        return len(self.releases)

    @property
    def answered(self) -> int:
        """Labels that the parties' votes gave."""
        return sum(int(batch.answered.sum()) for batch in self.batches)

    @property
    def reinforced(self) -> int:
        """Predictions of the student that were confirmed."""
        return sum(int(batch.reinforced.sum()) for batch in self.batches)


def read_ledger(path: Path) -> Recorded:
    """Read it all, as of one moment; a coordinator that serves goes on meanwhile.

    Raises
    ------
    Damaged : SQLite cannot read it, or it is no ledger. Unfinished : it was made, but never written. LedgerError : the
        chain is broken. ConfigError : its configuration is none. Contradiction : its counts, labels or configuration
        are not those of its rows.
    """
    if not path.stat().st_size and not path.with_name(path.name + JOURNAL).exists():
        raise Unfinished("it is empty, as a crash while it is made leaves it: nothing was charged")
    try:
        with _readable(path) as (file, rolled_back):
            _check_structure(file)
            federation, text = stored_config(file)
            config = validate(json.loads(text), FederationConfig, "its configuration")
            if config.digest() != federation:
                raise Contradiction("its configuration does not have the hash that it states")
            ledger = Ledger(file, federation, "", read_only=True)
            with closing(ledger), ledger.snapshot():
                batches, ended = ledger.batches(), ledger.closing()
                releases = ledger.find([query_id for batch in batches for query_id in batch.query_ids])
                strays = ledger.uncharged()
    except sqlite3.Error as error:
        raise Damaged(f"SQLite cannot read it: {error}") from None
    if strays:
        raise Contradiction(f"{strays} releases belong to no batch: nobody was charged for them")
    if len(releases) != sum(len(batch.query_ids) for batch in batches):
        raise Contradiction("a query was charged twice")
    for number, batch in enumerate(batches, 1):
        _check_batch(config, f"batch {number}", batch, releases)
    return Recorded(config, batches, releases, None if ended is None else json.loads(ended), rolled_back)


def _check_batch(config: FederationConfig, name: str, batch: Batch, releases: dict[str, Release]) -> None:
    """Outcomes, labels and noisy counts that no service writes."""
    classes, labels = len(config.rows.classes), batch.labels[batch.labels != NO_LABEL]
    if np.any((labels < 0) | (labels >= classes)):
        raise Contradiction(f"{name} has a label that is none of the {classes} classes")
    if [releases[query_id].outcome for query_id in batch.query_ids] != batch.outcomes.tolist():
        raise Contradiction(f"{name} has an outcome that does not belong to its label")
    if batch.parties < config.minimum_parties:
        raise Contradiction(f"{name} counts {batch.parties} parties, at least {config.minimum_parties} vote")
    released = config.mechanism.count_sigma > 0
    if released != (batch.counts is not None) and len(batch.labels):
        has = "no histograms" if released else "histograms"
        raise Contradiction(f"{name} has {has}, unlike what {config.mechanism.describe()} releases")
    if batch.counts is not None and batch.counts.shape[1] != classes:
        raise Contradiction(f"{name} has histograms of {batch.counts.shape[1]} classes, not of {classes}")
    if batch.counts is not None and not np.array_equal(batch.counts.argmax(axis=1), batch.labels):
        raise Contradiction(f"{name} has a label that is not the largest count of its histogram")


@contextmanager
def _readable(path: Path) -> Iterator[tuple[Path, bool]]:
    """A file to read, and whether a write was broken off. Then SQLite has to roll back, which it does in a copy."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        reason = getattr(error, "sqlite_errorname", "")
        if reason == "SQLITE_BUSY":
            raise Unfinished("another process is writing it all the time") from None
        if reason != "SQLITE_READONLY_ROLLBACK":
            raise
    else:
        yield path, False
        return
    with tempfile.TemporaryDirectory(prefix="consilium-audit-") as folder:
        copy = Path(folder) / path.name
        for end in ("", JOURNAL):
            shutil.copyfile(path.with_name(path.name + end), copy.with_name(copy.name + end))
        with closing(sqlite3.connect(copy)) as connection:
            connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        yield copy, True


def _check_structure(path: Path) -> None:
    """The tables of a ledger, and no view or trigger: it could show other rows than those that are there."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema=OFF")
        entries = connection.execute("SELECT type, name FROM sqlite_master").fetchall()
        if any(kind in ("view", "trigger") for kind, _ in entries) or not {name for _, name in entries} >= TABLES:
            raise Damaged("its tables are not those of a ledger")
        if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise Damaged("its pages are damaged, says SQLite's own check")
