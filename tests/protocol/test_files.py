"""Files that are replaced in one step. JSON without NaN and infinity, and what it tells instead."""

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
