"""The published votes, sums, ceilings, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.gaussian import log_pr_answered
from consilium.accounting.errors import AccountingError, NoiseError, OrdersError, UnitError, VotesError
from consilium.accounting.outcome import argmax, check

ORDERS = [1.2, 2.0, 8.0, 32.0, 100.0]
VOTES = np.array([[130, 90, 20, 10], [250, 0, 0, 0], [64, 62, 62, 62], [0, 126, 124, 0], [10, 20, 90, 130]])


@pytest.mark.parametrize(("noise", "expected"), [("continuous", 0.94623), ("discrete", 0.94748)])
def test_the_published_votes(mnist_votes: np.ndarray, noise: str, expected: float) -> None:
    """PATE 2018, 640 queries, T 200, sigma1 150, sigma2 40, delta 1e-5, expected answers. Theorem 6 says 1.712."""
    votes = mnist_votes[:640]
    answered = np.exp(log_pr_answered(votes.max(axis=1), 200.0, 150.0, noise)[0])
    labels = argmax.sum_rdp(votes, 40.0, noise, "gaussian", DEFAULT_ORDERS, answered)
    checks = check.sum_rdp(votes.max(axis=1), 200.0, 150.0, noise, DEFAULT_ORDERS)
    assert rdp_to_epsilon(labels + checks, DEFAULT_ORDERS, 1e-5).epsilon == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("noise", ["discrete", "continuous"])
@pytest.mark.parametrize(("kind", "scale"), [("gaussian", 40.0), ("gaussian", 3.0), ("laplace", 0.05)])
def test_sums_add_queries_by_weight(kind: argmax.Kind, scale: float, noise: str) -> None:
    votes = np.vstack([VOTES, VOTES[:2]])
    weights = np.array([1, 0.5, 0, 1, 1, 0.25, 1])
    each = argmax.per_query(votes, scale, noise, kind, ORDERS)
    assert argmax.sum_rdp(votes, scale, noise, kind, ORDERS, weights) == pytest.approx(weights @ each, rel=1e-12)
    assert argmax.sum_rdp(votes, scale, noise, kind, ORDERS) == pytest.approx(each.sum(axis=0), rel=1e-12)


def test_a_query_costs_the_same_alone_and_in_a_batch(golden_votes) -> None:
    votes = golden_votes("glyphlike")[:40]
    batch = argmax.per_query(votes, 100.0, "discrete", "gaussian", ORDERS)
    alone = np.vstack([argmax.per_query(row[None], 100.0, "discrete", "gaussian", ORDERS) for row in votes])
    assert batch == pytest.approx(alone, rel=1e-9)
    assert argmax.sum_rdp(votes[:0], 100.0, "discrete", "gaussian", ORDERS).tolist() == [0.0] * len(ORDERS)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"votes": VOTES.astype(float)}, VotesError),
        ({"votes": -VOTES}, VotesError),
        ({"scale": 0.0}, NoiseError),
        ({"noise": "rounded"}, NoiseError),
        ({"orders": [1.0]}, OrdersError),
        ({"kind": "cauchy"}, AccountingError),
        ({"votes_moved": 0}, UnitError),
        ({"weights": np.ones(2)}, AccountingError),
        ({"weights": np.full(len(VOTES), 2.0)}, AccountingError),
    ],
)
def test_refused(change: dict, error: type[AccountingError]) -> None:
    given = {"votes": VOTES, "scale": 40.0, "noise": "discrete", "kind": "gaussian", "orders": ORDERS} | change
    with pytest.raises(error) as caught:
        argmax.sum_rdp(**given)
    assert "130" not in str(caught.value)
