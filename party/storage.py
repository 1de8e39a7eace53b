"""The party's databases: whether an error means that their disk could not be written, and who may read them."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from consilium.protocol.errors import LedgerError

FORMAT = 1
"""Of spend.db and sessions.db, in SQLite's `user_version`; 0 in those of before it was noted. It is counted up whenever
an older program would misread what a newer one wrote."""
ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
SQLITE_CODES = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}


def storage_failed(error: BaseException | None) -> bool:
    """Full, over quota, read-only or broken: of the error itself or of one that it was raised for.

    >>> storage_failed(OSError(28, "No space left on device"))
    True
    >>> storage_failed(FileNotFoundError(2, "No such file or directory"))
    False
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in ERRNOS:
            return True
        # the lowest byte is the primary code; extended ones, as for a full disk while writing the journal, add to it
        if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in SQLITE_CODES:
            return True
        error = error.__cause__ or error.__context__
    return False


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
