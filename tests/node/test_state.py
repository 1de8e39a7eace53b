"""A ledger of another format is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from consilium.coordinator.ledger import Ledger
from consilium.protocol.errors import LedgerError


def test_a_ledger_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger(path, "0" * 64, "{}").close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET value = '5' WHERE key = 'format'")
        connection.commit()
    with pytest.raises(LedgerError, match="another federation or format"):
        Ledger(path, "0" * 64, "{}")
