"""Files that are replaced in one step.

JSON without NaN and infinity, and what it tells instead.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from consilium.protocol.files import replacing
from consilium.protocol.strict_json import dumps, is_infinite, number


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "state.json"
    found.write_text("old")
    return found


def test_a_reader_sees_the_old_content_until_the_new_one_is_whole(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space left"), KeyboardInterrupt()])
def test_what_is_broken_off_leaves_the_old_content_and_nothing_else(path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), replacing(path) as file:
        file.write(b"ne")
        raise error
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_an_error_names_the_file_that_was_to_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "state.json"
    with pytest.raises(FileNotFoundError) as caught, replacing(path):
        pass
    assert caught.value.filename == str(path)


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
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == mode & ~0o022
    assert not left.exists()


def test_what_is_written_is_synced_with_its_folder(path: Path, monkeypatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(stat.S_IFMT(os.fstat(descriptor).st_mode)))
    with replacing(path) as file:
        file.write(b"new")
    assert synced == [stat.S_IFREG, stat.S_IFDIR]


def test_writers_at_the_same_time_do_not_mix_under_names_of_their_own(path: Path) -> None:
    with replacing(path, part=".first.part") as first, replacing(path, part=".second.part") as second:
        first.write(b"first")
        second.write(b"second")
    assert path.read_text() == "first"  # the one that ended last
    assert list(path.parent.iterdir()) == [path]


CASES: list[tuple[Any, Any]] = [
    ({"epsilon": math.inf}, {"epsilon": None, "infinite": ["epsilon"]}),
    ({"epsilon": 1.5}, {"epsilon": 1.5}),
    ({"order": math.nan}, {"order": None}),
    ({"curve": [1.0, math.inf]}, {"curve": [1.0, None], "infinite": ["curve"]}),
    ({"inner": {"epsilon": math.inf}}, {"inner": {"epsilon": None, "infinite": ["epsilon"]}}),
    ([{"a": (math.inf, 1)}], [{"a": [None, 1], "infinite": ["a"]}]),
]


@pytest.mark.parametrize(("value", "written"), CASES)
def test_what_is_written(value: Any, written: Any) -> None:
    assert json.loads(dumps(value), parse_constant=pytest.fail) == written


def test_what_is_read() -> None:
    table = json.loads(dumps({"epsilon": math.inf, "delta": 1e-5, "order": math.nan}))
    assert (number(table, "epsilon"), number(table, "delta")) == (math.inf, 1e-5)
    assert [is_infinite(table, key) for key in ("epsilon", "delta", "order", "absent")] == [True, False, False, False]
    with pytest.raises(TypeError):
        number(table, "order")
    with pytest.raises(KeyError):
        number(table, "absent")
