"""Finished steps of studies on disk, each under the address of all that decided it.

They hold exact votes and functions of private rows: the folder is for its owner alone. A file is one line of JSON and
then the step's bytes, written at once; whoever reads it checks the bytes against their hash, so that half a file, or a
flipped bit, is a step that was never done. Several studies may use a cache at the same time: what two of them make
under one address is the same, and the last one written stays.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import others_may_read, private_folder, replacing, writing

FORMAT = 1
_HEAD = 4096
"""Most bytes of the first line."""
_LOOKED_AT = 200
"""Files of one kind whose times are looked at, for an estimate."""
MARK = "consilium-study-cache"
"""A file that makes a folder a cache, so that nothing else is ever emptied."""


class LostStep(Exception):
    """A file that was there is gone, or damaged. It is no mistake: the step is done again."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(address)


@dataclass(frozen=True)
class CacheSize:
    """Of a cache: files, and their bytes."""

    files: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.files:,} steps, {self.bytes / 1e6:,.1f} MB"


def usual_cache() -> Path:
    """`$XDG_CACHE_HOME/consilium/studies`, else the same below `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "consilium" / "studies"


class StepCache:
    """A folder of finished steps.

    Raises
    ------
    ConfigError : others may read the folder, or it is not one of this program's. PathError : it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        with writing(self.folder):
            private_folder(self.folder)
            mark = self.folder / MARK
            new = not mark.exists()
            if new and any(self.folder.iterdir()) and not mark.exists():  # another study may have begun it meanwhile
                raise ConfigError(
                    f"{self.folder} is no cache of studies and has other files in it",
                    "Give an empty or a new folder with --cache",
                )
            if others_may_read(self.folder):
                raise ConfigError(
                    f"the cache {self.folder} holds exact votes, and others than its owner may read it",
                    f"Run: chmod 700 {self.folder}, or give another with --cache",
                )
            if new:
                mark.touch(mode=0o600)

    def path(self, address: str) -> Path:
        """Where the step of this address is, or would be."""
        return self.folder / address[:2] / address

    def has(self, address: str) -> bool:
        """Whether there is a file; whether it is whole, its reader finds out."""
        return self.path(address).is_file()

    def put(self, address: str, content: bytes, label: str, seconds: float) -> None:
        """Keep a step. label: of which kind it is, for estimates. seconds: that it took.

        Raises
        ------
        StorageError : the disk is full.
        """
        path = self.path(address)
        head = {"format": FORMAT, "what": label, "seconds": round(seconds, 3), "sha256": _sha(content)}
        with writing(path, "Make room, then run the study again: it goes on"):
            private_folder(path.parent)
            part = f"{path.name}.{os.getpid()}.part"
            with replacing(path, mode=0o600, durable=False, part=part) as file:
                file.write(json.dumps(head).encode() + b"\n" + content)

    def get(self, address: str) -> bytes:
        """The bytes of a step. Raises LostStep: its file is not there, or is damaged."""
        try:
            head, _, content = self.path(address).read_bytes().partition(b"\n")
            facts = json.loads(head)
            whole = facts["format"] == FORMAT and facts["sha256"] == _sha(content)
        except (OSError, ValueError, KeyError, TypeError):
            whole, content = False, b""
        if not whole:
            raise LostStep(address)
        return content

    def drop(self, address: str) -> None:
        """Forget a step, if it is there."""
        self.path(address).unlink(missing_ok=True)

    def usual_seconds(self) -> dict[str, float]:
        """Mean seconds of the steps of each kind, of a few hundred that are here."""
        of_label: dict[str, list[float]] = {}
        for path in islice(self._files(), 20 * _LOOKED_AT):
            head = _head(path)
            times = of_label.setdefault(str(head.get("what", "")), [])
            if len(times) < _LOOKED_AT:
                times.append(float(head.get("seconds", 0.0)))
        return {label: sum(times) / len(times) for label, times in of_label.items()}

    def size(self) -> CacheSize:
        """Of all that is kept."""
        sizes = [_size(path) for path in self._files()]
        return CacheSize(len(sizes), sum(sizes))

    def clear(self) -> CacheSize:
        """Remove every step; what was removed. A study that goes on meanwhile does again what it still needs."""
        size = self.size()
        with writing(self.folder):
            for folder in self._folders():
                shutil.rmtree(folder, ignore_errors=True)
        return size

    def _folders(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if re.fullmatch("[0-9a-f]{2}", path.name))

    def _files(self) -> Iterator[Path]:
        for folder in self._folders():
            yield from (path for path in sorted(folder.glob("*")) if re.fullmatch("[0-9a-f]{64}", path.name))


@dataclass(frozen=True)
class Shelf:
    """Where a step's bytes lie: the cache, or, of rows that only travel, a folder of this study alone."""

    cache: StepCache
    loose: StepCache

    def read(self, address: str) -> bytes:
        """Raises LostStep."""
        return (self.loose if self.loose.has(address) else self.cache).get(address)


def _head(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            facts = json.loads(file.readline(_HEAD))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
