"""The mistake that keyed shards do not make: a party's rows divided by their position, as a control."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np

from consilium.data.private_rows import FileRows, Rows
from consilium.party import node
from consilium.protocol.schema import Schema


def by_position(y: np.ndarray, count: int, seed: int = 0) -> list[np.ndarray]:
    """Row indices of each shard by their position: a permutation, sorted by label, strided."""
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    return [np.sort(order[start::count]) for start in range(count)]


@contextmanager
def divided_by_position() -> Iterator[None]:
    """Parties of this process divide their rows by position."""
    labels: list[np.ndarray] = []

    read = FileRows.read

    def noted(self: FileRows, schema: Schema) -> Rows:
        rows = read(self, schema)
        labels[:] = [rows.y]
        return rows

    def split(identities: np.ndarray, count: int, secret: bytes) -> list[np.ndarray]:
        return by_position(labels[0], count)

    with mock.patch.object(FileRows, "read", noted), mock.patch.object(node, "split", split):
        yield
