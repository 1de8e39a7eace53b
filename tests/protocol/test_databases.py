"""A database that cannot be used: locked by another process, on a full or read-only disk, damaged. Each is said as what
it is, with its cure, by reads as well as writes; and goes on by itself when it has passed.

The others are real: a second process with SQLite's own lock, and a small file system that fills up.

Files that are replaced in one step. JSON without NaN and infinity, and what it tells instead.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from consilium.aggregator.store import GivenStore
from consilium.coordinator.collection.kept_sums import SESSIONS, KeptSession, VerifiedSessions
from consilium.coordinator.ledger import Ledger, stored_config
from consilium.party.store import KnownFederation, Store
from consilium.protocol import databases
from consilium.protocol.databases import Trouble, check_usable, committed, trouble_of
from consilium.protocol.errors import LedgerError, LedgerLocked, StorageError
from consilium.protocol.files import replace_private, replacing, writing
from consilium.protocol.strict_json import dumps, is_infinite, number
from tests.disks import full, locked, mounted

FEDERATION = "f" * 64
CURE = "Stop that program"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long."""
    monkeypatch.setattr(databases, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(databases, "LOOK_SECONDS", 0.05)


def ledger(path: Path) -> Ledger:
    return Ledger(path, FEDERATION, "{}")


KEPT: dict[str, tuple[Callable[[Path], object], tuple[Callable, ...]]] = {
    "ledger": (
        ledger,
        (Ledger.spent, Ledger.position, Ledger.closing, Ledger.begin_start, lambda file: file.voted_on(["a"], ["p"])),
    ),
    "store": (
        Store,
        (Store.answered, Store.own_secret, lambda file: file.keep_federation(KnownFederation(token_hex()))),
    ),
    "given": (GivenStore, (lambda store: store.transaction().__enter__(),)),
    "sessions": (
        VerifiedSessions,
        (lambda file: file.session("a"), lambda file: file.keep(token_hex(), KeptSession(b"", b"", b""))),
    ),
}


def place(folder: Path, what: str) -> Path:
    return folder / (SESSIONS if what == "sessions" else f"{what}.db")


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("what", KEPT)
def test_every_read_and_write_says_that_another_program_holds_the_file(tmp_path: Path, what: str) -> None:
    opened, uses = KEPT[what]
    path = place(tmp_path, what)
    kept = opened(path)
    for use in uses:
        use(kept)
    with locked(path):
        for use in uses:
            with pytest.raises(LedgerLocked, match=rf"{path.name}: it is locked: another program holds it\. {CURE}"):
                use(kept)
    for use in uses:  # and nothing is left of it
        use(kept)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("use", [ledger, stored_config, lambda path: Ledger(path, FEDERATION, "", read_only=True)])
def test_so_does_whoever_opens_it(tmp_path: Path, use: Callable[[Path], object]) -> None:
    path = tmp_path / "ledger.db"
    ledger(path).close()
    with locked(path), pytest.raises(LedgerLocked, match=CURE):
        use(path)
    use(path)


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(ledger(path)) as file:
        lock = locked(path)
        lock.__enter__()
        ended = threading.Timer(0.5, lambda: lock.__exit__(None, None, None))
        ended.start()
        began = time.monotonic()
        file.voted_on(["a"], ["p"])
        assert time.monotonic() - began > 0.3
        ended.join()
        assert file.asked() == {"p"}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("how", ["BEGIN EXCLUSIVE", "BEGIN IMMEDIATE"])
def test_whoever_looks_finds_the_lock_of_either_kind_and_leaves_no_trace(tmp_path: Path, how: str) -> None:
    path = tmp_path / "ledger.db"
    check_usable(path)
    assert not path.exists()
    ledger(path).close()
    content = path.read_bytes()
    check_usable(path)
    with locked(path, how), pytest.raises(LedgerLocked, match=CURE):
        check_usable(path)
    check_usable(path)
    assert path.read_bytes() == content and [found.name for found in tmp_path.iterdir()] == [path.name]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "disk").mkdir()
    with mounted(tmp_path / "disk"):
        yield tmp_path / "disk"


@pytest.mark.parametrize("what", KEPT)
def test_a_full_disk_is_said_and_nothing_is_lost(small_disk: Path, what: str) -> None:
    opened, uses = KEPT[what]
    path = place(small_disk, what)
    kept = opened(path)
    uses[0](kept)
    check_usable(path)
    before = path.read_bytes()
    with full(small_disk):
        with pytest.raises(LedgerError, match=r"the disk is full\. Make room"):
            check_usable(path)
        with pytest.raises(LedgerError, match=r"the disk is full\. Make room"):
            for _ in range(50):  # some writes find room in the pages that are there
                uses[-1](kept)
        assert path.read_bytes() == before
    for use in uses:
        use(kept)
    check_usable(path)


def test_a_file_on_a_full_disk_is_the_same_trouble(small_disk: Path) -> None:
    """Also behind the error that it was raised for."""
    said = pytest.raises(StorageError, match=r"No space left on device\. Make room")
    with full(small_disk), said as caught, writing(small_disk / "x"):
        replace_private(small_disk / "x", bytes(9000))
    assert not (small_disk / "x").exists() and trouble_of(caught.value) is Trouble.FULL
    with pytest.raises(StorageError), writing(Path("x")):  # as numpy says it
        raise OSError("4096 requested and 0 written")
    assert trouble_of(ValueError("x")) is None


def test_a_disk_that_is_mounted_for_reading_only_is_said(small_disk: Path) -> None:
    path = small_disk / "ledger.db"
    ledger(path).close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for use in (ledger, Store, check_usable):
        with pytest.raises(LedgerError, match=r"cannot be written\. See whether"):
            use(path)
    with closing(Ledger(path, FEDERATION, "", read_only=True)) as reader:
        assert reader.spent() == (0, 0)


@pytest.mark.parametrize("content", [b"no database, but long enough to look like one" * 100, b"\x00" * 8192])
@pytest.mark.parametrize("use", [ledger, Store, check_usable, stored_config])
def test_what_is_no_database_is_damaged(tmp_path: Path, content: bytes, use: Callable[[Path], object]) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"x\.db: it is damaged.*Restore its newest backup"):
        use(path)
    assert path.read_bytes() == content


def test_another_format_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with committed(path, ("rows (content)",), 2):
        pass
    before = path.read_bytes()
    with (
        pytest.raises(LedgerError, match=r"has format 2, this program knows 1\. Use the version"),
        committed(path, ("others (content)",), 1),
    ):
        pytest.fail("it was opened")
    assert path.read_bytes() == before


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "state.json").write_text("old")
    return tmp_path / "state.json"


def test_a_reader_sees_the_old_content_until_the_new_one_is_whole_and_synced_with_its_folder(
    path: Path, monkeypatch
) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(stat.S_IFMT(os.fstat(descriptor).st_mode)))
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert (path.read_text(), list(path.parent.iterdir())) == ("new", [path])
    assert synced == [stat.S_IFREG, stat.S_IFDIR]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space left"), KeyboardInterrupt()])
def test_what_is_broken_off_leaves_the_old_content_and_nothing_else(path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), replacing(path) as file:
        file.write(b"ne")
        raise error
    assert (path.read_text(), list(path.parent.iterdir())) == ("old", [path])
    missing = path.parent / "missing" / "state.json"
    with pytest.raises(FileNotFoundError) as caught, replacing(missing):
        pass
    assert caught.value.filename == str(missing)  # and not a part's that nobody has named


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_part_that_a_crash_left_gives_neither_content_nor_mode(path: Path, mode: int) -> None:
    left = path.with_name("state.json.part")
    left.write_text("half of a longer content")
    left.chmod(0o644)
    before = os.umask(0o022)
    try:
        with replacing(path, mode=mode) as file:
            file.write(b"new")
    finally:
        os.umask(before)
    assert (path.read_text(), list(path.parent.iterdir())) == ("new", [path])
    assert stat.S_IMODE(path.stat().st_mode) == mode & ~0o022


def test_writers_at_the_same_time_do_not_mix_under_names_of_their_own(path: Path) -> None:
    with replacing(path, part=".first.part") as first, replacing(path, part=".second.part") as second:
        first.write(b"first")
        second.write(b"second")
    assert (path.read_text(), list(path.parent.iterdir())) == ("first", [path])  # the one that ended last


CASES: list[tuple[Any, Any]] = [
    ({"epsilon": math.inf}, {"epsilon": None, "infinite": ["epsilon"]}),
    ({"epsilon": 1.5}, {"epsilon": 1.5}),
    ({"order": math.nan}, {"order": None}),
    ({"curve": [1.0, math.inf]}, {"curve": [1.0, None], "infinite": ["curve"]}),
    ({"inner": {"epsilon": math.inf}}, {"inner": {"epsilon": None, "infinite": ["epsilon"]}}),
    ([{"a": (math.inf, 1)}], [{"a": [None, 1], "infinite": ["a"]}]),
]


def test_json_is_strict_and_tells_which_numbers_are_infinite() -> None:
    for value, written in CASES:
        assert json.loads(dumps(value), parse_constant=pytest.fail) == written
    table = json.loads(dumps({"epsilon": math.inf, "delta": 1e-5, "order": math.nan}))
    assert (number(table, "epsilon"), number(table, "delta")) == (math.inf, 1e-5)
    assert [is_infinite(table, key) for key in ("epsilon", "delta", "order", "absent")] == [True, False, False, False]
    for key, error in (("order", TypeError), ("absent", KeyError)):
        with pytest.raises(error):
            number(table, key)
