"""Ledgers of other federations, looked into without being opened for writing: what they were for, what was asked."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from consilium.coordinator.config import FederationConfig
from consilium.protocol.errors import LedgerError


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
