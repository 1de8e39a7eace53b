"""Composition beside an imagined Gaussian: against exact compositions, adaptive ones, and the histogram's own."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import gammaln, ndtr
from scipy.stats import binom, norm

from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.gdp import epsilon_of, mu_squared
from consilium.accounting.units import Noise
from consilium.accounting.worst import compose
from consilium.accounting.worst import compose as profiles
from consilium.accounting.worst.channel import Pairs
from consilium.accounting.worst.compose import Composed, composed_epsilon
from consilium.accounting.worst.renyi import rdp_argmax
from tests.accounting.worst.oracles import three_outcomes, winners
from tests.marks import third

DISCRETE, CONTINUOUS = Noise.DISCRETE, Noise.CONTINUOUS


def repeated(p, q, times, epsilon):
    """delta(epsilon) of ``times`` independent uses of one pair with three outcomes: exact sum over their numbers."""
    i, j = np.meshgrid(np.arange(times + 1), np.arange(times + 1), indexing="ij")
    inside = i + j <= times
    numbers = np.stack((i[inside], j[inside], times - i[inside] - j[inside]))
    ways = gammaln(times + 1) - gammaln(numbers + 1).sum(axis=0)
    log_p, log_q = (ways + np.log(r) @ numbers for r in (p, q))
    return float(np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0).sum())


def near_tie(sigma):
    """The worst place at low orders: u = v = .75, real noise."""
    return three_outcomes(0.75, 0.75), three_outcomes(0.75 - 1 / sigma, 0.75 + 1 / sigma)


def votes_near_tie(sigma):
    third = 100
    n = (third + round(0.75 * sigma),) * 2
    return winners((*n, third), sigma), winners((n[0] - 1, n[1] + 1, third), sigma)


@pytest.mark.parametrize(
    ("times", "sigma", "noise", "gap"),
    third([(100, 20.0, DISCRETE, 1.15), (400, 100.0, DISCRETE, 1.09), (400, 100.0, CONTINUOUS, 1.09)]),
)
def test_equal_releases_near_a_tie(times, sigma, noise, gap):
    """The exact delta at the epsilon that is claimed, and how much smaller an epsilon would have done."""
    p, q = near_tie(sigma) if noise is CONTINUOUS else votes_near_tie(sigma)
    claimed = composed_epsilon([Composed(times, "argmax", sigma, noise)], 1e-5)
    assert repeated(p, q, times, claimed) <= 1e-5
    assert repeated(p, q, times, claimed / gap) > 1e-5


def test_equal_checks_at_the_threshold():
    p, q, times = 0.5, float(ndtr(1 / 30)), 1000
    claimed = composed_epsilon([Composed(times, "check", 30.0, CONTINUOUS)], 1e-6)
    number = np.arange(times + 1)
    log_p, log_q = binom.logpmf(number, times, p), binom.logpmf(number, times, q)

    def delta(epsilon):
        return float(np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0).sum())

    assert delta(claimed) <= 1e-6
    assert delta(claimed / 1.05) > 1e-6


@pytest.mark.parametrize(("times", "sigma"), third([(12, 4.0), (60, 8.0)]))
def test_adaptive_checks(times, sigma):
    """The worst of all ways to choose each threshold in view of the bits before it, by backward induction.

    delta after n + 1 bits is max over thresholds of sum_j p_j delta_n(gamma q_j / p_j). Thresholds are tried at 81
    places and delta_n is interpolated between losses at most .0025 apart, which is worth less than 2 % of delta.
    """
    losses = np.linspace(-14, 14, 11_201)
    value = np.maximum(1 - np.exp(losses), 0)
    thresholds = np.linspace(-4, 4, 81)
    pairs = [(ndtr(s * t), ndtr(s * (t - 1 / sigma))) for t in thresholds for s in (1, -1)]
    pairs = [(np.array([p, 1 - p]), np.array([q, 1 - q])) for p, q in pairs[::2]]
    for _ in range(times):
        after = [
            sum(a * np.interp(losses + math.log(b / a), losses, value) for a, b in zip(p, q, strict=True))
            for p, q in pairs
        ]
        value = np.max(after, axis=0)
    claimed = composed_epsilon([Composed(times, "check", sigma, CONTINUOUS)], 1e-4)
    assert np.interp(claimed, losses, value) <= 1e-4 * 1.02
    assert claimed < 1.3 * np.interp(-1e-4, -value, losses)


@pytest.mark.parametrize(
    ("noise", "releases", "sigma"), [(CONTINUOUS, 1, 4.0), (CONTINUOUS, 640, 40.0), (DISCRETE, 640, 40.0)]
)
def test_histograms_have_an_exact_value(noise, releases, sigma):
    exact = epsilon_of(mu_squared(releases, sigma), 1e-5)
    found = composed_epsilon([Composed(releases, "histogram", sigma, noise)], 1e-5)
    assert exact <= found * (1 + 1e-12)
    assert found <= exact * (1 + 1e-9 if noise is CONTINUOUS else 1.003)


def profile_at_40_digits(p, q, beside, gamma):
    with mp.workdps(40):
        mu, total = mp.mpf(beside), mp.mpf(0)
        for a, b in zip(p, q, strict=True):
            loss = mp.log(mp.mpf(gamma) * mp.mpf(b) / mp.mpf(a))
            total += mp.mpf(a) * mp.ncdf(mu / 2 - loss / mu) - gamma * mp.mpf(b) * mp.ncdf(-mu / 2 - loss / mu)
        return float(total)


@pytest.mark.parametrize("gamma", [1.0, 1.03, 1.4])
def test_one_release_beside_a_gaussian_at_40_digits(gamma):
    """At single places, and never below any of them at all places together."""
    p, q = near_tie(40.0)
    exact = profile_at_40_digits(p, q, 0.1, gamma)
    gammas = np.array([gamma, gamma + 0.01])
    assert profiles._largest(Pairs(p[:, None], q[:, None]), 0.1, gammas)[0] == pytest.approx(exact, rel=1e-9, abs=1e-14)
    assert profiles.argmax_profile(40.0, CONTINUOUS, 1, 0.1, gammas, 7.0)[0] >= exact


def test_nothing_released_costs_nothing():
    assert composed_epsilon([], 1e-5) == 0.0
    assert composed_epsilon([Composed(0, "argmax", 40.0, DISCRETE)], 1e-5) == 0.0


@pytest.mark.parametrize(
    ("part", "delta"),
    [(Composed(10, "argmax", 0.3, DISCRETE), 1e-5), (Composed(1000, "argmax", 40.0, DISCRETE), 1e-10)],
)
def test_no_form_known(part, delta):
    assert composed_epsilon([part], delta) == math.inf


@pytest.mark.slow
def test_moves_of_real_noise_cost_at_most_the_histogram():
    part = Composed(10, "argmax", 40.0, CONTINUOUS, votes_moved=3)
    assert composed_epsilon([part], 1e-5) <= epsilon_of(mu_squared(10, 40.0, 3), 1e-5)


@pytest.mark.slow
def test_several_moves():
    """Two moves, from a to b and from the third to b, in each of 300 releases: the exact delta of the composition."""
    n, moved = (61, 60, 45), (60, 62, 44)
    p, q = winners(n, 40.0), winners(moved, 40.0)
    claimed = composed_epsilon([Composed(300, "argmax", 40.0, DISCRETE, votes_moved=2)], 1e-5)
    curve = 300 * rdp_argmax(40.0, DEFAULT_ORDERS, DISCRETE, votes_moved=2)
    assert repeated(p, q, 300, claimed) <= 1e-5
    assert repeated(q, p, 300, claimed) <= 1e-5
    assert claimed < rdp_to_epsilon(curve, DEFAULT_ORDERS, 1e-5).epsilon


@pytest.mark.parametrize("moves", [1, 2, 4])
def test_what_is_left_over_is_taken_from_delta(monkeypatch, moves):
    """The imagined release, each release's eta, and what both grow to along the moves: none may be forgotten."""
    seen = {}

    def squared(release, beside, eta):
        seen.update(beside=beside, eta=eta)
        return 0.65 * release.mu**2

    monkeypatch.setattr(compose, "_squared", squared)
    monkeypatch.setattr(compose, "epsilon_of", lambda *given: seen.update(given=given) or 1.0)
    composed_epsilon([Composed(200, "argmax", 80.0, DISCRETE, votes_moved=moves)], 1e-5)
    total = seen["beside"] ** 2 + 200 * 0.65 * 2 / 80.0**2
    eta = rest = 200 * seen["eta"]
    for _ in range(moves - 1):
        rest = eta + norm.cdf(norm.ppf(rest) + math.sqrt(total))
    assert seen["beside"] > 0
    assert rest > 1e-10
    assert seen["given"] == (pytest.approx(moves**2 * total, rel=1e-12), pytest.approx(1e-5 - rest, rel=1e-12))


def test_too_small_a_distance_is_seen(monkeypatch):
    """Planted: .6 of the histogram's mu^2, where .64 is true near a tie of three."""
    p, q = near_tie(100.0)
    monkeypatch.setattr(compose, "_squared", lambda release, beside, eta: 0.6 * release.mu**2)
    claimed = composed_epsilon([Composed(1000, "argmax", 100.0, DISCRETE)], 1e-5)
    assert repeated(p, q, 1000, claimed) > 1e-5
