"""Small SQLite files in which a node keeps what it has given: one transaction for each message, private, durable."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from consilium.protocol.errors import LedgerError


@contextmanager
def committed(path: Path, tables: Sequence[str], form: int) -> Iterator[sqlite3.Connection]:
    """One transaction, on disk when the context is left, and undone by any error. The file, mode 0600, is made on first
    use; others who want it wait up to 30 seconds; what is deleted is overwritten.

    Parameters
    ----------
    tables : statements that make what is missing.
    form : the format that this program knows, see `check_format`.

    Raises
    ------
    LedgerError : the file cannot be read or written, or a newer program wrote it.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA secure_delete=ON")
            connection.execute("BEGIN IMMEDIATE")  # closing the connection undoes it, unless it is committed
            check_format(connection, path, form)
            for statement in tables:
                connection.execute(statement)
            yield connection
            connection.execute("COMMIT")
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(
            f"{path}: {type(error).__name__}", "Free disk space, or restore the file; without it nothing is given"
        ) from error


def check_format(connection: sqlite3.Connection, path: Path, form: int) -> None:
    """Note the format in a database (SQLite's `user_version`; 0 where it was never noted), within a transaction.

    It is counted up whenever an older program would misread what a newer one wrote. Raises LedgerError for one that a
    newer program wrote.
    """
    written = connection.execute("PRAGMA user_version").fetchone()[0]
    if written > form:
        raise LedgerError(
            f"{path} has format {written}, this program knows {form}",
            "A newer version of Consilium wrote it: install that version again",
        )
    if written < form:
        connection.execute(f"PRAGMA user_version = {form}")
