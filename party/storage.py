"""The party's databases: which program may read them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from consilium.protocol.errors import LedgerError

FORMAT = 1
"""Of spend.db and sessions.db, in SQLite's `user_version`; 0 in those of before it was noted. It is counted up whenever
an older program would misread what a newer one wrote."""


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Note the format in a database, within a transaction. Raises LedgerError for one that a newer program wrote."""
    written = connection.execute("PRAGMA user_version").fetchone()[0]
    if written > FORMAT:
        raise LedgerError(
            f"{path} has format {written}, this program knows {FORMAT}",
            "A newer version of Consilium wrote it: install that version again",
        )
    if written < FORMAT:
        connection.execute(f"PRAGMA user_version = {FORMAT}")
