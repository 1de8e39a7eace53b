"""The worst case of a released winner or bit, and the parts of the proof: never below the truth, and close to it."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.units import Noise
from consilium.accounting.worst import adaptive, channel, laplace, renyi
from consilium.accounting.worst.channel import SLACK, TAU, Lattice, Reach, both_tails, check_tail, duel_tail, third_tail
from consilium.accounting.worst.laplace import rare_moment, rdp_argmax_laplace
from consilium.accounting.worst.renyi import envelope, rdp_argmax, rdp_check
from tests.accounting.worst.oracles import (
    both_directions,
    laplace_winners,
    lattice_noise,
    real_laplace_winners,
    winners,
    worst_histogram,
    worst_lead,
)
from tests.accounting.worst.oracles import renyi as divergence
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


def test_no_law_where_tangents_meet_is_charged_as_counts(monkeypatch):
    whole = laplace.plane

    def broken(*given):
        for leads, pairs in whole(*given):
            pairs.p[0, 0] = -1e-9
            yield leads, pairs

    monkeypatch.setattr(laplace, "plane", broken)
    orders = [2.0, 10.0]
    assert rdp_argmax_laplace(0.3, orders, "discrete").tolist() == rdp_laplace(0.3, orders, noise="discrete").tolist()


def mixture_error(scale, tau, centre):
    """Largest |log ratio| of a discrete Gaussian with a real centre and its mixture over integer centres, 40 digits."""
    with mp.workdps(40):
        centre, narrow = mp.mpf(centre), mp.sqrt(mp.mpf(scale) ** 2 - mp.mpf(tau) ** 2)
        reach = int(6 * scale)
        grid = range(math.floor(centre) - 16, math.floor(centre) + 17)
        weights = [mp.exp(-((g - centre) ** 2) / (2 * mp.mpf(tau) ** 2)) for g in grid]
        x = range(-reach, reach + 1, max(1, reach // 20))
        everywhere = range(-2 * reach, 2 * reach + 1)
        total = mp.fsum(mp.exp(-((y - centre) ** 2) / (2 * mp.mpf(scale) ** 2)) for y in everywhere)
        total_narrow = mp.fsum(mp.exp(-(mp.mpf(y) ** 2) / (2 * narrow**2)) for y in everywhere)
        worst = mp.mpf(0)
        for y in x:
            truth = mp.exp(-((y - centre) ** 2) / (2 * mp.mpf(scale) ** 2)) / total
            mixed = mp.fsum(w * mp.exp(-((y - g) ** 2) / (2 * narrow**2)) for w, g in zip(weights, grid, strict=True))
            worst = max(worst, abs(mp.log(mixed / mp.fsum(weights) / total_narrow / truth)))
        return float(worst)


@pytest.mark.parametrize(("scale", "centre"), [(19.0, 0.5), (24.0, 0.3), (36.0, 0.0)])
def test_mixture_over_integer_centres(scale, centre):
    assert mixture_error(scale, TAU, centre) <= SLACK


@pytest.mark.parametrize("scale", [0.7, 3.0, 20.0])
def test_tails_are_bounds(scale):
    """Probabilities of rare outcomes at the edge of the reach, by direct sums."""
    lattice, reach = Lattice(scale, 1, 0.0), Reach(3.0, 0.0)
    assert check_tail(lattice, reach) >= both_tails(scale, 0.0, -math.ceil(3 * scale), 0)[0][0]
    z = np.arange(-20 * math.ceil(scale), 20 * math.ceil(scale) + 1)
    pmf = np.exp(-(z**2) / (2 * scale**2))
    both = np.convolve(pmf, pmf) / pmf.sum() ** 2
    offsets = np.arange(2 * z[0], 2 * z[-1] + 1)
    wide = math.sqrt(2) * scale
    assert duel_tail(lattice, reach) >= both[offsets >= 3 * wide].sum()
    for parity in (0, 1):
        same = offsets % 2 == parity
        given = both[same & (offsets <= -math.ceil(3 * wide))].sum() / both[same].sum()
        assert third_tail(lattice, reach) >= given


def test_envelope_finds_every_maximum():
    """Against evaluation everywhere: 30,000 convex functions, of which few are largest anywhere."""
    random = np.random.default_rng(7)
    facts = np.stack((random.uniform(0, 2, 30_000), random.uniform(-3, 3, 30_000), random.normal(0, 1, 30_000)))

    def value(x, facts):
        x = x[:, None]
        return facts[0] * (x - facts[1]) ** 2 + facts[2] * x

    arguments = np.sort(random.uniform(-2, 4, 60))
    expected = value(arguments, facts).max(axis=1)
    assert envelope(value, facts, arguments).tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["check_tail", "duel_tail", "third_tail"])
def test_what_lies_beyond_the_places_that_are_tried_is_charged(monkeypatch, name):
    """Each bound is far too small to be seen in a curve; were it larger, curve and profile would be as well."""

    def found():
        curve = renyi._one_move.__wrapped__(10.0, (2.0,), Noise.DISCRETE, 1)
        return curve[0], adaptive.winners(Lattice(10.0, 1, 0.0), Reach(6.0, 0.0), 0.02, 60)[1]

    before = found()
    monkeypatch.setattr(channel, name, lambda *_: 8e-3)
    after = found()
    assert after[0] > 1.1 * before[0]
    assert after[1] >= before[1] + 7.9e-3


BIT_ORDERS = [1.05, 1.5, 2.0, 4.0, 10.0]


@pytest.mark.parametrize(("sigma", "votes"), [(0.6, 1), (1.0, 1), (3.0, 1), (3.0, 2), (40.0, 1), (40.0, 5)])
def test_all_integer_thresholds(sigma, votes):
    reach = int(20 * sigma) + 20
    pmf, below = lattice_noise(sigma, reach)
    above = np.cumsum(pmf[::-1])[::-1]
    # the event noise >= i against noise >= i + votes, both directions
    i = np.arange(1, pmf.size - votes)
    p, q = np.stack((above[i], below[i - 1])), np.stack((above[i + votes], below[i + votes - 1]))
    usable = (p.min(axis=0) > 1e-200) & (q.min(axis=0) > 1e-200)
    bound = rdp_check(sigma, BIT_ORDERS, "discrete", votes)
    for order, most in zip(BIT_ORDERS, bound, strict=True):
        truth = max(
            divergence(a, b, order) for x, y in zip(p.T[usable], q.T[usable], strict=True) for a, b in ((x, y), (y, x))
        )
        assert truth <= most
        if (order - 1) * votes / sigma <= renyi.MOST_LINE_TILT:
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
