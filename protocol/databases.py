"""A node's SQLite files, and what it means to people that a file cannot be used: full, locked, read-only, damaged.
Whoever meets such an error, at whatever node, in a read or a write, says it with the same sentence and cure."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Final

from consilium.protocol.errors import LedgerError, LedgerLocked

WAIT_SECONDS = 30.0
"""That a database is waited for while another program holds it. A message, or a student, asks again later."""
LOOK_SECONDS: Final = 2.0
"""The same, where somebody only looks how a node stands."""
LEAST_BYTES: Final = 2_000_000
"""Of room on a disk below which a database's next transaction may fail."""


class Trouble(Enum):
    """Why a file cannot be used. sentence: what is so. cure: what to do."""

    FULL = "the disk is full", "Make room on it"
    BROKEN = "the disk takes no more, or fails", "Make room on it; else see its quota, and the system's log"
    LOCKED = (
        "it is locked: another program holds it",
        'Stop that program. Is it a backup? One by `sqlite3 FILE ".backup COPY"` holds it for a moment only',
    )
    READ_ONLY = (
        "it cannot be opened, or cannot be written",
        "See whether it is there, whose it is, and whether its disk is mounted for reading only",
    )
    DAMAGED = "it is damaged, or no database of this program", "Restore its newest backup"

    def __init__(self, sentence: str, cure: str) -> None:
        self.sentence, self.cure = sentence, cure


_ERRNOS = {errno.EIO: Trouble.BROKEN, errno.EROFS: Trouble.READ_ONLY} | dict.fromkeys(
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG), Trouble.FULL
)
_CODES = {
    sqlite3.SQLITE_FULL: Trouble.FULL,
    sqlite3.SQLITE_IOERR: Trouble.BROKEN,
    **dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), Trouble.LOCKED),
    **dict.fromkeys((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM), Trouble.READ_ONLY),
    **dict.fromkeys((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR), Trouble.DAMAGED),
}
"""By the primary code, the lowest byte: extended ones, as for a disk that fails in a journal, add to it."""


def trouble_of(error: BaseException | None) -> Trouble | None:
    """What is the matter with a file, by an error or one that it was raised for; None where it is something else.

    >>> trouble_of(OSError(28, "No space left on device"))
    <Trouble.FULL: ('the disk is full', 'Make room on it')>
    >>> trouble_of(FileNotFoundError(2, "No such file or directory")) is None
    True
    """
    while error is not None:
        # numpy gives no number where the disk takes only a part of an array: "4096 requested and 0 written"
        if isinstance(error, OSError) and error.errno is None and "requested and" in str(error):
            return Trouble.FULL
        code = error.errno if isinstance(error, OSError) else None
        if found := _ERRNOS.get(code or 0) or _CODES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF):
            return found
        error = error.__cause__ or error.__context__
    return None


def unusable(path: Path | None, error: Exception) -> LedgerError:
    """The error for a database that cannot be used."""
    trouble = trouble_of(error) or (Trouble.READ_ONLY if isinstance(error, OSError) else None)
    kind = LedgerLocked if trouble is Trouble.LOCKED else LedgerError
    what, cure = (trouble.sentence, f"{trouble.cure}. ") if trouble else (str(error), "")
    return kind(f"cannot use {path or 'a database in memory'}: {what}", f"{cure}Until then nothing leaves this node")


class Database:
    """One SQLite file, mode 0600, or memory. What is deleted is overwritten. Threads may share it. Every method raises
    LedgerError where the file cannot be read or written, LedgerLocked where another program held it all the time."""

    def __init__(
        self, path: Path | None, *, read_only: bool = False, wait: float | None = None, durable: bool = True
    ) -> None:
        """path: None for memory. The file is made where it is missing, unless it is opened `read_only`. read_only:
        nothing is changed, but for what a process that was killed left of a write, which SQLite undoes. wait: seconds
        for another program, WAIT_SECONDS where None. durable: what was written outlives a power cut."""
        self.path, self._lock = path, threading.RLock()
        try:
            if path is not None and not read_only:
                # made with its mode before SQLite opens it; without O_EXCL, as another process may be making it too
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
                os.chmod(path, 0o600)
            # no statement is kept: of 10,000 databases in memory they would take more room than what is in these
            self._connection: sqlite3.Connection = sqlite3.connect(
                ":memory:" if path is None else f"{path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=WAIT_SECONDS if wait is None else wait,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=0,
            )
        except (sqlite3.Error, OSError) as error:
            raise unusable(path, error) from error
        # FULL leaves the removal of the journal to the disk: a power cut could bring it back, and undo what was charged
        self.execute(f"PRAGMA synchronous={'EXTRA' if durable else 'OFF'}")
        self.execute("PRAGMA query_only=ON" if read_only else "PRAGMA secure_delete=ON")

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._connection.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise unusable(self.path, error) from error

    def executemany(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        with self._lock:
            try:
                self._connection.executemany(statement, rows)
            except sqlite3.Error as error:
                raise unusable(self.path, error) from error

    def one(self, statement: str, *values: object) -> tuple[Any, ...] | None:
        rows = self.execute(statement, *values)
        return rows[0] if rows else None

    @contextmanager
    def transaction(self) -> Generator[None]:
        """All that is written inside is there for good at the end, and undone by any error. They may be nested."""
        with self._lock:
            if self._connection.in_transaction:
                yield
                return
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.commit()
            finally:
                if self._connection.in_transaction:
                    self.execute("ROLLBACK")

    def commit(self) -> None:
        """What was written so far is there for good, also if an error ends the transaction."""
        if self._connection.in_transaction:
            self.execute("COMMIT")

    def make(self, tables: Iterable[str], form: int) -> None:
        """Note the format of a new file (SQLite's `user_version`), and make tables that are missing. Raises LedgerError
        for another format, and changes nothing then."""
        with self.transaction():
            written = self.execute("PRAGMA user_version")[0][0]
            if written not in (0, form):
                raise LedgerError(
                    f"{self.path} has format {written}, this program knows {form}",
                    "Use the version of Consilium that wrote it",
                )
            if written == 0:
                self.execute(f"PRAGMA user_version = {form}")
            for table in tables:
                self.execute(f"CREATE TABLE IF NOT EXISTS {table}")

    def close(self) -> None:
        with self._lock:
            self._connection.close()


@contextmanager
def committed(path: Path, tables: Iterable[str], form: int, wait: float | None = None) -> Generator[Database]:
    """One transaction on a file of this format, on disk when the context is left, and undone by any error."""
    with closing(Database(path, wait=wait)) as file, file.transaction():
        file.make(tables, form)
        yield file


def check_usable(path: Path) -> None:
    """Raise LedgerError where a database could not be written now; whether it is there yet or not. It takes seconds at
    most, and changes nothing."""
    if not path.parent.exists():
        return
    room = os.statvfs(path.parent)
    if (room.f_bavail if os.geteuid() else room.f_bfree) * room.f_frsize < LEAST_BYTES:
        full = OSError(errno.ENOSPC, "")
        raise unusable(path, full) from full
    if not path.exists():
        return
    with closing(Database(path, wait=LOOK_SECONDS)) as file, file.transaction():
        file.execute("SELECT COUNT(*) FROM sqlite_master")
