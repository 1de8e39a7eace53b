"""Exact votes of a simulation, kept: a file for each query set, written as parties answer, some hundreds at a time, and
read so.

It is an .npz: `query_ids`, `classes`, `parties` in the order in which they answered, and `choices/00000` and so on, in
the form of `protocol.choices`, uint (parties, queries, teachers), of 256 parties each.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.coordinator.collection.base import Queries
from consilium.coordinator.collection.exchange import Member
from consilium.protocol.choices import add_choices, counted, fault
from consilium.protocol.errors import DataError
from consilium.protocol.files import private_folder, replacing

Keep = Callable[[Member, np.ndarray], None]
"""Gets a counted party and its choices, as they come. Only simulations have one: it is where exact votes leave the
collection."""
VotesSink = AbstractContextManager[Keep]
"""Keeps nothing where the context ends with an error."""

PATTERN = "votes-*.npz"
PREFIX = "choices/"
AT_ONCE = 256
"""Parties whose votes are in one array of the file, and in memory together."""
UNUSABLE = (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, MemoryError, NotImplementedError, TypeError)
"""What numpy raises for a file that is damaged."""


@contextmanager
def keeping(folder: Path, queries: Queries, classes: int) -> Iterator[Keep]:
    """A new file in `folder`, there as a whole once the context has ended without an error."""
    parties: list[str] = []
    waiting: list[np.ndarray] = []
    path = private_folder(folder) / f"votes-{queries.hash[:12]}.npz"
    with replacing(path, 0o600) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:

        def put(name: str, array: np.ndarray) -> None:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)

        def put_choices() -> None:
            if waiting:
                put(f"{PREFIX}{(len(parties) - 1) // AT_ONCE:05d}", np.stack(waiting))
                waiting.clear()

        def keep(member: Member, choices: np.ndarray) -> None:
            parties.append(member.party)
            waiting.append(choices)
            if len(waiting) == AT_ONCE:
                put_choices()

        yield keep
        put_choices()
        put("query_ids", np.array(queries.ids))
        put("classes", np.array(classes))
        put("parties", np.array(parties))


@dataclass(frozen=True)
class KeptVotes:
    """One file that is open. classes: their number. parties: in order of the names."""

    query_ids: list[str]
    classes: int
    parties: list[str]
    _content: np.lib.npyio.NpzFile = field(repr=False)
    _places: Mapping[str, int] = field(repr=False)
    """Of the parties, in the order in which they answered."""
    _last: dict[int, np.ndarray] = field(default_factory=dict, repr=False)

    def choices(self, party: str) -> np.ndarray:
        """What a party said, see `protocol.choices`. Raises DataError."""
        choices = self._choices(party)
        teachers = choices.shape[1] if choices.ndim == 2 else 0
        if wrong := fault(choices, len(self.query_ids), self.classes, teachers):
            raise DataError(f"kept votes of {party}: {wrong}")
        return choices

    def _choices(self, party: str) -> np.ndarray:
        number, place = divmod(self._places[party], AT_ONCE)
        if number not in self._last:
            self._last.clear()
            self._last[number] = self._content[f"{PREFIX}{number:05d}"]
        if not 0 <= place < len(self._last[number]):
            raise DataError(f"kept votes of {party} are missing")
        return self._last[number][place]

    def votes(self, party: str) -> np.ndarray:
        """The same as counts, int64 (queries, classes)."""
        return counted(self.choices(party), self.classes)

    def total(self) -> np.ndarray:
        """Of all parties, int64 (queries, classes). Few parties' votes are in memory at a time."""
        total = np.zeros((len(self.query_ids), self.classes), dtype=np.int64)
        for party in self._places:
            add_choices(total, self.choices(party))
        return total


@contextmanager
def kept_votes(path: Path) -> Iterator[KeptVotes]:
    """A file of `keeping`, open.

    Raises
    ------
    One of `UNUSABLE` : it is damaged; also while it is read from.
    """
    with np.load(path, allow_pickle=False) as content:
        parties = content["parties"].tolist()
        classes, ids = int(content["classes"]), content["query_ids"].tolist()
        places = {party: place for place, party in enumerate(parties)}
        yield KeptVotes(ids, classes, sorted(parties), content, places)
