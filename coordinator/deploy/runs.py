"""Which federation a coordinator's kit serves: the one that was begun, until it is closed, whatever the kit holds now.

An update that is unpacked over the kit changes nothing of a federation that is open. Folders: `ledger.kit_runs`.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consilium.coordinator.conclusion import conclude_unserved
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.kit_runs import (
    EVENTS,
    FEDERATION,
    LEDGER,
    SERVING,
    SUMMARY,
    BudgetUse,
    asked_in,
    begun,
    config_of,
    current_folder,
    folder_of,
    is_open,
    runs_of,
    use_of_budget,
)
from consilium.coordinator.ledger import Ledger
from consilium.node.kit import Kit
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, FederationOpen
from consilium.protocol.files import private_folder, replace_text
from consilium.sums.modes import WITH_SECOND, load_roster
from consilium.sums.roster import SumRoster

CLOSE, ROSTER, FAILURE = "close", "roster.json", "failure.json"


@dataclass(frozen=True)
class KitRun:
    """One federation of a kit: its folder, which need not be there yet, and its configuration."""

    folder: Path
    config: FederationConfig

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    @property
    def begun(self) -> bool:
        """Whether a coordinator was ever started with it."""
        return begun(self.folder)

    @property
    def closed(self) -> bool:
        """Whether it has its summary, and gives no label any more."""
        return (self / SUMMARY).exists()

    @property
    def closing(self) -> bool:
        """Whether somebody asked for it to be closed."""
        return (self / CLOSE).exists()

    @property
    def open(self) -> bool:
        """Begun and not closed."""
        return is_open(self.folder)

    @property
    def events(self) -> Path:
        """Its event log."""
        return self / EVENTS

    @property
    def short(self) -> str:
        """Its digest as people compare it."""
        return self.config.digest()[:12]

    def summary(self) -> dict[str, Any]:
        """What closing it wrote."""
        return json.loads((self / SUMMARY).read_text(encoding="utf-8"))

    def use(self) -> BudgetUse:
        """What is used up of the query budget. Raises LedgerError."""
        path = self / LEDGER
        ledger = Ledger(path, self.config.digest(), "", read_only=True) if path.exists() else None
        try:
            return use_of_budget(self.config, ledger, self.closed)
        finally:
            if ledger is not None:
                ledger.close()

    def roster(self) -> SumRoster | None:
        """The roster that it was begun with; None for plaintext votes. Raises ConfigError."""
        return load_roster(self.config.collection, self / ROSTER)


def configuration(kit: Kit) -> FederationConfig:
    """The federation that the kit holds now: the one that is served, or the next one. Raises ConfigError."""
    return load(kit / FEDERATION, FederationConfig)


def run_of_kit(kit: Kit) -> KitRun:
    """The run of the federation that the kit holds now. Raises ConfigError."""
    config = configuration(kit)
    return KitRun(folder_of(kit.folder, config), config)


def current_run(kit: Kit) -> KitRun:
    """The federation that was begun last, else the one that the kit holds.

    Raises
    ------
    ConfigError, LedgerError : what says which one cannot be read.
    """
    folder = current_folder(kit.folder)
    return _read(folder) if begun(folder) else run_of_kit(kit)


def earlier_runs(kit: Kit, run: KitRun) -> list[KitRun]:
    """All federations of the kit but this one. Raises ConfigError, LedgerError."""
    return [_read(folder) for folder in runs_of(kit.folder) if folder != run.folder]


def asked_before(kit: Kit, run: KitRun) -> frozenset[str]:
    """Ids of queries of an earlier federation of the kit that cannot be asked in this one: a second aggregator gives
    its half of each row once. Where there is none, parties charge the row again. Raises ConfigError, LedgerError."""
    if run.config.collection not in WITH_SECOND:
        return frozenset()
    spent = [asked_in(other / LEDGER) for other in earlier_runs(kit, run) if (other / LEDGER).exists()]
    return frozenset().union(*spent)


def to_serve(kit: Kit, go_on: bool = False) -> KitRun:
    """The federation to serve: that of the kit. Nothing is begun yet.

    go_on: that which is open, though the kit holds another one by now.

    Raises
    ------
    FederationOpen : another one than the kit's is open.
    """
    held, now = run_of_kit(kit), current_run(kit)
    if now.open and now.folder != held.folder and not go_on:
        raise still_open(kit, now, held)
    return now if now.open else held


def begin(kit: Kit, go_on: bool = False) -> KitRun:
    """The federation to serve, as `to_serve`; its files are kept from now on. Call it with the kit's lock held."""
    held = to_serve(kit, go_on)
    if held.closed or held.folder != run_of_kit(kit).folder:
        return held
    private_folder(kit.state)
    private_folder(held.folder)
    for name in (FEDERATION, ROSTER):
        if (kit / name).exists() and not (held / name).exists():
            shutil.copy(kit / name, held / name)
    replace_text(kit.state / SERVING, held.folder.name + "\n")
    return held


def still_open(kit: Kit, now: KitRun, held: KitRun) -> FederationOpen:
    """What to do where the kit was updated while a federation is open."""
    return FederationOpen(
        f"federation {now.short} is open, and the kit holds another one by now, {held.short}: an update was unpacked",
        f"Close the open one first: consilium node close {kit.folder}; or serve it on: consilium node start"
        f" {kit.folder} --go-on",
    )


def close_unserved(run: KitRun) -> dict[str, Any]:
    """Close a federation that no process serves; nothing of it needs a party. Call it with the kit's lock held.

    Raises
    ------
    ConfigError : it was never begun. LedgerError : its ledger cannot be used.
    """
    if not run.begun:
        raise ConfigError(
            f"federation {run.short} was never started: there is nothing to close", "See: consilium status KIT"
        )
    return conclude_unserved(run.config, run.folder)


def _read(folder: Path) -> KitRun:
    kept = folder / FEDERATION
    return KitRun(folder, load(kept, FederationConfig) if kept.exists() else config_of(folder / LEDGER))
