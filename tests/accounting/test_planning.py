"""The least noise for a target: with an amount that is known to be enough, and without one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilium.accounting.errors import CalibrationError
from consilium.accounting.target import least_noise


def power(amount: float) -> float:
    return 30 / amount**1.7


def in_steps(amount: float) -> float:
    """A power that jumps by three thousandths, as a cost does that is computed on lattices."""
    return power(amount) * (1 + 0.003 * (math.floor(amount * 7) % 2))


@pytest.mark.parametrize("cost", [power, in_steps])
@given(epsilon=st.floats(0.01, 20), spare=st.floats(1.001, 3.0))
def test_beside_an_amount_that_is_enough(cost, epsilon: float, spare: float) -> None:
    enough = (30 * 1.003 / epsilon) ** (1 / 1.7) * spare
    found = least_noise(cost, epsilon, enough)
    assert cost(found) <= epsilon
    assert cost(found) >= epsilon * (1 - 0.006)


@given(epsilon=st.floats(0.01, 20), spare=st.floats(1.001, 3.0))
def test_a_dear_cost_is_asked_for_few_amounts(epsilon: float, spare: float) -> None:
    asked = []

    def dear(amount: float) -> float:
        asked.append(amount)
        return power(amount)

    least_noise(dear, epsilon, (30 / epsilon) ** (1 / 1.7) * spare)
    assert len(asked) <= 5


def rising(amount: float) -> float:
    """Never below 5: as of a mechanism whose check fails more often under more noise."""
    return max(30 / amount, 5.0) * (1 + amount / 1e4)


def test_what_is_not_enough_is_looked_for_elsewhere() -> None:
    assert rising(least_noise(rising, 6.0, enough=2.0)) <= 6.0


@pytest.mark.parametrize("epsilon", [4.0, 0.0, math.inf])
def test_no_amount(epsilon: float) -> None:
    with pytest.raises(CalibrationError):
        least_noise(rising, epsilon, enough=10.0)
