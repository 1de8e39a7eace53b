"""The worst case of a winner under Laplace noise: never below the truth, and the truth where two classes attain it."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.worst import laplace
from consilium.accounting.worst.laplace import LaplaceLattice, rare_moment, rdp_argmax_laplace
from tests.accounting.worst.laplace_oracles import both_directions, integer_winners, real_winners
from tests.accounting.worst.oracles import neighbours
from tests.marks import third

ORDERS = [1.05, 1.5, 2.0, 4.0, 10.0, 40.0, 100.0]


@pytest.fixture
def fresh():
    """Curves that a planted mistake made must not stay in the cache."""
    laplace._log_moment.cache_clear()
    yield
    laplace._log_moment.cache_clear()


def worst_of_all(teachers, classes, gamma, orders=ORDERS):
    """Largest divergence over all histograms, moves and directions: float64 (orders,)."""
    known = {}

    def of(histogram):
        if histogram not in known:
            known[histogram] = integer_winners(histogram, gamma)
        return known[histogram]

    pairs = [(of(n), of(moved)) for n, moved in neighbours(teachers, classes)]
    return np.max([both_directions(p, q, orders) for p, q in pairs], axis=0)


SMALL = [
    (12, 3, 1.0, 0.997),
    (40, 2, 0.1, 0.99999),
    (10, 4, 0.3, 0.95),
    (30, 3, 0.2, 0.99),
    (9, 4, 3.0, 0.99),
    (7, 5, 0.5, 0.95),
]


@pytest.mark.parametrize(("teachers", "classes", "gamma", "share"), third(SMALL, first=2))
def test_all_small_histograms(teachers, classes, gamma, share):
    """Integer noise, ties to the lowest index: all histograms, all moves, both directions, and so all tie rules."""
    truth = worst_of_all(teachers, classes, gamma)
    bound = rdp_argmax_laplace(gamma, ORDERS, "discrete")
    assert np.all(bound >= truth)
    assert np.all((truth >= share * bound)[:3])


def test_two_classes_at_50_digits():
    """For much noise and low orders the bound is what two classes near equal counts cost, and a millionth more."""

    def behind(gap, r):
        spread = (1 + r**2) / (1 - r**2)
        return ((1 - r) / (1 + r)) ** 2 * r**gap * ((gap + spread) / (1 - r) + r / (1 - r) ** 2)

    def loses(lead, r):
        return behind(lead, r) if lead >= 0 else 1 - behind(1 - lead, r)

    for gamma, orders in ((0.05, [1.25, 2.0, 8.0]), (0.01, [3.0, 30.0]), (0.001, [2.0, 64.0])):
        with mp.workdps(50):
            r, truth = mp.exp(-mp.mpf(gamma)), []
            for order in map(mp.mpf, orders):
                moments = []
                for lead in range(-int(0.3 / gamma), int(0.6 / gamma)):
                    p, q = loses(lead, r), loses(lead - 2, r)
                    moments.append(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order))
                truth.append(float(mp.log(max(moments)) / (order - 1)))
        bound = rdp_argmax_laplace(gamma, orders, "discrete")
        assert np.all(bound >= truth)
        assert bound == pytest.approx(truth, rel=2e-6)


def exact_outcomes(u, v, g):
    """Of two counts and a geometric number, by sums with 30 digits: a, which wins ties, b and the third."""
    with mp.workdps(30):
        r = mp.exp(-mp.mpf(g))
        c = (1 - r) / (1 + r)
        reach = int(70 / g) + 12
        total = [mp.mpf(0)] * 3

        def at_most(x, centre):
            return r ** (centre - x) / (1 + r) if x < centre else 1 - r ** (x - centre + 1) / (1 + r)

        for x in range(reach):
            third_below = 1 - r**x
            first = c * r ** abs(x - u) * at_most(x, v)
            second = c * r ** abs(x - v) * at_most(x - 1, u)
            total[0] += first * third_below
            total[1] += second * third_below
            total[2] += (1 - r) * r**x * at_most(x, u) * at_most(x, v)
        return [float(each) for each in total]


@pytest.mark.parametrize("g", [0.1, 0.3, 4.0])
def test_outcomes_at_30_digits(g):
    for u, v in ((1, 0), (1, 1), (0, 4), (7, -2), (-2, 5), (2, 2), (3, 9), (9, 3), (5, 0)):
        found = laplace.outcomes(LaplaceLattice(g, 3), np.array([u]), np.array([v]))[:, 0]
        assert found == pytest.approx(exact_outcomes(u, v, g), rel=1e-12)


@pytest.mark.parametrize("seed", third(range(6), first=1))
def test_random_adversaries_with_real_noise(seed):
    """Two to nine classes around real leads; some near ties, some spread out, several sizes of the move."""
    generator = np.random.default_rng(seed)
    orders = np.array([1.2, 2.0, 5.0, 20.0, 80.0])
    for h in (0.05, 0.3, 1.0, 3.0):
        bound = rdp_argmax_laplace(h, orders, "continuous")
        for _ in range(40):
            centres = generator.normal(size=generator.integers(2, 10)) * generator.choice([0.1, 1.0, 4.0])
            moved = centres.copy()
            moved[:2] += (-h, h)
            truth = both_directions(real_winners(centres), real_winners(moved), orders)
            assert np.all(bound >= truth * (1 - 1e-11))


@pytest.mark.parametrize(
    "moves", [[(0, 1), (0, 1)], [(0, 1), (0, 2)], [(0, 1), (2, 1)], [(0, 1), (2, 3)], [(0, 1), (0, 1), (2, 1)]]
)
def test_several_moves(moves):
    """Moves that need not go the same way, over leads near ties, in both directions."""
    gamma, k = 0.3, len(moves)
    bound = rdp_argmax_laplace(gamma, ORDERS, "discrete", votes_moved=k)
    counts = rdp_laplace(gamma, ORDERS, k, noise="discrete")
    assert np.all(bound <= np.minimum(counts, 2 * gamma * k))
    assert np.all(bound[1:3] < 0.9 * counts[1:3])
    for n in ((9, 9, 9, 9), (9, 7, 8, 6), (9, 9, 6, 3), (8, 6, 3, 3), (9, 7, 3, 0)):
        moved = np.array(n)
        for a, b in moves:
            moved[[a, b]] += (-1, 1)
        truth = both_directions(integer_winners(n, gamma), integer_winners(moved, gamma), ORDERS)
        assert np.all(bound >= truth)


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


def below(truth, gamma):
    laplace._log_moment.cache_clear()
    return bool(np.any(rdp_argmax_laplace(gamma, ORDERS, "discrete") < truth))


def test_a_plane_left_out_is_seen(monkeypatch, fresh):
    truth = worst_of_all(10, 3, 1.0)
    assert not below(truth, 1.0)
    monkeypatch.setattr(laplace, "plane", lambda *given: iter(()))
    assert below(truth, 1.0)


def test_a_plane_too_small_is_seen(monkeypatch, fresh):
    """Leads up to N alone, because what lies beyond is held to be cheap."""
    truth = worst_of_all(24, 3, 0.3)
    monkeypatch.setattr(laplace, "_some_duels", lambda lattice: laplace.alone(lattice, 1).__next__())
    assert not below(truth, 0.3)
    monkeypatch.setattr(laplace, "rare_moment", lambda rare, h, orders: 0 * orders)
    assert below(truth, 0.3)


def test_no_law_where_tangents_meet_is_charged_as_counts(monkeypatch, fresh):
    whole = laplace.plane

    def broken(*given):
        for leads, pairs in whole(*given):
            pairs.p[0, 0] = -1e-9
            yield leads, pairs

    monkeypatch.setattr(laplace, "plane", broken)
    orders = [2.0, 10.0]
    assert rdp_argmax_laplace(0.3, orders, "discrete").tolist() == rdp_laplace(0.3, orders, noise="discrete").tolist()
