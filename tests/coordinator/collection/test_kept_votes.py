"""Kept votes: what a simulation writes of each party as it comes, and reads one party at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.collection.base import Queries
from consilium.coordinator.collection.exchange import Member
from consilium.coordinator.collection.kept_votes import PATTERN, UNUSABLE, keeping, kept_votes
from consilium.protocol.errors import DataError
from consilium.protocol.queries import canonical_queries, query_ids
from tests.federation import make_rows

X = canonical_queries(make_rows(4, 5)[0], 3)
SAID = {
    "p02": np.array([[0, 2], [1, 1], [0, 0], [2, 2]], dtype=np.uint8),
    "query_ids": np.array([[0, 1], [0, 1], [0, 1], [0, 1]], dtype=np.uint8),  # a party may be called so
    "p01": np.array([[1, 1], [1, 1], [1, 1], [1, 2]], dtype=np.uint8),
}


def kept(folder: Path) -> Path:
    with keeping(folder / "private", Queries(X), 3) as keep:
        for at, (name, choices) in enumerate(SAID.items()):
            keep(Member(at, name, 2), choices)
    (path,) = (folder / "private").glob(PATTERN)
    return path


def test_what_is_kept_is_read_by_party_and_as_a_sum(tmp_path: Path) -> None:
    with kept_votes(kept(tmp_path)) as votes:
        assert votes.query_ids == query_ids(X)
        assert votes.parties == ["p01", "p02", "query_ids"]
        assert all((votes.choices(name) == choices).all() for name, choices in SAID.items())
        assert votes.votes("p02").tolist() == [[1, 0, 1], [0, 2, 0], [2, 0, 0], [0, 0, 2]]
        assert votes.total().tolist() == sum(votes.votes(name) for name in SAID).tolist()
        assert "[[" not in repr(votes)


def test_hundreds_of_parties_are_read_in_any_order(tmp_path: Path) -> None:
    """In the order of their names, which is not that in which they answered, and as a sum."""
    generator = np.random.default_rng(0)
    said = {f"p{index:03d}": np.sort(generator.integers(3, size=(4, 2), dtype=np.uint8)) for index in range(600)}
    with keeping(tmp_path, Queries(X), 3) as keep:
        for name in generator.permutation(list(said)):
            keep(Member(0, str(name), 2), said[str(name)])
    (path,) = tmp_path.glob(PATTERN)
    with kept_votes(path) as votes:
        assert votes.parties == sorted(said)
        assert all((votes.choices(name) == choices).all() for name, choices in said.items())
        assert (votes.total() == sum(votes.votes(name) for name in said)).all()
    with np.load(path) as content:
        assert sum(name.startswith("choices") for name in content.files) == 3


def test_the_same_votes_give_the_same_bytes(tmp_path: Path) -> None:
    assert kept(tmp_path / "one").read_bytes() == kept(tmp_path / "other").read_bytes()


def test_votes_that_gave_no_sum_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), keeping(tmp_path, Queries(X), 3) as keep:
        keep(Member(0, "p01", 2), SAID["p01"])
        raise RuntimeError("too few parties")
    assert list(tmp_path.iterdir()) == []


def changed(path: Path, **arrays: np.ndarray | None) -> Path:
    """Rewritten with other arrays, or without those that are None."""
    with np.load(path) as file:
        content = {**file, **{BLOCK if name == "block" else name: array for name, array in arrays.items()}}
    np.savez(path, allow_pickle=True, **{name: array for name, array in content.items() if array is not None})
    return path


BLOCK = "choices/00000"
GOOD = np.stack(list(SAID.values()))
DAMAGED = {
    "all votes are missing": {"block": None},
    "a party is missing": {"block": GOOD[:2]},
    "a class that is none": {"block": np.where(GOOD == 2, 3, GOOD)},
    "objects": {"block": np.array([None] * 3, dtype=object)},
    "more classes than memory": {"classes": np.array(2**62)},
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_one_typed_error(tmp_path: Path, case: str) -> None:
    path = changed(kept(tmp_path), **DAMAGED[case])
    with pytest.raises((*UNUSABLE, DataError)), kept_votes(path) as votes:
        votes.total()
