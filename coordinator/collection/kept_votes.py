"""Exact votes of a simulation: a file for each query set, written party by party as they answer, and read so.

It is an .npz: `query_ids`, `classes`, `parties` in order of their names with their `weights`, and for each party an
array `choices-NAME` in the form of `protocol.parties.choices`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.coordinator.collection.admission import Member
from consilium.coordinator.collection.clear import Keep
from consilium.protocol.errors import DataError
from consilium.protocol.files import private_folder, replacing
from consilium.protocol.parties.choices import add_choices, counted, fault
from consilium.protocol.rows.queries import query_ids

PATTERN = "votes-*.npz"
PREFIX = "choices-"
UNUSABLE = (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, MemoryError, NotImplementedError, TypeError)
"""What numpy raises for a file that is damaged."""


@contextmanager
def keeping(folder: Path, queries: np.ndarray, query_set: str, classes: int) -> Iterator[Keep]:
    """A new file in `folder`, there as a whole once the context has ended without an error."""
    weights: dict[str, int] = {}
    path = private_folder(folder) / f"votes-{query_set[:12]}.npz"
    with replacing(path, 0o600) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:

        def put(name: str, array: np.ndarray) -> None:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)

        def keep(member: Member, choices: np.ndarray) -> None:
            put(f"{PREFIX}{member.party}", choices)
            weights[member.party] = member.weight

        yield keep
        names = sorted(weights)
        put("query_ids", np.array(query_ids(queries)))
        put("classes", np.array(classes))
        put("parties", np.array(names))
        put("weights", np.array([weights[name] for name in names], dtype=np.int64))


@dataclass(frozen=True)
class KeptVotes:
    """One file that is open. classes: their number. weights: by party, in order of the names."""

    query_ids: list[str]
    classes: int
    weights: dict[str, int]
    _content: np.lib.npyio.NpzFile = field(repr=False)

    def choices(self, party: str) -> np.ndarray:
        """What a party said, see `protocol.parties.choices`. Raises DataError."""
        found = self._content[f"{PREFIX}{party}"]
        teachers = found.shape[1] if found.ndim == 2 else 0
        if wrong := fault(found, len(self.query_ids), self.classes, teachers):
            raise DataError(f"kept votes of {party}: {wrong}")
        return found

    def votes(self, party: str) -> np.ndarray:
        """The same as counts, int64 (queries, classes), with the party's weight."""
        return counted(self.choices(party), self.classes, self.weights[party])

    def total(self) -> np.ndarray:
        """Of all parties, int64 (queries, classes). One party's votes are in memory at a time."""
        total = np.zeros((len(self.query_ids), self.classes), dtype=np.int64)
        for party, weight in self.weights.items():
            add_choices(total, self.choices(party), weight)
        return total


@contextmanager
def kept_votes(path: Path) -> Iterator[KeptVotes]:
    """A file of `keeping`, open.

    Raises
    ------
    DataError : another version wrote it. One of `UNUSABLE` : it is damaged; also while it is read from.
    """
    with np.load(path, allow_pickle=False) as content:
        if "votes" in content.files:
            raise DataError(f"{path.name} was written by an older version", "Run the scenario again, or audit it there")
        parties, weights = content["parties"].tolist(), content["weights"].tolist()
        classes, ids = int(content["classes"]), content["query_ids"].tolist()
        yield KeptVotes(ids, classes, dict(zip(parties, weights, strict=True)), content)
