"""Composition of winners, checks and histograms in the worst case over all votes, without a Renyi conversion.

Imagine one Gaussian release of distance mu_0 in front of everything: it can only add to what is told. If each release
*beside it* is at most as telling as a Gaussian of squared distance mu_0^2 + s (up to eta in delta), then n releases
beside it, each chosen in view of the ones before, are at most as telling as one of mu_0^2 + s_1 + ... + s_n (up to
n eta). For winners s is .64 to .7 of the histogram's 2 / sigma^2, which the histogram's own composition cannot give;
mu_0 costs as much as a few releases. Proof: docs/laboratory/accounting.md, "The worst case of what leaves".

Profile of one release beside a Gaussian release
------------------------------------------------
Alone, the profile of a winner (the largest hockey-stick divergence over all leads) is that of the histogram: for every
epsilon there is a lead at which the winner is the very event that tells most. No single lead is bad at every epsilon,
so each release is looked at together with an imagined Gaussian release of parameter ``beside``.

With V(gamma) the profile of that Gaussian, gamma = e^epsilon, the profile of both together is sum_j p_j V(gamma q_j /
p_j): jointly convex in (p, q), increasing in p by at most 1 and decreasing in q by at most gamma, so the same places of
the same channel bound it (docs/laboratory/accounting.md, "The worst case of what leaves"). All is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from consilium.accounting.checks import check_count, check_delta, check_noise, check_scale, check_votes_moved
from consilium.accounting.curves.gdp import epsilon_of
from consilium.accounting.curves.near_zero import ROUNDING
from consilium.accounting.errors import EventError
from consilium.accounting.units import Noise
from consilium.accounting.worst.channel import (
    Lattice,
    Pairs,
    Reach,
    check_line,
    check_tail,
    difference,
    duel_line,
    duel_tail,
    planes,
    reduce,
    third_tail,
)
from consilium.accounting.worst.renyi import FINE_LINE, LEAST_SHIFT, MOST_NOISE, envelope

FINE = 24.0
"""Parameter of the lattice of two counts. A profile costs more to evaluate than a moment, so it is coarser than there:
.4 % of what a release adds."""
_SUMS = 3 * ROUNDING
"""Relative rounding of sums of at most 2,000 positive terms."""


def gaussian_profile(mu: float, gammas: np.ndarray | np.floating) -> np.ndarray:
    """delta of a Gaussian release with distance ``mu``, as a function of gamma: float64, shape of gammas."""
    losses = np.log(gammas) / mu
    return ndtr(mu / 2 - losses) - gammas * ndtr(-mu / 2 - losses)


def _largest(pairs: Pairs, beside: float, gammas: np.ndarray, floor: np.ndarray | float = -np.inf) -> np.ndarray:
    """max over places of sum_j p_j V(gamma q_j / p_j), for gammas of at least 1, and at least ``floor``.

    All places are nearly V, whose own curvature would hide the differences between them in any chord. But a part r of V
    may be taken off first: V''(gamma) is e^g(0) / (gamma beside), and that of a place E e^g(l), with l = log q / p and
    g(l) = l - ((log gamma + l) / beside + beside / 2)^2 / 2. By Jensen's inequality the ratio of the two is at least
    exp((1/2 - log gamma / beside^2) E l - E l^2 / (2 beside^2)), and E l is not above 0.
    """
    p, q = pairs.p * (1 + _SUMS), pairs.q * (1 - _SUMS)
    losses = Pairs(p, q).log_ratio()
    told = np.where(p > 0, losses, 0.0)
    log_part = (p * told).sum(axis=0) / 2 - (p * told**2).sum(axis=0) / (2 * beside**2)
    part = math.exp(log_part.min()) * (1 - 1e-9)
    facts = np.concatenate((p, q, losses / beside))

    def rest(gammas: np.ndarray, facts: np.ndarray) -> np.ndarray:
        losses, gamma = np.log(gammas)[:, None] / beside, gammas[:, None]
        both = np.repeat(-part * gaussian_profile(beside, gamma), facts.shape[1], axis=1)
        for a, b, loss in zip(*np.split(facts, 3), strict=True):
            scaled = losses + loss
            both += a * ndtr(beside / 2 - scaled) - gamma * b * ndtr(-beside / 2 - scaled)
        return both

    smooth = part * gaussian_profile(beside, gammas)
    return np.maximum(floor, envelope(rest, facts, gammas, floor - smooth) + smooth)


def check_profile(sigma: float, noise: Noise, votes: int, beside: float, gammas: np.ndarray, far: float) -> np.ndarray:
    """delta of one threshold check beside the Gaussian, at increasing ``gammas``: float64 (gammas,)."""
    lattice, reach = reduce(sigma, noise, votes, FINE_LINE), Reach(far, 0.0)
    tails = (check_tail(lattice, reach) + 2 * lattice.slack) * (1 + gammas)
    found = _largest(check_line(lattice, reach), beside, gammas)
    return np.maximum(found, gaussian_profile(beside, gammas)) + tails


def argmax_profile(sigma: float, noise: Noise, votes: int, beside: float, gammas: np.ndarray, far: float) -> np.ndarray:
    """delta of one released winner beside the Gaussian; the move carries so many ``votes``: float64 (gammas,)."""
    lattice, reach = reduce(sigma, noise, votes, FINE), Reach(far, 0.0)
    found = np.maximum(
        _largest(check_line(lattice, reach), beside, gammas), _largest(duel_line(lattice, reach), beside, gammas)
    )
    for plane in planes(lattice, reach):
        found = _largest(plane, beside, gammas, found)
    tails = 2 * check_tail(lattice, reach) + duel_tail(lattice, reach) + third_tail(lattice, reach)
    tails = (tails + 4 * lattice.slack) * (1 + gammas)
    return np.maximum(found, gaussian_profile(beside, gammas)) + tails


def histogram_profile(
    sigma: float, noise: Noise, votes: int, beside: float, gammas: np.ndarray, far: float
) -> np.ndarray:
    """delta of one noisy histogram beside the Gaussian: float64 (gammas,).

    The likelihood ratio of the two noisy counts that move is a function of their difference.
    """
    if noise is Noise.CONTINUOUS:
        return gaussian_profile(math.hypot(beside, math.sqrt(2) * votes / sigma), gammas) * (1 + _SUMS)
    lattice, reach = Lattice(sigma, votes, 0.0), Reach(far, 0.0)
    # both distributions at every difference that either can have
    end = math.ceil(far * math.sqrt(2) * sigma + 2 * votes)
    offsets = np.arange(-end, end - 2 * votes + 1)
    pair = Pairs(difference(lattice, offsets, 0.0)[:, None], difference(lattice, offsets, 2.0 * votes)[:, None])
    return _largest(pair, beside, gammas) + duel_tail(lattice, reach) * (1 + gammas)


What = Literal["argmax", "check", "histogram"]

_BESIDE = {1.0: 0.85, 1.5: 0.78, 2.0: 0.72, 2.5: 0.69, 3.0: 0.672, 4.0: 0.66, 5.0: 0.655, 6.0: 0.652}
"""mu_0 in units of the largest mu, and about what part of mu^2 a winner or a bit then adds: only to choose by."""
_NODES = 32
"""Values of epsilon for each standard deviation of the loss; chords between them cost .3 % of s."""
_LEAST_ETA = 1e-13
_MOST_SHIFT = 1.0
_PROFILES = {"argmax": argmax_profile, "check": check_profile, "histogram": histogram_profile}


class Composed(NamedTuple):
    """Equal releases in a composition.

    releases : how many. what : which of a winner, the bit of a threshold check, a noisy histogram leaves.
    sigma : noise on a count (or on the number that is checked), in votes. noise : discrete or continuous.
    votes_moved : moves of one unit in one query, of one vote each.
    """

    releases: int
    what: What
    sigma: float
    noise: Noise
    votes_moved: int = 1


class OneRelease(NamedTuple):
    """One release whose profile is known: ``votes`` move at once."""

    what: What
    sigma: float
    noise: Noise
    votes: int

    @property
    def mu(self) -> float:
        """Distance of the two Gaussians, if the number or the histogram itself left."""
        return self.votes / self.sigma * (1.0 if self.what == "check" else math.sqrt(2))

    @property
    def within_reach(self) -> bool:
        """Whether its profile can be computed: neither lost in rounding nor so telling that nothing is gained."""
        return LEAST_SHIFT <= self.votes / self.sigma <= _MOST_SHIFT


def one_move(part: Composed) -> OneRelease:
    """One of the moves of a part, its noise no more than ``MOST_NOISE`` for a vote. Raises as `composed_epsilon`."""
    sigma, noise = check_scale(part.sigma, "sigma"), check_noise(part.noise)
    check_votes_moved(part.votes_moved)
    if part.what not in _PROFILES:
        raise EventError(f"what leaves must be one of {', '.join(_PROFILES)}, got {part.what!r}. Name one of them.")
    # more noise is a mixture of less, and costs no more
    return OneRelease(part.what, min(sigma, MOST_NOISE), noise, 1)


def counted(parts: Sequence[Composed]) -> tuple[dict[OneRelease, int], int]:
    """How many there are of each release, and the largest number of moves. Raises as `composed_epsilon`."""
    counts: dict[OneRelease, int] = {}
    moves = 1
    for part in parts:
        releases, release = check_count(part.releases, "releases"), one_move(part)
        if releases:
            counts[release] = counts.get(release, 0) + releases
            moves = max(moves, part.votes_moved)
    return counts, moves


@lru_cache(maxsize=256)
def _squared(release: OneRelease, beside: float, eta: float) -> float:
    """s: beside a Gaussian of distance ``beside``, the release tells at most what one of beside^2 + s does, up to eta.

    Gamma below 1 needs no look: exchanging the two inputs, which the supremum over votes covers, turns it into 1/gamma.
    """
    mu = math.hypot(beside, 1.2 * release.mu)
    end = mu * mu / 2 + mu * float(-ndtri(eta / 4))
    gammas = np.exp(np.linspace(0.0, end, math.ceil(_NODES * end / mu) + 1))
    far = float(-ndtri(eta / 1000 / (1 + gammas[-1])))
    found = _PROFILES[release.what](release.sigma, release.noise, release.votes, beside, gammas, far)
    if found[-1] > eta:
        return math.inf
    middles = (gammas[1:] + gammas[:-1]) / 2
    half = (gammas[1:] - gammas[:-1]) / 2

    def enough(squared: float) -> bool:
        """Whether every chord of the profile that was found is below a tangent of the Gaussian's, plus eta."""
        distance = math.sqrt(beside**2 + squared)
        # a hundredth of eta is left for the rounding of what is near 1
        value = gaussian_profile(distance, middles) + 0.99 * eta
        slope = half * ndtr(-distance / 2 - np.log(middles) / distance)
        return bool(np.all(found[:-1] <= value + slope) and np.all(found[1:] <= value - slope))

    low, high = 0.0, 2 * release.mu**2
    if not enough(high):
        return math.inf
    while high - low > 1e-5 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _after(power: float, mu: float) -> float:
    """Probability, under the other of two Gaussians mu apart, of the best event that has ``power`` under the first."""
    return float(ndtr(ndtri(power) + mu))


def composed_epsilon(parts: Sequence[Composed], delta: float) -> float:
    """Least epsilon at ``delta`` of an adaptive composition: an upper bound, data-independent.

    mu_0 is chosen from counts and sigmas alone. For continuous noise what histograms and numbers themselves would cost
    is another bound. For few releases mu_0 weighs too much, and the Renyi curves (``worst.renyi``)
    are lower: take the least of both.

    Several moves of a unit are several neighbours in a row, and a Gaussian's distance adds up over them. Parts may have
    different numbers of moves; the largest counts for all.

    Integer noise: inf where nothing is known, which is below a delta of 1e-11 for each release (for several moves
    sooner), and with noise of less than one time the votes of a move. More than 1e5 times them costs what that does.

    Raises
    ------
    DeltaError, EventError, NoiseError, UnitError.

    >>> parts = [Composed(800, "check", 300.0, Noise.DISCRETE), Composed(300, "argmax", 108.0, Noise.DISCRETE)]
    >>> round(composed_epsilon(parts, 1e-5), 2)
    0.75
    """
    check_delta(delta)
    counts, moves = counted(parts)
    if not counts:
        return 0.0
    whole = sum(n * release.mu**2 for release, n in counts.items())
    continuous = all(release.noise is Noise.CONTINUOUS for release in counts)
    best = epsilon_of(moves**2 * whole, delta) if continuous else math.inf
    if not all(release.within_reach for release in counts):
        return best
    # A hundredth of delta may be used up; what is left over after one move grows along the others. In powers of ten, so
    # that runs of like size share what was computed.
    share = _after(delta / 100 / moves, -(moves - 1) * math.sqrt(whole)) / sum(counts.values())
    if share < _LEAST_ETA:
        return best
    eta = 10.0 ** math.floor(math.log10(share))
    largest = max(release.mu for release in counts)
    histograms = sum(n * release.mu**2 for release, n in counts.items() if release.what == "histogram")
    ratio = min(_BESIDE, key=lambda c: (c * largest) ** 2 + _BESIDE[c] * (whole - histograms))
    total = (ratio * largest) ** 2 + sum(n * _squared(release, ratio * largest, eta) for release, n in counts.items())
    if math.isinf(total):
        return best
    rest = used = sum(counts.values()) * eta
    for _ in range(moves - 1):
        rest = used + _after(rest, math.sqrt(total))
    return min(best, epsilon_of(moves**2 * total, delta - rest)) if rest < delta / 2 else best
