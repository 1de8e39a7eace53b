"""The worst case of a released winner: never below the truth, close to it, and planted mistakes are seen."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from consilium.accounting.units import Noise
from consilium.accounting.worst import renyi as argmax
from consilium.accounting.worst.channel import Pairs
from consilium.accounting.worst.renyi import rdp_argmax, rdp_check
from tests.accounting.worst.oracles import renyi, three_outcomes, winners, worst_histogram, worst_lead
from tests.marks import third

ORDERS = [1.05, 1.5, 2.0, 4.0, 10.0]


@pytest.fixture
def fresh():
    """Curves that a planted mistake made must not stay in the cache."""
    argmax._one_move.cache_clear()
    yield
    argmax._one_move.cache_clear()


@pytest.mark.parametrize(
    ("teachers", "classes", "sigma", "ratio"),
    third(
        [
            (8, 2, 0.7, 1.02),
            (7, 3, 0.7, 1.02),
            (6, 4, 1.0, 1.02),
            (12, 3, 1.5, 1.01),
            (9, 4, 2.0, 1.01),
            (7, 5, 1.0, 1.02),
        ],
        first=1,
    ),
)
def test_all_small_histograms(teachers, classes, sigma, ratio):
    """Integer noise, ties to the lowest index: all histograms, moves, directions and so all orders of three classes.

    The leads that are worst at high orders are larger than so few teachers reach.
    """
    truth = worst_histogram(teachers, classes, sigma, ORDERS)
    bound = rdp_argmax(sigma, ORDERS, "discrete")
    assert np.all(bound >= truth)
    within_reach = (np.array(ORDERS) - 1) / sigma <= 2
    assert np.all((bound <= ratio * truth)[within_reach])


CASES = [(2.0, [1.05, 2.0, 6.0, 12.0]), (40.0, [1.05, 2.0, 20.0, 100.0]), (1000.0, [1.05, 2.0, 20.0, 500.0])]


@pytest.mark.parametrize(("sigma", "orders"), third(CASES, first=1))
@pytest.mark.parametrize("noise", list(Noise))
def test_independent_search_over_real_leads(sigma, orders, noise):
    """Integer noise of 40 votes and more is as good as real noise; below, it is compared with sums, not with this."""
    if noise is Noise.DISCRETE and sigma < 40:
        return
    truth = np.array([worst_lead(1 / sigma, order) for order in orders])
    bound = rdp_argmax(sigma, orders, noise)
    assert np.all(bound >= truth * (1 - (2e-4 if noise is Noise.DISCRETE else 0)))
    assert np.all(bound <= 1.005 * truth)


def test_quadrature_of_the_search_at_30_digits():
    """The oracle itself, against mpmath, at the worst lead and far from it."""
    for u, v in ((0.75, 0.75), (-6.0, 3.0), (5.0, 5.0)):
        with mp.workdps(30):
            exact = mp.quad(lambda x, u=u, v=v: mp.npdf(x - u) * mp.ncdf(x - v), [0, *sorted({1, 3, 6, 9, 12}), 20])
        assert three_outcomes(u, v)[0] == pytest.approx(float(exact), rel=1e-11)


@pytest.mark.parametrize(("bound", "histogram"), [(rdp_argmax, 1.0), (rdp_check, 0.5)])
@pytest.mark.parametrize("noise", list(Noise))
def test_much_noise_is_charged_as_less(bound, histogram, noise):
    """From 1e5 on it costs what 1e5 does, until the histogram costs less: it does not jump up by half."""
    sigmas = np.array([99_000.0, 1e5, 1.1e5, 1.2e5, 1.3e5, 1e6])
    shares = np.array([bound(sigma, 2.0, noise)[0] * sigma**2 / 2 / histogram for sigma in sigmas])
    assert shares[:4] == pytest.approx([0.64, 0.64, 0.64 * 1.21, 0.64 * 1.44], rel=8e-3)
    assert shares[4:] == pytest.approx(1.0)


def test_orders_in_any_sequence():
    orders = [10.0, 2.0, 10.0, 1.5]
    one_by_one = [float(rdp_argmax(5.0, order, "discrete")[0]) for order in orders]
    assert rdp_argmax(5.0, orders, "discrete").tolist() == pytest.approx(one_by_one, rel=1e-4)


def several_moves(n, moves):
    out = np.array(n)
    for a, b in moves:
        out[[a, b]] += (-1, 1)
    return out


@pytest.mark.parametrize(
    "moves", [[(0, 1), (0, 1)], [(0, 1), (0, 2)], [(0, 1), (2, 1)], [(0, 1), (2, 3)], [(0, 1), (0, 1), (2, 1)]]
)
def test_several_moves(moves):
    """Moves that need not go the same way, over leads near ties, in both directions."""
    sigma, k = 3.0, len(moves)
    bound = rdp_argmax(sigma, ORDERS, "discrete", votes_moved=k)
    assert np.all(bound[:3] < 0.85 * np.array(ORDERS[:3]) * k**2 / sigma**2)
    for n in ((9, 9, 9, 9), (9, 7, 8, 6), (9, 9, 6, 3), (8, 6, 3, 3), (9, 7, 3, 0)):
        p, q = winners(n, sigma), winners(several_moves(n, moves), sigma)
        for order, most in zip(ORDERS, bound, strict=True):
            assert max(renyi(p, q, order), renyi(q, p, order)) <= most


# -- planted mistakes: each makes the bound fall below a truth that the tests above compare with ----------------------


def below(sigma, noise, truth, orders=ORDERS):
    return bool(np.any(rdp_argmax(sigma, orders, noise) < truth))


def test_a_tie_order_left_out_is_seen(monkeypatch, fresh):
    """The other direction of a plane is that of the other rule for ties."""
    truth = worst_histogram(7, 3, 0.7, ORDERS)
    monkeypatch.setattr(Pairs, "turned", lambda pairs: pairs)
    assert below(0.7, "discrete", truth)


def test_a_grid_too_coarse_is_seen(monkeypatch, fresh):
    truth, whole = np.array([worst_lead(1 / 40, 2.0)]), argmax.planes

    def coarse(*given):
        return [(u[::5003], v[::5003], plane.of(np.arange(0, u.size, 5003))) for u, v, plane in whole(*given)]

    monkeypatch.setattr(argmax, "planes", coarse)
    assert below(40.0, "continuous", truth, [2.0])


@pytest.mark.parametrize("tails", [True, False])
def test_a_tail_left_out_is_seen(monkeypatch, fresh, tails):
    """A plane that is far too small is still a bound as long as what lies beyond is charged."""
    truth = np.array([worst_lead(1 / 5, order) for order in ORDERS])
    monkeypatch.setattr(argmax, "rare_enough", lambda shift: 0.05)
    if not tails:
        monkeypatch.setattr(argmax, "with_rare", lambda log_moment, rare, exponent, orders: 0 * orders)
    assert below(5.0, "continuous", truth) is not tails
