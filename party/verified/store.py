"""The uploads that this party gave: the bytes of each session, so that a repeated request gets the same ones.

One SQLite file, mode 0600. An upload is on disk before it leaves. Its bytes are overwritten when the session's lifetime
is over (`secure_delete`); that there was one stays known.
"""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from consilium.party.spend import FORMAT
from consilium.protocol.files import committed

TABLE = (
    "CREATE TABLE IF NOT EXISTS uploads (sid TEXT PRIMARY KEY, query_set TEXT NOT NULL, phase INTEGER NOT NULL,"
    " started REAL NOT NULL, request BLOB NOT NULL, upload BLOB)"
)


@dataclass(frozen=True)
class KeptUpload:
    """request: digest of what was asked. upload: None once its bytes are erased. Never printed."""

    request: bytes
    upload: bytes | None = field(repr=False)


class UploadStore:
    """The file `uploads.db`; made on first use.

    Raises
    ------
    LedgerError : it cannot be read or written, or a newer program wrote it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, sid: str) -> KeptUpload | None:
        """What was given in a session."""
        with self._transaction() as connection:
            return _find(connection, sid)

    def sessions_on(self, query_set: str, phase: int) -> int:
        """In how many sessions votes on this very query set were given, in this phase."""
        statement = "SELECT COUNT(*) FROM uploads WHERE query_set = ? AND phase = ?"
        with self._transaction() as connection:
            return connection.execute(statement, (query_set, phase)).fetchone()[0]

    def keep(
        self, sid: str, query_set: str, phase: int, started: float, request: bytes, upload: bytes
    ) -> KeptUpload | None:
        """Keep the upload, unless another process has given one meanwhile; what is kept, on disk when this returns."""
        row = (sid, query_set, phase, started, request, upload)
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO uploads VALUES (?, ?, ?, ?, ?, ?)", row)
            return _find(connection, sid)

    def erase_before(self, moment: float) -> None:
        """Overwrite the bytes of sessions that began before."""
        with self._transaction() as connection:
            connection.execute("UPDATE uploads SET upload = NULL WHERE started < ? AND upload IS NOT NULL", (moment,))

    def _transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        return committed(self._path, (TABLE,), FORMAT)


def _find(connection: sqlite3.Connection, sid: str) -> KeptUpload | None:
    row = connection.execute("SELECT request, upload FROM uploads WHERE sid = ?", (sid,)).fetchone()
    return None if row is None else KeptUpload(*row)
