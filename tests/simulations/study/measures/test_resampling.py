"""Intervals over parties, and how often one holds the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap

from consilium.simulations.study.measures.figures import ratio


def drawn() -> np.random.Generator:
    return np.random.default_rng(0)


def test_a_ratio_is_scipys_bootstrap_of_it() -> None:
    points, of = drawn().normal(1, 1, 40), drawn().integers(1, 50, 40).astype(float)

    def statistic(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
        return a.sum(axis=axis) / b.sum(axis=axis)

    scipys = bootstrap((points, of), statistic, paired=True, method="percentile", n_resamples=20_000, rng=1)
    value, low, high = ratio(points, of, drawn())
    assert value == pytest.approx(points.sum() / of.sum())
    width = scipys.confidence_interval.high - scipys.confidence_interval.low
    assert (low, high) == pytest.approx(tuple(scipys.confidence_interval), abs=0.1 * width)


def test_the_interval_of_a_mean_holds_the_truth() -> None:
    """Of 40 parties, nominal .95: the percentile interval holds it a little less often. False alarms: below 1e-4."""
    generator, held = drawn(), 0
    for _ in range(300):
        _, low, high = ratio(generator.exponential(1, 40), np.ones(40), generator)
        assert low is not None and high is not None
        held += low <= 1 <= high
    assert 0.85 <= held / 300 <= 0.99
