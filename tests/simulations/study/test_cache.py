"""The cache: whole or not there, private, of several writers, and never anybody else's folder."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from consilium.protocol.errors import ConfigError, OutputExists
from consilium.simulations.study.cache import LostStep, StepCache, usual_cache

ADDRESS = "ab" + "0" * 62
OTHER = "cd" + "1" * 62


def test_what_was_put_comes_back_with_its_time(tmp_path: Path) -> None:
    cache = StepCache(tmp_path / "cache")
    assert not cache.has(ADDRESS)
    content = b'{"no": "head"}\n\x00\xff'
    cache.put(ADDRESS, content, "predict pate", 1.5)
    again = StepCache(tmp_path / "cache")
    assert (again.get(ADDRESS), again.seconds(ADDRESS)) == (content, 1.5)
    again.put(OTHER, b"", "predict pate", 0.5)
    assert again.get(OTHER) == b""
    assert again.usual_seconds() == {"predict pate": 1.0}
    assert again.size().files == 2


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    cache = StepCache(tmp_path / "cache")
    cache.put(ADDRESS, b"votes", "ensemble", 1.0)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache").rglob("*")}
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    assert [path for path, mode in modes.items() if mode & 0o077] == []
    (tmp_path / "cache").chmod(0o755)
    with pytest.raises(ConfigError, match="chmod 700"):
        StepCache(tmp_path / "cache")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x"),
        lambda path: path.write_bytes(b"[]\n" + path.read_bytes()),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"format": 1', b'"format": 0')),
    ],
    ids=["gone", "empty", "cut", "a byte", "no head", "another format"],
)
def test_a_damaged_file_was_never_there(tmp_path: Path, damage) -> None:
    cache = StepCache(tmp_path)
    cache.put(ADDRESS, b"votes", "ensemble", 1.0)
    damage(cache.path(ADDRESS))
    with pytest.raises(LostStep) as lost:
        cache.get(ADDRESS)
    assert lost.value.address == ADDRESS
    cache.put(ADDRESS, b"votes", "ensemble", 1.0)
    assert cache.get(ADDRESS) == b"votes"


def test_a_folder_with_other_files_is_never_taken(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="no cache of studies"):
        StepCache(tmp_path)
    with pytest.raises(OutputExists):
        StepCache(tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_clearing_leaves_what_is_no_step(tmp_path: Path) -> None:
    cache = StepCache(tmp_path / "cache")
    cache.put(ADDRESS, b"votes", "ensemble", 1.0)
    (tmp_path / "cache" / "note.txt").write_text("mine")
    assert cache.clear().files == 1
    assert (cache.size().files, (tmp_path / "cache" / "note.txt").read_text()) == (0, "mine")
    cache.put(ADDRESS, b"votes", "ensemble", 1.0)
    assert StepCache(tmp_path / "cache").get(ADDRESS) == b"votes"


def test_several_writers_and_readers_at_once(tmp_path: Path) -> None:
    """What is read is one writer's or another's, never a mixture."""
    contents = [bytes([number]) * 200_000 for number in range(4)]
    seen: list[bytes] = []
    stop = threading.Event()
    StepCache(tmp_path).put(ADDRESS, contents[0], "x", 0)

    def read() -> None:
        cache = StepCache(tmp_path)
        while not stop.is_set():
            seen.append(cache.get(ADDRESS))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(20):
        for content in contents:
            StepCache(tmp_path).put(ADDRESS, content, "x", 0)
    stop.set()
    reader.join()
    assert seen and set(seen) <= set(contents)


@pytest.mark.parametrize(
    ("environment", "end"),
    [({"XDG_CACHE_HOME": "/somewhere"}, "/somewhere/consilium/studies"), ({}, ".cache/consilium/studies")],
)
def test_where_it_is(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], end: str) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(usual_cache()).endswith(end)
