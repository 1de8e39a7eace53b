"""Confusion, ROC and calibration of a student: against scikit-learn, and for rows of every shape."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, roc_auc_score, roc_curve

from consilium.models.evaluation import evaluate
from consilium.simulations.judge import student_figures


def made_up(classes: int, rows: int, ties: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    generator = np.random.default_rng(seed)
    y = generator.integers(classes, size=rows)
    scores = generator.gumbel(size=(rows, classes)) + np.eye(classes)[y]
    if ties:
        scores = np.round(scores)
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return probabilities, y, tuple("abcdefghij"[:classes])


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_they_are_those_of_scikit_learn(classes: int, ties: bool) -> None:
    probabilities, y, names = made_up(classes, 400, ties)
    found = student_figures(probabilities, y, names)
    assert found["confusion"] == confusion_matrix(y, probabilities.argmax(axis=1), labels=range(classes)).tolist()
    curves = found["roc"]
    assert len(curves) == (1 if classes == 2 else classes)
    for curve in curves:
        index = names.index(curve["name"])
        alarms, recall, _ = roc_curve(y == index, probabilities[:, index], drop_intermediate=False)
        assert curve["auc"] == pytest.approx(roc_auc_score(y == index, probabilities[:, index]), abs=1e-9)
        assert curve["interval"][0] < curve["auc"] < curve["interval"][1]
        grid = np.linspace(0, 1, len(curve["found"]))
        at = np.searchsorted(alarms, grid, side="right")
        highest = recall[at - 1]
        assert (np.array(curve["found"]) >= highest - 1e-4).all()
        assert (np.array(curve["found"]) <= recall[np.minimum(at, len(recall) - 1)] + 1e-4).all()
        assert curve["found"][-1] == 1


@pytest.mark.parametrize("classes", [2, 4])
def test_calibration_counts_every_row_once(classes: int) -> None:
    probabilities, y, names = made_up(classes, 203, ties=False)
    bins = student_figures(probabilities, y, names)["calibration"]
    assert sum(point["rows"] for point in bins) == 203
    so = (y == 1).mean() if classes == 2 else evaluate(probabilities, y, names)["accuracy"]
    assert sum(point["rows"] * point["rate"] for point in bins) / 203 == pytest.approx(so)
    assert all(point["interval"][0] <= point["rate"] <= point["interval"][1] for point in bins)
    assert [point["mean"] for point in bins] == sorted(point["mean"] for point in bins)


def test_one_row_and_one_class_have_no_curve() -> None:
    found = student_figures(np.array([[0.4, 0.6]]), np.array([1]), ("a", "b"))
    assert found["confusion"] == [[0, 0], [0, 1]] and found["roc"] == [] and len(found["calibration"]) == 1
