"""The pooled model where its rows are awkward."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.models.keys import RidgeSpec
from consilium.protocol.schema import Schema
from consilium.simulations.methods.pooled import pooled_probabilities


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


@pytest.mark.parametrize("count", [5, 200])
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
