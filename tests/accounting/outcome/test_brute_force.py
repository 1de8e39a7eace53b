"""Every histogram of small federations, every neighbour, every outcome, both directions, both noises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from consilium.accounting.outcome import argmax
from tests.accounting.outcome.oracle import Oracle, law_by_quadrature
from tests.marks import third

ORDERS = [1.01, 1.5, 2.0, 5.0, 20.0, 100.0, 500.0]


def histograms(classes: int, voters: int) -> np.ndarray:
    counts = itertools.product(range(voters + 1), repeat=classes)
    return np.array([row for row in counts if sum(row) == voters])


@pytest.mark.parametrize(
    ("kind", "scale", "noise"),
    third(
        [
            ("gaussian", 2.0, "discrete"),
            ("gaussian", 2.0, "continuous"),
            ("gaussian", 0.7, "discrete"),
            ("gaussian", 0.7, "continuous"),
            ("laplace", 0.5, "discrete"),
            ("laplace", 2.0, "continuous"),
            ("laplace", 2.0, "discrete"),
            ("laplace", 0.5, "continuous"),
        ]
    ),
)
@pytest.mark.parametrize(
    ("classes", "voters", "both"),
    [
        (2, 6, True),
        (3, 5, True),
        (3, 5, False),
        *(pytest.param(*case, marks=pytest.mark.proofs) for case in [(4, 3, True), (4, 3, False), (2, 6, False)]),
    ],
)
def test_all_histograms_cost_what_their_worst_neighbour_says(
    kind: argmax.Kind, scale: float, noise: str, classes: int, voters: int, both: bool
) -> None:
    votes = histograms(classes, voters)
    oracle = Oracle(kind, scale, noise, voters + 2)
    truth = np.array([oracle.worst(row, ORDERS, both) for row in votes.tolist()])
    found = argmax.per_query(votes, scale, noise, kind, ORDERS, both=both)
    assert found.shape == truth.shape
    assert (found >= truth).all()
    assert (found <= truth * (1 + 2e-9)).all()


@pytest.mark.parametrize(
    ("kind", "scale", "votes"),
    third([("gaussian", 4.0, [5, 4, 1]), ("gaussian", 3.0, [0, 9, 2, 2]), ("laplace", 0.5, [5, 4, 1])]),
)
def test_the_oracle_agrees_with_adaptive_quadrature(kind: str, scale: float, votes: list[int]) -> None:
    law = Oracle(kind, scale, "continuous", max(votes) + 2).law(votes, max(votes))
    assert law.astype(float) == pytest.approx([float(p) for p in law_by_quadrature(votes, kind, scale)], rel=1e-14)
