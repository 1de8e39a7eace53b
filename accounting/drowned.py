"""Whether the noise of a promise drowns a federation, known before anything is asked.

A linear student is read from about r directions of the public rows, along which the votes stand out of the noise by K
mu / (2 sqrt r), for K votes of which a unit moves one, and the Gaussian privacy parameter mu of all that is released.
On divisions that decided nothing a student was useless at 1.4, 1.4 and 2.1, and fair at 4.4, 5.7 and 27: below 3
(`report.warnings.LEAST_SIGNAL`) expect nothing. It says what privacy costs, not whether the task is hard.
"""

from __future__ import annotations

import math

from consilium.accounting.checks import check_delta
from consilium.accounting.curves.gdp import epsilon_of, sigma_needed
from consilium.accounting.events import ReleaseEvent

MOST_DIRECTIONS = 10.0
"""That a student under noise learns, of however many there are."""


def mu_of(epsilon: float, delta: float) -> float:
    """The mu of a Gaussian mechanism that promises this epsilon at this delta; infinite for an infinite epsilon."""
    check_delta(delta)
    if math.isinf(epsilon) or epsilon == 0:
        return epsilon
    return 1 / sigma_needed(1, epsilon, delta, scalar=True)


def signal(votes: float, epsilon: float, delta: float, directions: float) -> float:
    """How far votes stand out of the noise, in standard deviations. votes: of which a unit moves one.

    >>> round(signal(200, 1.0, 1e-5, 30), 2)
    8.48
    """
    return _signal_of_mu(votes, directions) * mu_of(epsilon, delta)


def epsilon_for(number: float, votes: float, delta: float, directions: float) -> float:
    """The epsilon at which `signal` is this number."""
    return epsilon_of((number / _signal_of_mu(votes, directions)) ** 2, delta)


def _signal_of_mu(votes: float, directions: float) -> float:
    """Of a mu of 1."""
    return votes / (2 * math.sqrt(min(MOST_DIRECTIONS, max(directions, 1.0))))


def votes_of_units(parties: int, event: ReleaseEvent) -> float:
    """Votes on a query for each that one unit moves: the number of parties, where a whole one is the unit; twice that
    where it is added or removed and their difference is released, which it moves by half as much."""
    return parties * event.teachers_per_party * event.mechanism.moved_by_a_vote / event.votes_moved
