"""What hangs on one party: every winner counted again by hand, without it."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.simulations.study.measures.votes import winners_flipped
from tests.simulations.study.measures.made import made_rows, taught

SIZES = [30, 8, 50, 4, 16, 90, 25, 12, 40, 6, 20, 35]


@pytest.mark.parametrize("classes", [2, 3])
def test_clear_winners_without_each_party_by_hand(classes: int) -> None:
    case, ensemble = taught(made_rows(SIZES, classes, skew=0.4))
    teachers = ensemble.pool.cast[:, 0]
    counts = np.array([[(row == label).sum() for label in range(classes)] for row in teachers.T])
    expected = []
    for party in range(len(case.parties)):
        less = counts - np.eye(classes, dtype=np.int64)[teachers[party]]
        expected.append((less.argmax(axis=1) != counts.argmax(axis=1)).sum())
    assert winners_flipped(ensemble.pool, classes).tolist() == expected
    assert max(expected) > 0
