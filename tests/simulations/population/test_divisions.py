"""Who is a party: never by what its labels are; divisions of the natural division's own rows; matched ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from consilium.protocol.errors import ConfigError, DataError, NotEnoughParties
from consilium.simulations.datasets.base import Dataset, Public, PublicSpec
from consilium.simulations.population.partition import TOLERANCE, Partition, deal_by_class, public_part
from consilium.simulations.population.partitions import PARTITIONS, divided
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import divided_source, load_scenario

SIZES = [1, 1, 2, 3, 5, 8, 13, 20, 30, 40, 50, 60]
"""Rows of each owner: half of the owners have one class only."""
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


def made(owner: np.ndarray, y: np.ndarray, name: str = "hospital", **more: Any) -> Dataset:
    generator, rows = np.random.default_rng(2), len(owner)
    return Dataset(
        name=f"{name}s", title="", attribution="", features=("a",), classes=tuple("xyzuvw"[: int(y.max()) + 1]),
        owner_label=name, x=np.arange(rows, dtype=np.float32)[:, None], y=y, owner=owner,
        time=np.round(generator.normal(size=rows), 2), **more,
    )  # fmt: skip


def hospitals(own_public: bool = False) -> Dataset:
    owner, rows = np.repeat(np.arange(len(SIZES)), SIZES), sum(SIZES)
    y = np.where(owner % 2 == 0, 0, np.random.default_rng(0).integers(0, 3, size=rows))
    part = Public(np.arange(rows - 40, rows - 20), np.arange(rows - 20, rows)) if own_public else None
    return made(owner, y, public=part)


def parts_of(data: Dataset, division: str, seed: int, minimum_parties: int = 2, **keys: Any) -> Partition:
    """A quarter of the owners is held out; None leaves a key away."""
    told = {"set": "stroke", "partition": division, "public_share": 0.25, "least_rows": 1, **GIVEN[division], **keys}
    spec = DataSpec.model_validate({key: value for key, value in told.items() if value is not None})
    return divided(data, spec, minimum_parties, seed)


def everything(partition: Partition) -> list[int]:
    return sorted(np.concatenate(list(partition.parties.values())).tolist())


def sizes(partition: Partition) -> list[int]:
    return [len(rows) for rows in partition.parties.values()]


def test_every_partition_is_tested() -> None:
    assert set(GIVEN) == set(PARTITIONS)


@pytest.mark.parametrize("own_public", [False, True])
@pytest.mark.parametrize("division", GIVEN)
def test_every_row_is_at_one_party_or_public_and_the_seed_decides(division: str, own_public: bool) -> None:
    data = hospitals(own_public)
    parts, again, other = (parts_of(data, division, seed) for seed in (3, 3, 5))
    sides = [*parts.parties.values(), parts.queries, parts.test]
    assert sorted(np.concatenate(sides).tolist()) == list(range(len(data.y)))
    assert all(len(rows) for rows in sides)
    assert list(parts.parties) == list(again.parties)
    assert all((parts.parties[name] == again.parties[name]).all() for name in parts.parties)
    if not own_public:
        public = np.concatenate([parts.queries, parts.test])
        assert not set(data.owner[everything(parts)]) & set(data.owner[public])
        assert abs(len(parts.queries) - len(parts.test)) <= 1
        assert (parts.queries == again.queries).all() and parts.queries.tolist() != other.queries.tolist()
        assert parts.queries.tolist() == parts_of(data, "owners", 3).queries.tolist()  # the same for every division


@pytest.mark.parametrize("division", GIVEN)
def test_a_patient_of_two_owners_is_not_public_and_private(division: str) -> None:
    """Every patient has rows at two hospitals or more, and so some at one that is held out and at one that is not."""
    plain = hospitals()
    patient = np.random.default_rng(1).integers(0, 60, size=len(plain.y))
    parts = parts_of(replace(plain, patient=patient), division, 3)
    private, public = patient[everything(parts)], patient[np.concatenate([parts.queries, parts.test])]
    assert len(private) and not set(private) & set(public)
    held = np.isin(plain.owner, np.unique(plain.owner[np.concatenate([parts.queries, parts.test])]))
    assert set(patient[~held]) & set(public)  # who would have been on both sides


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
    for name, rows in parts_of(data, "owners", 3).parties.items():
        assert np.unique(data.owner[rows]).tolist() == [int(name.rpartition("-")[2])]


def test_owners_are_parties_by_their_size_alone() -> None:
    data = hospitals()
    parts = parts_of(data, "owners", 0, least_rows=8)
    assert len(parts.parties) == 7 - 2
    assert parts.left_out == 5 - 1  # small ones, of which one is held out
    assert sum(len(set(data.y[rows])) == 1 for rows in parts.parties.values()) > 0
    assert min(sizes(parts_of(data, "owners", 0))) == 1


def test_a_party_of_dirichlet_with_too_few_rows_is_left_out_by_the_declared_rule() -> None:
    data = hospitals(own_public=True)
    everybody = parts_of(data, "dirichlet", 0, parties=20).parties
    large = {name for name, rows in everybody.items() if len(rows) >= 5}
    assert 0 < len(large) < 20 == len(everybody)
    parts = parts_of(data, "dirichlet", 0, parties=20, least_rows=5)
    assert (set(parts.parties), parts.left_out) == (large, 20 - len(large))


def test_too_few_are_told() -> None:
    data = hospitals(own_public=True)
    for division, keys, told in (
        ("dirichlet", {"parties": 194}, "193 rows for 194 parties"),
        ("groups", {"parties": 13}, "12 hospitals for 13 parties"),
    ):
        with pytest.raises(NotEnoughParties, match=told):
            parts_of(data, division, 0, **keys)
    for division in ("owners", *FOLLOWERS):
        keys = {"parties": None, "least_rows": 8}
        with pytest.raises(NotEnoughParties, match="hospitals are left as parties with at least 8 rows, at least 50"):
            parts_of(hospitals(), division, 0, 50, **keys)
    with pytest.raises(DataError, match=r"no rows are public with data.public_share 0.01"):
        public_part(hospitals(), PublicSpec(share=0.01), 1, 0)
    assert max(sizes(parts_of(data, "dirichlet", 0, most_rows=4))) == 4
    assert set(sizes(parts_of(data, "iid", 1, parties=7, most_rows=5))) == {5}


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["data.partition=shuffled", "data.parties=9"], 'parties belongs to partition "iid", "groups", "dirichlet"'),
        (["data.partition=chance"], "there is no partition 'chance': choose from owners, iid, groups"),
        (["data.partition=flwr"], '"flwr" needs partitioner'),
        (["data.partition=iid", "data.partitioner.name=IidPartitioner"], 'partitioner belongs to partition "flwr"'),
        (["data.partition=groups"], '"groups" needs parties'),
        (
            ["data.partition=iid", "data.parties=9", "data.least_rows=20", "data.most_rows=5"],
            "most_rows 5 is below least_rows 20",
        ),
    ],
)
def test_what_a_scenario_may_not_say(overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        divided_source(load_scenario("stroke", overrides), 0)


# -- as the natural division ------------------------------------------------------------------------------------------

FOLLOWERS = ("iid", "dirichlet", "shuffled", "matched", "time")
"""Divisions with as many parties as the natural one has."""


def wards(skew: float = 2.0, owners: int = 12, classes: int = 3) -> Dataset:
    """Owners of 5 to 80 rows, whose classes differ by `skew`."""
    generator = np.random.default_rng(1)
    owner = np.repeat(np.arange(owners), np.linspace(5, 80, owners).astype(int))
    shares = generator.dirichlet(np.full(classes, 10 / skew), size=owners)
    return made(owner, np.array([generator.choice(classes, p=shares[who]) for who in owner]), "ward")


def as_natural(data: Dataset, division: str, **keys: Any) -> Partition:
    return parts_of(data, division, 0, **{"parties": None, "least_rows": 8, **keys})


@pytest.mark.parametrize("division", FOLLOWERS)
def test_without_a_number_they_have_the_natural_parties_and_rows_and_with_one_all_private_ones(division: str) -> None:
    data = wards()
    natural, other = as_natural(data, "owners"), as_natural(data, division)
    assert 5 < len(natural.parties) == len(other.parties) + other.left_out
    if division != "dirichlet":  # where parties that got too little are left out
        assert everything(other) == everything(natural)
    if division in ("shuffled", "matched"):
        assert sizes(other) == sizes(natural)
    if division in ("iid", "time"):
        assert max(sizes(other)) - min(sizes(other)) <= 1
    if division != "shuffled":
        parts = as_natural(data, division, parties=4, least_rows=None)
        assert len(parts.parties) == 4
        assert {*everything(parts), *parts.queries, *parts.test} == set(range(len(data.y)))
    alone = replace(data, owner=np.zeros_like(data.owner), public=Public(np.arange(50), np.arange(50, 80)))
    told = f'data.partition is "{division}", and all rows of wards have one owner.*with parties'
    with pytest.raises(ConfigError, match=told):
        as_natural(alone, division)
    if division in ("iid", "time", "dirichlet"):
        assert len(as_natural(alone, division, parties=5, least_rows=1).parties) == 5


def by_definition(y: np.ndarray, partition: Partition) -> float:
    """Mean Hellinger distance, term by term."""
    pooled = y[everything(partition)]
    found = []
    for rows in partition.parties.values():
        own = y[rows]
        parts = [(np.sqrt(np.mean(own == label)) - np.sqrt(np.mean(pooled == label))) ** 2 for label in set(pooled)]
        found.append(np.sqrt(sum(parts) / 2))
    return float(np.mean(found))


@pytest.mark.parametrize(("skew", "owners", "classes"), [(0.01, 60, 3), (2.0, 60, 2), (10.0, 40, 6), (100.0, 60, 3)])
def test_matched_labels_are_as_far_as_the_natural_ones(skew: float, owners: int, classes: int) -> None:
    data = wards(skew, owners, classes)
    natural, other, lot = (as_natural(data, name) for name in ("owners", "matched", "shuffled"))
    wanted, reached, by_lot = (by_definition(data.y, each) for each in (natural, other, lot))
    assert abs(wanted - reached) <= TOLERANCE
    names = ("hellinger", "hellinger_natural", "hellinger_by_lot")
    assert [other.measures[name] for name in names] == pytest.approx([reached, wanted, by_lot], rel=1e-5)
    assert np.bincount(data.y[everything(other)]).tolist() == np.bincount(data.y[everything(natural)]).tolist()


def test_matched_finds_the_alpha_that_made_the_division() -> None:
    """Class shares of 1500 parties from numpy's Dirichlet(4 x pooled), rounded: 5 standard deviations of two such lots
    are 16 % of alpha (the mean distance has one of 1.2 % in each, and alpha goes with its square)."""
    parties, rows = 1500, 60
    shares = np.random.default_rng(5).dirichlet(4.0 * np.array([0.5, 0.3, 0.2]), size=parties)
    first = np.rint(shares[:, 0] * rows).astype(int)
    both = np.rint((shares[:, 0] + shares[:, 1]) * rows).astype(int)
    y = np.concatenate([np.repeat([0, 1, 2], [a, b - a, rows - b]) for a, b in zip(first, both, strict=True)])
    data = made(np.repeat(np.arange(parties), rows), y)
    assert as_natural(data, "matched").measures["alpha"] == pytest.approx(4.0, rel=0.16)


def test_what_no_alpha_reaches_is_told_with_what_can_be_reached() -> None:
    """Every owner has one class; of three equal parties one must have both, since neither class fills them whole."""
    data = wards(owners=12, classes=2)
    told = r"labels of the natural division are 0\.\d+ from the pooled .* reaches 0\.\d+ to 0\.\d+, at the nearest"
    with pytest.raises(DataError, match=told):
        as_natural(replace(data, y=(data.owner % 2).astype(np.int64)), "matched", parties=3, least_rows=None)


def test_pieces_of_time_follow_each_other() -> None:
    data = wards()
    assert data.time is not None
    parts = as_natural(data, "time", parties=6, least_rows=None)
    spans = [(data.time[rows].min(), data.time[rows].max()) for rows in parts.parties.values()]
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(spans))
    moments = data.time.copy()
    moments[everything(parts)[0]] = np.nan
    for time, told in ((None, "nobody says when the rows of wards were"), (moments, r"1 of \d+ private rows have no")):
        with pytest.raises((ConfigError, DataError), match=told):
            as_natural(replace(data, time=time), "time", parties=6, least_rows=None)


# -- Dirichlet --------------------------------------------------------------------------------------------------------

Y = np.repeat(np.arange(10), 300)


def test_the_smaller_alpha_the_more_parties_differ_and_sizes_spread_on_top_of_the_shares() -> None:
    """By the mean over the parties of the share of their most frequent class, at least .1 for ten classes."""
    found = []
    for alpha in (1e-3, 0.1, 1.0, 1e6):
        shards = deal_by_class(Y, 50, alpha, 0.0, 0)
        found.append(float(np.mean([np.bincount(Y[shard]).max() / len(shard) for shard in shards])))
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.9 and found[-1] == pytest.approx(0.1, abs=0.001)
    plain, spread = (np.log([len(shard) for shard in deal_by_class(Y, 50, 1e6, more, 0)]).std() for more in (0.0, 1.0))
    assert plain < 0.02  # the shares are all alike
    assert spread == pytest.approx(1.0, abs=0.4)  # 4 standard deviations of an estimate from 50


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("parties", [2, 500])
def test_every_row_is_dealt_once_and_nobody_goes_without(alpha: float, parties: int) -> None:
    shards = deal_by_class(Y, parties, alpha, 1.0, 4)
    assert len(shards) == parties and min(len(shard) for shard in shards) >= 1
    assert sorted(np.concatenate(shards).tolist()) == list(range(len(Y)))
