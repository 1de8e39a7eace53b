"""Sanitised releases: their charge, their smoothness, and what they may not be made of."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, conversion_cost, rdp_to_epsilon
from consilium.accounting.errors import AccountingError, EventError, UnitError
from consilium.accounting.guarantees import Kind
from consilium.accounting.label_costs import VoteBatch, exact_rdp
from consilium.accounting.mechanisms import Confident, GNMax, Histogram, Interactive, LNMax, event_from_json
from consilium.accounting.outcome import check
from consilium.accounting.sanitise.release import (
    SanitisedPlan,
    check_plan,
    forecast_sanitised,
    label_costs,
    sanitise,
    secret_smoothness,
)
from consilium.accounting.sanitise.smooth import CheckProfile, LabelProfile, smooth_sensitivity
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
from tests.accounting.examples import MASK, PLAN, VOTES, confident, event_of

REAL = Noise.CONTINUOUS
EVERY = np.ones(40, dtype=bool)


def by_the_lead(event, mask, predictions=None):
    """What the answered labels cost by the lead and all checks exactly, looked up query by query."""
    costs, ordered = label_costs(event, 100, 3, np.array([2.5]))[0], np.sort(VOTES, axis=1)
    total = sum(costs[min(lead, costs.size - 1)] for lead in (ordered[:, -1] - ordered[:, -2])[mask])
    compared = event.mechanism.comparison(VOTES, 100, event.noise, predictions)
    if compared is None:
        return total
    return total + check.sum_rdp(compared.number, compared.threshold, compared.sigma, compared.noise, [2.5])[0]


def test_the_charge_of_a_sanitised_release():
    """At the plan's order it is what the release adds; elsewhere it is the same release seen at another order."""
    event = PLAN.event(confident())
    curve = event.worst_case_rdp(DEFAULT_ORDERS)
    assert event.worst_case_rdp([PLAN.order])[0] == pytest.approx(PLAN.cost(), rel=1e-12)
    assert np.all(np.diff(curve[np.isfinite(curve)]) >= 0)
    assert np.isinf(curve[-1])  # at high orders there is no room, and it costs everything
    assert event_from_json(json.loads(json.dumps(event.to_json()))) == event
    # its noise is that for one moved vote: of a unit that moves more it says nothing
    whole = dataclasses.replace(event, unit=Unit.PARTY, teachers_per_party=2)
    assert np.isinf(whole.worst_case_rdp([PLAN.order])).all()
    accountant = Accountant()
    accountant.commit(confident())
    alone = accountant.guarantee(1e-5, Kind.WORST_CASE).epsilon
    accountant.commit(event)
    assert accountant.guarantee(1e-5, Kind.WORST_CASE).epsilon > alone


@pytest.mark.parametrize("changes", [{"asked": 1}, {"beta": 0.0}, {"sigma_ss": -1.0}])
def test_a_charge_of_a_sanitised_release_that_cannot_be(changes):
    good = PLAN.event(confident()).to_json()
    with pytest.raises(AccountingError):
        event_from_json(good | changes)


def test_batches_with_fewer_teachers_are_sanitised_with_their_own_number():
    few = np.random.default_rng(6).multinomial(90, [0.75, 0.15, 0.1], size=40).astype(np.int64)
    event = confident(noise=REAL)
    both = [VoteBatch(event, VOTES, MASK), VoteBatch(event, few, MASK)]
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
        (PLAN, event_of(Histogram(8)), "histogram"),
        (PLAN, confident(unit=Unit.PARTY, k=2), "moves 2 votes"),
        (PLAN, dataclasses.replace(event_of(GNMax(40)), slack=1e-3), "Drop the plan"),
        (PLAN, Confident(60, 30, 10).event(1, unit="party", neighbouring=Neighbouring.ADD_OR_REMOVE), "differ in"),
    ],
)
def test_a_plan_that_could_not_be_carried_out_is_refused_before_the_run(plan, event, why):
    check_plan(PLAN, confident(), 100, 3)
    with pytest.raises(AccountingError, match=why):
        check_plan(plan, event, 100, 3)


def test_sanitised_release_adds_up():
    event = confident(noise=REAL)
    batch = VoteBatch(event, VOTES, MASK)
    secret = secret_smoothness([batch], PLAN, 100)
    truth = by_the_lead(event, MASK)
    assert secret.rdp == pytest.approx(truth, rel=1e-11)
    assert secret.smooth > 0
    quiet = sanitise([batch], PLAN, 1e-5, 100, lambda: 0.0)
    assert truth <= quiet.released_rdp <= truth + 1e-4
    assert quiet.guarantee.kind is Kind.SANITISED and quiet.guarantee.publishable
    total = rdp_to_epsilon([quiet.released_rdp + PLAN.cost()], [2.5], 1e-5).epsilon
    assert quiet.guarantee.epsilon == pytest.approx(total)
    one = sanitise([batch], PLAN, 1e-5, 100, lambda: 0.5)
    assert one.released_rdp == pytest.approx(secret.rdp + 0.5 * secret.smooth * PLAN.sigma_ss, abs=2e-4)
    loud = sanitise([batch], PLAN, 1e-5, 100, lambda: 1e9)
    assert loud.released_rdp == pytest.approx(event.worst_case_rdp([2.5])[0])
    assert sanitise([batch], PLAN, 1e-5, 100, lambda: -1e9).released_rdp == 0.0
    assert "secret" in repr(secret)
    assert sanitise([batch], PLAN, 1e-5, 100).guarantee.epsilon > 0


@pytest.mark.parametrize("noise", list(Noise))
def test_what_is_sanitised_is_at_least_the_exact_cost(noise):
    batch = VoteBatch(confident(noise=noise), VOTES, MASK)
    exact = exact_rdp(batch, [2.5])[0]
    assert exact <= secret_smoothness([batch], PLAN, 100).rdp <= exact * 1.5


def test_sanitised_release_composes_batches_and_refuses_mixed_ones():
    event = confident(noise=REAL)
    batch = VoteBatch(event, VOTES, MASK)
    one, two = (secret_smoothness([batch] * n, PLAN, 100) for n in (1, 2))
    assert two.rdp == pytest.approx(2 * one.rdp)
    assert two.smooth == pytest.approx(2 * one.smooth)
    with pytest.raises(UnitError):
        sanitise([batch, batch._replace(event=confident(noise=REAL, towards=Towards.PUBLIC))], PLAN, 1e-5, 100)
    with pytest.raises(EventError, match="nothing was released"):
        sanitise([], PLAN, 1e-5, 100)
    with pytest.raises(EventError, match="marks"):
        sanitise([batch._replace(answered=~MASK)], PLAN, 1e-5, 100)
    # A histogram has no sensitivity bound here, nor has noise of shares: they enter at their public worst case.
    for worst in (event_of(Histogram(8), noise=REAL), dataclasses.replace(event_of(GNMax(40)), slack=1e-3)):
        mixed = secret_smoothness([batch, VoteBatch(worst, VOTES, EVERY)], PLAN, 100)
        assert mixed.smooth == one.smooth
        assert mixed.rdp == pytest.approx(one.rdp + worst.worst_case_rdp([2.5])[0])
    lnmax = event_of(LNMax(0.05), noise=REAL)
    mixed = secret_smoothness([batch, VoteBatch(lnmax, VOTES, EVERY)], PLAN, 100)
    assert mixed.smooth > one.smooth
    assert mixed.rdp == pytest.approx(one.rdp + by_the_lead(lnmax, EVERY))


def test_predictions_of_the_student_are_compared_with():
    p = np.tile([0.5, 0.25, 0.25], (40, 1))
    batch = VoteBatch(event_of(Interactive(60, 30, 10), 40, 25, noise=REAL), VOTES, MASK, p)
    assert secret_smoothness([batch], PLAN, 100).rdp == pytest.approx(by_the_lead(batch.event, MASK, p), rel=1e-11)
    with pytest.raises(EventError, match="predictions"):
        secret_smoothness([batch._replace(predictions=None)], PLAN, 100)


def test_published_votes_with_a_check(mnist_votes):
    votes, event = mnist_votes[:640], Confident(threshold=200, sigma1=150, sigma2=40).event(640, 283, noise=REAL)
    tuned = forecast_sanitised(event, votes, 250, 1e-5, np.arange(8.0, 12.0, 0.5))
    assert [tuned.epsilon, tuned.noise_std, tuned.plan.order] == pytest.approx([1.499, 0.154, 9.5], abs=1e-3)
    order, plan = np.array([tuned.plan.order]), tuned.plan
    label = LabelProfile(votes, 250, label_costs(event, 250, 10, order), np.exp(event.log_p_answered(votes, 250)))
    bit = CheckProfile(event.mechanism.comparison(votes, 250, REAL), order)
    smooth = smooth_sensitivity([label, bit], order, [plan.beta], 250)[0]
    mean = label.cost()[0] + bit.cost()[0] + plan.cost() + conversion_cost(order, 1e-5)[0]
    assert [mean, smooth * plan.sigma_ss, plan.cost()] == pytest.approx([1.499, 0.154, 0.179], abs=1e-3)
