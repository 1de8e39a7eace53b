"""Classes made rarer: as much as stated, by lot, private and public rows alike, in every division."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.population.kinds import divided
from consilium.simulations.population.partition import unbalanced
from consilium.simulations.population.specs import DataSpec

CLASSES, OWNERS, EACH = 5, 20, 100


def sites(own_public: bool = False) -> Dataset:
    """Balanced classes at equally large owners, in order of time."""
    rows = OWNERS * EACH
    return Dataset(
        name="sites", title="", attribution="", features=("a",), classes=tuple("abcde"), owner_label="site",
        x=np.zeros((rows, 1), dtype=np.float32), y=np.arange(rows) % CLASSES, owner=np.arange(rows) // EACH,
        time=np.arange(rows, dtype=np.float64),
        public=Public(np.arange(300), np.arange(300, 500)) if own_public else None,
    )  # fmt: skip


@pytest.mark.parametrize(("ratio", "expected"), [(1.0, [400] * 5), (16.0, [400, 200, 100, 50, 25])])
def test_classes_keep_shares_in_geometric_steps(ratio: float, expected: list[int]) -> None:
    y = sites().y
    left = unbalanced(y, ratio, 3)
    assert sorted(np.bincount(y[left]).tolist(), reverse=True) == expected
    assert (left == unbalanced(y, ratio, 3)).all()
    orders = {tuple(np.bincount(y[unbalanced(y, 16.0, seed)])) for seed in range(6)}
    assert len(orders) > 1


def test_of_one_class_all_rows_are_left() -> None:
    assert unbalanced(np.zeros(7, dtype=np.int64), 10.0, 0).all()


DIVISIONS: dict[str, dict[str, Any]] = {
    "owners": {},
    "shuffled": {},
    "matched": {},
    "iid": {"parties": 8},
    "groups": {"parties": 8},
    "dirichlet": {"parties": 8, "alpha": 100.0},
    "time": {"parties": 8},
    "flwr": {"partitioner": {"name": "IidPartitioner", "num_partitions": 8}},
}


@pytest.mark.parametrize("own_public", [False, True])
@pytest.mark.parametrize(
    "division", [pytest.param(name, marks=pytest.mark.slow) if name == "flwr" else name for name in DIVISIONS]
)
def test_every_division_has_the_rows_that_are_left_and_no_others(division: str, own_public: bool) -> None:
    if division == "flwr":
        pytest.importorskip("flwr_datasets")
    source, keys = sites(own_public), {"set": "stroke", "partition": division, "least_rows": 5, **DIVISIONS[division]}
    whole, found = (
        divided(source, DataSpec.model_validate({**keys, "unbalanced": ratio}), 2, 1) for ratio in (1.0, 16.0)
    )
    left = unbalanced(source.y, 16.0, 1)
    before = np.concatenate([*whole.parties.values(), whole.queries, whole.test])
    after = np.concatenate([*found.parties.values(), found.queries, found.test])
    assert sorted(after) == sorted(before[left[before]])
    assert (found.queries == whole.queries[left[whole.queries]]).all()  # the same rows are public
    assert (found.test == whole.test[left[whole.test]]).all()
    if division in ("iid", "time"):
        assert np.ptp([len(rows) for rows in found.parties.values()]) <= 1  # dealt after rows were left out


def test_public_rows_that_are_all_left_out() -> None:
    source = sites()
    y = np.where(np.arange(len(source.y)) < 4, 1, 2 * (np.arange(len(source.y)) % 2))
    few = Dataset(**{**vars(source), "y": y, "public": Public(np.array([0, 1]), np.array([2, 3]))})
    seed = next(seed for seed in range(99) if not unbalanced(y, 1e6, seed)[:4].any())
    keys = {"set": "stroke", "partition": "iid", "parties": 4, "unbalanced": 1e6}
    with pytest.raises(DataError, match=r"sites: data.unbalanced 1e\+06 leaves no public rows"):
        divided(few, DataSpec.model_validate(keys), 2, seed)
