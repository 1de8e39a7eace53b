"""The ledger of somebody who may have forged it: structure, configuration, hash chain, counts, and then its content."""

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
from consilium.coordinator.ledger import TABLES, Batch, Ledger, Release, stored_config
from consilium.coordinator.verify.files import Contradiction, Damaged, Unfinished
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import NO_LABEL

JOURNAL = "-journal"


@dataclass(frozen=True)
class Recorded:
    """What a ledger says, after its chain was followed. closing: what it was closed with. Secret, as the ledger is.

    rolled_back: whether a write was broken off by a crash, so that its batch does not count.
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
    Damaged : SQLite cannot read it, or it has other tables than a ledger. Unfinished : it was made, but never written.
    LedgerError : the chain is broken. Contradiction : its counts, labels or configuration are not those of its rows.
    """
    if not path.stat().st_size and not _journal(path).exists():
        raise Unfinished("it is empty, as a crash while it is made leaves it: nothing was charged")
    with _readable(path) as (file, rolled_back):
        try:
            _check_structure(file)
            federation, config_json = stored_config(file)
            config = _config(federation, config_json)
            ledger = Ledger(file, federation, "", read_only=True)
            with closing(ledger), ledger.snapshot():
                batches, ended = ledger.batches(), ledger.closing()
                ids = [query_id for batch in batches for query_id in batch.query_ids]
                releases, counts, strays = ledger.find(ids), ledger.counts(), ledger.uncharged()
        except sqlite3.Error as error:
            raise Damaged(f"SQLite cannot read it: {error}") from None
    if strays:
        raise Contradiction(f"{strays} rows of releases or evidence belong to no batch: nobody was charged for them")
    _check_counts(config, batches, releases, counts)
    return Recorded(config, batches, releases, _closing(ended), rolled_back)


def _closing(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        closing = json.loads(text)
    except ValueError:
        closing = None
    if not isinstance(closing, dict):
        raise Damaged("its closing cannot be read")
    return closing


def _config(federation: str, config_json: str) -> FederationConfig:
    try:
        config = validate(json.loads(config_json), FederationConfig, "configuration")
    except (ValueError, ConfigError):
        raise Damaged("its configuration cannot be read") from None
    if config.digest() != federation:
        raise Contradiction("its configuration does not have the hash that it states")
    return config


def _check_counts(
    config: FederationConfig, batches: list[Batch], releases: dict[str, Release], counts: list[tuple[int, int]]
) -> None:
    """The columns that the chain does not cover, and outcomes and labels that no service writes."""
    if len(releases) != sum(len(batch.query_ids) for batch in batches):
        raise Contradiction("a query was charged twice")
    for number, (batch, written) in enumerate(zip(batches, counts, strict=True), 1):
        counted = (len(batch.query_ids), int(batch.answered.sum()))
        if written != counted:
            raise Contradiction(
                f"batch {number} says {written[0]} asked, {written[1]} answered; it has {counted[0]} and {counted[1]}"
            )
        labels = batch.labels[batch.labels != NO_LABEL]
        if np.any((labels < 0) | (labels >= len(config.rows.classes))):
            raise Contradiction(f"batch {number} has a label that is none of the {len(config.rows.classes)} classes")
        _check_histograms(config, number, batch)
        outcomes = [releases[query_id].outcome for query_id in batch.query_ids]
        if outcomes != batch.outcomes.tolist():
            raise Contradiction(f"batch {number} has an outcome that does not belong to its label")
        if batch.parties < config.minimum_parties:
            raise Contradiction(
                f"batch {number} counts {batch.parties} parties, at least {config.minimum_parties} vote"
            )


def _check_histograms(config: FederationConfig, number: int, batch: Batch) -> None:
    """Noisy histograms are there if the mechanism releases them, of all classes, and the labels are their largest."""
    mechanism = config.mechanism
    if (mechanism.count_sigma > 0) != (batch.counts is not None) and len(batch.labels):
        has = "no histograms" if batch.counts is None else "histograms"
        raise Contradiction(f"batch {number} has {has}, unlike what {mechanism.describe()} releases")
    if batch.counts is None:
        return
    if batch.counts.shape[1] != len(config.rows.classes):
        raise Contradiction(f"batch {number} has histograms of {batch.counts.shape[1]} classes")
    if not np.array_equal(batch.counts.argmax(axis=1), batch.labels):
        raise Contradiction(f"batch {number} has a label that is not the largest count of its histogram")


def _journal(path: Path) -> Path:
    return path.with_name(path.name + JOURNAL)


@contextmanager
def _readable(path: Path) -> Iterator[tuple[Path, bool]]:
    """A file to read, and whether a write was broken off. Then SQLite has to roll back, which it does in a copy.

    Raises
    ------
    Damaged : SQLite cannot read it. Unfinished : somebody holds it for a write all the time.
    """
    if not _broken_off(path):
        yield path, False
        return
    with tempfile.TemporaryDirectory(prefix="consilium-audit-") as folder:
        copy = Path(folder) / path.name
        for original, place in ((path, copy), (_journal(path), _journal(copy))):
            shutil.copyfile(original, place)
        try:
            with closing(sqlite3.connect(copy)) as connection:
                connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            raise Damaged(f"SQLite cannot roll back what a crash broke off: {error}") from None
        yield copy, True


def _broken_off(path: Path) -> bool:
    """Whether SQLite would have to write before anybody can read: the journal of a writer that is dead lies there."""
    try:
        with closing(_connect(path)) as connection:
            connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_BUSY":
            raise Unfinished("another process is writing it all the time") from None
        if name != "SQLITE_READONLY_ROLLBACK":
            raise Damaged(f"SQLite cannot read it: {error}") from None
        return True
    return False


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)


def _check_structure(path: Path) -> None:
    """Tables of a ledger and nothing else: a view or a trigger could show other rows than those that are there."""
    listing = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
    with closing(_connect(path)) as connection:
        connection.execute("PRAGMA trusted_schema=OFF")
        tables = connection.execute(listing).fetchall()
        with closing(sqlite3.connect(":memory:")) as model:
            model.executescript(TABLES)
            if tables != model.execute(listing).fetchall():
                raise Damaged("its tables are not those of a ledger of this version")
        result = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if result != "ok":
        raise Damaged("its pages are damaged, says SQLite's own check")
