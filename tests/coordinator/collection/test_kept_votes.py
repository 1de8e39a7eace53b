"""Kept votes: what a simulation writes of each query set, and reads by party or as a sum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.collection.base import Queries
from consilium.coordinator.collection.plaintext import PATTERN, UNUSABLE, keep_votes, kept_votes
from consilium.protocol.queries import canonical_queries, query_ids
from tests.federation import make_rows

X = canonical_queries(make_rows(4, 5)[0], 3)
SAID = {
    "p02": np.array([[0, 2], [1, 1], [0, 0], [2, 2]], dtype=np.uint8),
    "query_ids": np.array([[0, 1], [0, 1], [0, 1], [0, 1]], dtype=np.uint8),  # a party may be called so
    "p01": np.array([[1, 1], [1, 1], [1, 1], [1, 2]], dtype=np.uint8),
}
GOOD = np.stack(list(SAID.values()))


def kept(folder: Path) -> Path:
    keep_votes(folder / "private", Queries(X), 3, SAID)
    (path,) = (folder / "private").glob(PATTERN)
    return path


def test_what_is_kept_is_read_by_party_and_as_a_sum(tmp_path: Path) -> None:
    with kept_votes(kept(tmp_path)) as votes:
        assert votes.query_ids == query_ids(X)
        assert votes.parties == ["p01", "p02", "query_ids"]
        assert votes.votes("p02").tolist() == [[1, 0, 1], [0, 2, 0], [2, 0, 0], [0, 0, 2]]
        assert votes.total().tolist() == sum(votes.votes(name) for name in SAID).tolist()
        assert "[[" not in repr(votes)


@pytest.mark.parametrize(
    "damage",
    [
        {"choices": None},
        {"choices": GOOD[:2]},
        {"choices": np.where(GOOD == 2, 3, GOOD)},
        {"choices": np.array([None] * 3, dtype=object)},
        {"classes": np.array(2**62)},
    ],
    ids=["no votes", "a party is missing", "a class that is none", "objects", "more classes than memory"],
)
def test_a_damaged_file_is_an_error_that_its_readers_know(tmp_path: Path, damage: dict) -> None:
    path = kept(tmp_path)
    with np.load(path) as file:
        content = {**file, **damage}
    np.savez(path, allow_pickle=True, **{name: array for name, array in content.items() if array is not None})
    with pytest.raises(UNUSABLE), kept_votes(path) as votes:
        votes.total()
