"""Votes of hospitals' linear teachers against those of scikit-learn's."""

from __future__ import annotations

import pytest

from benchmarks.linear_teachers import compare
from benchmarks.papers import Place


@pytest.mark.parametrize("name", ["stroke"])
def test_votes_of_hospitals_are_those_of_scikit_learn(name: str) -> None:
    """The first forty hospitals and 300 queries; `python -m benchmarks.linear_teachers` counts all."""
    found = compare(Place(name, 0), parties=40, queries=300)
    assert (found.votes, found.differing) == (40 * 300, 0)
