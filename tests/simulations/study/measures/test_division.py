"""What a division is: by hand on small ones, beside what chance alone gives; and a classifier of features."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from consilium.simulations.judge import Row
from consilium.simulations.study.measures.division import division_rows, told_apart
from consilium.simulations.study.measures.figures import DISTANCES, gini, hellinger, ratio, shares
from tests.simulations.study.measures.made import made_case, made_rows

SIZES = [30, 8, 50, 4, 16, 90, 25, 12, 40, 6]
LABELS = ("hellinger", "js")


def figures(rows: list[Row], scope: str = "run") -> dict[tuple[str, str], Row]:
    return {(row.name, row.metric): row for row in rows if row.scope == scope}


def run(rows: list[Row]) -> dict[str, float]:
    return {metric: row.value for (_, metric), row in figures(rows).items()}


def test_sizes_classes_and_distances_by_hand() -> None:
    case = made_case(made_rows(SIZES, 3, skew=0.5))
    rows = division_rows(case)
    mine = [case.dataset.y[case.dataset.owner == int(name.removeprefix("site-"))] for name in case.parties]
    sizes, all_y = sorted(map(len, mine)), np.concatenate(mine)
    found, by_party, classes = run(rows), figures(rows, "party"), figures(rows, "class")
    assert (found["parties"], found["rows_median"]) == (len(mine), np.median(sizes))
    assert (found["rows"], found["rows_least"], found["rows_most"]) == (sum(sizes), sizes[0], sizes[-1])
    for index, name in enumerate(case.classes):
        assert classes[name, "share"].value == pytest.approx((all_y == index).mean())
        assert classes[name, "parties"].value == sum((y == index).any() for y in mine)
    pooled = shares(np.bincount(all_y, minlength=3))
    each = [float(hellinger(shares(np.bincount(y, minlength=3)), pooled)) for y in mine]
    assert [by_party[name, "hellinger"].value for name in case.parties] == pytest.approx(each)
    assert found["hellinger_mean"] == pytest.approx(np.mean(each))
    assert found["hellinger_p90"] == pytest.approx(np.percentile(each, 90))


def test_labels_by_lot_are_within_the_floor_and_skewed_ones_above() -> None:
    """95 % each, of 20 divisions: fewer than 14 within has probability below 1e-4."""
    within = dict.fromkeys(LABELS, 0)
    for seed in range(20):
        found = figures(division_rows(made_case(made_rows(SIZES, 3, seed=seed), seed=seed)))
        for name in LABELS:
            floor = found["", f"{name}_mean_floor"]
            assert floor.low is not None and floor.high is not None
            within[name] += floor.low <= found["", f"{name}_mean"].value <= floor.high
    assert min(within.values()) >= 14
    found = figures(division_rows(made_case(made_rows([3 * size for size in SIZES], 3, skew=0.6))))
    for name in LABELS:
        high = found["", f"{name}_mean_floor"].high
        assert high is not None and found["", f"{name}_mean"].value > high


def test_shifted_parties_are_told_apart() -> None:
    found = figures(division_rows(made_case(made_rows(SIZES, far=1.0))))
    low = found["", "c2st_auc_mean"].low
    assert low is not None and low > 0.5


@pytest.mark.parametrize(("apart", "low", "high"), [(0.0, 0.42, 0.58), (1.0, 0.7, 0.82), (9.0, 0.999, 1.0)])
def test_a_classifier_tells_shifted_rows(apart: float, low: float, high: float) -> None:
    """A shift by d along one axis has area Phi(d / sqrt 2): .5, .760, 1."""
    generator = np.random.default_rng(0)
    x, own = generator.normal(size=(900, 3)), np.arange(900) < 300
    x[own, 0] += apart
    assert low <= told_apart(x, own, np.arange(900), generator) <= high


def test_rows_of_one_patient_do_not_give_it_away() -> None:
    """30 patients with 30 equal rows each: with each patient in one fold there is nothing to tell."""
    generator = np.random.default_rng(0)
    x = np.repeat(generator.normal(size=(30, 40)), 30, axis=0)
    own, patient = np.arange(900) < 300, np.repeat(np.arange(30), 30)
    assert told_apart(x, own, np.arange(900), generator) > 0.9
    assert told_apart(x, own, patient, generator) < 0.75


@pytest.mark.parametrize("values", [[0, 0], [2, 2, 2], [0, 0, 7], [3, 1, 4, 1, 5]])
def test_gini_is_the_sum_over_all_pairs(values: list[int]) -> None:
    sizes = np.array(values)
    differences = np.abs(sizes[:, None] - sizes[None, :]).sum()
    assert gini(sizes) == pytest.approx(differences / max(2 * (len(sizes) - 1) * sizes.sum(), 1))


DRAWN = shares(np.random.default_rng(0).integers(0, 9, size=(12, 5)))
COUNTS = st.lists(st.integers(0, 50), min_size=3, max_size=3).filter(any)


@pytest.mark.parametrize("name", DISTANCES)
@given(first=COUNTS, second=COUNTS)
def test_a_distance(name: str, first: list[int], second: list[int]) -> None:
    distance, p, q = DISTANCES[name], shares(np.array(first)), shares(np.array(second))
    assert float(distance(p, p)) == 0.0
    assert float(distance(p, q)) == pytest.approx(float(distance(q, p)), abs=1e-12)
    assert 0 <= float(distance(p, q)) <= 1 + 1e-12


def test_a_ratio_is_scipys_bootstrap_of_it() -> None:
    generator = np.random.default_rng(0)
    points, of = generator.normal(1, 1, 40), generator.integers(1, 50, 40).astype(float)

    def statistic(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
        return a.sum(axis=axis) / b.sum(axis=axis)

    scipys = bootstrap((points, of), statistic, paired=True, method="percentile", n_resamples=20_000, rng=1)
    value, low, high = ratio(points, of, generator)
    assert value == pytest.approx(points.sum() / of.sum())
    width = scipys.confidence_interval.high - scipys.confidence_interval.low
    assert (low, high) == pytest.approx(tuple(scipys.confidence_interval), abs=0.1 * width)
