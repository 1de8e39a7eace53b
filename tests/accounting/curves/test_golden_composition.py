"""Exact Gaussian composition, stable release and halting against the golden files."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from consilium.accounting.curves.conversion import REFERENCE_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.gaussian import log_q_gnmax, rdp_data_dependent, rdp_gaussian
from consilium.accounting.curves.gdp import (
    GaussianPart,
    delta_of,
    discrete_epsilon,
    epsilon_of,
    exact_epsilon,
    mu_squared,
    sigma_needed,
)
from consilium.accounting.curves.immutable import (
    distance_to_instability,
    log_pr_pass,
    ptr_failure,
    ptr_threshold,
)
from consilium.accounting.units import Noise

close = pytest.approx
WIDE = np.union1d(REFERENCE_ORDERS, np.arange(1.25, 60, 0.25))


def test_gaussian_dp(golden):
    for row in golden("theory_checks.json")["data_independent_gdp"]:
        squared = mu_squared(row["n"], row["sigma"])
        assert epsilon_of(squared, row["delta"]) == close(row["exact_gdp"], rel=1e-9)
        curve = row["n"] * rdp_gaussian(row["sigma"], WIDE)
        curve_at_reference = row["n"] * rdp_gaussian(row["sigma"], REFERENCE_ORDERS)
        classic = rdp_to_epsilon(curve_at_reference, REFERENCE_ORDERS, row["delta"], "classic")
        cks = rdp_to_epsilon(curve_at_reference, REFERENCE_ORDERS, row["delta"])
        assert [classic.epsilon, cks.epsilon] == close([row["mironov"], row["cks"]], rel=1e-9)
        assert row["exact_gdp"] < rdp_to_epsilon(curve, WIDE, row["delta"]).epsilon


def test_towards_the_coordinator(golden):
    checks = golden("more_checks.json")
    for n, sigma, delta, epsilon in checks["aggregator_side"]:
        assert epsilon_of(mu_squared(n, sigma), delta) == close(epsilon, rel=1e-9)
    for n, epsilon, delta, sigma in checks["aggregator_sigma_needed"]:
        assert sigma_needed(n, epsilon, delta) == close(sigma, rel=1e-9)


def test_lattice_composition_agrees_with_gaussian_dp():
    """Integer noise composes almost exactly as Gaussian noise does; the lattice of the sum is very fine."""
    assert discrete_epsilon(1280, 40.0, 1, 1e-5) == close(epsilon_of(mu_squared(640, 40.0), 1e-5), rel=1e-7)


def test_profile_is_the_published_one():
    mu = np.sqrt(mu_squared(640, 40.0))
    assert delta_of(mu, 3.8486102825) == close(1e-5, rel=1e-7)


def test_ptr_gaussian(golden, golden_votes):
    for row in golden("more_checks.json")["ptr_gaussian"]:
        votes = golden_votes(row["votes"])[: row["n"]]
        tau = ptr_threshold(row["n"], row["sigma"], row["delta"] / 2, "continuous")
        assert tau == close(row["tau"], rel=1e-9)
        answered = np.exp(log_pr_pass(distance_to_instability(votes), tau, row["sigma"], "continuous")).sum()
        assert answered == close(row["answered"], rel=1e-9)
        curve = row["n"] * rdp_gaussian(row["sigma"], WIDE, scalar=True)
        assert rdp_to_epsilon(curve, WIDE, row["delta"] / 2).epsilon == close(row["eps"], rel=1e-9)


def test_halting_on_a_data_dependent_spend_tells_neighbours_apart(golden):
    row = golden("theory_checks.json")["halt_example"]
    costs = []
    for name in ("D", "D2"):
        log_q = log_q_gnmax(np.array([row[name]]), 40.0, "continuous")
        costs.append(rdp_data_dependent(log_q, 40.0, [20.0])[0, 0])
    assert costs == close([row["cost_D"], row["cost_D2"]], rel=1e-9)
    stops = [int(np.floor(row["B"] / cost * (1 + 1e-12))) for cost in costs]
    assert stops == [row["n_D"], row["n_D2"]]


def test_a_party_of_k_moves_k_votes_in_every_formula():
    assert mu_squared(10, 20.0, 3) == close(10 * 9 * 2 / 400)
    assert mu_squared(10, 20.0, 3, scalar=True) == close(10 * 9 / 400)
    parts = [GaussianPart(10, 20.0, False), GaussianPart(7, 9.0, True)]
    apart = [GaussianPart(10, 10.0, False), GaussianPart(7, 4.5, True)]
    assert exact_epsilon(parts, Noise.CONTINUOUS, 2, 1e-5) == close(exact_epsilon(apart, Noise.CONTINUOUS, 1, 1e-5))
    # An unstable plurality at distance k - 1 is released with this probability.
    assert ptr_failure(5, 30.0, 6.0, "continuous", 3) == close(5 * ndtr((2 - 30) / 6), rel=1e-12)


def test_noise_made_of_shares_is_charged_twice_its_slack():
    fine, rough = ([GaussianPart(20, 15.0, False, slack)] for slack in (0.0, 1e-6))
    exact = exact_epsilon(fine, Noise.DISCRETE, 1, 1e-5)
    assert exact is not None
    total = 20 * 2 * 1e-6
    shifted = discrete_epsilon(40, 15.0, 1, 1e-5 * np.exp(-total)) + 2 * total
    assert exact_epsilon(rough, Noise.DISCRETE, 1, 1e-5) == close(shifted, rel=1e-12)
    assert shifted > exact + 2 * total
    assert exact_epsilon([GaussianPart(20, 15.0, False, 1e-3)], Noise.DISCRETE, 1, 1e-5) is None
