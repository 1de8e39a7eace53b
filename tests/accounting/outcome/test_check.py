"""The threshold check: two Bernoulli laws, in 140-digit arithmetic."""

from __future__ import annotations

from functools import cache

import mpmath
import numpy as np
import pytest

from consilium.accounting.curves.gaussian import rdp_gaussian
from consilium.accounting.outcome import check
from tests.marks import third

ORDERS = [1.01, 2.0, 10.0, 100.0, 500.0]
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


def worst(number: int, threshold: int, sigma: float, noise: str, most: int = 1) -> list[float]:
    with mpmath.workdps(140):
        here = passes(number, threshold, sigma, noise)
        best = []
        for alpha in map(mpmath.mpf, ORDERS):
            found = []
            for step in range(-most, most + 1):
                there = passes(number + step, threshold, sigma, noise)
                for p, q in [(here, there), (there, here)]:
                    moment = mpmath.fsum(a**alpha * b ** (1 - alpha) for a, b in zip(p, q, strict=True))
                    found.append(mpmath.log(moment) / (alpha - 1))
            best.append(float(max(found)))
    return best


@pytest.mark.parametrize("noise", ["discrete", "continuous"])
@pytest.mark.parametrize("sigma", third([5.0, 20.0, 150.0], 1))
def test_both_laws_both_steps(noise: str, sigma: float) -> None:
    numbers = NUMBERS if noise == "continuous" or sigma < 100 else NUMBERS[[0, 3]]
    truth = np.array([worst(int(n), 200, sigma, noise) for n in numbers])
    found = check.per_query(numbers, 200.0, sigma, noise, ORDERS)
    assert (found >= truth * (1 - 1e-15)).all()
    assert (found <= truth * (1 + 1e-7)).all()


@pytest.mark.parametrize("noise", ["discrete", "continuous"])
def test_every_number_within_three_votes(noise: str) -> None:
    truth = np.array([worst(int(n), 200, 20.0, noise, 3) for n in NUMBERS])
    found = check.per_query(NUMBERS, 200.0, 20.0, noise, ORDERS, votes_moved=3)
    assert (found >= truth * (1 - 1e-15)).all()
    assert (found <= truth * (1 + 1e-7)).all()


def test_sums_and_the_ceiling() -> None:
    weights = np.linspace(0, 1, NUMBERS.size)
    each = check.per_query(NUMBERS, 200.5, 20.0, "discrete", ORDERS)
    assert check.sum_rdp(NUMBERS, 200.5, 20.0, "discrete", ORDERS, weights) == pytest.approx(weights @ each, rel=1e-12)
    assert (each <= rdp_gaussian(20.0, ORDERS, scalar=True)).all()
    assert check.sum_rdp(NUMBERS[:0], 200.0, 20.0, "discrete", ORDERS).tolist() == [0.0] * len(ORDERS)
