"""Ridge regression whose penalty the rows choose."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from consilium.models.plain_ridge import PENALTIES, left_out_scores, train_plain


def rows(count: int, inputs: int, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, inputs))
    y = (x @ generator.normal(size=(inputs, classes)) + generator.normal(size=(count, classes)) * 2).argmax(axis=1)
    return x, y


def left_out_error(x: np.ndarray, y: np.ndarray, classes: int, penalty: float) -> float:
    """By leaving every row out, one after the other."""
    targets, total = np.eye(classes)[y], 0.0
    for row in range(len(x)):
        others = np.arange(len(x)) != row
        fitted = Ridge(alpha=penalty).fit(x[others], targets[others])
        total += float(((fitted.predict(x[[row]])[0] - targets[row]) ** 2).sum())
    return total


@pytest.mark.parametrize(("count", "inputs", "classes"), [(30, 4, 2), (30, 4, 3), (12, 25, 2)])
def test_is_scikit_learns_ridge_at_the_best_penalty_when_rows_are_left_out(
    count: int, inputs: int, classes: int
) -> None:
    x, y = rows(count, inputs, classes)
    scale = ((x - x.mean(axis=0)) ** 2).sum() / count
    errors = [left_out_error(x, y, classes, penalty) for penalty in PENALTIES * scale]
    assert 0 < int(np.argmin(errors)) < len(PENALTIES)
    expected = Ridge(alpha=PENALTIES[int(np.argmin(errors))] * scale).fit(x, np.eye(classes)[y])
    new = rows(9, inputs, classes, seed=1)[0]
    np.testing.assert_allclose(train_plain(x, y, classes).predict_proba(new), expected.predict(new), atol=1e-8)


@pytest.mark.parametrize(("y", "expected"), [([], [0.5, 0.5]), ([1], [0.0, 1.0]), ([0, 0, 0], [1.0, 0.0])])
def test_one_class_or_no_rows(y: list[int], expected: list[float]) -> None:
    model = train_plain(np.ones((len(y), 3)), np.array(y, dtype=np.int64), 2)
    assert model.predict_proba(np.zeros((2, 3))).tolist() == [expected, expected]


def test_rows_that_are_all_alike_give_the_shares() -> None:
    model = train_plain(np.ones((4, 3)), np.array([0, 0, 0, 1]), 2)
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 3))), [[0.75, 0.25]])


def test_left_out_is_as_if_fitted_without_the_row_but_for_its_part_in_the_mean() -> None:
    x, y = rows(30, 4, 3)
    centred, targets = x - x.mean(axis=0), np.eye(3)[y]
    scale = (centred**2).sum() / len(x)
    penalty = PENALTIES[int(np.argmin([left_out_error(x, y, 3, each) for each in PENALTIES * scale]))] * scale
    scores, shares = left_out_scores(x, y, 3), targets.mean(axis=0)
    for row in (0, 11):
        others = np.arange(len(x)) != row
        fitted = Ridge(alpha=penalty, fit_intercept=False).fit(centred[others], (targets - shares)[others])
        np.testing.assert_allclose(scores[row], fitted.predict(centred[[row]])[0] + shares, atol=1e-8)
    assert left_out_scores(np.ones((4, 3)), np.array([0, 0, 0, 1]), 2).tolist() == [[0.75, 0.25]] * 4
