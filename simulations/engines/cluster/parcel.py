"""What travels between the machine of the run, which keeps every party's home, and the node that computes an answer.

There: the files of the home by their digests, each with a reference that the node follows only if it has not got this
file. Back, in the state of the node's Flower context and so in one piece with the reply: files that the party wrote.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from flwr.app import ConfigRecord

from consilium.protocol.errors import EngineError

RECORD = "consilium.home"
"""Name of the record in which a home's changes come back."""
PARTIES = "parties"


LARGE = 1_000_000
"""Bytes of a file from which on it travels as it is: rows and networks, which no packing makes smaller."""


def packed(content: bytes) -> bytes:
    """As a file travels: a database of a few entries is sixty kilobytes of almost nothing."""
    return zlib.compress(content, 0 if len(content) >= LARGE else 1)


def unpacked(content: bytes) -> bytes:
    """What was packed. Raises zlib.error for anything else."""
    return zlib.decompress(content)


def digest_of(content: bytes) -> str:
    """Of a file."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class HomeFile:
    """One file. digest: of what is in it. content: a reference to it, packed; None where the node will not read it, and
    keeps what it has under this name, if anything."""

    digest: str
    mode: int
    content: Any = field(repr=False)


@dataclass(frozen=True)
class Parcel:
    """A party's home as it is now. run: whose parties these are. files: by path, relative to the run's work folder."""

    run: str
    party: str
    files: Mapping[str, HomeFile]

    @property
    def home(self) -> str:
        """Path of the home, relative to the run's work folder."""
        return f"{PARTIES}/{self.party}"


@dataclass(frozen=True)
class Brought:
    """What a party wrote while it answered one message.

    written: content, packed, and mode by path. node: where it was computed, Ray's id. fetched: bytes that this took.
    """

    written: Mapping[str, tuple[bytes, int]] = field(repr=False)
    removed: tuple[str, ...]
    node: str
    fetched: int

    def record(self) -> ConfigRecord:
        """As it travels."""
        paths = list(self.written)
        return ConfigRecord(
            {
                "paths": paths,
                "contents": [self.written[path][0] for path in paths],
                "modes": [self.written[path][1] for path in paths],
                "removed": list(self.removed),
                "node": self.node,
                "fetched": self.fetched,
            }
        )

    @classmethod
    def of_record(cls, record: ConfigRecord, parcel: Parcel) -> Brought:
        """What came back for this parcel. Raises EngineError if it is nothing that a node of this program sends."""
        table: dict[str, Any] = dict(record)
        try:
            pairs = zip(table["contents"], table["modes"], strict=True)
            written = dict(zip(table["paths"], pairs, strict=True))
            brought = cls(written, tuple(table["removed"]), table["node"], table["fetched"])
        except (KeyError, TypeError, ValueError):
            raise EngineError("a node of the cluster sent back something that is no home") from None
        for path in (*brought.written, *brought.removed):
            parts = PurePosixPath(path).parts
            if parts[:2] != (PARTIES, parcel.party) or len(parts) < 3 or ".." in parts:
                raise EngineError(f"a node of the cluster sent back {path!r}, which is not in {parcel.home}")
        return brought
