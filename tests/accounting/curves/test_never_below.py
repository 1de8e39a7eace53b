"""No curve is ever below the truth, from noise that hides everything to noise that hides nothing.

Each formula is evaluated beside itself in mpmath, with enough digits that nothing cancels, at parameters spread over
many orders of magnitude; tables beside sums, 50 digits and dp-accounting.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.special import log_ndtr

from consilium.accounting.curves import gaussian
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, conversion_cost, rdp_to_epsilon
from consilium.accounting.curves.discrete import (
    convolution_slack,
    log_pr_loss_table,
    log_pr_loss_table_laplace,
    log_tail_table,
)
from consilium.accounting.curves.gaussian import log_pr_answered, rdp_data_dependent, rdp_gaussian, sum_over_queries
from consilium.accounting.curves.gdp import delta_of, discrete_epsilon, epsilon_of
from consilium.accounting.curves.gnss import gnss_cost
from consilium.accounting.curves.laplace import rdp_laplace, rdp_lnmax
from consilium.accounting.units import Noise

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def digits(*sizes: float) -> int:
    """Decimal digits that numbers of these sizes, and the squares of their inverses, need."""
    return 40 + 3 * sum(math.ceil(abs(math.log10(size))) for size in sizes)


def spread(seed: int, count: int, *ranges: tuple[float, float]):
    """So many tuples of numbers, each even in its logarithm between two powers of ten."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield tuple(float(10 ** rng.uniform(low, high)) for low, high in ranges)


def not_below(got: float, truth, close: float = 1e-9) -> None:
    assert mp.mpf(float(got)) >= truth
    assert mp.mpf(float(got)) <= truth * (1 + close) + mp.mpf(1e-300)


def laplace_truth(s: float, order: float):
    """Mironov 2017, Proposition 6, for two counts."""
    s, a = mp.mpf(s), mp.mpf(order)
    m = a / (2 * a - 1) * mp.exp((a - 1) * s) + (a - 1) / (2 * a - 1) * mp.exp(-a * s)
    return 2 * mp.log(m) / (a - 1)


def response_truth(s: float, order: float):
    s, a = mp.mpf(s), mp.mpf(order)
    p = 1 / (1 + mp.exp(-s))
    return mp.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)


@pytest.mark.parametrize("most", [1, 3, 64, 1000])
def test_of_too_many_queries_some_are_charged_together_and_no_less(monkeypatch, most):
    monkeypatch.setattr(gaussian, "_MOST_DISTINCT", most)
    log_q, weights, seen = -np.random.default_rng(3).exponential(3, 500), np.linspace(0, 1, 500), []

    def curve(some: np.ndarray) -> np.ndarray:
        seen.append(some.size)
        return rdp_lnmax(some, 0.05, [2.0, 20.0], noise="continuous")

    found, each = sum_over_queries(curve, log_q, weights), weights @ curve(log_q)
    assert sum(seen[:-1]) <= most and np.all(found >= each * (1 - 1e-12))
    assert most < 64 or found == pytest.approx(each, rel=0.05)


def test_one_zero_among_other_values_proves_nothing():
    curve = np.full(DEFAULT_ORDERS.size, 0.5)
    curve[3] = 0.0
    assert rdp_to_epsilon(curve, DEFAULT_ORDERS, 1e-9).epsilon > 0
    assert rdp_to_epsilon(0 * curve, DEFAULT_ORDERS, 1e-9).epsilon == 0.0


def test_laplace_and_randomised_response():
    for s, above in spread(1, 150, (-90, 2), (-8, 3)):
        order = 1 + above
        with mp.workdps(digits(s, above)):
            not_below(rdp_laplace(s, [order], noise="continuous")[0], laplace_truth(s, order))
            truth = response_truth(s, order)
            not_below(rdp_laplace(s, [order], noise="discrete")[0], 2 * truth)


def theorem_3(log_q: float, gamma: float, order: float):
    q, pure, moment = mp.exp(mp.mpf(log_q)), 2 * mp.mpf(gamma), mp.mpf(order) - 1
    ceiling = laplace_truth(gamma, order)
    if q >= 1 / (mp.exp(pure) + 1):
        return ceiling
    bound = mp.log((1 - q) * ((1 - q) / (1 - q * mp.exp(pure))) ** moment + q * mp.exp(pure * moment)) / moment
    return min(bound, ceiling)


def theorem_6(log_q: float, sigma: float, order: float):
    q, s, a = mp.exp(mp.mpf(log_q)), mp.mpf(sigma), mp.mpf(order)
    ceiling = a / s**2
    mu2 = s * mp.sqrt(-mp.mpf(log_q))
    mu1 = mu2 + 1
    e1, e2 = mu1 / s**2, mu2 / s**2
    if mu2 <= 1 or a > mu1:
        return ceiling
    if q > mp.exp((mu2 - 1) * e2) / (mu1 / (mu1 - 1) * mu2 / (mu2 - 1)) ** mu2 or q * mp.exp(e2) >= 1:
        return ceiling
    big_a = (1 - q) / (1 - (q * mp.exp(e2)) ** ((mu2 - 1) / mu2))
    big_b = mp.exp(e1) / q ** (1 / (mu1 - 1))
    return min(mp.log((1 - q) * big_a ** (a - 1) + q * big_b ** (a - 1)) / (a - 1), ceiling)


def test_theorem_3():
    """Upper bounds of any tightness where the cost is below what doubles hold, else within 1e-9."""
    for gamma, minus_log_q, above in spread(2, 300, (-90, 2), (-6, 3.2), (-6, 2.7)):
        order = 1 + above
        with mp.workdps(digits(gamma, above) + math.ceil(minus_log_q)):
            truth = theorem_3(-minus_log_q, gamma, order)
            not_below(rdp_lnmax([-minus_log_q], gamma, [order], noise="continuous")[0, 0], truth)


def test_theorem_6():
    """Sigma up to 1e18, where the bound is all rounding: then it may be the ceiling, never less than the truth."""
    for sigma, minus_log_q, above in spread(3, 300, (-0.3, 18), (-6, 3.2), (-6, 2.7)):
        order = 1 + above
        with mp.workdps(digits(sigma, above) + math.ceil(minus_log_q)):
            truth = theorem_6(-minus_log_q, sigma, order)
            got = rdp_data_dependent([-minus_log_q], sigma, [order])[0, 0]
            assert mp.mpf(got) * (1 + mp.mpf(2e-15)) >= truth  # alpha / sigma^2 itself has three roundings
            if sigma < 1e3 and above > 0.01:
                not_below(got * (1 + 2e-15), truth, 1e-8)


def test_only_q_zero_is_free():
    for orders in ([1.01], [2.0, 64.0]):
        for log_q in (-1e6, -4000.0, -745.2):
            assert math.exp(log_q) == 0  # the control: q itself cannot be told from what is free
            assert np.all(rdp_data_dependent([log_q], 40.0, orders) > 0)
            assert np.all(rdp_lnmax([log_q], 0.05, orders, noise="discrete") > 0)
        assert np.all(rdp_gaussian(1e99, orders) > 0)
        assert np.all(rdp_laplace(1e-99, orders, noise="discrete") > 0)
        assert np.all(rdp_data_dependent([-math.inf], 40.0, orders) == 0)


def test_cost_of_a_sanitised_release():
    """Tiny beta and large sigma_ss, where the scale's part is as small as a rounding error."""
    for beta, sigma_ss, above in spread(4, 300, (-30, -3), (-1, 15), (-4, 2)):
        order = 1 + above
        with mp.workdps(digits(beta, sigma_ss, above)):
            b, s, a = mp.mpf(beta), mp.mpf(sigma_ss), mp.mpf(order)
            c = 1 - a * (1 - mp.exp(-2 * b))
            truth = a * mp.exp(-2 * b) / (2 * s**2 * c) - (a * b + mp.log(c) / 2) / (a - 1)
            got = mp.mpf(float(gnss_cost([order], beta, sigma_ss)[0])) * (1 + mp.mpf(4e-15))
            assert got >= truth
            assert got <= truth * (1 + mp.mpf(1e-7))
    assert gnss_cost([2.0], 1e-17, 1e20)[0] > 0


def test_exact_composition():
    """mu from 1e-16 to 30, epsilon from 0 to 10 mu: delta is rounded up, so epsilon is too."""
    for mu, times in spread(5, 200, (-16, 1.5), (-3, 1)):
        for epsilon in (0.0, mu * times):
            with mp.workdps(80 + math.ceil((times + mu) ** 2)):
                m, e = mp.mpf(mu), mp.mpf(epsilon)
                truth = mp.ncdf(-e / m + m / 2) - mp.exp(e) * mp.ncdf(-e / m - m / 2)
                assert delta_of(mu, epsilon) >= truth
    assert epsilon_of(1e-32, 1e-17) > 0


def test_conversion():
    """Both rules in one place: the added part is right to 1e-12 of its size at every order, close to 1 as well."""
    for above, delta in spread(6, 200, (-9, 4), (-30, -0.01)):
        order = 1 + above
        with mp.workdps(60):
            a, d = mp.mpf(order), mp.mpf(delta)
            truth = mp.log(1 - 1 / a) - (mp.log(d) + mp.log(a)) / (a - 1)
            size = abs(mp.log(1 - 1 / a)) + (abs(mp.log(d)) + mp.log(a)) / (a - 1)
            assert abs(mp.mpf(float(conversion_cost([order], delta)[0])) - truth) < size * 1e-14


ORDERS = np.array([1.25, 2.0, 5.0, 9.0, 20.0, 60.0])


@pytest.mark.parametrize("method", ["cks", "classic"])
def test_conversion_of_a_gaussian_whose_epsilon_is_known(method) -> None:
    for mu in (0.05, 0.3, 1.0, 4.0):
        for delta in (1e-9, 1e-5, 1e-2):
            exact = epsilon_of(mu**2, delta)
            found = rdp_to_epsilon(DEFAULT_ORDERS * mu**2 / 2, DEFAULT_ORDERS, delta, method).epsilon
            assert exact <= found <= 1.6 * exact + 0.3


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


@pytest.mark.parametrize("noise", list(Noise))
def test_threshold_check_covers_the_true_divergence(noise):
    sigma, threshold, top = 8.0, 25.0, np.arange(61)
    bound = rdp_data_dependent(np.minimum(*log_pr_answered(top, threshold, sigma, noise)), sigma, ORDERS, scalar=True)
    if noise is Noise.CONTINUOUS:
        yes, no = log_ndtr((top - threshold) / sigma), log_ndtr((threshold - top) / sigma)
    else:
        z = np.arange(-400, 401)
        pmf = np.exp(-(z**2) / (2 * sigma**2))
        pmf /= pmf.sum()
        yes, no = (np.log([pmf[side(z, threshold - t)].sum() for t in top]) for side in (np.greater_equal, np.less))
    assert covered(yes, no, bound, ORDERS) > 0.3


@pytest.mark.parametrize("sigma", [0.01, 0.3, 0.6, 1.3, 10.0])
def test_lattice_tables_at_50_digits(sigma):
    reach = int(20 * sigma) + 100
    with mp.workdps(50):
        weights = {z: mp.e ** (-(mp.mpf(z) ** 2) / (2 * mp.mpf(sigma) ** 2)) for z in range(-reach, reach + 1)}
        norm = sum(weights.values())
        below, running = {}, mp.mpf(0)
        for z in range(-reach, reach + 1):
            running += weights[z]
            below[z] = running
        single, pair = log_tail_table(sigma, 60), log_pr_loss_table(sigma, 60)
        for value in (0, 1, 2, 7, 60):
            tail = mp.log(sum(weights[z] for z in range(value, reach + 1)) / norm)
            assert float(abs(single[value] - tail) / max(abs(tail), 1)) < 1e-13
            loss = sum(weights[z] * below[z - value] for z in range(-reach + value, reach + 1)) / norm**2
            assert float(abs(pair[value] - mp.log(loss)) / max(abs(mp.log(loss)), 1)) < 1e-13


@pytest.mark.parametrize("sigma", [0.4, 1.3, 40.0, 112.1, 112.1 * math.sqrt(600)])
def test_a_short_table_is_the_beginning_of_a_long_one(sigma):
    """To the last digit: or an epsilon would hang on what was asked for before it."""
    long = log_tail_table(sigma, int(60 * sigma))
    for size in np.unique(np.geomspace(1, 60 * sigma, 20).astype(int)).tolist():
        assert (log_tail_table(sigma, size) == long[: size + 1]).all()
        assert len(log_tail_table(sigma, size)) == size + 1


def test_lattice_laplace_table():
    gamma, z = 0.2, np.arange(-800, 801)
    pmf = np.exp(-gamma * np.abs(z))
    pmf /= pmf.sum()
    table = log_pr_loss_table_laplace(gamma, 50)
    cumulative = np.cumsum(pmf)
    for gap in (0, 1, 2, 50):
        assert table[gap] == pytest.approx(math.log(pmf[gap:] @ cumulative[: z.size - gap]), rel=1e-10)


def test_convolution_slack_covers_the_true_ratio():
    sigma, terms = 0.7, 6
    z = np.arange(-200, 201)
    one = np.exp(-(z**2) / (2 * sigma**2))
    one /= one.sum()
    total = one
    for _ in range(terms - 1):
        total = np.convolve(total, one, mode="same")
    wide = np.exp(-(z**2) / (2 * terms * sigma**2))
    wide /= wide.sum()
    middle = np.abs(z) <= 8
    worst = np.abs(np.log(total[middle] / wide[middle])).max()
    assert 0 < worst <= convolution_slack(terms, sigma)


@pytest.mark.parametrize(("sigma", "n"), [(1.5, 2), (3.0, 16)])
def test_lattice_composition_against_dp_accounting(sigma, n):
    """The exact privacy of n discrete Gaussians, from the privacy-loss distribution, within its rounding."""
    interval = 1e-4
    loss = pld.from_discrete_gaussian_mechanism(sigma, value_discretization_interval=interval)
    theirs = loss.self_compose(n).get_epsilon_for_delta(1e-5)
    mine = discrete_epsilon(n, sigma, 1, 1e-5)
    assert mine <= theirs + 1e-6
    assert mine >= theirs - interval * n - 1e-6


def test_discrete_noise_has_the_curve_of_the_continuous():
    """D_alpha of N_Z(0, s^2) from N_Z(1, s^2) is at most alpha / (2 s^2), and so is randomised response for Laplace."""
    z = np.arange(-400, 401)

    def exact(log_weight, order):
        log_p = log_weight - np.log(np.exp(log_weight).sum())
        return np.log(np.exp(order * log_p[1:-1] + (1 - order) * log_p[:-2]).sum()) / (order - 1)

    for order in (1.5, 4.0, 20.0):
        for sigma in (0.7, 3.0, 20.0):
            truth = exact(-(z**2) / (2 * sigma**2), order)
            assert truth <= rdp_gaussian(sigma, [order], scalar=True)[0] * (1 + 1e-9)
        for gamma in (0.1, 0.7):
            curve = rdp_laplace(gamma, [order], noise="discrete")[0]
            assert 2 * exact(-gamma * np.abs(z), order) == pytest.approx(curve, rel=1e-6)
