"""Every histogram of small federations, every neighbour, both directions, both noises, and random larger ones: never
below the truth, and how far above it. The check: two laws, in 140-digit arithmetic."""

from __future__ import annotations

import itertools
import math
from functools import cache

import mpmath
import numpy as np
import pytest

from consilium.accounting.outcome import argmax, check, divergence
from tests.accounting.outcome.oracle import Oracle, per_query
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
@pytest.mark.parametrize(("classes", "voters"), [(2, 6), (3, 5), pytest.param(4, 3, marks=pytest.mark.nightly)])
def test_all_histograms_cost_what_their_worst_neighbour_says(
    kind: argmax.Kind, scale: float, noise: str, classes: int, voters: int
) -> None:
    votes = histograms(classes, voters)
    oracle = Oracle(kind, scale, noise, voters + 2)
    truth = np.array([oracle.worst(row, ORDERS) for row in votes.tolist()])
    found = per_query(votes, scale, noise, kind, ORDERS)
    assert found.shape == truth.shape
    assert (found >= truth).all()
    assert (found <= truth * (1 + 2e-9)).all()


@pytest.mark.parametrize("moved", [1, 2])
@pytest.mark.parametrize("noise", ["discrete", "continuous"])
@pytest.mark.parametrize(("kind", "scale"), [("gaussian", 2.0), ("gaussian", 0.7), ("laplace", 0.5), ("laplace", 2.0)])
def test_votes_whose_law_is_not_computed_are_bounded_both_ways(
    kind: argmax.Kind, scale: float, noise: str, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where more than one vote moves, or among more than 24 classes."""
    monkeypatch.setattr(argmax, "MOST_CLASSES", 2)
    votes = np.array([[3, 3, 2], [6, 1, 1], [12, 1, 0], [2, 14, 2], [25, 0, 0], [0, 4, 25]])
    oracle = Oracle(kind, scale, noise, 27)
    truth = np.array([oracle.worst(row, ORDERS, moved) for row in votes.tolist()])
    found = per_query(votes, scale, noise, kind, ORDERS, votes_moved=moved)
    within = (truth > 1e-28) & np.isfinite(truth)  # of the oracle's digits
    assert (found >= truth)[within].all() and (found[4:, 2] < 0.1 * found[0, 2]).all()


def random_votes(classes: int, voters: int, rows: int, evenness: float, seed: int) -> np.ndarray:
    """From disputed (evenness 5) to nearly unanimous (.1)."""
    rng = np.random.default_rng(seed)
    return np.array([rng.multinomial(voters, rng.dirichlet(np.full(classes, evenness))) for _ in range(rows)])


def ratios(kind: argmax.Kind, scale: float, noise: str, votes: np.ndarray) -> np.ndarray:
    """What is charged by the truth: (queries, orders)."""
    oracle = Oracle(kind, scale, noise, int(np.ptp(votes, axis=1).max()) + 2)
    truth = np.array([oracle.worst(row, ORDERS) for row in votes.tolist()])
    return (per_query(votes, scale, noise, kind, ORDERS) / truth).astype(float)


@pytest.mark.parametrize("noise", ["discrete", "continuous"])
@pytest.mark.parametrize(
    ("kind", "scale", "voters", "most"),
    third(
        [
            ("gaussian", 5.0, 30, 1e-9),
            ("gaussian", 2.0, 12, 1e-9),
            ("gaussian", 40.0, 250, 1e-8),
            ("laplace", 0.5, 30, 1e-9),
            ("laplace", 0.05, 60, 1e-8),
            pytest.param("gaussian", 200.0, 1000, 1e-7, marks=pytest.mark.nightly),
        ]
    ),
)
def test_few_classes_are_exact(kind: argmax.Kind, scale: float, noise: str, voters: int, most: float) -> None:
    for seed, (classes, evenness) in enumerate([(2, 1.0), (3, 0.3), (4, 1.0), (4, 0.1)]):
        found = ratios(kind, scale, noise, random_votes(classes, voters, 4, evenness, seed))
        assert found.min() >= 1
        assert found.max() <= 1 + most


SOME = [1.2, 2.0, 8.0, 32.0, 100.0]


def test_a_query_costs_the_same_alone_and_in_a_batch(golden_votes) -> None:
    votes = golden_votes("glyphlike")[:40]
    batch = per_query(votes, 100.0, "discrete", "gaussian", SOME)
    alone = np.vstack([per_query(row[None], 100.0, "discrete", "gaussian", SOME) for row in votes])
    assert batch == pytest.approx(alone, rel=1e-9)
    assert argmax.sum_rdp(votes[:0], 100.0, "discrete", "gaussian", SOME).tolist() == [0.0] * len(SOME)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("change", [7.102, 7.105, 8.0])
def test_a_moment_that_no_double_holds_is_taken_in_logarithms(change):
    """Two outcomes that a double holds, and whose sum it does not; and larger ones."""
    found = divergence.moments(np.array([[-0.7, -0.7, -3.0]]), np.array([[change, change, -0.1]]), np.array([100.0]))
    assert found[0, 0] == pytest.approx(math.log(2) - 0.7 + 100 * change, rel=1e-9)


BIT_ORDERS = [1.01, 2.0, 10.0, 100.0, 500.0]


NUMBERS = np.array([120, 170, 199, 200, 201, 250])


@cache
def passes(number: int, threshold: int, sigma: float, noise: str) -> tuple[mpmath.mpf, mpmath.mpf]:
    if noise == "continuous":
        z = mpmath.mpf(number - threshold) / sigma
        return mpmath.ncdf(z), mpmath.ncdf(-z)
    reach = int(26 * sigma) + abs(number - threshold)
    weights = [mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * mpmath.mpf(sigma) ** 2)) for z in range(-reach, reach + 1)]
    above, below = (
        mpmath.fsum(weights[reach + threshold - number :]),
        mpmath.fsum(weights[: reach + threshold - number]),
    )
    return above / (above + below), below / (above + below)


def worst_bit(number: int, threshold: int, sigma: float, noise: str, most: int = 1) -> list[float]:
    with mpmath.workdps(140):
        here = passes(number, threshold, sigma, noise)
        best = []
        for alpha in map(mpmath.mpf, BIT_ORDERS):
            found = []
            for step in range(-most, most + 1):
                there = passes(number + step, threshold, sigma, noise)
                for p, q in [(here, there), (there, here)]:
                    moment = mpmath.fsum(a**alpha * b ** (1 - alpha) for a, b in zip(p, q, strict=True))
                    found.append(mpmath.log(moment) / (alpha - 1))
            best.append(float(max(found)))
    return best


@pytest.mark.parametrize("noise", ["discrete", "continuous"])
@pytest.mark.parametrize(("sigma", "moved"), [(20.0, 1), (150.0, 1), (20.0, 3)])
def test_a_bit_costs_what_its_worst_neighbour_says(noise: str, sigma: float, moved: int) -> None:
    numbers = NUMBERS if noise == "continuous" or sigma < 100 else NUMBERS[[0, 3]]
    truth = np.array([worst_bit(int(n), 200, sigma, noise, moved) for n in numbers])
    found = check.per_query(numbers, 200.0, sigma, noise, BIT_ORDERS, votes_moved=moved)
    assert (found >= truth * (1 - 1e-15)).all()
    assert (found <= truth * (1 + 1e-7)).all()
    weights = np.linspace(0, 1, numbers.size)
    summed = check.sum_rdp(numbers, 200.0, sigma, noise, BIT_ORDERS, weights, votes_moved=moved)
    assert summed == pytest.approx(weights @ found, rel=1e-12)
