"""State of another format, and kits that are not as they were signed, are refused."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from consilium.coordinator.ledger import Ledger
from consilium.node.kit import Kit, open_kit
from consilium.node.manifest import MANIFEST
from consilium.party.deployed import PARTY
from consilium.party.store import FORMAT, Store
from consilium.protocol.errors import ConfigError, LedgerError
from tests.deploy.kits import make_kits


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    return make_kits(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def kit(sound: Path, tmp_path: Path) -> Kit:
    return open_kit(Path(shutil.copytree(sound / "party-ward-a", tmp_path / "party-ward-a")))


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


@pytest.mark.parametrize(("name", "said"), [("terms.json", r"terms\.json is not as"), (MANIFEST, "is not signed")])
def test_a_changed_or_unsigned_kit_does_not_start(kit: Kit, name: str, said: str) -> None:
    if name == MANIFEST:
        (kit / name).unlink()
    else:
        (kit / name).write_text("{}")
    with pytest.raises(ConfigError, match=said):
        PARTY.start(kit, print, threading.Event())
