"""Upgrade and rollback: whose state it is stands in it, and an older program does not use a newer one's."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from consilium.coordinator.ledger import Ledger
from consilium.node.checks import STATE_FORMAT, VERSION_FILE, enter
from consilium.node.kit import Kit, open_kit
from consilium.party.account import FORMAT
from consilium.party.spend import SpendStore
from consilium.party.sum_store import SessionStore
from consilium.protocol.errors import ConfigError, LedgerError
from consilium.protocol.versions import program_versions
from tests.command_line import consilium
from tests.deploy.kits import make_kits


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    return make_kits(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def kit(sound: Path, tmp_path: Path) -> Kit:
    return open_kit(Path(shutil.copytree(sound / "party-ward-a", tmp_path / "party-ward-a")))


def entered(kit: Kit) -> list[str]:
    told: list[str] = []
    enter(kit, lambda _, what: told.append(what))
    return told


def test_whose_state_it_is_stands_in_it(kit: Kit) -> None:
    assert entered(kit) == entered(kit) == []
    found = json.loads((kit.state / VERSION_FILE).read_text())
    assert found == {"format": STATE_FORMAT, "program": program_versions()}


def test_an_upgrade_is_told(kit: Kit) -> None:
    (kit.state / VERSION_FILE).write_text('{"format": 1, "program": "consilium-pate 0.5"}')
    assert entered(kit) == [f"this state was used by consilium-pate 0.5; this is {program_versions()}"]
    assert entered(kit) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            {"format": STATE_FORMAT + 1, "program": "consilium-pate 9.9", "more": 1},
            "used by consilium-pate 9.9, in format",
        ),
        ({"format": 0, "program": "x"}, "format"),
        ("no table", "not valid JSON"),
    ],
)
@pytest.mark.parametrize("command", ["node start", "doctor"])
def test_a_newer_state_is_left_alone(kit: Kit, command: str, content: object, said: str) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (kit.state / VERSION_FILE).write_text(text)
    done = consilium(*command.split(), kit.folder)
    assert done.exit_code == (2 if command == "node start" else 1)
    assert said in done.stdout + done.stderr
    assert (kit.state / VERSION_FILE).read_text() == text


def touch_spend(path: Path) -> None:
    SpendStore(path).greet("0" * 64, ())


def touch_sessions(path: Path) -> None:
    with SessionStore(path).transaction() as transaction:
        transaction.commit()


STORES: dict[str, Callable[[Path], object]] = {"spend.db": touch_spend, "sessions.db": touch_sessions}


@pytest.mark.parametrize("name", STORES)
def test_a_newer_database_is_refused_and_an_older_one_is_not(tmp_path: Path, name: str) -> None:
    path, use = tmp_path / name, STORES[name]
    use(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
        connection.execute("PRAGMA user_version = 0")  # of before it was noted
    use(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=f"format {FORMAT + 1}, this program knows {FORMAT}. A newer version"):
        use(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("written", "said"), [("5", "A newer version"), ("2", "another federation or format")])
def test_a_ledger_of_another_format_says_which(tmp_path: Path, written: str, said: str) -> None:
    path = tmp_path / "ledger.db"
    Ledger(path, "0" * 64, "{}").close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'format'", (written,))
        connection.commit()
    with pytest.raises(LedgerError, match=said):
        Ledger(path, "0" * 64, "{}")


def test_a_changed_kit_does_not_start(kit: Kit) -> None:
    (kit / "terms.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"terms\.json is not as"):
        entered(kit)
    assert not (kit.state / VERSION_FILE).exists()
