"""The homes of all parties, on the machine of the run, and what travels of them: what is here is what holds.

A node gets a copy for one message: the files of the home by their digests, each with a reference that the node follows
only if it has not got this file. What the party wrote comes back in the state of the node's Flower context, in one
piece with its reply, and is written here before the coordinator sees the reply. So a node that dies takes nothing with
it: the message is as if it had never been sent. A party answers one message at a time, else two nodes would begin from
the same state."""

from __future__ import annotations

import hashlib
import stat
import threading
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from flwr.app import ConfigRecord

from consilium.aggregator import SETTINGS
from consilium.data.private_rows import data_files
from consilium.party.home import open_home
from consilium.protocol.errors import EngineError
from consilium.protocol.files import replacing
from consilium.simulations.engines.block import ROWS, TRAIN_BLOCK
from consilium.simulations.engines.block import SETTINGS as BLOCK

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


READS_ROWS = frozenset({"train.teacher", TRAIN_BLOCK})
"""Messages whose handlers read a party's rows: those travel with no other."""


class Homes:
    """The work folder of one run. put: gives a reference to bytes in Ray's object store, which keeps them while the
    reference lives. shared: files beside the homes that parties read, such as the roster."""

    def __init__(self, work: Path, run: str, put: Callable[[bytes], Any], shared: tuple[str, ...] = ()) -> None:
        self._work, self._run, self._put = work, run, put
        self._shared = {name: self._piece(work / name) for name in shared if (work / name).is_file()}
        self._pieces: dict[str, dict[str, HomeFile]] = {}
        self._rows: dict[str, frozenset[str]] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._counting = threading.Lock()
        self._messages: Counter[str] = Counter()
        self._there: Counter[str] = Counter()
        self._back: Counter[str] = Counter()

    @contextmanager
    def alone(self, party: str) -> Iterator[None]:
        """Hold a party's home against its other messages."""
        with self._counting:
            lock = self._locks[party]
        with lock:
            yield

    def parcel(self, party: str, message_type: str) -> Parcel:
        """The home as a node needs it to answer a message of this type."""
        if party not in self._pieces:
            self._open(party)
        files = self._pieces[party]
        if message_type not in READS_ROWS:
            files = {
                path: HomeFile(piece.digest, piece.mode, None) if path in self._rows[party] else piece
                for path, piece in files.items()
            }
        return Parcel(self._run, party, {**self._shared, **files})

    def receive(self, party: str, brought: Brought) -> None:
        """Write down what a party wrote on a node."""
        files = self._pieces[party]
        for path, (content, mode) in sorted(brought.written.items()):
            target = self._work / path
            for folder in reversed(target.relative_to(self._work / PARTIES / party).parents):
                (self._work / PARTIES / party / folder).mkdir(mode=0o700, exist_ok=True)
            with replacing(target, mode=mode, durable=False) as file:
                # a run that goes on after a power cut lays its parties out anew
                file.write(plain := unpacked(content))
            files[path] = HomeFile(digest_of(plain), mode, self._put(content))
        for path in brought.removed:
            (self._work / path).unlink(missing_ok=True)
            files.pop(path, None)
        with self._counting:
            self._messages[brought.node] += 1
            self._there[brought.node] += brought.fetched
            self._back[brought.node] += sum(len(content) for content, _ in brought.written.values())

    def figures(self, driver: str) -> dict[str, list[dict[str, object]]]:
        """What each node computed, and the bytes of homes that went there and came back. driver: the driver's node."""
        return {
            "nodes": [
                {
                    "node": node,
                    "of_the_run": node == driver,
                    "messages": self._messages[node],
                    "bytes_there": self._there[node],
                    "bytes_back": self._back[node],
                }
                for node in sorted(self._messages)
            ]
        }

    def _open(self, party: str) -> None:
        folder = self._work / PARTIES / party
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        self._pieces[party] = {self._name(path): self._piece(path) for path in files}
        self._rows[party] = frozenset(map(self._name, _rows_of(folder)))

    def _piece(self, path: Path) -> HomeFile:
        content = path.read_bytes()
        return HomeFile(digest_of(content), stat.S_IMODE(path.stat().st_mode), self._put(packed(content)))

    def _name(self, path: Path) -> str:
        return path.relative_to(self._work).as_posix()


def _rows_of(home: Path) -> list[Path]:
    """Files with the rows of a party, or of a block of parties; the second aggregator has none."""
    if (home / BLOCK).exists():
        return [home / ROWS]
    return [] if (home / SETTINGS).exists() else list(data_files(open_home(home).data_file))
