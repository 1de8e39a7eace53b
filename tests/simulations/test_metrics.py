"""Intervals of metrics: published values, coverage, and the ends of the scale."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from consilium.models.evaluation import Metric, area_interval, evaluate, leading_metric, row_scores
from consilium.simulations import metrics
from consilium.simulations.metrics import drawn_intervals, metric_intervals, ratio_interval, wilson

NAMES = ("a", "b", "c")


def test_examples_in_the_text_are_true() -> None:
    assert doctest.testmod(metrics).failed == 0


def test_wilson_is_the_published_one() -> None:
    """Newcombe 1998, table I, method 3."""
    for (right, count), expected in {
        (81, 263): (0.2553, 0.3662),
        (0, 20): (0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }.items():
        assert wilson(right, count) == pytest.approx(expected, abs=5e-5)


def made_up(classes: int, rows: int, generator: np.random.Generator, strength: float = 1.0) -> tuple:
    y = generator.integers(classes, size=rows)
    probabilities = np.exp(generator.gumbel(size=(rows, classes)) + strength * np.eye(classes)[y])
    return probabilities / probabilities.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("classes", [2, 3])
def test_they_hold_the_metric_and_cover_the_truth(classes: int) -> None:
    """Of 200 draws 95% cover, by binomial chance at least 180 (one in 10,000 would fail); the seed is fixed."""
    generator, names = np.random.default_rng(0), NAMES[:classes]
    truth = evaluate(*made_up(classes, 200_000, generator), names)
    covered = {"accuracy": 0, "auc": 0}
    for _ in range(200):
        probabilities, y = made_up(classes, 150, generator)
        found, reached = metric_intervals(probabilities, y, names), evaluate(probabilities, y, names)
        for metric in covered:
            low, high = found[metric]
            assert low < reached[metric] < high
            covered[metric] += low <= truth[metric] <= high
    assert min(covered.values()) >= 180


def test_where_there_is_no_mistake_no_row_and_one_class() -> None:
    y = np.array([0] * 10 + [1] * 5)
    found = metric_intervals(np.eye(2)[y], y, NAMES[:2])
    assert found["auc"] == pytest.approx(wilson(5, 5)) and found["auc"][0] < 0.6
    assert area_interval(np.zeros(9), 4)[0] == 0.0
    probabilities, y = made_up(3, 40, np.random.default_rng(1))
    found = metric_intervals(probabilities, np.minimum(y, 1), NAMES)
    assert found["recall_per_class"]["c"] is None and found["auc"] is not None
    assert metric_intervals(probabilities, np.zeros(40, dtype=int), NAMES)["auc"] is None


def test_an_interval_of_one_draw_is_wider_than_that_of_their_mean() -> None:
    generator = np.random.default_rng(2)
    y = generator.integers(2, size=300)
    scores = [generator.gumbel(size=(300, 2)) + generator.uniform(0, 3) * np.eye(2)[y] for _ in range(12)]
    drawn = [np.exp(each) / np.exp(each).sum(axis=1, keepdims=True) for each in scores]  # models of different worth
    mean, one = drawn_intervals(drawn, y, NAMES[:2]), drawn_intervals(drawn, y, NAMES[:2], one=True)
    for metric in ("accuracy", "auc"):
        assert one[metric][0] < mean[metric][0] < mean[metric][1] < one[metric][1]
    assert drawn_intervals(drawn[:1], y, NAMES[:2]) == metric_intervals(drawn[0], y, NAMES[:2])


def test_an_interval_of_a_ratio_covers_that_of_all_parties() -> None:
    """Parties of very different sizes, whose shares differ: 95% of 400 draws cover the ratio of all parties, less a
    little since 30 are few; fewer than 350 by chance in less than one of 10,000. The seed is fixed."""
    generator = np.random.default_rng(1)
    of = np.ceil(generator.lognormal(3, 0.8, size=100_000))
    points = of * np.clip(generator.normal(0.6, 0.15, size=of.size), 0, 1)
    truth, covered = points.sum() / of.sum(), 0
    for _ in range(400):
        drawn = generator.integers(of.size, size=30)
        interval = ratio_interval(points[drawn], of[drawn])
        assert interval is not None and interval[0] < points[drawn].sum() / of[drawn].sum() < interval[1]
        covered += interval[0] <= truth <= interval[1]
    assert covered >= 350
    assert ratio_interval(points[:1], of[:1]) is None
    assert ratio_interval(np.full(5, 3.0), np.full(5, 4.0)) == [0.75, 0.75]


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("metric", ["auc", "accuracy"])
def test_the_mean_of_row_scores_is_the_metric(metric: Metric, ties: bool) -> None:
    probabilities, y = made_up(2, 500, np.random.default_rng(3))
    risk = np.round(probabilities[:, 1], 1) if ties else probabilities[:, 1]
    probabilities = np.stack([1 - risk, risk], axis=1)
    expected = evaluate(probabilities, y, NAMES[:2])[metric]
    assert row_scores(probabilities, y, metric).mean() == pytest.approx(expected, abs=1e-12)


def test_what_is_compared() -> None:
    cases = [([0, 1, 1], 2), ([1, 1], 2), ([0, 1, 2], 3), ([0, 1], 3)]
    assert [leading_metric(np.array(y), classes) for y, classes in cases] == ["auc"] + ["accuracy"] * 3
