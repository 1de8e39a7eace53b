"""The least noise for a target: with an amount that is known to be enough, and without one.

The bound that takes no time: never below the one that is charged, for whatever may be released.

A sanitised release on the published votes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import conversion_cost
from consilium.accounting.curves.gaussian import log_pr_answered
from consilium.accounting.errors import CalibrationError
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.events.mechanisms import (
    ConfidentEvent,
    DistributedEvent,
    GNMaxEvent,
    HistogramEvent,
    LNMaxEvent,
    StableEvent,
)
from consilium.accounting.guarantees import Kind
from consilium.accounting.sanitise.release import forecast_sanitised, label_costs
from consilium.accounting.sanitise.smooth import CheckProfile, LabelProfile, smooth_sensitivity
from consilium.accounting.target import as_histograms, least_noise
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
from consilium.accounting.vote_files import typical_votes


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


STATED = {
    "asked": 30,
    "answered": 20,
    "unit": Unit.PARTY,
    "neighbouring": Neighbouring.REPLACE,
    "towards": Towards.STUDENT,
    "noise": Noise.DISCRETE,
}
EVENTS: list[ReleaseEvent] = [
    event
    for k in (1, 2)
    for event in (
        ConfidentEvent(threshold=50.0, sigma1=90.0, sigma2=40.0, teachers_per_party=k, **STATED),
        HistogramEvent(sigma=40.0, teachers_per_party=k, **{**STATED, "answered": 30}),
        LNMaxEvent(gamma=0.05, teachers_per_party=k, **{**STATED, "answered": 30}),
        StableEvent(threshold=125.0, sigma=24.0, teachers_per_party=k, **STATED),
        ConfidentEvent(threshold=50.0, sigma1=90.0, sigma2=40.0, teachers_per_party=k, slack=0.05, **STATED),
        HistogramEvent(sigma=40.0, teachers_per_party=k, slack=0.05, **{**STATED, "answered": 30}),
        GNMaxEvent(sigma=20.0, teachers_per_party=k, slack=0.3, **{**STATED, "answered": 30}),
        DistributedEvent(sigma=40.0, noise_shares=1600, teachers_per_party=k, **STATED),
    )
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: f"{event.TYPE}-{event.teachers_per_party}-{event.slack}")
def test_as_histograms_is_never_below_what_is_charged(event: ReleaseEvent) -> None:
    accountant = Accountant()
    accountant.commit(event)
    charged = accountant.guarantee(1e-5, Kind.WORST_CASE, numerical=False).epsilon
    assert charged * (1 - 1e-12) <= as_histograms([event], 1e-5) < math.inf
    assert as_histograms([event, event], 1e-5) > as_histograms([event], 1e-5)


def test_a_delta_that_is_used_up_leaves_no_bound() -> None:
    event = next(event for event in EVENTS if event.TYPE == "stable")
    assert 0 < event.added_delta() < 1e-5
    assert as_histograms([replace(event, threshold=1.0)], 1e-5) == math.inf


REAL = Noise.CONTINUOUS
EVENT = ConfidentEvent(
    asked=640,
    answered=283,
    unit=Unit.RECORD,
    neighbouring=Neighbouring.REPLACE,
    teachers_per_party=1,
    towards=Towards.PUBLIC,
    noise=REAL,
    threshold=200.0,
    sigma1=150.0,
    sigma2=40.0,
)


@pytest.fixture
def votes(mnist_votes):
    return mnist_votes[:640]


def answered(votes, noise=REAL):
    return np.exp(log_pr_answered(votes.max(axis=1), 200.0, 150.0, noise)[0])


def test_sound_sanitising(votes):
    tuned = forecast_sanitised(EVENT, votes, 250, 1e-5, np.arange(8.0, 12.0, 0.5))
    assert [tuned.epsilon, tuned.noise_std, tuned.plan.order] == pytest.approx([1.499, 0.154, 9.5], abs=1e-3)
    public = np.resize(typical_votes(250, 10), (640, 10))
    plan = forecast_sanitised(EVENT, public, 250, 1e-5, np.arange(8.0, 12.0, 0.5)).plan
    order = np.array([plan.order])
    label = LabelProfile(votes, 250, label_costs(EVENT, 250, 10, order), answered(votes))
    check = CheckProfile(EVENT.comparison(votes, 250), order, 1)
    smooth = smooth_sensitivity([label, check], order, [plan.beta], 250)[0]
    mean = label.cost()[0] + check.cost()[0] + plan.cost() + conversion_cost(order, 1e-5)[0]
    assert [mean, smooth * plan.sigma_ss, plan.cost()] == pytest.approx([1.428, 0.194, 0.150], abs=1e-3)
