"""Exact votes of a simulation, kept: a file for each query set.

It is an .npz: `query_ids`, `classes`, `parties` in the order in which they answered, and `choices` in the form of
`protocol.choices`, uint (parties, queries, teachers).
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.coordinator.collection.base import Queries
from consilium.protocol.choices import add_choices, counted, fault
from consilium.protocol.files import private_folder, replacing

PATTERN = "votes-*.npz"
UNUSABLE = (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, MemoryError, NotImplementedError, TypeError)
"""What is raised for a file that is damaged."""


def keep_votes(folder: Path, queries: Queries, classes: int, choices: Mapping[str, np.ndarray]) -> None:
    """Write what the counted parties chose, by name."""
    path = private_folder(folder) / f"votes-{queries.hash[:12]}.npz"
    with replacing(path, 0o600) as file:
        np.savez_compressed(
            file,
            query_ids=np.array(queries.ids),
            classes=np.array(classes),
            parties=np.array(list(choices)),
            choices=np.stack(list(choices.values())),
        )


@dataclass(frozen=True)
class KeptVotes:
    """One file. classes: their number. choices: see `protocol.choices`, by party."""

    query_ids: list[str]
    classes: int
    choices: dict[str, np.ndarray] = field(repr=False)

    @property
    def parties(self) -> list[str]:
        """In order of their names."""
        return sorted(self.choices)

    def votes(self, party: str) -> np.ndarray:
        """Of one party, int64 (queries, classes)."""
        return counted(self.choices[party], self.classes)

    def total(self) -> np.ndarray:
        """Of all parties, int64 (queries, classes)."""
        total = np.zeros((len(self.query_ids), self.classes), dtype=np.int64)
        for choices in self.choices.values():
            add_choices(total, choices)
        return total


@contextmanager
def kept_votes(path: Path) -> Iterator[KeptVotes]:
    """What `keep_votes` wrote.

    Raises
    ------
    One of `UNUSABLE` : it is damaged; also while it is read from.
    """
    with np.load(path, allow_pickle=False) as content:
        ids, classes = content["query_ids"].tolist(), int(content["classes"])
        choices = dict(zip(content["parties"].tolist(), content["choices"], strict=True))
    for party, chosen in choices.items():
        if wrong := fault(chosen, len(ids), classes, chosen.shape[-1]):
            raise ValueError(f"kept votes of {party}: {wrong}")
    yield KeptVotes(ids, classes, choices)
