"""The party's databases: which program may read them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from consilium.protocol import databases

FORMAT = 2
"""Of spend.db, sessions.db and uploads.db. Since 2, sessions.db holds the block of exact sums."""


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """See `protocol.databases.check_format`."""
    databases.check_format(connection, path, FORMAT)
