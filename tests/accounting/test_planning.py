"""Before a run: the least noise for a target, and the rule that says whether noise drowns a federation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilium.accounting.drowned import MOST_DIRECTIONS, signal, votes_of_units
from consilium.accounting.events import Mechanism
from consilium.accounting.mechanisms import Difference, GNMax
from consilium.accounting.target import least_noise
from consilium.accounting.units import Neighbouring, Unit
from consilium.report.warnings import LEAST_SIGNAL


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


def rising(amount: float) -> float:
    """Never below 5: as of a mechanism whose check fails more often under more noise."""
    return max(30 / amount, 5.0) * (1 + amount / 1e4)


def test_what_is_not_enough_is_looked_for_elsewhere() -> None:
    assert rising(least_noise(rising, 6.0, enough=2.0)) <= 6.0


def test_it_is_the_rule_of_the_held_out_divisions() -> None:
    """K mu / (2 sqrt r), below 3 of 40 parties at epsilon 1 and above it of 200; a tenth direction and more are ten."""
    assert signal(40, 1.0, 1e-5, 100) == pytest.approx(40 * 0.26805 / (2 * math.sqrt(10)), rel=1e-3)
    assert signal(40, 1.0, 1e-5, 100) < LEAST_SIGNAL < signal(200, 1.0, 1e-5, 100)
    assert signal(40, 1.0, 1e-5, MOST_DIRECTIONS) == signal(40, 1.0, 1e-5, 1000)
    assert signal(40, 1.0, 1e-5, 2.5) == pytest.approx(2 * signal(40, 1.0, 1e-5, 10))
    assert signal(40, math.inf, 1e-5, 10) == math.inf


def test_votes_count_by_what_a_unit_moves() -> None:
    def of(unit: Unit, relation: Neighbouring, mechanism: Mechanism) -> float:
        event = mechanism.event(1, unit=unit, neighbouring=relation, teachers_per_party=10)
        return votes_of_units(40, event)

    counts, difference = GNMax(1.0), Difference(1.0)
    assert of(Unit.PARTY, Neighbouring.REPLACE, counts) == of(Unit.PARTY, Neighbouring.REPLACE, difference) == 40
    assert of(Unit.RECORD, Neighbouring.ADD_OR_REMOVE, counts) == 400
    assert of(Unit.RECORD, Neighbouring.ADD_OR_REMOVE, difference) == 400
    assert of(Unit.PATIENT, Neighbouring.REPLACE, counts) == 200
    assert of(Unit.PARTY, Neighbouring.ADD_OR_REMOVE, counts) == 40
    assert of(Unit.PARTY, Neighbouring.ADD_OR_REMOVE, difference) == 80
