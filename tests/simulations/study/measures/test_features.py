"""Distances of features: MMD against all pairs, a classifier against chance, floors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from consilium.simulations.study.measures import division
from consilium.simulations.study.measures.division import Look, division_rows, told_apart, unbiased_mmd2
from consilium.simulations.study.measures.figures import Divided, capped
from tests.simulations.study.measures.made import made_case, made_rows

SIZES = [30, 8, 50, 4, 16, 90, 25, 12, 40, 6]


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def of_kernel(kernel: np.ndarray, party: np.ndarray, index: int) -> float:
    """Lemma 6 of Gretton et al. 2012, from the kernel float64 (rows, rows) of all pairs."""
    own, rest = party == index, party != index
    a, b = own.sum(), rest.sum()
    within = kernel[np.ix_(own, own)].sum() - np.trace(kernel[np.ix_(own, own)])
    outside = kernel[np.ix_(rest, rest)].sum() - np.trace(kernel[np.ix_(rest, rest)])
    return within / (a * (a - 1)) + outside / (b * (b - 1)) - 2 * kernel[np.ix_(own, rest)].mean()


def test_mmd_is_the_sum_over_all_pairs() -> None:
    case = made_case(made_rows(SIZES, far=1.0))
    divided, look = Divided.of(case), Look(case, generator())
    embedded = look.embedded(divided.rows)
    expected = [
        of_kernel((embedded @ embedded.T).astype(np.float64), divided.party, at) for at in range(len(case.parties))
    ]
    assert unbiased_mmd2(embedded, np.bincount(divided.party)) == pytest.approx(expected, abs=1e-6)


def test_random_features_are_near_the_gaussian_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """8,192 frequencies leave a kernel within .04 or so, of any of these pairs."""
    monkeypatch.setattr(division, "FREQUENCIES", 8192)
    case = made_case(made_rows(SIZES, far=1.0))
    divided, look = Divided.of(case), Look(case, generator())
    x, embedded = look.inputs(divided.rows), look.embedded(divided.rows)
    exact = np.exp(-cdist(x, x, "sqeuclidean") / (2 * look.width**2))
    assert embedded @ embedded.T == pytest.approx(exact, abs=0.06)
    found = unbiased_mmd2(embedded, np.bincount(divided.party))
    assert found == pytest.approx([of_kernel(exact, divided.party, at) for at in range(len(found))], abs=0.01)


def test_private_rows_shape_no_kernel() -> None:
    rows = made_rows(SIZES)
    case = made_case(rows)
    private = np.concatenate([*case.partition.parties.values(), *case.home.values()])
    x = rows.x.copy()
    x[private] += 100
    moved = made_case(replace(rows, x=x))
    mine, other = Look(case, generator()), Look(moved, generator())
    assert mine.width == other.width
    queries = case.partition.queries
    assert np.array_equal(mine.embedded(queries), other.embedded(queries))


@pytest.mark.parametrize("sizes", [[1, 9], [9, 1], [1, 1]])
def test_one_row_has_no_unbiased_distance(sizes: list[int]) -> None:
    found = unbiased_mmd2(np.eye(sum(sizes)), np.array(sizes))
    assert np.isnan(found).all()


@pytest.mark.slow
def test_rows_of_one_distribution_are_within_the_floor_and_others_above() -> None:
    """Of 20 lots the interval is that of about 90 %: of 12 divisions, fewer than 7 within has probability 1e-3."""
    within = 0
    for seed in range(12):
        found = {row.metric: row for row in division_rows(made_case(made_rows(SIZES, seed=seed), seed=seed))}
        floor = found["mmd2_mean_floor"]
        assert floor.low is not None and floor.high is not None
        within += floor.low <= found["mmd2_mean"].value <= floor.high
    assert within >= 7
    found = {row.metric: row for row in division_rows(made_case(made_rows(SIZES, far=1.0)))}
    for metric in ("mmd2_mean", "mmd2_weighted"):
        high = found[f"{metric}_floor"].high
        assert high is not None and found[metric].value > high
    low = found["c2st_auc_mean"].low
    assert low is not None and low > 0.5


def test_of_many_rows_each_party_gives_as_many_as_fit() -> None:
    party = np.repeat(np.arange(4), [90, 10, 3, 60])
    taken = capped(party, generator(), 100)
    sizes = np.bincount(party[taken])
    assert sizes.tolist() == [43, 10, 3, 43]
    assert (np.diff(taken) > 0).all()


@pytest.mark.parametrize(("apart", "low", "high"), [(0.0, 0.42, 0.58), (1.0, 0.7, 0.82), (9.0, 0.999, 1.0)])
def test_a_classifier_tells_shifted_rows(apart: float, low: float, high: float) -> None:
    """A shift by d along one axis has area Phi(d / sqrt 2): .5, .760, 1."""
    x, own = generator().normal(size=(900, 3)), np.arange(900) < 300
    x[own, 0] += apart
    assert low <= told_apart(x, own, np.arange(900), generator()) <= high


def test_rows_of_one_patient_do_not_give_it_away() -> None:
    """30 patients with 30 equal rows each: with each patient in one fold there is nothing to tell."""
    x = np.repeat(generator().normal(size=(30, 40)), 30, axis=0)
    own, patient = np.arange(900) < 300, np.repeat(np.arange(30), 30)
    assert told_apart(x, own, np.arange(900), generator()) > 0.9
    assert told_apart(x, own, patient, generator()) < 0.75


def test_public_rows_that_are_all_alike() -> None:
    rows = made_rows(SIZES)
    case = made_case(replace(rows, x=np.zeros_like(rows.x)))
    found = {row.metric: row.value for row in division_rows(case) if row.scope == "run"}
    assert (found["mmd2_mean"], found["c2st_auc_mean"]) == (pytest.approx(0, abs=1e-6), 0.5)
