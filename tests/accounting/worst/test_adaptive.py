"""Backward induction, rounded up: against adversaries that are searched for, played out, or tried in every order."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, ndtr

from consilium.accounting.curves.gdp import Composed, epsilon_of
from consilium.accounting.units import Noise
from consilium.accounting.worst import adaptive
from consilium.accounting.worst.adaptive import adaptive_epsilon
from consilium.accounting.worst.channel import Lattice, Reach, planes
from tests.accounting.worst.oracles import laplace_winners, real_laplace_winners, three_outcomes, winners
from tests.marks import third

DISCRETE, CONTINUOUS = Noise.DISCRETE, Noise.CONTINUOUS


@cache
def claimed(delta, *parts):
    return adaptive_epsilon([Composed(*part) for part in parts], delta)


class Adversary:
    """Backward induction with its own grid and places, and no rounding up: losses at most ``fine`` apart."""

    def __init__(self, fine, most):
        self.losses = np.arange(-most, most + fine, fine)
        self.fine = fine

    def nothing(self):
        return np.maximum(-np.expm1(self.losses), 0)

    def after(self, value, pairs):
        found = []
        for p, q in pairs:
            shifts = (self.losses + math.log(b / a) for a, b in zip(p, q, strict=True))
            found.append(sum(a * np.interp(x, self.losses, value) for a, x in zip(p, shifts, strict=True)))
        return np.max(found, axis=0)

    def epsilon(self, value, delta):
        return float(np.interp(-delta, -value, self.losses))

    def repeated(self, pairs, releases, delta):
        """Epsilon of so many releases, of which each may be any of these pairs."""
        value = self.nothing()
        for _ in range(releases):
            value = self.after(value, pairs)
        return self.epsilon(value, delta)


def thresholds(sigma, places=97):
    p = ndtr(np.linspace(-5, 5, places))
    q = ndtr(np.linspace(-5, 5, places) - 1 / sigma)
    return [((a, 1 - a), (b, 1 - b)) for a, b in [*zip(p, q, strict=True), *zip(1 - p, 1 - q, strict=True)]]


def leads(sigma):
    """Two classes and no third at many leads, and near ties of three."""
    two = thresholds(sigma / math.sqrt(2))
    places = [(h + x / 2, h - x / 2) for h in (0.4, 0.75, 1.2) for x in np.linspace(-3, 3, 13)]
    return two + [(three_outcomes(u, v), three_outcomes(u - 1 / sigma, v + 1 / sigma)) for u, v in places]


def laplace_leads(gamma, noise):
    """Two classes at many leads, with a third that is level, behind one of them or behind both; in both directions."""
    leads = sorted({round(x / gamma) for x in np.linspace(-7, 7, 57)}) if noise is DISCRETE else np.linspace(-7, 7, 57)
    found = []
    for lead in leads:
        for behind in (None, 0, 1, 3):
            third = () if behind is None else ((round(behind / gamma) if noise is DISCRETE else behind),)
            if noise is DISCRETE:
                base = 300 + max(lead, 0)
                n = (base, base - lead, *(min(base, base - lead) - x for x in third))
                moved = (n[0] - 1, n[1] + 1, *n[2:])
                pair = laplace_winners(n, gamma), laplace_winners(moved, gamma)
            else:
                n = (lead, 0.0, *(min(lead, 0.0) - x for x in third))
                pair = real_laplace_winners(n), real_laplace_winners((n[0] - gamma, n[1] + gamma, *n[2:]))
            found += [pair, pair[::-1]]
    return found


LAPLACE = third([(2, 0.3, 1e-3, CONTINUOUS), (6, 0.05, 1e-5, DISCRETE), (3, 1.0, 1e-5, DISCRETE)], first=1)


@pytest.mark.parametrize(
    ("what", "releases", "scale", "delta", "noise", "least", "most"),
    [
        *(("argmax", n, sigma, delta, CONTINUOUS, 1, 1.012) for n, sigma, delta in ((2, 40.0, 1e-3), (6, 3.0, 1e-5))),
        *(("laplace", n, 1 / gamma, delta, noise, 0.998, 1.015) for n, gamma, delta, noise in LAPLACE),
        *(
            ("check", n, sigma, delta, CONTINUOUS, 0.999, 1.006)
            for n, sigma, delta in ((1, 4.0, 1e-5), (12, 4.0, 1e-4), (30, 8.0, 1e-4))
        ),
    ],
)
def test_one_kind_against_a_search(what, releases, scale, delta, noise, least, most):
    distance = (1 if what != "argmax" else math.sqrt(2)) / scale
    far = releases * distance**2 + 9 * distance * math.sqrt(releases)
    if what == "laplace":
        far, pairs = (2 * releases + 1) * distance, laplace_leads(distance, noise)
    else:
        pairs = (leads if what == "argmax" else thresholds)(scale)
    found = Adversary(distance / 40, far).repeated(pairs, releases, delta)
    assert found * least <= claimed(delta, (releases, what, scale, noise)) <= most * found


@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_checks_among_winners_in_every_order(delta):
    """The adversary chooses what comes next as well: the worst over all orders, by induction over what is left."""
    checked, labels, sigmas = 6, 3, (12.0, 6.0)
    distance = math.sqrt(2) / sigmas[1]
    adversary = Adversary(distance / 40, 12 * distance)
    pairs = thresholds(sigmas[0], 61), leads(sigmas[1])
    value = {(0, 0): adversary.nothing()}
    for left in itertools.product(range(checked + 1), range(labels + 1)):
        after = []
        if left[0]:
            after.append(adversary.after(value[left[0] - 1, left[1]], pairs[0]))
        if left[1]:
            after.append(adversary.after(value[left[0], left[1] - 1], pairs[1]))
        if after:
            value[left] = np.max(after, axis=0)
    found = adversary.epsilon(value[checked, labels], delta)
    mine = claimed(delta, (checked, "check", sigmas[0], CONTINUOUS), (labels, "argmax", sigmas[1], CONTINUOUS))
    assert found <= mine <= 1.3 * found


PLAYED = (("argmax", 2.0, 3), ("argmax", 7.0, 4), ("argmax", 30.0, 4), ("laplace", 1.0, 3), ("laplace", 20.0, 4))


@cache
def law(what, histogram, scale):
    return winners(histogram, scale) if what == "argmax" else laplace_winners(histogram, 1 / scale)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(PLAYED), st.integers(0, 10**9), st.sampled_from([1e-4, 1e-2]))
def test_no_strategy_does_better(setting, seed, delta):
    """Each histogram is drawn in view of the winners before it, and the vote moves from any class to any class."""
    what, scale, releases = setting
    rng = np.random.default_rng(seed)
    epsilon = claimed(delta, (releases, what, scale, DISCRETE))
    leaves = [(1.0, 1.0)]
    near = rng.choice([0.5, 1.5, 4.0])
    for _ in range(releases):
        grown = []
        for p, q in leaves:
            classes = int(rng.integers(2, 5))
            top = np.sort(np.abs(rng.normal(0, near * scale, classes)))
            histogram = np.maximum(1, np.round(8 * scale + 20 - top)).astype(int)
            giver, taker = rng.permutation(classes)[:2]
            moved = histogram.copy()
            moved[giver] -= 1
            moved[taker] += 1
            before, after = (law(what, tuple(n.tolist()), scale) for n in (histogram, moved))
            grown += [(p * a, q * b) for a, b in zip(before, after, strict=True)]
        leaves = grown
    p, q = np.array(leaves).T
    for one, other in ((p, q), (q, p)):
        assert np.maximum(one - math.exp(epsilon) * other, 0).sum() <= delta


def test_all_places_of_little_integer_noise():
    """Every integer place in every round, without rounding up."""
    sigma, distance = 1.6, math.sqrt(2) / 1.6
    one = [pairs for _, _, pairs in planes(Lattice(sigma, 1, 0.0), Reach(5.5, 0.0))]
    strips = one + [pairs.turned() for pairs in one]
    p, q = (np.concatenate(x, axis=1) for x in ([pairs.p for pairs in strips], [pairs.q for pairs in strips]))
    shifts = np.log(q / p)
    losses = np.arange(0, 14, distance / 25)
    value = np.zeros(losses.size)
    for _ in range(3):
        after = []
        for loss in losses:
            near = np.abs(loss + shifts)
            part = np.interp(near, losses, value)
            # V(1 / gamma) = 1 - 1 / gamma + V(gamma) / gamma
            part = np.where(loss + shifts < 0, -np.expm1(-near) + np.exp(-near) * part, part)
            after.append((p * part).sum(axis=0).max())
        value = np.array(after)
    for delta in (1e-2, 1e-5):
        found = float(np.interp(-delta, -value, losses))
        assert found <= claimed(delta, (3, "argmax", sigma, DISCRETE)) * (1 + 1e-9) <= 1.006 * found


@pytest.mark.parametrize(
    ("release", "share"), [(("check", 9.0), 0.72), (("argmax", 9.0), 0.72), (("laplace", 9.0), 0.54)]
)
def test_what_has_no_choice_tells_more_beside_the_imagined_release(release, share):
    """Profiles of both together, of every place, by convolution."""
    release = Composed(1, *release, DISCRETE)
    step = adaptive._step(release)
    (imagined, one), _ = adaptive._fixed(release, 1, step, 6.0, 6.0, 1e-14)
    profiles = adaptive._profiles_of(release, step, 6.0)[0]
    ratios = np.exp(step * (np.arange(one.kernel.size) - one.kernel.size // 2))
    assert [one.kernel.sum(), one.kernel @ ratios] == pytest.approx([1, 1], rel=1e-9)
    gammas = np.exp(step * np.arange(-20, 400, 7))[:, None]

    def told(kernel):
        """Profile of what is imagined and this, at these gammas."""
        both = np.convolve(imagined.kernel, kernel)
        at = np.exp(step * (np.arange(both.size) - both.size // 2))
        return np.maximum(both - gammas * (both * at), 0).sum(axis=1)

    mine = told(one.kernel)
    for profile in profiles[:: max(1, len(profiles) // 100)]:
        assert np.all(mine + 1e-13 >= told(adaptive.steps_of(profile, step)) * (1 - 1e-9))
    assert one.kernel @ np.log(ratios) ** 2 < 1.05 * release.mu**2


def repeated(p, q, times, epsilon):
    """delta(epsilon) of ``times`` independent uses of one pair with three outcomes: exact sum over their numbers."""
    i, j = np.meshgrid(np.arange(times + 1), np.arange(times + 1), indexing="ij")
    inside = i + j <= times
    numbers = np.stack((i[inside], j[inside], times - i[inside] - j[inside]))
    ways = gammaln(times + 1) - gammaln(numbers + 1).sum(axis=0)
    log_p, log_q = (ways + np.log(r) @ numbers for r in (p, q))
    return float(np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0).sum())


def votes_near_tie(sigma):
    """The worst place at low orders: both counts .75 sigma above a third."""
    third = 100
    n = (third + round(0.75 * sigma),) * 2
    return winners((*n, third), sigma), winners((n[0] - 1, n[1] + 1, third), sigma)


@pytest.mark.parametrize(("what", "scale"), [("argmax", 100.0), ("check", 70.0), ("laplace", 100.0)])
def test_more_releases_than_are_induced_over(monkeypatch, what, scale):
    """Beside an imagined release: against what induction finds, and 400 of the worst at low orders."""
    parts = (400, what, scale, DISCRETE)
    induced = claimed(1e-5, parts)
    monkeypatch.setattr(adaptive, "MOST_RELEASES", 399)
    adaptive._epsilon.cache_clear()
    found = adaptive_epsilon([Composed(*parts)], 1e-5)
    assert what != "argmax" or repeated(*votes_near_tie(scale), 400, found) <= 1e-5
    assert induced <= found <= 1.08 * induced


@pytest.mark.parametrize(
    ("parts", "squared"),
    [
        ([(100, "histogram", 40.0, CONTINUOUS)], 100 * 2 / 40**2),
        ([(640, "histogram", 40.0, DISCRETE)], 640 * 2 / 40**2),
        ([(3, "histogram", 20.0, DISCRETE), (50, "histogram", 90.0, DISCRETE)], 3 * 2 / 20**2 + 50 * 2 / 90**2),
        ([(5, "histogram", 20.0, DISCRETE, 5)], 25 * 5 * 2 / 20**2),
    ],
)
def test_histograms_have_an_exact_value(parts, squared):
    """Nothing can be chosen, so nothing is imagined; integer noise of 20 votes is as good as real noise."""
    exact = epsilon_of(squared, 1e-5)
    assert exact * (1 - 1e-6) <= claimed(1e-5, *parts) <= 1.004 * exact


def test_each_release_of_another_kind_is_counted() -> None:
    parts = ((1, "argmax", 56.0, CONTINUOUS), (2, "histogram", 40.0, CONTINUOUS))
    both = claimed(1e-5, *parts)
    assert epsilon_of(2 * 2 / 40**2, 1e-5) < both
    assert claimed(1e-5, parts[0], (3, *parts[1][1:])) > both


@pytest.mark.parametrize("moves", [2, pytest.param(3, marks=pytest.mark.nightly)])
def test_several_moves(moves):
    """So many votes go from a to b in each of 30 releases, and nothing is below the exact delta of that."""
    mine = claimed(1e-5, (30, "argmax", 20.0, DISCRETE, moves))
    p, q = winners((60 + moves, 60, 45), 20.0), winners((60, 60 + moves, 45), 20.0)
    assert repeated(p, q, 30, mine) <= 1e-5
    assert repeated(p, q, 30, mine / 1.15) > 1e-5


def test_falls_with_noise_and_delta_and_rises_with_releases():
    base = claimed(1e-5, (5, "check", 30.0, DISCRETE))
    assert claimed(1e-12, (5, "check", 30.0, DISCRETE)) > base
    assert claimed(1e-5, (6, "check", 30.0, DISCRETE)) > base
    assert claimed(1e-5, (5, "check", 31.0, DISCRETE)) < base
    assert claimed(1e-5, (5, "check", 30.0, DISCRETE), (9, "check", 300.0, DISCRETE)) > base
    assert claimed(1e-5, (5, "check", 60.0, DISCRETE, 2)) == pytest.approx(base, rel=5e-3)


@pytest.mark.parametrize(
    "part",
    [
        Composed(10, "argmax", 0.3, DISCRETE),
        Composed(10, "laplace", 2000.0, DISCRETE),
        Composed(10**9, "argmax", 40.0, DISCRETE),
        Composed(1000, "argmax", 2.0, DISCRETE),
        Composed(100, "check", 4.0, DISCRETE, votes_moved=60),
    ],
)
def test_no_form_known(part):
    assert adaptive_epsilon([part], 1e-5) == math.inf


def test_nothing_released_costs_nothing():
    assert adaptive_epsilon([], 1e-5) == adaptive_epsilon([Composed(0, "argmax", 40.0, DISCRETE)], 1e-5) == 0.0
