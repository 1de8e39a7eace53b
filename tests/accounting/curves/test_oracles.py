"""Three independent oracles: 50-digit arithmetic, dp-accounting, and exact small cases."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from consilium.accounting.curves.conversion import DEFAULT_ORDERS
from consilium.accounting.curves.discrete import (
    convolution_slack,
    log_pr_loss_table,
    log_pr_loss_table_laplace,
    log_tail_table,
)
from consilium.accounting.curves.gaussian import rdp_data_dependent, rdp_gaussian, sum_rdp_data_dependent
from consilium.accounting.curves.gdp import discrete_epsilon
from consilium.accounting.curves.laplace import rdp_laplace

close = pytest.approx


def test_sum_equals_sum_of_parts():
    rng = np.random.default_rng(1)
    log_q = -rng.exponential(8, 400)
    log_q[::7] = log_q[3]
    weights = rng.random(400)
    total = sum_rdp_data_dependent(log_q, 40.0, DEFAULT_ORDERS, 2, weights=weights)
    assert total == close(weights @ rdp_data_dependent(log_q, 40.0, DEFAULT_ORDERS, 2), rel=1e-12)
    shuffled = rng.permutation(DEFAULT_ORDERS)
    again = sum_rdp_data_dependent(log_q, 40.0, shuffled, 2, weights=weights)
    assert again[np.argsort(shuffled)] == close(total, rel=1e-12)


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
    gamma, reach = 0.2, 800
    z = np.arange(-reach, reach + 1)
    pmf = np.exp(-gamma * np.abs(z))
    pmf /= pmf.sum()
    table = log_pr_loss_table_laplace(gamma, 50)
    cumulative = np.cumsum(pmf)
    for gap in (0, 1, 2, 50):
        assert table[gap] == close(math.log(pmf[gap:] @ cumulative[: z.size - gap]), rel=1e-10)


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
    for sigma in (0.7, 3.0, 20.0):
        log_p = -(z**2) / (2 * sigma**2)
        log_p = log_p - np.log(np.exp(log_p).sum())
        log_p2 = np.roll(log_p, 1)
        inner = slice(1, -1)
        for order in (1.5, 4.0, 20.0):
            exact = np.log(np.exp(order * log_p[inner] + (1 - order) * log_p2[inner]).sum()) / (order - 1)
            assert exact <= rdp_gaussian(sigma, [order], scalar=True)[0] * (1 + 1e-9)
    for gamma in (0.1, 0.7):
        log_p = -gamma * np.abs(z) - np.log(np.exp(-gamma * np.abs(z)).sum())
        log_p2 = np.roll(log_p, 1)
        for order in (1.5, 4.0, 20.0):
            exact = np.log(np.exp(order * log_p[inner] + (1 - order) * log_p2[inner]).sum()) / (order - 1)
            assert 2 * exact == close(rdp_laplace(gamma, [order], noise="discrete")[0], rel=1e-6)
