"""The worst case of a released winner: never below the truth, close to it, and planted mistakes are seen."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.units import Noise
from consilium.accounting.worst import channel, laplace, renyi
from consilium.accounting.worst.channel import Pairs
from consilium.accounting.worst.laplace import rare_moment, rdp_argmax_laplace
from consilium.accounting.worst.renyi import rdp_argmax, rdp_check
from tests.accounting.worst.oracles import (
    both_directions,
    laplace_winners,
    real_laplace_winners,
    winners,
    worst_histogram,
    worst_lead,
)
from tests.marks import third

ORDERS = np.array([1.05, 1.5, 2.0, 4.0, 10.0, 40.0, 100.0])


@pytest.fixture(autouse=True)
def fresh():
    """Curves that a planted mistake made must not stay in the cache."""
    yield
    renyi._one_move.cache_clear()
    laplace._log_moment.cache_clear()


GAUSSIAN = [
    (rdp_argmax, winners, *case)
    for case in third(
        [
            (8, 2, 0.7, 0.98),
            (7, 3, 0.7, 0.98),
            (6, 4, 1.0, 0.98),
            (12, 3, 1.5, 0.99),
            (9, 4, 2.0, 0.99),
            (7, 5, 1.0, 0.98),
        ],
        first=1,
    )
]
LAPLACE = [
    (rdp_argmax_laplace, laplace_winners, *case)
    for case in third(
        [
            (12, 3, 1.0, 0.997),
            (40, 2, 0.1, 0.99999),
            (10, 4, 0.3, 0.95),
            (30, 3, 0.2, 0.99),
            (9, 4, 3.0, 0.99),
            (7, 5, 0.5, 0.95),
        ],
        first=2,
    )
]


@pytest.mark.parametrize(("curve", "law", "teachers", "classes", "scale", "share"), GAUSSIAN + LAPLACE)
def test_all_small_histograms(curve, law, teachers, classes, scale, share):
    """Integer noise, ties to the lowest index: all histograms, all moves, both directions, and so all tie rules.

    The leads that are worst at high orders are larger than so few teachers reach.
    """
    orders = ORDERS[:5] if law is winners else ORDERS  # of more the sums run out of digits
    truth, bound = worst_histogram(law, teachers, classes, scale, orders), curve(scale, orders, "discrete")
    assert np.all(bound >= truth)
    assert np.all((truth >= share * bound)[:3])


def moved_by(n, moves):
    out = np.array(n)
    for a, b in moves:
        out[[a, b]] += (-1, 1)
    return out


@pytest.mark.parametrize(
    ("curve", "law", "scale"), [(rdp_argmax, winners, 3.0), (rdp_argmax_laplace, laplace_winners, 0.3)]
)
@pytest.mark.parametrize(
    "moves", [[(0, 1), (0, 1)], [(0, 1), (0, 2)], [(0, 1), (2, 1)], [(0, 1), (2, 3)], [(0, 1), (0, 1), (2, 1)]]
)
def test_several_moves(curve, law, scale, moves):
    """Moves that need not go the same way, over leads near ties, in both directions."""
    k = len(moves)
    bound, one = curve(scale, ORDERS, "discrete", votes_moved=k), curve(scale, ORDERS, "discrete")
    assert np.all(bound[:3] < 1.5 * k**2 * one[:3])
    for n in ((9, 9, 9, 9), (9, 7, 8, 6), (9, 9, 6, 3), (8, 6, 3, 3), (9, 7, 3, 0)):
        assert np.all(bound >= both_directions(law(n, scale), law(moved_by(n, moves), scale), ORDERS))


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


@pytest.mark.parametrize(("bound", "histogram"), [(rdp_argmax, 1.0), (rdp_check, 0.5)])
@pytest.mark.parametrize("noise", list(Noise))
def test_much_noise_is_charged_as_less(bound, histogram, noise):
    """From 1e5 on it costs what 1e5 does, until the histogram costs less: it does not jump up by half."""
    sigmas = np.array([99_000.0, 1e5, 1.1e5, 1.2e5, 1.3e5, 1e6])
    shares = np.array([bound(sigma, 2.0, noise)[0] * sigma**2 / 2 / histogram for sigma in sigmas])
    assert shares[:4] == pytest.approx([0.64, 0.64, 0.64 * 1.21, 0.64 * 1.44], rel=8e-3)
    assert shares[4:] == pytest.approx(1.0)


@pytest.mark.parametrize("seed", third(range(6), first=1))
def test_random_adversaries_with_real_laplace_noise(seed):
    """Two to nine classes around real leads; some near ties, some spread out, several sizes of the move."""
    generator = np.random.default_rng(seed)
    orders = np.array([1.2, 2.0, 5.0, 20.0, 80.0])
    for h in (0.05, 0.3, 1.0, 3.0):
        bound = rdp_argmax_laplace(h, orders, "continuous")
        for _ in range(40):
            centres = generator.normal(size=generator.integers(2, 10)) * generator.choice([0.1, 1.0, 4.0])
            moved = centres.copy()
            moved[:2] += (-h, h)
            truth = both_directions(real_laplace_winners(centres), real_laplace_winners(moved), orders)
            assert np.all(bound >= truth * (1 - 1e-11))


def test_what_is_rare():
    """Any two laws whose losses are within 2 h, one of whose outcomes is nearly sure."""
    generator = np.random.default_rng(3)
    orders = np.array([1.1, 2.0, 30.0])
    for _ in range(200):
        h = generator.uniform(0.01, 2.0)
        p = generator.dirichlet([1, 1, 1]) * generator.uniform(0, 0.4)
        q = p * np.exp(generator.uniform(-2 * h, 2 * h, 3))
        if q.sum() > 0.45:
            continue
        rare = max(p.sum(), q.sum())
        p, q = np.append(p, 1 - p.sum()), np.append(q, 1 - q.sum())
        truth = both_directions(p, q, orders) * (orders - 1)
        assert np.all(truth <= rare_moment(rare, h, orders) * (1 + 1e-9))


# -- planted mistakes: each makes the bound fall below a truth that the tests above compare with ----------------------


def below(curve, scale, noise, truth, orders=ORDERS):
    renyi._one_move.cache_clear()
    laplace._log_moment.cache_clear()
    return bool(np.any(curve(scale, orders, noise) < truth))


def test_a_tie_order_left_out_is_seen(monkeypatch):
    """The other direction of a plane is that of the other rule for ties."""
    truth = worst_histogram(winners, 7, 3, 0.7, ORDERS)
    monkeypatch.setattr(Pairs, "turned", lambda pairs: pairs)
    assert below(rdp_argmax, 0.7, "discrete", truth)


def test_a_grid_too_coarse_is_seen(monkeypatch):
    truth, whole = np.array([worst_lead(1 / 40, 2.0)]), channel.planes

    def coarse(*given):
        return [(u[::5003], v[::5003], plane.of(np.arange(0, u.size, 5003))) for u, v, plane in whole(*given)]

    monkeypatch.setattr(channel, "planes", coarse)
    assert below(rdp_argmax, 40.0, "continuous", truth, [2.0])


@pytest.mark.parametrize("tails", [True, False])
def test_a_tail_left_out_is_seen(monkeypatch, tails):
    """A plane that is far too small is still a bound as long as what lies beyond is charged."""
    truth = np.array([worst_lead(1 / 5, order) for order in ORDERS[:5]])
    monkeypatch.setattr(renyi, "rare_enough", lambda shift: 0.05)
    if not tails:
        monkeypatch.setattr(renyi, "with_rare", lambda log_moment, rare, exponent, orders: 0 * orders)
    assert below(rdp_argmax, 5.0, "continuous", truth, ORDERS[:5]) is not tails


def test_a_plane_of_leads_too_small_is_seen(monkeypatch):
    """Leads up to N alone, because what lies beyond is held to be cheap; and no plane at all."""
    truth = worst_histogram(laplace_winners, 24, 3, 0.3, ORDERS)
    monkeypatch.setattr(laplace, "_some_duels", lambda lattice: next(laplace.alone(lattice, 1)))
    assert not below(rdp_argmax_laplace, 0.3, "discrete", truth)
    monkeypatch.setattr(laplace, "rare_moment", lambda rare, h, orders: 0 * orders)
    assert below(rdp_argmax_laplace, 0.3, "discrete", truth)


def test_no_law_where_tangents_meet_is_charged_as_counts(monkeypatch):
    whole = laplace.plane

    def broken(*given):
        for leads, pairs in whole(*given):
            pairs.p[0, 0] = -1e-9
            yield leads, pairs

    monkeypatch.setattr(laplace, "plane", broken)
    orders = [2.0, 10.0]
    assert rdp_argmax_laplace(0.3, orders, "discrete").tolist() == rdp_laplace(0.3, orders, noise="discrete").tolist()
