"""Strong composition: the papers' figures, the order of its forms, and never below what is known exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.curves.strong import strong_composition, zero_concentrated
from consilium.accounting.errors import AccountingError
from consilium.accounting.units import Noise


@pytest.mark.parametrize(
    ("releases", "delta", "printed"),
    [
        pytest.param(100, 1e-5, "5.80", id="2017 final, below Theorem 2: MNIST"),
        pytest.param(1000, 1e-6, "26.62", id="2017 final, the same: SVHN, 'about 26'"),
    ],
)
def test_figures_of_papernot_2017(releases, delta, printed):
    gamma = 0.05
    by_hand = 4 * releases * gamma**2 + 2 * gamma * math.sqrt(2 * releases * math.log(1 / delta))
    assert strong_composition(2 * gamma, releases, delta) == pytest.approx(by_hand, rel=1e-14)
    assert f"{by_hand:.2f}" == printed


@pytest.mark.parametrize(
    ("answered", "sigma1", "here", "paper"), [(7824, 1500, 8.391, 8.42), (10762, 500, 10.104, 10.14)]
)
def test_figures_of_papernot_2018(answered, sigma1, here, paper):
    """The paper says that 8.42 and 10.14 are of rows 5 and 6 of its figure 5; only rows 4 and 5 come near."""
    rho = answered / 100**2 + 12_000 / (2 * sigma1**2)
    found = zero_concentrated(rho, 1e-8)
    assert round(found, 3) == here
    assert abs(found - paper) < 0.005 * paper
    fine = np.linspace(2, 12, 100_001)
    assert rdp_to_epsilon(rho * fine, fine, 1e-8, "classic").epsilon == pytest.approx(found, rel=1e-8)
    interactive = zero_concentrated(3393 / 100**2 + 670 / 200**2 + 6000 / (2 * 1500**2) + 1e4 / (2 * 2000**2), 1e-8)
    assert interactive < 6


@pytest.mark.parametrize("pure", [0.02, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("releases", [30, 300, 10_000])
@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_forms_are_in_order_and_above_the_exact_curve(pure, releases, delta):
    optimal, paper, dwork = (strong_composition(pure, releases, delta, form) for form in ("optimal", "paper", "dwork"))
    assert optimal < paper < dwork
    curve = releases * rdp_laplace(pure / 2, DEFAULT_ORDERS, noise=Noise.CONTINUOUS)
    assert rdp_to_epsilon(curve, DEFAULT_ORDERS, delta).epsilon < optimal * (1 + 1e-3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: strong_composition(0.0, 5, 1e-5), "pure"),
        (lambda: strong_composition(math.nan, 5, 1e-5), "pure"),
        (lambda: strong_composition(0.1, -1, 1e-5), "releases"),
        (lambda: strong_composition(0.1, 5, 0.0), "delta"),
        (lambda: strong_composition(0.1, 5, 1e-5, "weak"), "form must be one of dwork"),  # pyright: ignore[reportArgumentType]
        (lambda: zero_concentrated(-1.0, 1e-5), "rho"),
    ],
)
def test_numbers_out_of_range(call, said):
    with pytest.raises(AccountingError, match=said):
        call()
