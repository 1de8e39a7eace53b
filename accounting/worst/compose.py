"""Composition of winners, checks and histograms in the worst case over all votes, without a Renyi conversion.

Imagine one Gaussian release of distance mu_0 in front of everything: it can only add to what is told. If each release
*beside it* is at most as telling as a Gaussian of squared distance mu_0^2 + s (up to eta in delta), then n releases
beside it, each chosen in view of the ones before, are at most as telling as one of mu_0^2 + s_1 + ... + s_n (up to
n eta). For winners s is .64 to .7 of the histogram's 2 / sigma^2, which the histogram's own composition cannot give;
mu_0 costs as much as a few releases. Proof: docs/accounting.md, "The worst case of what leaves".

The privacy profile of one release alone is no use here: its supremum over leads is the histogram's, and its numerical
convolution returns the exact value of the histogram.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from consilium.accounting.checks import check_count, check_delta, check_scale, check_votes_moved
from consilium.accounting.curves.gdp import epsilon_of
from consilium.accounting.curves.gnmax import check_noise
from consilium.accounting.errors import EventError, UnitError
from consilium.accounting.units import Noise
from consilium.accounting.worst.argmax import LEAST_SHIFT, MOST_SHIFT
from consilium.accounting.worst.profiles import argmax_profile, check_profile, gaussian_profile, histogram_profile

What = Literal["argmax", "check", "histogram"]

_BESIDE = {1.0: 0.85, 1.5: 0.78, 2.0: 0.72, 2.5: 0.69, 3.0: 0.672, 4.0: 0.66, 5.0: 0.655, 6.0: 0.652}
"""mu_0 in units of the largest mu, and about what part of mu^2 a winner or a bit then adds: only to choose by."""
_NODES = 32
"""Values of epsilon for each standard deviation of the loss; chords between them cost .3 % of s."""
_LEAST_ETA = 1e-13
_PROFILES = {"argmax": argmax_profile, "check": check_profile, "histogram": histogram_profile}


class Composed(NamedTuple):
    """Equal releases in a composition.

    releases : how many. what : which of a winner, the bit of a threshold check, a noisy histogram leaves.
    sigma : noise on a count (or on the number that is checked), in votes. noise : discrete or continuous.
    votes_moved : moves of one unit in one query. together : ballots that each move carries, all from one class to one.
    """

    releases: int
    what: What
    sigma: float
    noise: Noise
    votes_moved: int = 1
    together: int = 1


class _Release(NamedTuple):
    """One release whose profile is known: ``votes`` move at once."""

    what: What
    sigma: float
    noise: Noise
    votes: int

    @property
    def mu(self) -> float:
        """Distance of the two Gaussians, if the number or the histogram itself left."""
        return self.votes / self.sigma * (1.0 if self.what == "check" else math.sqrt(2))


def _known(part: Composed) -> _Release | None:
    """One release for one move, or None where no profile is known."""
    sigma, noise = check_scale(part.sigma, "sigma"), check_noise(part.noise)
    votes = check_count(part.together, "together (identical ballots of one move)", 1, UnitError)
    check_votes_moved(part.votes_moved)
    if part.what not in _PROFILES:
        raise EventError(f"what leaves must be one of {', '.join(_PROFILES)}, got {part.what!r}. Name one of them.")
    if not LEAST_SHIFT <= votes / sigma <= MOST_SHIFT or (noise is Noise.DISCRETE and sigma < 0.5):
        return None
    return _Release(part.what, sigma, noise, votes)


@lru_cache(maxsize=256)
def _squared(release: _Release, beside: float, eta: float) -> float:
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
    is another bound. For few releases mu_0 weighs too much, and the Renyi curves (``worst.argmax``, ``worst.check``)
    are lower: take the least of both.

    Several moves of a unit are several neighbours in a row, and a Gaussian's distance adds up over them. Parts may have
    different numbers of moves; the largest counts for all.

    inf where nothing is known: delta below 1e-11 for each release (for several moves more), noise of more than 1e5
    votes or less than a quarter of one, integer noise of less than half a vote.

    Raises
    ------
    DeltaError, EventError, NoiseError, UnitError.

    >>> parts = [Composed(800, "check", 300.0, Noise.DISCRETE), Composed(300, "argmax", 108.0, Noise.DISCRETE)]
    >>> round(composed_epsilon(parts, 1e-5), 2)
    0.75
    """
    check_delta(delta)
    counts: dict[_Release, int] = {}
    moves, unknown = 1, False
    for part in parts:
        releases, known = check_count(part.releases, "releases"), _known(part)
        if releases == 0:
            continue
        moves = max(moves, part.votes_moved)
        if known is None:
            unknown = True
        else:
            counts[known] = counts.get(known, 0) + releases
    if unknown:
        return math.inf
    if not counts:
        return 0.0
    whole = sum(n * release.mu**2 for release, n in counts.items())
    continuous = all(release.noise is Noise.CONTINUOUS for release in counts)
    best = epsilon_of(moves**2 * whole, delta) if continuous else math.inf
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
