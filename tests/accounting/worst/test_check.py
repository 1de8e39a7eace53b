"""The worst case of a threshold check, against all thresholds."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from consilium.accounting.curves.conversion import DEFAULT_ORDERS
from consilium.accounting.errors import NoiseError, OrdersError, UnitError
from consilium.accounting.units import Noise
from consilium.accounting.worst import renyi as check
from consilium.accounting.worst.renyi import rdp_check
from tests.accounting.worst.oracles import lattice_noise, renyi

ORDERS = [1.05, 1.5, 2.0, 4.0, 10.0]


@pytest.mark.parametrize(("sigma", "votes"), [(0.6, 1), (1.0, 1), (3.0, 1), (3.0, 2), (40.0, 1), (40.0, 5)])
def test_all_integer_thresholds(sigma, votes):
    reach = int(20 * sigma) + 20
    pmf, below = lattice_noise(sigma, reach)
    above = np.cumsum(pmf[::-1])[::-1]
    # the event noise >= i against noise >= i + votes, both directions
    i = np.arange(1, pmf.size - votes)
    p, q = np.stack((above[i], below[i - 1])), np.stack((above[i + votes], below[i + votes - 1]))
    usable = (p.min(axis=0) > 1e-200) & (q.min(axis=0) > 1e-200)
    bound = rdp_check(sigma, ORDERS, "discrete", votes)
    for order, most in zip(ORDERS, bound, strict=True):
        truth = max(
            renyi(a, b, order) for x, y in zip(p.T[usable], q.T[usable], strict=True) for a, b in ((x, y), (y, x))
        )
        assert truth <= most
        if (order - 1) * votes / sigma <= check.MOST_LINE_TILT:
            assert most <= 1.0001 * truth


def bernoulli(threshold, h, order):
    """(order - 1) D of the bit at 40 digits, continuous noise."""
    with mp.workdps(40):
        t, h, a = mp.mpf(threshold), mp.mpf(h), mp.mpf(order)
        pairs = ((mp.ncdf(t), mp.ncdf(t - h)), (mp.ncdf(-t), mp.ncdf(h - t)))
        return mp.log(sum(p**a * q ** (1 - a) for p, q in pairs)) / (a - 1)


@pytest.mark.parametrize(
    ("sigma", "votes", "order"),
    [(2.0, 1, 2.0), (2.0, 1, 12.0), (150.0, 1, 1.05), (150.0, 3, 20.0), (1000.0, 1, 500.0), (300.0, 1, 60.0)],
)
@pytest.mark.parametrize("noise", list(Noise))
def test_all_real_thresholds_at_40_digits(sigma, votes, order, noise):
    if noise is Noise.DISCRETE and sigma < 150:
        return
    h = votes / sigma
    found = minimize_scalar(lambda t: -float(bernoulli(t, h, order)), bounds=(-8, 8), method="bounded")
    truth, bound = -found.fun, float(rdp_check(sigma, order, noise, votes)[0])
    # integer thresholds at integer noise may miss the worst real one
    assert bound >= truth * (1 - (1e-4 if noise is Noise.DISCRETE else 0))
    assert bound <= 1.001 * truth


@pytest.mark.parametrize("noise", list(Noise))
def test_never_above_the_number_itself(noise):
    for sigma in (0.1, 0.6, 5.0, 40.0, 1e6):
        orders = DEFAULT_ORDERS[::20]
        curve = rdp_check(sigma, orders, noise)
        assert np.all(curve <= orders / (2 * sigma**2) * (1 + 1e-15))
        assert np.all(curve > 0)


def test_least_gain_is_two_over_pi():
    value = rdp_check(5000.0, [2.0], "continuous") * 5000.0**2
    assert value == pytest.approx(2 / np.pi, rel=1e-4)
    assert value >= 2 / np.pi


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (NoiseError, (-1.0, [2.0], "discrete")),
        (OrdersError, (1.0, [0.5], "discrete")),
        (UnitError, (1.0, [2.0], "discrete", 0)),
    ],
)
def test_errors(error, arguments):
    with pytest.raises(error):
        rdp_check(*arguments)
