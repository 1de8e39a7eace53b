"""The area under the curve from ranks, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from consilium.models.evaluation import area_under_curve


@pytest.mark.parametrize("decimals", [0, 1, 2, 9])  # few decimals: many ties
@pytest.mark.parametrize("share", [0.01, 0.3, 0.99])
def test_the_same_as_scikit_learn(decimals: int, share: float) -> None:
    generator = np.random.default_rng([decimals, int(share * 100)])
    positive = generator.random(2000) < share
    scores = np.round(generator.normal(size=2000) + positive, decimals)
    assert area_under_curve(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
