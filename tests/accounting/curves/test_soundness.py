"""Brute force: the true divergences and sensitivities of small cases, against every bound that claims to cover them."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr

from consilium.accounting.curves.gaussian import log_q_threshold, rdp_data_dependent
from consilium.accounting.curves.gnss import gnss_cost
from consilium.accounting.events import Comparison
from consilium.accounting.mechanisms import Immutable
from consilium.accounting.outcome import check
from consilium.accounting.sanitise.gap import envelope
from consilium.accounting.sanitise.smooth import CheckProfile, LabelProfile, smooth_sensitivity
from consilium.accounting.units import Noise
from tests.accounting.papers import actual_epsilon
from tests.accounting.worst.oracles import neighbours


def covered(log_yes, log_no, bound, orders, k=1):
    """How tight a bound float64 (places, orders) is: the largest share of it that the true divergence of two outcomes
    reaches, from each place to that k votes away and back. It never exceeds the bound."""
    largest = 0.0
    for j, order in enumerate(orders):
        for a, b in ((slice(0, -k), slice(k, None)), (slice(k, None), slice(0, -k))):
            terms = (order * x[a] + (1 - order) * x[b] for x in (log_yes, log_no))
            true = np.logaddexp(*terms) / (order - 1)
            assert np.all(true <= bound[a, j] * (1 + 1e-9) + 1e-13)
            largest = max(largest, float((true / bound[a, j]).max()))
    return largest


ORDERS = np.array([1.25, 2.0, 5.0, 9.0, 20.0, 60.0])


@pytest.mark.parametrize("noise", list(Noise))
def test_threshold_check_covers_the_true_divergence(noise):
    sigma, threshold, top = 8.0, 25.0, np.arange(61)
    bound = rdp_data_dependent(log_q_threshold(top, threshold, sigma, noise), sigma, ORDERS, scalar=True)
    if noise is Noise.CONTINUOUS:
        yes, no = log_ndtr((top - threshold) / sigma), log_ndtr((threshold - top) / sigma)
    else:
        z = np.arange(-400, 401)
        pmf = np.exp(-(z**2) / (2 * sigma**2))
        pmf /= pmf.sum()
        yes, no = (np.log([pmf[side(z, threshold - t)].sum() for t in top]) for side in (np.greater_equal, np.less))
    assert covered(yes, no, bound, ORDERS) > 0.3


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


def gauss_divergence(mean, scale, mean2, scale2, order):
    """D_order(N(mean, scale^2) || N(mean2, scale2^2)) by quadrature of the definition."""
    spread = order * scale2**2 + (1 - order) * scale**2
    centre = (order * mean * scale2**2 + (1 - order) * mean2 * scale**2) / spread
    width = scale * scale2 / math.sqrt(spread)

    def log_integrand(x):
        first = -((x - mean) ** 2) / (2 * scale**2) - math.log(scale)
        second = -((x - mean2) ** 2) / (2 * scale2**2) - math.log(scale2)
        return order * first + (1 - order) * second

    peak = log_integrand(centre)
    area, _ = quad(lambda u: math.exp(log_integrand(centre + width * u) - peak), -30, 30, epsabs=1e-13, limit=400)
    return (peak + math.log(area * width) - math.log(2 * math.pi) / 2) / (order - 1)


@pytest.mark.parametrize("order", [2.0, 5.0, 14.0, 40.0])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.45])
@pytest.mark.parametrize("sigma", [2.0, 8.0, 50.0])
def test_sound_cost_is_the_divergence_on_the_worst_path_and_above_it_elsewhere(order, share, sigma):
    beta = share / order
    cost = gnss_cost([order], beta, sigma)[0]
    worst = gauss_divergence(0.0, sigma, math.exp(-beta), sigma * math.exp(-beta), order)
    assert cost == pytest.approx(worst, rel=1e-7)
    for t in np.linspace(-beta, beta, 9):
        for distance in (0.0, 0.5, 1.0):
            scale = math.exp(t)
            true = gauss_divergence(0.0, sigma, distance * min(1.0, scale), sigma * scale, order)
            assert true <= cost * (1 + 1e-7) + 1e-10


def closed_divergence(mean, scale, mean2, scale2, order):
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


def test_immutable_argmax_is_not_private():
    """Its true epsilon grows with the constant it adds, while the claimed one goes to 0."""
    claimed = Immutable(gamma=1e-6, constant=1).claimed_epsilon(9000, 1e-5)
    assert claimed < 0.1
    true = [actual_epsilon(c, 1e-6, "laplace", "continuous") for c in (10**6, 10**7, 10**8)]
    assert true[0] < true[1] < true[2]
    assert true[2] > 90
    assert actual_epsilon(10**7, 1e-6, "laplace", "discrete", delta=1e-5) > 6
    assert actual_epsilon(500, 40.0, "gaussian", "continuous") > 30
    # The bound itself, from the two probabilities of returning class 0.
    log_t = math.log((2 + 0.05 * 101) / 4) - 0.05 * 101
    exact = math.log1p(-math.exp(log_t)) - log_t
    assert actual_epsilon(100, 0.05, "laplace", "continuous") == pytest.approx(exact, rel=1e-12)
