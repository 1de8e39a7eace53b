"""The plain trainer of manual labels.

The pooled model where its rows are awkward.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from consilium.models.keys import RidgeSpec
from consilium.protocol.schema import Schema
from consilium.simulations.methods.manual_labels import PENALTIES, train_plain
from consilium.simulations.methods.pooled import pooled_probabilities


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


@pytest.mark.parametrize("alpha", [1.0, 1e-6])
def test_ridge_on_features_that_are_nearly_the_same(alpha: float) -> None:
    """Sums in float32 of features that hang together are singular, whatever penalty is too small to be seen in them."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=5000)
    base = generator.normal(size=(5000, 3)) + y[:, None]
    x = np.concatenate([base, base + 1e-6 * generator.normal(size=(5000, 3)), np.ones((5000, 2)) * 300], axis=1)
    features = tuple(f"f{index}" for index in range(x.shape[1]))
    schema = Schema.of_images(features, ("well", "ill"), "none")
    rows = x.astype(np.float32)
    found = pooled_probabilities(schema, RidgeSpec(alpha=alpha), rows, y, schema.inputs(rows))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (found.argmax(axis=1) == y).mean() > 0.75


@pytest.mark.parametrize("count", [5, 40, 200])
def test_few_and_many_rows_have_the_weights_of_ridge_regression(count: int) -> None:
    """40 inputs: by the products of rows, and by those of inputs; against the penalised least squares themselves."""
    generator = np.random.default_rng(count)
    schema = Schema.of_images(tuple(f"f{index}" for index in range(40)), ("a", "b", "c"), "none")
    x, test = generator.normal(size=(count, 40)), schema.inputs(generator.normal(size=(9, 40)))
    y, seen = generator.integers(3, size=count), schema.inputs(x)
    mean, shares = seen.mean(axis=0), np.eye(3)[y].mean(axis=0)
    penalised = np.concatenate([seen - mean, np.sqrt(0.5) * np.eye(40)])
    weights = np.linalg.lstsq(penalised, np.concatenate([np.eye(3)[y] - shares, np.zeros((40, 3))]), rcond=None)[0]
    scores = np.maximum((test - mean) @ weights + shares, 0)
    found = pooled_probabilities(schema, RidgeSpec(alpha=0.5), x, y, test)
    np.testing.assert_allclose(found, scores / scores.sum(axis=1, keepdims=True), atol=2e-4)
