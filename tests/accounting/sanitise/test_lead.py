"""A label's cost by the plurality's lead, its sensitivity, and sanitised releases: their charge and their noise."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from functools import cache

import numpy as np
import pytest

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, conversion_cost, rdp_to_epsilon
from consilium.accounting.curves.gnss import gnss_cost
from consilium.accounting.errors import AccountingError, EventError, NoiseError, UnitError
from consilium.accounting.events import Comparison
from consilium.accounting.guarantees import Kind
from consilium.accounting.label_costs import VoteBatch, exact_rdp
from consilium.accounting.mechanisms import Confident, GNMax, Histogram, Interactive, LNMax, event_from_json
from consilium.accounting.outcome import check
from consilium.accounting.sanitise import gap
from consilium.accounting.sanitise.gap import envelope
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
from tests.accounting.outcome.oracle import per_query
from tests.accounting.worst.oracles import laplace_winners, neighbours, winners
from tests.marks import third

close = pytest.approx
REAL, WHOLE = Noise.CONTINUOUS, Noise.DISCRETE
ORDERS = np.array([1.5, 2.0, 4.0, 8.0, 16.0, 30.0])


@cache
def federation(teachers: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """All histograms int64 (n, classes), and how many votes lie between any two of them (n, n)."""
    rows = [row for row in itertools.product(range(teachers + 1), repeat=classes) if sum(row) == teachers]
    votes = np.array(rows, dtype=np.int64)
    return votes, np.abs(votes[:, None] - votes[None]).sum(axis=2) // 2


def leads(votes: np.ndarray) -> np.ndarray:
    ordered = np.sort(votes, axis=1)
    return ordered[:, -1] - ordered[:, -2]


FEDERATIONS: list[tuple[int, int, gap.Kind, float]] = [
    # teachers, classes, noise, its scale
    (40, 2, "gaussian", 3.0),
    (14, 3, "gaussian", 1.0),
    (9, 4, "gaussian", 1.2),
    (7, 5, "gaussian", 0.7),
    (40, 2, "laplace", 0.3),
    (14, 3, "laplace", 1.0),
    (9, 4, "laplace", 1.5),
    (7, 5, "laplace", 0.8),
]


def exact(teachers: int, classes: int, kind: gap.Kind, scale: float, noise: Noise) -> np.ndarray:
    votes, _ = federation(teachers, classes)
    return per_query(votes, scale, noise, kind, ORDERS).T


@pytest.mark.parametrize("noise", list(Noise))
@pytest.mark.parametrize(("teachers", "classes", "kind", "scale"), FEDERATIONS)
def test_no_histogram_costs_more_in_either_direction(teachers, classes, kind, scale, noise):
    votes, _ = federation(teachers, classes)
    costs = envelope(kind, scale, noise, classes, teachers, ORDERS)
    truth = exact(teachers, classes, kind, scale, noise)
    assert np.all(costs[:, np.minimum(leads(votes), costs.shape[1] - 1)] >= truth)
    assert np.all(np.diff(costs, axis=1) <= 0)


@pytest.mark.parametrize(("teachers", "classes", "kind", "scale"), [(10, 3, "gaussian", 1.0), (9, 4, "laplace", 0.5)])
def test_a_vote_between_two_rivals_is_bounded_by_itself(teachers, classes, kind, scale, monkeypatch):
    """Hardly ever what decides a cost, so that its bound is looked at without that of the plurality's votes."""
    monkeypatch.setattr(gap, "_plurality_gives", lambda of_others, *_: np.zeros_like(of_others))
    orders = np.array([1.5, 4.0, 8.0])
    wins = winners if kind == "gaussian" else laplace_winners
    bound = gap._moments(kind, scale, WHOLE, classes, teachers, orders)
    for votes in map(tuple, federation(teachers, classes)[0].tolist()):
        lead, top = leads(np.array([votes]))[0], int(np.argmax(votes))
        if lead < 2:
            continue
        before = wins(votes, scale)
        for giver, taker in itertools.permutations(set(range(classes)) - {top}, 2):
            if votes[giver]:
                moved = tuple(count - (at == giver) + (at == taker) for at, count in enumerate(votes))
                after = wins(moved, scale)
                for p, q in ((before, after), (after, before)):
                    moment = (p ** orders[:, None] * q ** (1 - orders[:, None])).sum(axis=1) - 1
                    assert np.all(moment <= bound[:, lead] + 1e-12)


def true_sensitivity(cost: np.ndarray, moves: np.ndarray, teachers: int) -> np.ndarray:
    """Largest local sensitivity within each distance: float64 (histograms, distances)."""
    change = np.where(moves <= 1, np.abs(cost[:, None] - cost[None]), 0.0).max(axis=1)
    return np.stack([np.where(moves <= d, change[None], 0.0).max(axis=1) for d in range(teachers + 1)], axis=1)


def profiled(votes: np.ndarray, teachers: int, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cost float64 (histograms,) and bound (histograms, distances) as the profile of each single histogram says."""
    distances = np.arange(teachers + 1)
    cost, out = np.empty(len(votes)), np.empty((len(votes), teachers + 1))
    for row, one in enumerate(votes):
        profile = LabelProfile(one[None], teachers, costs, np.ones(1))
        cost[row] = profile.cost()[0]
        out[row] = profile.at(np.zeros(distances.size, dtype=np.int64), distances)
    return cost, out


SETTINGS: list[tuple[int, int, gap.Kind, float, Noise, float]] = [
    (12, 3, "laplace", 1.0, WHOLE, 2.0),
    (20, 3, "gaussian", 3.0, REAL, 2.0),
    (30, 2, "laplace", 0.3, REAL, 4.0),
    (30, 2, "gaussian", 4.0, WHOLE, 2.5),
    (14, 3, "gaussian", 0.7, WHOLE, 2.0),
]


@pytest.mark.parametrize(("teachers", "classes", "kind", "scale", "noise", "order"), third(SETTINGS) + SETTINGS[1:2])
def test_no_histogram_is_more_sensitive_than_the_bound(teachers, classes, kind, scale, noise, order):
    votes, moves = federation(teachers, classes)
    costs = envelope(kind, scale, noise, classes, teachers, [order])
    cost, found = profiled(votes, teachers, costs)
    truth = true_sensitivity(cost, moves, teachers)
    assert truth[:, -1].min() > 0
    assert np.all(found >= truth * (1 - 1e-12))
    assert np.all(np.diff(found, axis=1) >= 0)
    # Smooth: e^beta for each moved vote, and never below the true smooth sensitivity.
    for beta in (0.02, 0.3):
        discount = np.exp(-beta * np.arange(teachers + 1))
        smoothed = np.array([(discount * row).max() for row in found])
        assert np.all(smoothed >= (discount * truth).max(axis=1) * (1 - 1e-12))
        assert np.all(smoothed[:, None] <= np.exp(beta * moves) * smoothed[None] * (1 + 1e-12))


def test_leads_beyond_the_table_are_as_its_last():
    """2,000 votes at sigma 2: the table ends where nothing is left, and a query far beyond has far to go."""
    costs = envelope("gaussian", 2.0, WHOLE, 3, 2000, [2.0])
    assert costs.shape[1] < 100
    profile = LabelProfile(np.array([[1500, 300, 200]]), 2000, costs, np.ones(1))
    assert profile.cost()[0] == costs[0, -1] < 1e-18
    near, far = profile.at(np.zeros(2, dtype=np.int64), np.array([100, 700]))
    assert near == 0 < far


def test_noise_for_which_no_table_is_made():
    with pytest.raises(NoiseError, match="publish the worst case"):
        envelope("gaussian", 1e5, WHOLE, 3, 100_000, [2.0])
    worst = envelope("gaussian", 0.7, WHOLE, 3, 50, [400.0])
    assert np.ptp(worst) == 0  # beyond the orders that are computed: the worst case at every lead


@pytest.mark.parametrize("noise", list(Noise))
def test_check_sensitivities_cover_every_value(noise):
    teachers, threshold, sigma1, order = 60, 25.0, 8.0, np.array([4.0])
    top = np.arange(teachers + 1)
    cost = check.per_query(top, threshold, sigma1, noise, order)[:, 0]
    local = np.array([max(abs(cost[v] - cost[w]) for w in (v - 1, v + 1) if 0 <= w <= teachers) for v in top])
    for v in top:
        compared = Comparison(
            number=np.array([v]), least=0, most=teachers, threshold=threshold, sigma=sigma1, noise=noise
        )
        profile = CheckProfile(compared, order)
        bound = profile.at(np.zeros(teachers + 1, dtype=np.int64), np.arange(teachers + 1))
        assert np.all(np.diff(bound) >= 0)
        for d in range(teachers + 1):
            within = local[max(0, v - d) : v + d + 1].max()
            assert within == bound[d]


def test_smooth_sensitivity_is_the_maximum_over_all_distances():
    rng = np.random.default_rng(7)
    teachers, orders = 80, np.array([2.0, 5.0, 9.0])
    votes = rng.multinomial(teachers, [0.7, 0.2, 0.1], size=30) + 0
    votes[:5] = [[80, 0, 0], [79, 1, 0], [40, 40, 0], [30, 25, 25], [60, 20, 0]]
    noise = Noise.CONTINUOUS
    profile = LabelProfile(votes, teachers, envelope("gaussian", 12.0, noise, 3, teachers, orders), rng.random(30))
    number = votes.max(axis=1)
    compared = Comparison(number=number, least=0, most=teachers, threshold=50.0, sigma=20.0, noise=noise)
    checks = CheckProfile(compared, orders)
    d = np.arange(teachers + 1)
    for beta in (1e-4, 0.02, 0.2, 3.0):
        found = smooth_sensitivity([profile, checks], orders, np.full(3, beta), teachers)
        for j in range(3):
            at = np.full(d.size, j)
            every = profile.at(at, d) + checks.at(at, d)
            assert np.all(np.diff(every) >= 0)
            assert found[j] == pytest.approx((np.exp(-beta * d) * every).max(), rel=1e-14)


def closed_divergence(mean, scale, mean2, scale2, order):
    """D_order(N(mean, scale^2) || N(mean2, scale2^2))."""
    spread = order * scale2**2 + (1 - order) * scale**2
    return (
        order * (mean - mean2) ** 2 / (2 * spread)
        + np.log(scale2 / scale)
        + np.log(scale2**2 / spread) / (2 * (order - 1))
    )


def test_whole_release_is_as_private_as_it_says():
    """Every pair of neighbouring histograms of 20 teachers, two queries: the divergence of the released numbers."""
    teachers, sigma, order, beta, sigma_ss = 20, 4.0, 2.0, 0.06, 5.0
    orders = np.array([order])
    costs = envelope("gaussian", sigma, Noise.CONTINUOUS, 3, teachers, orders)

    def one(h):
        p = LabelProfile(np.array([h, h]), teachers, costs, np.ones(2))
        return p.cost()[0], smooth_sensitivity([p], orders, [beta], teachers)[0]

    found, largest = cache(one), 0.0
    cost = gnss_cost(orders, beta, sigma_ss)[0]
    for h, g in neighbours(teachers, 3):
        if list(h) != sorted(h, reverse=True):
            continue  # no cost hangs on the name of a class
        (f, s), (f2, s2) = found(h), found(g)
        assert abs(f - f2) <= min(s, s2) * (1 + 1e-9)
        assert s2 <= s * math.exp(beta) * (1 + 1e-9)
        if s > 0:
            true = closed_divergence(f, s * sigma_ss, f2, s2 * sigma_ss, order)
            assert true <= cost * (1 + 1e-9)
            largest = max(largest, true / cost)
    assert largest > 0.05


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
