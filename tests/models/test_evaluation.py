"""Accuracy, ranks and calibration, by hand and by scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from consilium.models.evaluation import (
    area_under_curve,
    calibration,
    calibration_error,
    evaluate,
    operating_point,
    outranked,
    threshold_for,
)

TWO, THREE = ("well", "ill"), ("a", "b", "c")


def binary(positive: list[float]) -> np.ndarray:
    p = np.array(positive)
    return np.stack([1 - p, p], axis=1)


@pytest.mark.parametrize(
    ("scores", "right", "bins", "expected"),
    [
        ([1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1], 2, 1.0),
        ([0.5, 0.5, 0.5, 0.5], [0, 1, 0, 1], 2, 0.0),  # equal scores have one rate, in whatever bin they lie
        ([0.2, 0.4, 0.6, 0.8], [0, 0, 0, 1], 4, (0.2 + 0.4 + 0.6 + 0.2) / 4),
        ([0.7], [1], 15, 0.3),  # fewer rows than bins
    ],
)
def test_calibration_error(scores: list[float], right: list[int], bins: int, expected: float) -> None:
    assert calibration_error(np.array(scores), np.array(right, dtype=bool), bins) == pytest.approx(expected, abs=1e-12)


def test_of_two_classes() -> None:
    p, y = binary([0.1, 0.4, 0.35, 0.8]), np.array([0, 1, 0, 1])
    found = calibration(p, y, TWO)
    assert found["brier"] == pytest.approx(brier_score_loss(y, p[:, 1]), abs=1e-12)
    assert found["mean_predicted"] == pytest.approx({"well": 0.5875, "ill": 0.4125})
    assert found["rate"] == {"well": 0.5, "ill": 0.5}


@pytest.mark.parametrize(
    ("scores", "share", "flagged"),
    [
        ([0.1, 0.2, 0.3, 0.9], 0.5, 2),
        ([0.1, 0.5, 0.5, 0.5], 0.5, 3),  # ties: nearer than none
        ([0.1, 0.5, 0.5, 0.5], 0.3, 0),
        ([0.0, 0.2], 0.99, 1),  # what has probability 0 is never flagged
    ],
)
def test_the_threshold_flags_the_share(scores: list[float], share: float, flagged: int) -> None:
    assert int((np.array(scores) > threshold_for(np.array(scores), share)).sum()) == flagged


def test_the_operating_point() -> None:
    p, y = binary([0.1, 0.4, 0.35, 0.8]), np.array([0, 1, 0, 1])
    for threshold, by, recall in ((0.38, "prevalence", 1.0), (None, "one half", 0.5)):
        found = operating_point(p, y, TWO, threshold)
        assert found is not None
        assert (found["class"], found["threshold"], found["by"]) == ("ill", threshold or 0.5, by)
        assert (found["flagged"], found["recall"]) == (recall / 2, recall)
        assert (found["specificity"], found["precision"]) == (1.0, 1.0)
    assert operating_point(np.full((1, 3), 1 / 3), np.array([0]), THREE, None) is None


@pytest.mark.parametrize("decimals", [1, 9])
def test_lower_rows_of_the_other_kind_as_counted_one_by_one(decimals: int) -> None:
    generator = np.random.default_rng([decimals, 7])
    positive = generator.random(300) < 0.4
    scores = np.round(generator.normal(size=300) + positive, decimals)
    other = positive[:, None] != positive[None, :]
    lower = scores[:, None] > scores[None, :]
    equal = scores[:, None] == scores[None, :]
    expected = (other & lower).sum(axis=1) + (other & equal).sum(axis=1) / 2
    assert (outranked(scores, positive) == expected).all()
    assert area_under_curve(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)


@pytest.mark.parametrize(
    ("y", "auc", "ill"), [([0, 0, 1, 1], 0.75, 0.5), ([0, 1, 0, 1], 0.5, 0.5), ([0] * 4, None, None)]
)
def test_evaluation_by_hand(y: list[int], auc: float | None, ill: float | None) -> None:
    probabilities = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]])
    result = evaluate(probabilities, np.array(y), ("well", "ill"))
    assert (result["auc"], result["recall_per_class"]["ill"]) == (auc, ill)
