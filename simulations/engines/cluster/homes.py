"""The homes of all parties, on the machine of the run: what is here is what holds.

A node gets a copy for one message. What the party wrote comes back together with its reply and is written here before
the coordinator sees the reply. So a node that dies takes nothing with it: the message is as if it had never been sent.
A party answers one message at a time, else two nodes would begin from the same state.
"""

from __future__ import annotations

import stat
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from consilium.aggregator.home import SETTINGS
from consilium.data.private_rows import data_files
from consilium.party.home import open_home
from consilium.protocol.files import replacing
from consilium.simulations.engines.cluster.parcel import PARTIES, Brought, HomeFile, Parcel, digest_of, packed, unpacked

READS_ROWS = frozenset({"train.teacher"})
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

    def figures(self, here: str) -> dict[str, list[dict[str, object]]]:
        """What each node computed, and the bytes of homes that went there and came back. here: the driver's node."""
        return {
            "nodes": [
                {
                    "node": node,
                    "of_the_run": node == here,
                    "messages": self._messages[node],
                    "bytes_there": self._there[node],
                    "bytes_back": self._back[node],
                }
                for node in sorted(self._messages)
            ]
        }

    def _open(self, party: str) -> None:
        folder = self._work / PARTIES / party
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        self._pieces[party] = {self._name(path): self._piece(path) for path in found}
        self._rows[party] = frozenset(map(self._name, _rows_of(folder)))

    def _piece(self, path: Path) -> HomeFile:
        content = path.read_bytes()
        return HomeFile(digest_of(content), stat.S_IMODE(path.stat().st_mode), self._put(packed(content)))

    def _name(self, path: Path) -> str:
        return path.relative_to(self._work).as_posix()


def _rows_of(home: Path) -> list[Path]:
    """Files with a party's rows; the second aggregator has none."""
    return [] if (home / SETTINGS).exists() else list(data_files(open_home(home).data_file))
