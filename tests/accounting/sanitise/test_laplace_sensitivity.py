"""The sensitivity of LNMax's cost against all histograms of small federations, and what comes of it on votes.

The bound on local sensitivity for integer noise: where it fails, and that it is refused there.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from consilium.accounting.curves.gaussian import rdp_data_dependent
from consilium.accounting.curves.gnss import group_smooth_sensitivity
from consilium.accounting.curves.laplace import log_q_lnmax, rdp_lnmax
from consilium.accounting.errors import NoiseError
from consilium.accounting.events import GNMaxEvent, LNMaxEvent
from consilium.accounting.sanitise import labels, smooth
from consilium.accounting.sanitise.labels import LaplaceProfile
from consilium.accounting.sanitise.release import (
    Answered,
    SanitisedPlan,
    check_plan,
    forecast_sanitised,
    sanitise,
    secret_smoothness,
)
from consilium.accounting.sanitise.smooth import (
    LabelProfile,
    conditions,
    envelope_tails,
    local_sensitivity,
    sensitivity_curve,
    smooth_sensitivity,
)
from consilium.accounting.units import Noise
from tests.accounting.events.examples import common

close = pytest.approx


@cache
def federation(teachers: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """All histograms int64 (n, classes), and how many votes lie between any two of them (n, n)."""
    rows = [row for row in itertools.product(range(teachers + 1), repeat=classes) if sum(row) == teachers]
    votes = np.array(rows, dtype=np.int64)
    return votes, np.abs(votes[:, None] - votes[None]).sum(axis=2) // 2


def true_sensitivity(cost: np.ndarray, moves: np.ndarray, teachers: int) -> np.ndarray:
    """Largest local sensitivity within each distance: float64 (histograms, distances)."""
    change = np.where(moves <= 1, np.abs(cost[:, None] - cost[None]), 0.0).max(axis=1)
    return np.stack([np.where(moves <= d, change[None], 0.0).max(axis=1) for d in range(teachers + 1)], axis=1)


def bound(votes: np.ndarray, teachers: int, gamma: float, noise: Noise, order: float, k: int) -> np.ndarray:
    """The same as the profile of each single histogram says."""
    distances = np.arange(teachers + 1)
    out = np.empty((len(votes), teachers + 1))
    for row, one in enumerate(votes):
        profile = LaplaceProfile(one[None], teachers, gamma, noise, np.array([order]), k, np.ones(1))
        out[row] = profile.at(np.zeros(distances.size, dtype=np.int64), distances)
    return out


SETTINGS = [
    # teachers, classes, gamma, noise, order, votes of a unit
    (30, 2, 0.3, Noise.CONTINUOUS, 4.0, 1),
    (30, 2, 0.3, Noise.DISCRETE, 4.0, 1),
    (12, 3, 0.5, Noise.CONTINUOUS, 9.0, 1),
    (12, 3, 1.0, Noise.DISCRETE, 2.0, 1),
    (12, 3, 0.2, Noise.DISCRETE, 30.0, 3),
    (8, 4, 2.0, Noise.CONTINUOUS, 1.5, 2),
    (150, 2, 0.05, Noise.CONTINUOUS, 20.0, 1),
]


@pytest.mark.parametrize(("teachers", "classes", "gamma", "noise", "order", "k"), SETTINGS)
def test_no_histogram_is_more_sensitive_than_the_bound(teachers, classes, gamma, noise, order, k):
    votes, moves = federation(teachers, classes)
    cost = rdp_lnmax(log_q_lnmax(votes, gamma, noise), gamma, [order], k, noise=noise)[:, 0]
    truth = true_sensitivity(cost, moves, teachers)
    assert truth[:, -1].min() > 0
    found = bound(votes, teachers, gamma, noise, order, k)
    assert np.all(found >= truth)
    assert np.all(np.diff(found, axis=1) >= 0)
    # Smooth: e^beta for each moved vote, and never below the true smooth sensitivity.
    for beta in (0.02, 0.3):
        discount = np.exp(-beta * np.arange(teachers + 1))
        smooth = np.array([(discount * row).max() for row in found])
        assert np.all(smooth >= (discount * truth).max(axis=1))
        assert np.all(smooth[:, None] <= np.exp(beta * moves) * smooth[None] * (1 + 1e-12))


@pytest.mark.parametrize(("teachers", "classes", "gamma", "noise", "order", "k"), SETTINGS[:4])
def test_half_the_step_would_be_caught(teachers, classes, gamma, noise, order, k, monkeypatch):
    """The control: as if a moved vote changed a lead by 1."""
    monkeypatch.setattr(labels, "GAP_MOVED", 1)
    votes, moves = federation(teachers, classes)
    cost = rdp_lnmax(log_q_lnmax(votes, gamma, noise), gamma, [order], k, noise=noise)[:, 0]
    assert np.any(bound(votes, teachers, gamma, noise, order, k) < true_sensitivity(cost, moves, teachers))


@pytest.mark.parametrize("noise", list(Noise))
@pytest.mark.parametrize("gamma", [0.01, 0.3, 3.0])
@pytest.mark.parametrize(("teachers", "classes"), [(40, 2), (14, 3), (9, 4)])
def test_a_moved_vote_moves_log_q_by_at_most_2_gamma(teachers, classes, gamma, noise):
    votes, moves = federation(teachers, classes)
    log_q = log_q_lnmax(votes, gamma, noise)
    step = np.abs(log_q[:, None] - log_q[None])[moves == 1].max()
    assert step <= 2 * gamma * (1 + 1e-12)  # 0 where every q is at its cap


def test_the_bound_is_near_the_truth_where_the_votes_of_two_classes_are_many():
    """Of 400 votes in two classes at gamma .05: within a third of the largest true sensitivity anywhere."""
    votes, moves = federation(400, 2)
    log_q = log_q_lnmax(votes, 0.05, Noise.DISCRETE)
    cost = rdp_lnmax(log_q, 0.05, [8.0], noise=Noise.DISCRETE)[:, 0]
    truth = np.abs(np.diff(cost)).max()
    profile = LaplaceProfile(votes[:1], 400, 0.05, Noise.DISCRETE, np.array([8.0]), 1, np.ones(1))
    most = profile.at(np.zeros(1, dtype=np.int64), np.array([400]))[0]
    assert truth <= most <= truth * 4 / 3
    assert moves.max() == 400


def test_queries_add_up_and_weights_count():
    votes = np.array([[20, 7, 3], [28, 1, 1], [20, 7, 3]])
    orders, pairs = np.array([3.0, 8.0]), (np.array([0, 1, 1]), np.array([0, 4, 30]))
    together = LaplaceProfile(votes, 30, 0.2, Noise.DISCRETE, orders, 1, np.array([1.0, 0.5, 1.0]))
    alone = [LaplaceProfile(votes[i : i + 1], 30, 0.2, Noise.DISCRETE, orders, 1, np.ones(1)) for i in (0, 1)]
    assert together.at(*pairs) == close(2 * alone[0].at(*pairs) + 0.5 * alone[1].at(*pairs), rel=1e-12)
    assert together.cost() == close(2 * alone[0].cost() + 0.5 * alone[1].cost(), rel=1e-12)
    # A coarser grid, as for many orders and teachers, is only larger.
    many = LaplaceProfile(votes, 30, 0.2, Noise.DISCRETE, np.full(100_000, 3.0), 1, np.array([1.0, 0.5, 1.0]))
    coarse, fine = (profile.at(np.zeros(1, dtype=np.int64), np.array([2]))[0] for profile in (many, together))
    assert fine < coarse < 1.5 * fine


def lnmax(queries: int, **changes) -> LNMaxEvent:
    return LNMaxEvent(**common(queries, queries, **changes), gamma=0.05)


def test_published_votes_100_queries(mnist_votes):
    """A plan made on other public votes of the same teachers; the worst case of 100 queries is 3.156."""
    event, everything = lnmax(100), np.ones(100, dtype=bool)
    forecast = forecast_sanitised(event, mnist_votes[-100:], 250, 1e-5, np.arange(12.0, 18.0))
    assert forecast.epsilon < 2 < forecast.epsilon + 2 * forecast.noise_std < 3
    plan = SanitisedPlan(order=15.0, beta=0.35 / 15, sigma_ss=6.166)
    for each in (plan, forecast.plan):
        check_plan(each, event, 250, 10)
    batch = Answered(event, mnist_votes[:100], everything)
    secret = secret_smoothness([batch], plan, 250)
    evidence = event.evidence(mnist_votes[:100])
    assert secret.rdp == close(event.data_dependent_rdp(evidence, everything, [plan.order])[0], rel=1e-12)
    released = sanitise([batch], plan, 1e-5, 250, lambda: 0.0)
    assert round(released.guarantee.epsilon, 2) == 1.72
    assert round(secret.smooth * plan.sigma_ss, 2) == 0.59
    assert 1.0750 < released.guarantee.epsilon < 3.1556


def test_several_votes_of_a_unit():
    """k votes: the noise is scaled to k steps, and the profile is of the larger cost."""
    event = lnmax(3, k=2, unit="party")
    votes = np.array([[80, 15, 5], [90, 5, 5], [60, 30, 10]])
    plan = SanitisedPlan(order=4.0, beta=0.02, sigma_ss=4.0)
    secret = secret_smoothness([Answered(event, votes, np.ones(3, dtype=bool))], plan, 100)
    profile = LaplaceProfile(votes, 100, 0.05, event.noise, np.array([4.0]), 2, np.ones(3))
    smooth = smooth_sensitivity([profile], [4.0], [0.02], 100)[0]
    assert (secret.rdp, secret.smooth) == close((profile.cost()[0], smooth), rel=1e-12)
    scale, _ = group_smooth_sensitivity(smooth, 0.02, 2)
    quiet, loud = (sanitise([Answered(event, votes, np.ones(3, dtype=bool))], plan, 1e-5, 100, lambda z=z: z)
                   for z in (-0.9, -0.8))  # fmt: skip
    assert loud.released_rdp < event.worst_case_rdp([4.0])[0]  # above, the worst case is released
    assert loud.released_rdp - quiet.released_rdp == close(scale * 4.0 * 1e-1, abs=1e-4)


def excess(sigma: float, order: float, k: int) -> float:
    """Most by which one moved vote changes the cost of two-class rows beyond the bound, relative to the change."""
    tails = envelope_tails(sigma, int(15 * sigma), Noise.DISCRETE)
    curve = sensitivity_curve(sigma, 2, [order], k)
    if not all(np.all(holds) for holds in conditions(curve, float(tails[-1]))):
        return 0.0  # refused for that reason already
    cost = rdp_data_dependent(np.minimum(tails, 0.0), sigma, [order], k)[:, 0]
    bound = local_sensitivity(tails, curve)[:, 0]
    change = np.abs(cost[:-2] - cost[2:])  # (a, b) -> (a + 1, b - 1): the gap grows by 2
    return float(np.max((change - np.minimum(bound[:-2], bound[2:]))[change > 1e-9] / change[change > 1e-9]))


@pytest.mark.parametrize("sigma", [1.0, 1.5])
def test_the_bound_fails_below_2(sigma, monkeypatch):
    """The control, with the limit as it was: (11, 9) -> (12, 8) at sigma 1, order 1.5, k 2 changes 1.70984."""
    monkeypatch.setattr(smooth, "LEAST_LATTICE_SIGMA", 1.0)
    assert max(excess(sigma, order, k) for order in (1.5, 2.0, 4.0) for k in (1, 2)) > 1e-10
    tails = envelope_tails(1.0, 4, Noise.DISCRETE)
    cost = rdp_data_dependent(tails, 1.0, [1.5], 2)[:, 0]
    assert round(cost[2] - cost[4], 5) == 1.70984
    assert round(local_sensitivity(tails[2:3], sensitivity_curve(1.0, 2, [1.5], 2))[0, 0], 5) == 1.70966


@pytest.mark.parametrize("sigma", [2.0, 2.5, 4.0, 40.0])
def test_the_bound_holds_from_2_on(sigma):
    assert max(excess(sigma, order, k) for order in (1.5, 2.0, 4.0) for k in (1, 2)) < 1e-10


@pytest.mark.parametrize("sigma", [0.5, 1.0, 1.5, 1.999])
def test_every_way_to_the_bound_is_closed(sigma):
    votes = np.array([[11, 9]])
    plan = SanitisedPlan(order=1.5, beta=0.1, sigma_ss=5.0)
    for call in (
        lambda: envelope_tails(sigma, 20, Noise.DISCRETE),
        lambda: LabelProfile(votes, 20, sigma, Noise.DISCRETE, np.array([1.5]), 1, np.ones(1)),
        lambda: check_plan(plan, GNMaxEvent(sigma=sigma, **common()), teachers=20, classes=2),
    ):
        with pytest.raises(NoiseError, match="is below 2"):
            call()
    envelope_tails(sigma, 20, Noise.CONTINUOUS)
