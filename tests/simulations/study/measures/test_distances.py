"""Gini's index, distances between label distributions, and intervals over parties: by scipy, mpmath and definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from consilium.simulations.study.measures.figures import DISTANCES, gini, ratio, shares


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
