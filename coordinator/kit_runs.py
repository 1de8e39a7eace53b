"""Where a coordinator's kit keeps its federations, and which folder is that of the one it serves.

state/serving                the folder of the federation that was begun last
state/run-DIGEST/            one federation: federation.json and roster.json as they were when it was begun, ledger.db,
                             events.jsonl; `close` once it is to be closed, coordinator.json once it is

Also what their ledgers say without being opened for writing, and what is left of a federation's query budget.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.parts import QueryBudget
from consilium.protocol.config_files import load
from consilium.protocol.errors import LedgerError
from consilium.protocol.label_source import Unanswered

SERVING, FEDERATION = "serving", "federation.json"
LEDGER, SUMMARY, EVENTS = "ledger.db", "coordinator.json", "events.jsonl"


def begun(run: Path) -> bool:
    """Whether a coordinator was ever started with the federation of a folder."""
    return (run / FEDERATION).exists() or (run / LEDGER).exists()


def is_open(run: Path) -> bool:
    """Begun and not closed."""
    return begun(run) and not (run / SUMMARY).exists()


def runs_of(kit: Path) -> list[Path]:
    """The folders of all federations that were begun, sorted by name."""
    return [folder for folder in sorted((kit / "state").glob("run-*")) if begun(folder)]


def folder_of(kit: Path, config: FederationConfig) -> Path:
    """The folder of a federation; it need not be there yet."""
    return kit / "state" / f"run-{config.digest()[:12]}"


def current_folder(kit: Path) -> Path:
    """Of the federation that was begun last, else of the one that the kit holds. Raises ConfigError if neither can be
    read."""
    named = kit / "state" / SERVING
    if named.exists():
        return kit / "state" / Path(named.read_text(encoding="utf-8").strip()).name
    held = folder_of(kit, load(kit / FEDERATION, FederationConfig))
    others = [] if begun(held) else [run for run in runs_of(kit) if is_open(run)]  # of a version without that file
    return others[0] if len(others) == 1 else held


def asked_in(path: Path) -> frozenset[str]:
    """Ids, hex, of all queries that a ledger records. Raises LedgerError if it cannot be read."""
    return frozenset(row[0] for row in _rows(path, "SELECT query_id FROM releases"))


def config_of(path: Path) -> FederationConfig:
    """The federation that a ledger was made for. Raises LedgerError if it cannot be read."""
    try:
        return FederationConfig.model_validate_json(dict(_rows(path, "SELECT key, value FROM meta"))["config"])
    except (ValidationError, KeyError):
        raise LedgerError(
            f"ledger {path} does not say which federation it is of", "Restore its newest backup"
        ) from None


def _rows(path: Path, question: str) -> list[Any]:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            return connection.execute(question).fetchall()
    except sqlite3.Error as error:
        action = "Restore its newest backup; one of an earlier federation may be moved out of the kit's state instead"
        raise LedgerError(f"cannot read ledger {path}: {error}", action) from None


@dataclass(frozen=True)
class BudgetUse:
    """What was asked and answered of the query budget, and whether the federation is closed, so that nothing more can
    be. asked: as parties have charged it. unanswered: of those asked, see `Unanswered`."""

    asked: int
    answered: int
    query_budget: QueryBudget
    over: bool
    unanswered: Unanswered = field(default_factory=Unanswered)

    @property
    def queries_left(self) -> int:
        """That can still be asked."""
        return 0 if self.over else max(0, self.query_budget.queries - self.asked)

    @property
    def answers_left(self) -> int:
        """That can still be given."""
        return 0 if self.over else self.query_budget.answers - self.answered

    def describe(self) -> str:
        """For people."""
        most = self.query_budget
        used = f"{self.asked} of {most.queries} queries asked, {self.answered} of {most.answers} answers given"
        failed = f"; {self.unanswered.words}" if self.unanswered.queries else ""
        return f"{used}{', over' if self.over else ''}{failed}"


def use_of_budget(config: FederationConfig, ledger: Ledger | None, closed: bool = False) -> BudgetUse:
    """ledger: None before there is one."""
    queries, answered = (0, 0) if ledger is None else ledger.spent()
    unanswered, in_vain = (Unanswered(), 0) if ledger is None else (ledger.unanswered(), ledger.in_vain())
    return BudgetUse(queries + in_vain, answered, config.query_budget, closed, unanswered)
