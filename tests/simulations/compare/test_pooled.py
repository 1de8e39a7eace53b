"""The pooled model where its rows are awkward."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.protocol.parties.teachers import RidgeSpec
from consilium.protocol.rows.schema import Schema
from consilium.simulations.compare.pooled import pooled_probabilities


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
