"""What all trainers share."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from consilium.models.base import softmax


@pytest.mark.parametrize("classes", [1, 2, 10])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 800.0])
def test_shares_are_those_of_scipy_to_the_last_digit(classes: int, scale: float) -> None:
    scores = np.random.default_rng(classes).normal(0, scale, (300, classes))
    assert (softmax(scores) == scipy.special.softmax(scores, axis=1)).all()
    assert (softmax(scores[0]) == scipy.special.softmax(scores[0])).all()
