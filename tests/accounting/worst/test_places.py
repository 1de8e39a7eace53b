"""The parts of the proof that are computed: mixture, channel, tails, envelope.

The worst case of a threshold check, against all thresholds.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from consilium.accounting.units import Noise
from consilium.accounting.worst import adaptive, channel
from consilium.accounting.worst import renyi as check
from consilium.accounting.worst.channel import SLACK, TAU, Lattice, Reach, both_tails, check_tail, duel_tail, third_tail
from consilium.accounting.worst.renyi import envelope, rdp_check
from tests.accounting.worst.oracles import lattice_noise, renyi


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


def test_a_narrower_mixture_is_seen():
    assert mixture_error(19.0, 1.0, 0.5) > SLACK


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
        curve = check._one_move.__wrapped__(10.0, (2.0,), Noise.DISCRETE, 1)
        return curve[0], adaptive.winners(Lattice(10.0, 1, 0.0), Reach(6.0, 0.0), 0.02, 60)[1]

    before = found()
    monkeypatch.setattr(channel, name, lambda *_: 8e-3)
    after = found()
    assert after[0] > 1.1 * before[0]
    assert after[1] >= before[1] + 7.9e-3


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
