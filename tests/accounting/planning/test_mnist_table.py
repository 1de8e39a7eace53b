"""Every number of the MNIST table in docs/accounting.md that is not in another test."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.accounting.curves.conversion import DEFAULT_ORDERS, conversion_cost, rdp_to_epsilon
from consilium.accounting.curves.gaussian import (
    log_pr_answered,
    log_q_gnmax,
    log_q_threshold,
    rdp_gaussian,
    sum_rdp_data_dependent,
)
from consilium.accounting.curves.gdp import epsilon_of, mu_squared
from consilium.accounting.curves.gnss import gnss_cost, gnss_cost_published, published_sigma_ss
from consilium.accounting.events import ConfidentEvent
from consilium.accounting.planning.calibration import profile_votes
from consilium.accounting.sanitise.release import forecast_sanitised
from consilium.accounting.sanitise.smooth import CheckProfile, label_profile, smooth_sensitivity
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit

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


def at_caps(event, asked, answered, delta, method="cks"):
    """The epsilon that a whole run cannot exceed, from a query budget that is fixed before it, by the Renyi curve
    alone."""
    return rdp_to_epsilon(
        event.with_counts(asked, answered).worst_case_rdp(DEFAULT_ORDERS), DEFAULT_ORDERS, delta, method
    )


@pytest.fixture
def votes(mnist_votes):
    return mnist_votes[:640]


def answered(votes, noise=REAL):
    return np.exp(log_pr_answered(votes.max(axis=1), 200.0, 150.0, noise)[0])


def test_integer_noise(votes):
    weights = answered(votes, Noise.DISCRETE)
    log_q_check = log_q_threshold(votes.max(axis=1), 200.0, 150.0, Noise.DISCRETE)
    curve = sum_rdp_data_dependent(log_q_check, 150.0, DEFAULT_ORDERS, scalar=True)
    log_q = log_q_gnmax(votes, 40.0, Noise.DISCRETE)
    curve += sum_rdp_data_dependent(log_q, 40.0, DEFAULT_ORDERS, weights=weights)
    assert weights.sum() == pytest.approx(283.5, abs=0.05)
    assert rdp_to_epsilon(curve, DEFAULT_ORDERS, 1e-5).epsilon == pytest.approx(1.7250, abs=1e-4)


@pytest.mark.parametrize(("answers", "cks", "exact"), [(283, 2.143, 2.529), (640, 3.3005, 3.927)])
def test_worst_case(answers, cks, exact):
    assert at_caps(EVENT, 640, answers, 1e-5).epsilon == pytest.approx(cks, abs=1e-3)
    squared = mu_squared(640, 150.0, scalar=True) + mu_squared(answers, 40.0)
    assert epsilon_of(squared, 1e-5) == pytest.approx(exact, abs=1e-3)
    if answers == 283:
        classic = at_caps(EVENT, 640, answers, 1e-5, method="classic")
        assert classic.epsilon == pytest.approx(2.500, abs=1e-3)


def test_published_sanitising_and_its_true_cost(votes):
    order = np.array([14.0])
    label = label_profile(votes, 250, 40.0, REAL, order, 1, answered(votes))
    rho = label.cost()[0] + 640 * rdp_gaussian(150.0, order, scalar=True)[0]
    found = []
    for beta in np.arange(0.3 / 14, 0.495 / 14, 0.01 / 14):
        smooth = smooth_sensitivity([label], order, [beta], 250)[0]
        sigma_ss = published_sigma_ss(14.0, beta, smooth)
        found.append((gnss_cost_published(14.0, beta, sigma_ss), beta, sigma_ss, smooth))
    cost, beta, sigma_ss, smooth = min(found)
    before = rho + conversion_cost(order, 1e-5, "classic")[0]
    assert cost == pytest.approx(0.501, abs=1e-3)
    assert before + cost == pytest.approx(2.499, abs=1e-3)
    assert smooth * sigma_ss == pytest.approx(0.408, abs=1e-3)
    true = gnss_cost(order, beta, sigma_ss)[0]
    assert true == pytest.approx(0.845, abs=1e-3)
    assert before + true == pytest.approx(2.844, abs=1e-3)


def test_sound_sanitising(votes):
    tuned = forecast_sanitised(EVENT, votes, 250, 1e-5)
    assert [tuned.epsilon, tuned.noise_std, tuned.plan.order] == pytest.approx([2.160, 0.269, 8.5], abs=1e-3)
    public = np.resize(profile_votes("typical", 250, 10), (640, 10))
    plan = forecast_sanitised(EVENT, public, 250, 1e-5).plan
    order = np.array([plan.order])
    label = label_profile(votes, 250, 40.0, REAL, order, 1, answered(votes))
    check = CheckProfile(votes.max(axis=1), 200.0, 150.0, REAL, order, 1, 0, 250)
    smooth = smooth_sensitivity([label, check], order, [plan.beta], 250)[0]
    mean = label.cost()[0] + check.cost()[0] + plan.cost() + conversion_cost(order, 1e-5)[0]
    assert [mean, smooth * plan.sigma_ss, plan.cost()] == pytest.approx([2.049, 0.343, 0.214], abs=1e-3)
