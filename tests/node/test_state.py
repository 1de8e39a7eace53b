"""State of another format is refused, and left as it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from consilium.coordinator.ledger import Ledger
from consilium.party.store import FORMAT, Store
from consilium.protocol.errors import LedgerError


def test_a_party_s_state_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "party.db"
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=f"format {FORMAT + 1}, this program knows {FORMAT}"):
        Store(path)
    assert path.read_bytes() == before


def test_a_ledger_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger(path, "0" * 64, "{}").close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET value = '5' WHERE key = 'format'")
        connection.commit()
    with pytest.raises(LedgerError, match="another federation or format"):
        Ledger(path, "0" * 64, "{}")
