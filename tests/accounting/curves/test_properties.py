"""Properties that hold for every histogram and every parameter."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.gaussian import (
    log_pr_answered,
    log_q_gnmax,
    log_q_threshold,
    rdp_data_dependent,
    rdp_gaussian,
    sum_rdp_data_dependent,
)
from consilium.accounting.curves.gdp import delta_of, discrete_epsilon, epsilon_of, mu_squared
from consilium.accounting.curves.gnss import gnss_cost, gnss_cost_published, gnss_room
from consilium.accounting.curves.immutable import ptr_failure, ptr_threshold
from consilium.accounting.curves.laplace import log_q_lnmax, rdp_laplace, rdp_lnmax
from tests.marks import some

ORDERS = np.array([1.1, 1.5, 2.0, 4.0, 10.0, 30.0, 100.0])
NOISES = st.sampled_from(["discrete", "continuous"])
SIGMAS = st.floats(1.0, 60.0)
LOG_Q = st.floats(-900.0, -1e-6)
MANY = settings(max_examples=some(120), deadline=None)


@st.composite
def histogram(draw, most=300):
    counts = draw(st.lists(st.integers(0, most), min_size=2, max_size=8))
    return np.array([counts if sum(counts) else [1, *counts[1:]]], dtype=np.int64)


@MANY
@given(histogram(), SIGMAS, NOISES, st.randoms(use_true_random=False))
def test_class_names_do_not_matter(votes, sigma, noise, random):
    shuffled = votes.copy()
    columns = list(range(votes.shape[1]))
    random.shuffle(columns)
    shuffled = votes[:, columns]
    for log_q in (log_q_gnmax, log_q_lnmax):
        scale = sigma if log_q is log_q_gnmax else 1 / sigma
        np.testing.assert_allclose(log_q(votes, scale, noise), log_q(shuffled, scale, noise), rtol=1e-12)


@MANY
@given(histogram(), SIGMAS, NOISES)
def test_q_is_a_probability_and_more_consensus_lowers_it(votes, sigma, noise):
    log_q = log_q_gnmax(votes, sigma, noise)[0]
    assert log_q <= 0
    more = votes.copy()
    more[0, votes[0].argmax()] += 1
    assert log_q_gnmax(more, sigma, noise)[0] <= log_q + 1e-12
    # The lattice counts ties as losses.
    assert log_q_gnmax(votes, sigma, "discrete")[0] >= log_q_gnmax(votes, sigma, "continuous")[0] * (1 + 1e-9) - 1e-9


@MANY
@given(LOG_Q, SIGMAS, st.integers(1, 6), st.booleans())
def test_data_dependent_lies_between_zero_and_data_independent(log_q, sigma, k, scalar):
    cost = rdp_data_dependent([log_q], sigma, ORDERS, k, scalar=scalar)[0]
    assert np.all(cost >= 0)
    assert np.all(cost <= rdp_gaussian(sigma, ORDERS, k, scalar=scalar))


@MANY
@given(LOG_Q, st.floats(1e-9, 5.0), SIGMAS)
def test_cost_does_not_fall_when_q_grows(log_q, step, sigma):
    low, high = rdp_data_dependent([log_q - step, log_q], sigma, ORDERS)
    assert np.all(low <= high * (1 + 1e-9) + 1e-300)


@MANY
@given(LOG_Q, st.floats(1e-9, 5.0), st.floats(0.005, 1.0), NOISES)
def test_lnmax_cost_does_not_fall_when_q_grows(log_q, step, gamma, noise):
    low, high = rdp_lnmax([log_q - step, log_q], gamma, ORDERS, noise=noise)
    assert np.all(low <= high * (1 + 1e-9) + 1e-300)
    assert np.all(high <= rdp_laplace(gamma, ORDERS, noise=noise))
    exact, paper = (rdp_laplace(gamma, ORDERS, noise=noise, baseline=b) for b in ("exact", "paper"))
    assert np.all(exact <= paper * (1 + 1e-9))


@MANY
@given(histogram(), SIGMAS, st.floats(1.01, 3.0))
def test_worst_case_falls_with_sigma(votes, sigma, factor):
    assert np.all(rdp_gaussian(sigma * factor, ORDERS) < rdp_gaussian(sigma, ORDERS))
    assert log_q_gnmax(votes, sigma * factor, "continuous")[0] >= log_q_gnmax(votes, sigma, "continuous")[0] - 1e-12


@MANY
@given(st.integers(0, 300), st.floats(0, 400), SIGMAS, NOISES)
def test_answer_and_abstention_sum_to_one(top, threshold, sigma, noise):
    log_p, log_not_p = log_pr_answered([top], threshold, sigma, noise)
    assert abs(np.logaddexp(log_p, log_not_p)[0]) < 1e-12
    assert log_q_threshold([top], threshold, sigma, noise)[0] <= np.log(0.5) + 1e-12
    more, _ = log_pr_answered([top + 1], threshold, sigma, noise)
    assert more[0] >= log_p[0]


@MANY
@given(st.lists(LOG_Q, min_size=1, max_size=30), SIGMAS)
def test_sum_does_not_depend_on_the_order_of_queries(log_q, sigma):
    forward = sum_rdp_data_dependent(log_q, sigma, ORDERS)
    np.testing.assert_allclose(forward, sum_rdp_data_dependent(log_q[::-1], sigma, ORDERS), rtol=1e-12)
    np.testing.assert_allclose(forward, rdp_data_dependent(log_q, sigma, ORDERS).sum(axis=0), rtol=1e-9)


@MANY
@given(st.floats(1e-6, 5.0), st.floats(1e-10, 0.1), st.floats(1.5, 10.0))
def test_epsilon_grows_with_cost_and_falls_with_delta(rate, delta, factor):
    curve = rate * DEFAULT_ORDERS
    epsilon = rdp_to_epsilon(curve, DEFAULT_ORDERS, delta).epsilon
    assert rdp_to_epsilon(curve * factor, DEFAULT_ORDERS, delta).epsilon >= epsilon
    assert rdp_to_epsilon(curve, DEFAULT_ORDERS, min(0.5, delta * factor)).epsilon <= epsilon
    assert epsilon <= rdp_to_epsilon(curve, DEFAULT_ORDERS, delta, "classic").epsilon


@MANY
@given(st.integers(1, 2000), st.floats(3.0, 200.0), st.floats(1e-10, 1e-2))
def test_exact_composition_is_exact_and_below_renyi(n, sigma, delta):
    squared = mu_squared(n, sigma)
    epsilon = epsilon_of(squared, delta)
    assert delta_of(np.sqrt(squared), epsilon) <= delta
    if epsilon > 1e-9:
        assert delta_of(np.sqrt(squared), epsilon * (1 - 1e-6)) > delta
    assert epsilon <= rdp_to_epsilon(n * rdp_gaussian(sigma, DEFAULT_ORDERS), DEFAULT_ORDERS, delta).epsilon + 1e-9


@settings(max_examples=some(25), deadline=None)
@given(st.integers(1, 60), st.floats(1.0, 12.0), st.floats(1e-8, 1e-2))
def test_lattice_composition_is_below_renyi(n, sigma, delta):
    epsilon = discrete_epsilon(2 * n, sigma, 1, delta)
    assert epsilon <= rdp_to_epsilon(n * rdp_gaussian(sigma, DEFAULT_ORDERS), DEFAULT_ORDERS, delta).epsilon + 1e-6


@MANY
@given(st.floats(1.05, 100.0), st.floats(0.01, 0.49), st.floats(1.0, 200.0), st.floats(1.01, 3.0))
def test_release_cost_is_positive_and_falls_with_noise(order, share, sigma, factor):
    beta = share / order
    assert gnss_room([order], beta)[0] > 0
    cost = gnss_cost([order], beta, sigma)[0]
    assert cost > 0
    assert gnss_cost([order], beta, sigma * factor)[0] <= cost
    assert gnss_cost([order], beta * 0.9, sigma)[0] <= cost * (1 + 1e-9)
    assert gnss_cost_published(order, beta, sigma) > 0


@MANY
@given(st.integers(1, 5000), st.floats(1.0, 100.0), st.floats(1e-9, 1e-3), NOISES, st.integers(1, 4))
def test_stability_threshold_keeps_its_promise(queries, sigma, failure, noise, k):
    threshold = ptr_threshold(queries, sigma, failure, noise, k)
    assert ptr_failure(queries, threshold, sigma, noise, k) <= failure * (1 + 1e-9)
