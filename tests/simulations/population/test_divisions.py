"""Who is a party: never by what its labels are, with and without a public part of the data set's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from consilium.protocol.errors import DataError, NotEnoughParties
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.datasets.spec import PublicSpec
from consilium.simulations.population.partition import Partition, deal_by_class, owners_of_size, public_part
from consilium.simulations.population.partitions import PARTITIONS, divided
from consilium.simulations.population.specs import DataSpec

SIZES = [1, 1, 2, 3, 5, 8, 13, 20, 30, 40, 50, 60]
"""Rows of each owner: half of the owners have one class only."""


def hospitals(own_public: bool = False) -> Dataset:
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    generator = np.random.default_rng(0)
    rows = len(owner)
    y = np.where(owner % 2 == 0, 0, generator.integers(0, 3, size=rows))
    return Dataset(
        name="hospitals", title="", attribution="", features=("a",), classes=("x", "y", "z"), owner_label="hospital",
        x=np.arange(rows, dtype=np.float32)[:, None], y=y, owner=owner, time=generator.random(rows),
        public=Public(np.arange(rows - 40, rows - 20), np.arange(rows - 20, rows)) if own_public else None,
    )  # fmt: skip


GIVEN: dict[str, dict[str, Any]] = {
    "owners": {},
    "shuffled": {},
    "matched": {},
    "iid": {"parties": 6},
    "groups": {"parties": 6},
    "dirichlet": {"parties": 6, "alpha": 0.1},
    "time": {"parties": 6},
    "flwr": {"partitioner": {"name": "IidPartitioner", "num_partitions": 6}},
}
"""Every partition, with its keys."""
"""flwr-datasets takes seconds to import."""


def test_every_partition_is_tested() -> None:
    assert set(GIVEN) == set(PARTITIONS)


def parts_of(data: Dataset, division: str, seed: int, minimum_parties: int = 2, **keys: Any) -> Partition:
    """A quarter of the owners is held out."""
    told = {"set": "stroke", "partition": division, "public_share": 0.25, "least_rows": 1}
    spec = DataSpec.model_validate({**told, **GIVEN[division], **keys})
    return divided(data, spec, minimum_parties, seed)


@pytest.mark.parametrize("own_public", [False, True])
@pytest.mark.parametrize("division", GIVEN)
def test_every_row_is_at_one_party_or_public(division: str, own_public: bool) -> None:
    data = hospitals(own_public)
    parts = parts_of(data, division, 3)
    sides = [*parts.parties.values(), parts.queries, parts.test]
    assert sorted(np.concatenate(sides).tolist()) == list(range(len(data.y)))
    assert all(len(rows) for rows in sides)
    if not own_public:
        private = np.concatenate(list(parts.parties.values()))
        public = np.concatenate([parts.queries, parts.test])
        assert not set(data.owner[private]) & set(data.owner[public])
        assert abs(len(parts.queries) - len(parts.test)) <= 1


@pytest.mark.parametrize("division", GIVEN)
def test_a_patient_of_two_owners_is_not_public_and_private(division: str) -> None:
    """Every patient has rows at two hospitals or more, and so some at one that is held out and at one that is not."""
    plain = hospitals()
    data = replace(plain, patient=np.random.default_rng(1).integers(0, 60, size=len(plain.y)))
    parts = parts_of(data, division, 3)
    assert data.patient is not None
    private = data.patient[np.concatenate(list(parts.parties.values()))]
    public = data.patient[np.concatenate([parts.queries, parts.test])]
    assert len(private) and not set(private) & set(public)
    held = np.isin(plain.owner, np.unique(plain.owner[np.concatenate([parts.queries, parts.test])]))
    assert set(data.patient[~held]) & set(public)  # who would have been on both sides


@pytest.mark.parametrize("division", GIVEN)
def test_a_division_depends_on_the_seed(division: str) -> None:
    data = hospitals()
    first, again, other = (parts_of(data, division, seed) for seed in (3, 3, 5))
    assert list(first.parties) == list(again.parties)
    assert all((first.parties[name] == again.parties[name]).all() for name in first.parties)
    assert (first.queries == again.queries).all()
    assert first.queries.tolist() != other.queries.tolist()


@pytest.mark.parametrize("division", ["owners", "iid", "groups"])
@pytest.mark.parametrize("own_public", [False, True])
def test_who_takes_part_does_not_depend_on_labels(division: str, own_public: bool) -> None:
    data = hospitals(own_public)
    expected = parts_of(data, division, 3)
    for y in (np.zeros_like(data.y), data.y[::-1].copy()):
        found = parts_of(replace(data, y=y), division, 3)
        assert list(found.parties) == list(expected.parties)
        assert all((found.parties[name] == rows).all() for name, rows in expected.parties.items())
        assert (found.queries == expected.queries).all()


def test_parties_have_whole_owners_rows_in_their_order() -> None:
    """In whatever order the rows of owners come."""
    plain = hospitals()
    mixed = np.random.default_rng(4).permutation(len(plain.y))
    data = replace(plain, owner=plain.owner[mixed], y=plain.y[mixed])
    for division in ("owners", "groups"):
        parts = parts_of(data, division, 3)
        for rows in parts.parties.values():
            assert np.array_equal(rows, np.flatnonzero(np.isin(data.owner, data.owner[rows])))
    by_owner = parts_of(data, "owners", 3).parties
    assert [np.unique(data.owner[rows]).tolist() for rows in by_owner.values()] == [
        [int(name.rpartition("-")[2])] for name in by_owner
    ]


def test_the_public_part_is_the_same_for_every_division() -> None:
    data = hospitals()
    others = GIVEN.keys() - {"flwr"}
    assert len({tuple(parts_of(data, division, 5).queries.tolist()) for division in others}) == 1


def test_owners_are_parties_by_their_size_alone() -> None:
    data = hospitals()
    assert owners_of_size(data, 8).tolist() == [5, 6, 7, 8, 9, 10, 11]
    parts = parts_of(data, "owners", 0, least_rows=8)
    assert len(parts.parties) == 7 - 2
    assert parts.left_out == 5 - 1  # small ones, of which one is held out
    assert sum(len(set(data.y[rows])) == 1 for rows in parts.parties.values()) > 0
    assert min(len(rows) for rows in parts_of(data, "owners", 0).parties.values()) == 1
    with pytest.raises(NotEnoughParties, match="5 hospitals are left as parties with at least 8 rows, at least 6"):
        parts_of(data, "owners", 0, 6, least_rows=8)


def test_nobody_is_held_out_of_so_few() -> None:
    with pytest.raises(DataError, match=r"no rows are public with data.public_share 0.01"):
        public_part(hospitals(), PublicSpec(share=0.01), 1, 0)


def test_a_party_of_dirichlet_with_too_few_rows_is_left_out_by_the_declared_rule() -> None:
    data = hospitals(own_public=True)
    everybody = parts_of(data, "dirichlet", 0, parties=20).parties
    sizes = {name: len(rows) for name, rows in everybody.items()}
    large = {name for name, size in sizes.items() if size >= 5}
    assert 0 < len(large) < 20 == len(sizes)
    parts = parts_of(data, "dirichlet", 0, parties=20, least_rows=5)
    assert (set(parts.parties), parts.left_out) == (large, 20 - len(large))


# -- Dirichlet --------------------------------------------------------------------------------------------------------

Y = np.repeat(np.arange(10), 300)


def spread(shards: list[np.ndarray]) -> float:
    """Mean over the parties of the share of their most frequent class, at least .1 for ten classes."""
    return float(np.mean([np.bincount(Y[shard]).max() / len(shard) for shard in shards]))


def test_the_smaller_alpha_the_more_parties_differ() -> None:
    found = [spread(deal_by_class(Y, 50, alpha, 0.0, 0)) for alpha in (1e-3, 0.1, 1.0, 1e6)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.9
    assert found[-1] == pytest.approx(0.1, abs=0.001)


def test_sizes_spread_on_top_of_the_shares() -> None:
    sizes = [np.log([len(shard) for shard in deal_by_class(Y, 50, 1e6, deviation, 0)]) for deviation in (0.0, 1.0)]
    assert sizes[0].std() < 0.02  # the shares are all alike
    assert sizes[1].std() == pytest.approx(1.0, abs=0.4)  # 4 standard deviations of an estimate from 50


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("parties", [2, 500])
def test_every_row_is_dealt_once_and_nobody_goes_without(alpha: float, parties: int) -> None:
    shards = deal_by_class(Y, parties, alpha, 1.0, 4)
    assert len(shards) == parties
    assert min(len(shard) for shard in shards) >= 1
    assert sorted(np.concatenate(shards).tolist()) == list(range(len(Y)))


def test_there_are_not_more_parties_than_rows() -> None:
    data = hospitals(own_public=True)
    with pytest.raises(NotEnoughParties, match="193 rows for 194 parties"):
        parts_of(data, "dirichlet", 0, parties=194)
    with pytest.raises(NotEnoughParties, match="12 hospitals for 13 parties"):
        parts_of(data, "groups", 0, parties=13)
    cut = parts_of(data, "dirichlet", 0, most_rows=4)
    assert max(len(rows) for rows in cut.parties.values()) == 4
    cut = parts_of(data, "iid", 1, parties=7, most_rows=5)
    assert {len(rows) for rows in cut.parties.values()} == {5}
