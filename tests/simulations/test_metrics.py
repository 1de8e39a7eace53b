"""Intervals of metrics: published values, coverage, and the ends of the scale."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from consilium.models.evaluation import Metric, area_interval, evaluate, leading_metric, row_scores
from consilium.simulations import metrics
from consilium.simulations.metrics import drawn_intervals, metric_intervals, ratio_interval, wilson

NAMES = ("a", "b", "c")


@pytest.mark.parametrize("module", [metrics])
def test_examples_in_the_text_are_true(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("right", "count", "expected"),
    [
        # Newcombe 1998, table I, method 3
        (81, 263, (0.2553, 0.3662)),
        (0, 20, (0.0, 0.1611)),
        (1, 29, (0.0061, 0.1718)),
    ],
)
def test_wilson_is_the_published_one(right: int, count: int, expected: tuple[float, float]) -> None:
    assert wilson(right, count) == pytest.approx(expected, abs=5e-5)


def made_up(classes: int, rows: int, generator: np.random.Generator, strength: float = 1.0) -> tuple:
    y = generator.integers(classes, size=rows)
    scores = generator.gumbel(size=(rows, classes)) + strength * np.eye(classes)[y]
    probabilities = np.exp(scores)
    return probabilities / probabilities.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("classes", [2, 3])
def test_they_hold_the_metric_and_cover_the_truth(classes: int) -> None:
    """Of 200 draws 95% cover, by binomial chance at least 180 (one in 10,000 would fail); the seed is fixed."""
    generator, names = np.random.default_rng(0), NAMES[:classes]
    truth = evaluate(*made_up(classes, 200_000, generator), names)
    covered = {"accuracy": 0, "auc": 0}
    for _ in range(200):
        probabilities, y = made_up(classes, 150, generator)
        found, metrics = metric_intervals(probabilities, y, names), evaluate(probabilities, y, names)
        for metric in covered:
            low, high = found[metric]
            assert low < metrics[metric] < high
            covered[metric] += low <= truth[metric] <= high
    assert min(covered.values()) >= 180


def test_an_area_without_a_single_mistake_still_has_an_interval() -> None:
    y = np.array([0] * 10 + [1] * 5)
    found = metric_intervals(np.eye(2)[y], y, NAMES[:2])
    assert found["auc"] == pytest.approx(wilson(5, 5)) and found["auc"][0] < 0.6
    assert area_interval(np.zeros(9), 4)[0] == 0.0


def test_classes_without_rows_and_tests_of_one_class_have_none() -> None:
    probabilities, y = made_up(3, 40, np.random.default_rng(1))
    found = metric_intervals(probabilities, np.minimum(y, 1), NAMES)
    assert found["recall_per_class"]["c"] is None and found["auc"] is not None
    assert metric_intervals(probabilities, np.zeros(40, dtype=int), NAMES)["auc"] is None


def test_an_interval_of_one_draw_is_wider_than_that_of_their_mean() -> None:
    generator = np.random.default_rng(2)
    y = generator.integers(2, size=300)
    drawn = []
    for _ in range(12):  # models of different worth on the same rows
        scores = generator.gumbel(size=(300, 2)) + generator.uniform(0, 3) * np.eye(2)[y]
        drawn.append(np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True))
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
    same = ratio_interval(np.full(5, 3.0), np.full(5, 4.0))
    assert same == [0.75, 0.75]


CLASSES = ("well", "ill")


def scores(rows: int = 500, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    y = (generator.random(rows) < 0.3).astype(np.int64)
    risk = 1 / (1 + np.exp(-generator.normal(0.8 * y, 1)))
    risk = np.round(risk, 1) if ties else risk
    return np.stack([1 - risk, risk], axis=1), y


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("metric", ["auc", "accuracy"])
def test_the_mean_is_the_metric(metric: Metric, ties: bool) -> None:
    probabilities, y = scores(ties=ties)
    expected = evaluate(probabilities, y, CLASSES)[metric]
    assert row_scores(probabilities, y, metric).mean() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("y", "classes", "expected"),
    [([0, 1, 1], 2, "auc"), ([1, 1], 2, "accuracy"), ([0, 1, 2], 3, "accuracy"), ([0, 1], 3, "accuracy")],
)
def test_what_is_compared(y: list[int], classes: int, expected: str) -> None:
    assert leading_metric(np.array(y), classes) == expected
