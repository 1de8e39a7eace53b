"""A metric as a mean over test rows."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.simulations.metrics.row_scores import (
    Metric,
    balanced_row_scores,
    brier_row_scores,
    leading_metric,
    row_scores,
)
from consilium.student.calibration import calibration
from consilium.student.evaluation import evaluate

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


def test_weighted_means_are_the_auc_of_rows_drawn_anew() -> None:
    probabilities, y = scores()
    linear, generator = row_scores(probabilities, y, "auc"), np.random.default_rng(0)
    drawn = [generator.integers(len(y), size=len(y)) for _ in range(200)]
    exact = np.array([evaluate(probabilities[rows], y[rows], CLASSES)["auc"] for rows in drawn])
    nearly = np.array([linear[rows].mean() for rows in drawn])
    assert exact.std() > 0.02
    assert nearly.std() == pytest.approx(exact.std(), rel=0.05)
    assert np.corrcoef(exact, nearly)[0, 1] > 0.995


@pytest.mark.parametrize(
    ("y", "classes", "expected"),
    [([0, 1, 1], 2, "auc"), ([1, 1], 2, "accuracy"), ([0, 1, 2], 3, "accuracy"), ([0, 1], 3, "accuracy")],
)
def test_what_is_compared(y: list[int], classes: int, expected: str) -> None:
    assert leading_metric(np.array(y), classes) == expected


@pytest.mark.parametrize("classes", [2, 3])
def test_means_of_further_metrics(classes: int) -> None:
    generator, names = np.random.default_rng(classes), ("well", "ill", "absent")[:classes]
    probabilities = generator.dirichlet(np.ones(classes), size=300)
    y = generator.integers(2, size=300)  # of three classes one does not occur
    recalls = [value for value in evaluate(probabilities, y, names)["recall_per_class"].values() if value is not None]
    assert balanced_row_scores(probabilities, y).mean() == pytest.approx(np.mean(recalls), abs=1e-12)
    assert brier_row_scores(probabilities, y).mean() == pytest.approx(
        calibration(probabilities, y, names)["brier"], abs=1e-12
    )
