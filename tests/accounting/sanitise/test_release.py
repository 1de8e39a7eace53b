"""Sanitised releases: their charge, their smoothness, and what they may not be made of."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.errors import AccountingError, EventError, NoiseError, UnitError
from consilium.accounting.guarantees import Kind
from consilium.accounting.label_costs import VoteBatch, exact_rdp
from consilium.accounting.mechanisms import Histogram, Interactive, LNMax, event_from_json
from consilium.accounting.outcome import check
from consilium.accounting.sanitise.release import (
    Answered,
    SanitisedPlan,
    check_plan,
    label_costs,
    sanitise,
    secret_smoothness,
)
from consilium.accounting.units import Noise, Towards, Unit
from tests.accounting.examples import MASK, PLAN, VOTES, confident, event_of


def by_the_lead(event, mask, probabilities=None):
    """What the answered labels cost by the lead and all checks exactly, looked up query by query."""
    costs, ordered = label_costs(event, 100, 3, np.array([2.5]))[0], np.sort(VOTES, axis=1)
    total = sum(costs[min(lead, costs.size - 1)] for lead in (ordered[:, -1] - ordered[:, -2])[mask])
    compared = event.mechanism.comparison(VOTES, 100, event.noise, probabilities)
    if compared is None:
        return total
    return total + check.sum_rdp(compared.number, compared.threshold, compared.sigma, compared.noise, [2.5])[0]


def test_the_charge_of_a_sanitised_release():
    """At the plan's order it is what the release adds; elsewhere it is the same release seen at another order."""
    for k, unit in ((1, Unit.RECORD), (3, Unit.RECORD), (3, Unit.PARTY)):
        like = confident(unit=unit, k=k)
        for plan in (PLAN, dataclasses.replace(PLAN, beta=0.02, log_scale_sigma=0.5)):
            if plan.order * (1 - math.exp(-2 * plan.beta * like.votes_moved)) >= 1:
                continue
            event = plan.event(like)
            curve = event.worst_case_rdp(DEFAULT_ORDERS)
            assert event.worst_case_rdp([plan.order])[0] == pytest.approx(plan.cost(like.votes_moved), rel=1e-12)
            assert np.all(np.diff(curve[np.isfinite(curve)]) >= 0)
            assert np.isinf(curve[-1])  # at high orders there is no room, and it costs everything
            assert event_from_json(json.loads(json.dumps(event.to_json()))) == event
    accountant = Accountant(DEFAULT_ORDERS)
    accountant.commit(confident())
    alone = accountant.guarantee(1e-5, Kind.WORST_CASE).epsilon
    accountant.commit(PLAN.event(confident()))
    assert accountant.guarantee(1e-5, Kind.WORST_CASE).epsilon > alone


@pytest.mark.parametrize("changes", [{"asked": 1}, {"beta": 0.0}, {"sigma_ss": -1.0}, {"log_scale_sigma": -0.5}])
def test_a_charge_of_a_sanitised_release_that_cannot_be(changes):
    good = PLAN.event(confident()).to_json()
    with pytest.raises(AccountingError):
        event_from_json(good | changes)


def test_batches_with_fewer_teachers_are_sanitised_with_their_own_number():
    few = np.random.default_rng(6).multinomial(90, [0.75, 0.15, 0.1], size=40).astype(np.int64)
    event = confident(noise=Noise.CONTINUOUS)
    both = [Answered(event, VOTES, MASK), Answered(event, few, MASK)]
    parts = [secret_smoothness([one], PLAN, 100) for one in both]
    together = secret_smoothness(both, PLAN, 100)
    assert together.rdp == pytest.approx(sum(part.rdp for part in parts), rel=1e-12)
    assert max(part.smooth for part in parts) < together.smooth <= sum(part.smooth for part in parts) * (1 + 1e-12)
    with pytest.raises(EventError, match="more than the 99 teachers"):
        secret_smoothness(both, PLAN, 99)


@pytest.mark.parametrize(
    ("plan", "event", "why"),
    [
        (SanitisedPlan(order=2.5, beta=1.0, sigma_ss=5.0), confident(), "no finite cost"),
        (SanitisedPlan(order=2.5, beta=0.1, sigma_ss=5.0), event_of(Histogram(8)), "histogram"),
    ],
)
def test_a_plan_that_could_not_be_carried_out_is_refused_before_the_run(plan, event, why):
    check_plan(PLAN, confident(), 100, 3)
    with pytest.raises(AccountingError, match=why):
        check_plan(plan, event, 100, 3)


def test_sanitised_release_adds_up():
    event = confident(noise=Noise.CONTINUOUS)
    batch = Answered(event, VOTES, MASK)
    secret = secret_smoothness([batch], PLAN, 100)
    exact = by_the_lead(event, MASK)
    assert secret.rdp == pytest.approx(exact, rel=1e-11)
    assert secret.smooth > 0
    quiet = sanitise([batch], PLAN, 1e-5, 100, lambda: 0.0)
    assert exact <= quiet.released_rdp <= exact + 1e-4
    assert quiet.guarantee.kind is Kind.SANITISED
    assert quiet.guarantee.publishable
    assert quiet.epsilon_limit is None
    total = rdp_to_epsilon([quiet.released_rdp + PLAN.cost()], [2.5], 1e-5).epsilon
    assert quiet.guarantee.epsilon == pytest.approx(total)
    loud = sanitise([batch], PLAN, 1e-5, 100, lambda: 1e9)
    assert loud.released_rdp == pytest.approx(event.worst_case_rdp([2.5])[0])
    assert sanitise([batch], PLAN, 1e-5, 100, lambda: -1e9).released_rdp == 0.0
    for secretive in (secret, batch):
        assert "secret" in repr(secretive)
    assert sanitise([batch], PLAN, 1e-5, 100).guarantee.epsilon > 0


@pytest.mark.parametrize("noise", list(Noise))
def test_what_is_sanitised_is_at_least_the_exact_cost(noise):
    event = confident(noise=noise)
    secret = secret_smoothness([Answered(event, VOTES, MASK)], PLAN, 100)
    exact = exact_rdp(event, VoteBatch(VOTES, 100, MASK.astype(float)), [2.5])[0]
    assert exact <= secret.rdp <= exact * 1.5


def test_sanitised_limit_covers_the_true_value():
    """With a confidence of 95 %, at most 5 % of the limits may be too low; more than 24 of 300 has p < .02."""
    rng = np.random.default_rng(3)
    event = confident(noise=Noise.CONTINUOUS)
    plan = dataclasses.replace(PLAN, log_scale_sigma=0.5)
    assert plan.cost() == pytest.approx(PLAN.cost() + 2.5 * 0.01 / (2 * 0.25))
    batch = Answered(event, VOTES, MASK)
    secret = secret_smoothness([batch], plan, 100)
    true = rdp_to_epsilon([secret.rdp + plan.cost()], [2.5], 1e-5).epsilon
    missed = 0
    for _ in range(300):
        release = sanitise([batch], plan, 1e-5, 100, lambda: float(rng.normal()))
        assert release.epsilon_limit is not None
        missed += release.epsilon_limit < true
    assert missed <= 24


def test_sanitised_release_composes_batches_and_refuses_mixed_ones():
    event = confident(noise=Noise.CONTINUOUS)
    batch = Answered(event, VOTES, MASK)
    one, two = (secret_smoothness([batch] * n, PLAN, 100) for n in (1, 2))
    assert two.rdp == pytest.approx(2 * one.rdp)
    assert two.smooth == pytest.approx(2 * one.smooth)
    other = Answered(confident(noise=Noise.CONTINUOUS, towards=Towards.PUBLIC), VOTES, MASK)
    with pytest.raises(UnitError):
        sanitise([batch, other], PLAN, 1e-5, 100)
    with pytest.raises(EventError, match="nothing was released"):
        sanitise([], PLAN, 1e-5, 100)
    with pytest.raises(EventError, match="disagree"):
        sanitise([Answered(event, VOTES, ~MASK)], PLAN, 1e-5, 100)
    # A histogram has no sensitivity bound here: it enters at its public worst case. LNMax has one.
    everything = np.ones(40, dtype=bool)
    whole = event_of(Histogram(8), noise=Noise.CONTINUOUS)
    mixed = secret_smoothness([batch, Answered(whole, VOTES, everything)], PLAN, 100)
    assert mixed.smooth == one.smooth
    assert mixed.rdp == pytest.approx(one.rdp + whole.worst_case_rdp([2.5])[0])
    lnmax = event_of(LNMax(0.05), noise=Noise.CONTINUOUS)
    mixed = secret_smoothness([batch, Answered(lnmax, VOTES, everything)], PLAN, 100)
    assert mixed.smooth > one.smooth
    assert mixed.rdp == pytest.approx(one.rdp + by_the_lead(lnmax, everything))


def test_sanitised_interactive_and_party_level():
    p = np.tile([0.5, 0.25, 0.25], (40, 1))
    event = event_of(Interactive(60, 30, 10), 40, 25, noise=Noise.CONTINUOUS)
    batch = Answered(event, VOTES, MASK, p)
    secret = secret_smoothness([batch], PLAN, 100)
    assert secret.rdp == pytest.approx(by_the_lead(event, MASK, p), rel=1e-11)
    with pytest.raises(EventError, match="predictions"):
        secret_smoothness([Answered(event, VOTES, MASK)], PLAN, 100)
    party = confident(noise=Noise.CONTINUOUS, unit=Unit.PARTY, k=2)
    release = sanitise([Answered(party, VOTES, MASK)], dataclasses.replace(PLAN, beta=0.05), 1e-5, 100, lambda: 0.0)
    assert release.guarantee.unit is Unit.PARTY
    half = dataclasses.replace(PLAN, beta=0.05)
    own = secret_smoothness([Answered(party, VOTES, MASK)], half, 100)
    tiny = sanitise([Answered(party, VOTES, MASK)], half, 1e-5, 100, lambda: 1e-2)
    # Two votes per step: the noise is scaled to SS (1 + e^beta), not to SS.
    expected = own.rdp + own.smooth * (1 + math.exp(0.05)) * PLAN.sigma_ss * 1e-2
    assert expected <= tiny.released_rdp <= expected + 1e-4
    assert own.smooth * PLAN.sigma_ss * 1e-2 > 2e-4
    assert dataclasses.replace(PLAN, beta=0.05).cost(2) == pytest.approx(PLAN.cost(1))
    with pytest.raises(NoiseError, match="no finite cost"):
        dataclasses.replace(PLAN, beta=0.3).cost(2)
