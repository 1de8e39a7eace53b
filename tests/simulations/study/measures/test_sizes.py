"""Gini's index with negative values."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.simulations.study.measures.figures import gini

VALUES = np.random.default_rng(0).normal(size=15)


@pytest.mark.parametrize("values", [VALUES, np.abs(VALUES), -np.abs(VALUES), VALUES[:2]])
def test_gini_is_the_sum_over_all_pairs(values: np.ndarray) -> None:
    differences = np.abs(values[:, None] - values[None, :]).sum()
    assert gini(values) == pytest.approx(differences / (2 * (len(values) - 1) * np.abs(values).sum()))


@pytest.mark.parametrize(("values", "expected"), [([0, 0], 0.0), ([2, 2, 2], 0.0), ([-1, -1], 0.0), ([0, 0, 7], 1.0)])
def test_ends_of_gini(values: list[float], expected: float) -> None:
    assert gini(np.array(values)) == expected
