"""Whether an error means that the party's disk could not be written."""

from __future__ import annotations

import errno
import sqlite3

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
