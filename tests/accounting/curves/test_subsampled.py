"""Sampled Gaussian releases, beside Google's accountant and quadrature."""

from __future__ import annotations

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant

from consilium.accounting.curves.gdp import GaussianPart, exact_epsilon
from consilium.accounting.curves.subsampled import ORDERS, rdp_subsampled_gaussian, subsampled_epsilon, subsampled_sigma
from consilium.accounting.errors import NoiseError
from consilium.accounting.units import Neighbouring, Noise


@pytest.mark.parametrize(("share", "sigma"), [(0.001, 0.7), (0.05, 3.0), (0.3, 0.7), (0.3, 20.0)])
def test_a_row_that_comes_costs_what_google_finds(share: float, sigma: float) -> None:
    accountant = RdpAccountant(ORDERS.tolist(), dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    event = dp_accounting.PoissonSampledDpEvent(share, dp_accounting.GaussianDpEvent(sigma))
    theirs = accountant.compose(event, 300).get_epsilon(1e-5)
    ours = subsampled_epsilon(share, sigma, 300, Neighbouring.ADD_OR_REMOVE, 1e-5)
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("angle", [0.0, math.pi / 3, math.pi])
@pytest.mark.parametrize(("share", "sigma"), [(0.05, 3.0), (0.3, 0.7), (0.5, 2.0)])
def test_a_row_that_is_replaced_never_costs_more(share: float, sigma: float, angle: float) -> None:
    """Two rows that move the release by 1 in directions so far apart, by quadrature in the plane of both."""
    ends = np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
    axis = np.linspace(-12 * sigma - 1, 12 * sigma + 1, 1201)
    x = np.stack(np.meshgrid(axis, axis), axis=-1)
    density = [np.exp(-((x - end) ** 2).sum(axis=-1) / (2 * sigma**2)) for end in (np.zeros(2), *ends)]
    p, q = ((1 - share) * density[0] + share * each for each in density[1:])
    cell = (axis[1] - axis[0]) ** 2 / (2 * math.pi * sigma**2)
    curve = rdp_subsampled_gaussian(share, sigma, Neighbouring.REPLACE)
    for alpha in (2, 3, 8):
        truth = math.log((p * (p / q) ** (alpha - 1)).sum() * cell) / (alpha - 1)
        assert truth <= curve[alpha - 2] * (1 + 1e-6) + 1e-9
        if angle == math.pi and sigma == 3:  # the worst there is: little is lost where noise is large
            assert curve[alpha - 2] <= 2 * truth


@pytest.mark.parametrize("relation", list(Neighbouring))
def test_sampling_helps_and_never_hurts(relation: Neighbouring) -> None:
    curves = [rdp_subsampled_gaussian(share, 4.0, relation) for share in (0.01, 0.1, 0.5, 1.0)]
    assert all(np.all(low <= high) for low, high in itertools.pairwise(curves))
    if relation is Neighbouring.ADD_OR_REMOVE:
        np.testing.assert_allclose(curves[-1], ORDERS / 32)


@pytest.mark.parametrize("relation", list(Neighbouring))
@pytest.mark.parametrize(("share", "epsilon"), [(0.05, 1.0), (0.5, 0.1), (1.0, 8.0)])
def test_the_noise_that_is_found_is_enough_and_hardly_more(
    relation: Neighbouring, share: float, epsilon: float
) -> None:
    sigma = subsampled_sigma(share, 300, relation, epsilon, 1e-5)
    assert subsampled_epsilon(share, sigma, 300, relation, 1e-5) <= epsilon
    assert subsampled_epsilon(share, sigma / 1.002, 300, relation, 1e-5) > epsilon


@pytest.mark.parametrize(("share", "sigma"), [(0.0, 1.0), (1.1, 1.0), (float("nan"), 1.0), (0.1, 0.0), (0.1, -1.0)])
def test_what_is_no_share_or_no_noise_is_refused(share: float, sigma: float) -> None:
    with pytest.raises(NoiseError):
        rdp_subsampled_gaussian(share, sigma, Neighbouring.REPLACE)


@pytest.mark.parametrize("sigma", [30.0, 60.0, 112.1, 200.0])
def test_to_ask_a_secret_sample_of_parties_costs_more_than_to_ask_all(sigma: float) -> None:
    """At equal noise for the signal: counts of a share q of the parties are q times as large, and so is their noise."""
    whole, *sampled = (
        subsampled_epsilon(share, share * sigma / math.sqrt(2), 300, Neighbouring.ADD_OR_REMOVE, 1e-5)
        for share in (1.0, 0.5, 0.2, 0.1, 0.05)
    )
    assert whole < sampled[0] < sampled[1] < sampled[2] < sampled[3]


@pytest.mark.parametrize("sigma", [30.0, 112.1])
def test_to_ask_a_public_sample_of_parties_costs_more_than_to_ask_all(sigma: float) -> None:
    """A party pays for the queries of its sample alone, which no sampling hides."""
    whole, *sampled = (
        exact_epsilon([GaussianPart(round(300 * share), share * sigma, False)], Noise.CONTINUOUS, 1, 1e-5)
        for share in (1.0, 0.5, 0.2, 0.1)
    )
    assert whole < sampled[0] < sampled[1] < sampled[2]
