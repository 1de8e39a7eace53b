"""`consilium coordinator statement`: what the ledger of a kit was charged, signed, for the parties."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from consilium.coordinator.ledger.kit_runs import LEDGER, config_of, current_folder
from consilium.coordinator.ledger.store import Ledger
from consilium.node.kit import Kit
from consilium.protocol.errors import ConfigError, LedgerError
from consilium.protocol.files import replace_text
from consilium.protocol.identity import Identity
from consilium.protocol.ledger_statement import LedgerStatement


def write_statement(kit: Kit, file: Path) -> LedgerStatement:
    """Of the federation that the kit serves, while it may be served; as of one moment.

    Raises
    ------
    ConfigError : nothing was begun, or the file is not called .json. LedgerError : the ledger cannot be read, or 0.9
        began it.
    """
    if file.suffix != ".json":
        raise ConfigError(f"{file} is not called .json", "Give a name that ends in .json")
    path = current_folder(kit.folder) / LEDGER
    if not path.exists():
        raise ConfigError(f"{kit.folder} has no ledger yet", "Start the coordinator first")
    ledger = Ledger(path, config_of(path).digest(), "", read_only=True)
    try:
        with closing(ledger), ledger.snapshot():
            statement = ledger.statement()
    except sqlite3.Error as error:
        raise LedgerError(f"cannot read ledger {path}: {error}", "Restore its newest backup") from None
    signed = statement.signed(Identity.load(kit / "identity.pem"))
    replace_text(file, signed.model_dump_json() + "\n")
    return signed
