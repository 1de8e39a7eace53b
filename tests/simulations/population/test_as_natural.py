"""Divisions of the natural division's own rows: by lot, in its sizes, as far in labels, by time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import gamma

from consilium.protocol.errors import ConfigError, DataError, NotEnoughParties
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.population.matched import TOLERANCE, _log_gamma_quantiles, _Lot, label_distance
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.partitions import divided
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import divided_source, load_scenario

FOLLOWERS = ("iid", "dirichlet", "shuffled", "matched", "time")
"""Divisions with as many parties as the natural one has."""


def wards(skew: float = 2.0, owners: int = 12, classes: int = 3) -> Dataset:
    """Owners of 5 to 80 rows, whose classes differ by `skew`, at times that are no whole numbers."""
    generator = np.random.default_rng(1)
    sizes = np.linspace(5, 80, owners).astype(int)
    owner = np.repeat(np.arange(owners), sizes)
    shares = generator.dirichlet(np.full(classes, 10 / skew), size=owners)
    y = np.array([generator.choice(classes, p=shares[who]) for who in owner])
    rows = len(owner)
    return Dataset(
        name="wards", title="", attribution="", features=("a",), classes=tuple("xyzuvw"[:classes]), owner_label="ward",
        x=generator.normal(size=(rows, 1)).astype(np.float32), y=y, owner=owner,
        time=np.round(generator.normal(size=rows), 2),
    )  # fmt: skip


def keys(partition: str, **more: Any) -> DataSpec:
    alpha = {"alpha": 0.5} if partition == "dirichlet" else {}
    table = {"set": "stroke", "partition": partition, "least_rows": 8, "public_share": 0.25, **alpha, **more}
    return DataSpec.model_validate({key: value for key, value in table.items() if value is not None})


def everything(partition: Partition) -> list[int]:
    return sorted(np.concatenate(list(partition.parties.values())).tolist())


def sizes(partition: Partition) -> list[int]:
    return [len(rows) for rows in partition.parties.values()]


@pytest.mark.parametrize("partition", FOLLOWERS)
def test_without_a_number_they_have_the_natural_parties_and_rows(partition: str) -> None:
    data, seed = wards(), 3
    natural, other = divided(data, keys("owners"), 2, seed), divided(data, keys(partition, least_rows=8), 2, seed)
    assert (other.queries.tolist(), other.test.tolist()) == (natural.queries.tolist(), natural.test.tolist())
    assert 5 < len(natural.parties) == len(other.parties) + other.left_out
    if partition != "dirichlet":  # where parties that got too little are left out
        assert everything(other) == everything(natural)
    if partition in ("shuffled", "matched"):
        assert sizes(other) == sizes(natural)
    if partition in ("iid", "time"):
        assert max(sizes(other)) - min(sizes(other)) <= 1


@pytest.mark.parametrize("partition", ["iid", "dirichlet", "matched", "time"])
def test_with_a_number_all_private_rows_are_dealt(partition: str) -> None:
    data = wards()
    parts = divided(data, keys(partition, parties=4, least_rows=None), 2, 0)
    assert len(parts.parties) == 4
    private = set(range(len(data.y))) - set(parts.queries) - set(parts.test)
    assert set(everything(parts)) == private


@pytest.mark.parametrize("partition", ["iid", "shuffled", "matched", "time", "dirichlet", "owners"])
def test_a_set_of_one_owner_has_no_natural_division(partition: str) -> None:
    data = wards()
    alone = replace(data, owner=np.zeros_like(data.owner), public=Public(np.arange(50), np.arange(50, 80)))
    told = f'data.partition is "{partition}", and all rows of wards have one owner.*with parties'
    with pytest.raises(ConfigError, match=told):
        divided(alone, keys(partition), 2, 0)
    if partition in ("iid", "time", "dirichlet"):
        assert len(divided(alone, keys(partition, parties=5, least_rows=1), 2, 0).parties) == 5


def test_too_few_natural_parties_are_too_few_for_all() -> None:
    for partition in FOLLOWERS:
        with pytest.raises(NotEnoughParties, match="wards are left as parties with at least 8 rows, at least 50"):
            divided(wards(), keys(partition), 50, 0)


# -- matched ----------------------------------------------------------------------------------------------------------


def by_definition(y: np.ndarray, partition: Partition) -> float:
    """Mean Hellinger distance, term by term."""
    pooled = y[np.concatenate(list(partition.parties.values()))]
    found = []
    for rows in partition.parties.values():
        own = y[rows]
        parts = [(np.sqrt(np.mean(own == label)) - np.sqrt(np.mean(pooled == label))) ** 2 for label in set(pooled)]
        found.append(np.sqrt(sum(parts) / 2))
    return float(np.mean(found))


@pytest.mark.parametrize(("skew", "owners", "classes"), [(0.01, 60, 3), (2.0, 60, 2), (10.0, 40, 6), (100.0, 60, 3)])
def test_matched_labels_are_as_far_as_the_natural_ones(skew: float, owners: int, classes: int) -> None:
    data, seed = wards(skew, owners, classes), 0
    natural, other = divided(data, keys("owners"), 2, seed), divided(data, keys("matched"), 2, seed)
    wanted, reached = by_definition(data.y, natural), by_definition(data.y, other)
    assert abs(wanted - reached) <= TOLERANCE
    assert other.measures["hellinger"] == pytest.approx(reached, rel=1e-5)
    assert other.measures["hellinger_natural"] == pytest.approx(wanted, rel=1e-5)
    lot = by_definition(data.y, divided(data, keys("shuffled"), 2, seed))
    assert other.measures["hellinger_by_lot"] == pytest.approx(lot, rel=1e-5)
    assert np.bincount(data.y[everything(other)]).tolist() == np.bincount(data.y[everything(natural)]).tolist()


def test_matched_finds_the_alpha_that_made_the_division() -> None:
    """Class shares of 1500 parties from numpy's Dirichlet(4 x pooled), rounded: 5 standard deviations of two such lots
    are 16 % of alpha (the mean distance has one of 1.2 % in each, and alpha goes with its square)."""
    parties, rows = 1500, 60
    shares = np.random.default_rng(5).dirichlet(4.0 * np.array([0.5, 0.3, 0.2]), size=parties)
    first = np.rint(shares[:, 0] * rows).astype(int)
    both = np.rint((shares[:, 0] + shares[:, 1]) * rows).astype(int)
    y = np.concatenate([np.repeat([0, 1, 2], [a, b - a, rows - b]) for a, b in zip(first, both, strict=True)])
    owner = np.repeat(np.arange(parties), rows)
    made = replace(wards(), y=y, owner=owner, x=np.zeros((len(y), 1), dtype=np.float32))
    assert divided(made, keys("matched"), 2, 0).measures["alpha"] == pytest.approx(4.0, rel=0.16)


def test_what_no_alpha_reaches_is_told_with_what_can_be_reached() -> None:
    """Every owner has one class; of three equal parties one must have both, since neither class fills them whole."""
    data = wards(owners=12, classes=2)
    one_each = replace(data, y=(data.owner % 2).astype(np.int64))
    keys_of_three = keys("matched", parties=3, least_rows=None)
    told = r"labels of the natural division are 0\.\d+ from the pooled .* reaches 0\.\d+ to 0\.\d+, at the nearest"
    with pytest.raises(DataError, match=told):
        divided(one_each, keys_of_three, 2, 0)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e6])
def test_counts_have_the_sizes_and_the_classes_that_there_are(alpha: float) -> None:
    sizes_of, totals = np.array([1, 1, 7, 30, 61]), np.array([50, 49, 1])
    counts = _Lot.drawn(sizes_of, totals, np.random.default_rng(0)).counts(alpha)
    assert counts.sum(axis=1).tolist() == sizes_of.tolist()
    assert counts.sum(axis=0).tolist() == totals.tolist()
    assert counts.min() >= 0


def test_the_distance_falls_with_alpha_from_one_class_each_to_none() -> None:
    sizes_of, totals = np.full(200, 100), np.array([12_000, 8_000])
    lot = _Lot.drawn(sizes_of, totals, np.random.default_rng(0))
    found = [label_distance(lot.counts(alpha)) for alpha in np.geomspace(1e-3, 1e6, 40)]
    assert all(later <= earlier + 2e-3 for earlier, later in pairwise(found))
    # parties of one class: sqrt(1 - sqrt(.6)) for 120 of them, sqrt(1 - sqrt(.4)) for 80
    extreme = 0.6 * np.sqrt(1 - np.sqrt(0.6)) + 0.4 * np.sqrt(1 - np.sqrt(0.4))
    assert found[0] == pytest.approx(extreme, abs=0.01)
    assert found[-1] < 0.003


def test_quantiles_of_the_smallest_shapes_are_scipys_as_far_as_it_goes() -> None:
    shapes, quantiles = np.array([0.02, 0.3, 1.0, 50.0, 1e5]), np.linspace(0.01, 0.99, 5)[:, None] * np.ones(5)
    expected = gamma.ppf(quantiles, shapes)
    found = _log_gamma_quantiles(shapes, quantiles)
    large = expected > 1e-290
    assert np.exp(found[large]) == pytest.approx(expected[large], rel=1e-9)
    assert np.isfinite(_log_gamma_quantiles(np.array([1e-7]), np.array([[1e-12], [0.5]]))).all()


def test_pieces_of_time_follow_each_other() -> None:
    data = wards()
    assert data.time is not None
    parts = divided(data, keys("time", parties=6, least_rows=None), 2, 0)
    spans = [(data.time[rows].min(), data.time[rows].max()) for rows in parts.parties.values()]
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(spans))
    moments = data.time.copy()
    moments[everything(parts)[0]] = np.nan
    for time, told in ((None, "nobody says when the rows of wards were"), (moments, r"1 of \d+ private rows have no")):
        with pytest.raises((ConfigError, DataError), match=told):
            divided(replace(data, time=time), keys("time", parties=6, least_rows=None), 2, 0)


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["data.partition=shuffled", "data.parties=9"], 'parties belongs to partition "iid", "groups", "dirichlet"'),
        (["data.partition=chance"], "there is no partition 'chance': choose from owners, iid, groups"),
        (["data.partition=flwr"], '"flwr" needs partitioner'),
        (["data.partition=iid", "data.partitioner.name=IidPartitioner"], 'partitioner belongs to partition "flwr"'),
    ],
)
def test_what_a_scenario_may_not_say(overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        divided_source(load_scenario("stroke", overrides), 0)
