"""Exact composition of Gaussian releases, for the data-independent part.

A histogram with noise sigma of which k votes move is mu-Gaussian-DP with mu = k sqrt(2) / sigma, a scalar k / sigma;
mu^2 adds up under (also adaptive) composition, and the privacy profile of the sum is known exactly (Dong, Roth, Su,
arXiv 1905.02383, Corollary 1 and Theorem 4; Balle, Wang, arXiv 1805.06530, Theorem 8). So nothing is lost, as it is on
the way through Renyi curves: 640 queries at sigma 40 and delta 1e-5 cost 3.849 exactly, 4.162 by CKS, 4.693 by the
classic rule. This holds for *continuous* noise; ``discrete_epsilon`` does the same sum on the lattice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from consilium.accounting.checks import check_count, check_delta, check_scale, check_votes_moved
from consilium.accounting.curves.discrete import convolution_slack, log_tail_table
from consilium.accounting.curves.near_zero import ROUNDING
from consilium.accounting.errors import CalibrationError, NoiseError
from consilium.accounting.units import Noise

_LARGEST_SLACK = 1e-3
_CLOSE = 1e-13
"""How far above the least, relative, an epsilon may stay."""
_FAR = 40
"""Standard deviations beyond which a Gaussian tail is 0 in double precision (e^-800)."""
MOST_LATTICE = 2_000_000
"""Entries of the largest table that `exact_epsilon` makes (half a second, 40 MB); beyond it, take the Renyi curve."""


class Composed(NamedTuple):
    """Equal releases in a composition.

    releases : how many. what : which leaves: a winner under Gaussian noise ("argmax") or Laplace noise ("laplace"), the
        bit of a threshold check, a noisy histogram.
    sigma : noise on a count (or on the number that is checked), in votes; of Laplace noise its scale 1 / gamma.
    noise : discrete or continuous. votes_moved : moves of one unit in one query, of one vote each.
    slack : largest |log ratio| between the noise of a count and exact (discrete) Gaussian noise; above 0 where it is a
        sum of shares.
    """

    releases: int
    what: Literal["argmax", "check", "histogram", "laplace"]
    sigma: float
    noise: Noise
    votes_moved: int = 1
    slack: float = 0.0

    @property
    def mu(self) -> float:
        """Distance of the inputs that a move apart, in standard deviations, if the number or histogram itself left."""
        return (1.0 if self.what == "check" else math.sqrt(2)) / self.sigma

    @property
    def told(self) -> float:
        """About the squared distance of what leaves of one release: only to choose by."""
        return {"argmax": 0.66, "check": 0.66, "histogram": 1.0, "laplace": 0.51}[self.what] * self.mu**2


def mu_squared(releases: int, sigma: float, sensitivity_votes: int = 1, *, scalar: bool = False) -> float:
    """What ``releases`` Gaussian releases add to mu^2: k^2 (1 if scalar, else 2) / sigma^2 each."""
    n, k = check_count(releases, "releases"), check_votes_moved(sensitivity_votes)
    return n * k * k * (1 if scalar else 2) / check_scale(sigma, "sigma") ** 2


def delta_of(mu: float, epsilon: float) -> float:
    """delta(epsilon) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2), rounded up."""
    from scipy.special import log_ndtr  # a quarter of a second, which whoever only reads a promise need not wait for

    low = log_ndtr(-epsilon / mu + mu / 2)
    high = epsilon + log_ndtr(-epsilon / mu - mu / 2)
    return _difference(float(low), float(high), epsilon)


def _difference(low: float, high: float, epsilon: float, terms: float = 0.0) -> float:
    """e^low - e^high, plus what rounding may have taken: for tiny mu the two are equal in every digit.

    epsilon : a part of ``high``. terms : roundings behind each logarithm.
    """
    slack = ROUNDING / 100 * (1 + terms + epsilon - 2 * low + abs(high - epsilon))
    return math.exp(low) * -math.expm1(min(high - low, 0.0) - slack) * (1 + ROUNDING / 100)


def _least_epsilon(profile: Callable[[float], float], delta: float) -> float:
    """Least epsilon >= 0 with profile(epsilon) <= delta, for a decreasing profile."""
    high = 1.0
    while profile(high) > delta:  # the far end first: it takes the longest table
        high *= 2
        if high > 1e7:
            return math.inf
    if profile(0.0) <= delta:
        return 0.0
    # by halves: scipy.optimize takes half a second and 20 MB to import, in each process of a node
    low = 0.0
    while low < (low + high) / 2 < high and high - low > _CLOSE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if profile(middle) > delta else (low, middle)
    return high


def epsilon_of(squared: float, delta: float) -> float:
    """Least epsilon at ``delta`` for a total mu^2 (0 costs nothing). Raises DeltaError, NoiseError: mu^2 negative or
    NaN.

    >>> round(epsilon_of(mu_squared(640, 40.0), 1e-5), 4)
    3.8486
    """
    check_delta(delta)
    if not squared >= 0 or math.isinf(squared):
        raise NoiseError(f"mu^2 must be finite and at least 0, got {squared!r}.")
    if squared == 0:
        return 0.0
    mu = math.sqrt(squared)
    return _least_epsilon(lambda epsilon: delta_of(mu, epsilon), delta)


def sigma_needed(
    releases: int, epsilon: float, delta: float, sensitivity_votes: int = 1, *, scalar: bool = False
) -> float:
    """Least sigma at which ``releases`` Gaussian releases cost ``epsilon`` at ``delta``. Raises CalibrationError:
    epsilon not above 0, or so small that no noise below e^40 is enough."""
    if not epsilon > 0 or math.isinf(epsilon):
        raise CalibrationError(f"epsilon must be finite and above 0, got {epsilon!r}.")
    check_count(releases, "releases", 1)
    check_delta(delta)

    def excess(log_sigma: float) -> float:
        squared = mu_squared(releases, math.exp(log_sigma), sensitivity_votes, scalar=scalar)
        return math.log(max(delta_of(math.sqrt(squared), epsilon), 5e-324)) - math.log(delta)

    low, high = -20.0, 40.0
    if excess(high) > 0:
        raise CalibrationError(f"epsilon {epsilon!r} at delta {delta!r} needs noise above {math.exp(high):.3g}.")
    # by halves: scipy.optimize takes a fifth of a second to import, in each process of a node
    while high - low > 1e-14:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return math.exp(high)


def discrete_delta(coordinates: int, sigma: float, shift: int, epsilon: float) -> float:
    """delta(epsilon) of ``coordinates`` discrete Gaussians of parameter sigma, each shifted by ``shift``, nearly exact.

    The log likelihood ratio of all coordinates is a function of their sum alone, so the composition is as private as
    the sum. That is within a factor e^(+-s) of one with parameter sigma sqrt(coordinates), s from
    ``convolution_slack``; its tails are summed exactly, and the factor is charged.
    """
    total = sigma * math.sqrt(coordinates)
    slack = convolution_slack(coordinates, sigma)
    if slack > _LARGEST_SLACK:
        raise NoiseError(f"sigma {sigma:g} is too small for exact lattice composition. Use the Renyi curve instead.")
    distance = coordinates * shift
    # P = sum around 0, Q = around distance; log P/Q at s is shift (distance - 2 s) / (2 sigma^2): P is bad at s <= cut
    cut = math.floor(distance / 2 - epsilon * sigma**2 / shift)
    # Beyond `far` both tails are 0 in double precision. The tail at `far` stands for those beyond it where an upper
    # bound is wanted, 0 where a lower one is, so that neither table nor time grows with epsilon.
    far = _far(total, distance)
    tails = log_tail_table(total, min(max(abs(cut), abs(cut - distance)), far) + 1)

    def below(value: int) -> float:
        """log Pr[Z <= value] = log Pr[Z >= -value], rounded up beyond `far`."""
        if value <= 0:
            return float(tails[min(-value, far)])
        return float(np.log1p(-np.exp(tails[value + 1]))) if value < far else 0.0

    low, high = below(cut), epsilon + (below(cut - distance) if abs(cut - distance) < far else -math.inf)
    return _difference(low + slack, high - slack, epsilon, total)


def _far(total: float, distance: int) -> int:
    return math.ceil(_FAR * total) + distance


@lru_cache(maxsize=4096)  # what is promised, what was spent and what a party charges are often one sum
def discrete_epsilon(coordinates: int, sigma: float, shift: int, delta: float) -> float:
    """Least epsilon at ``delta`` for the same composition: what integer noise really costs.

    For n histograms of which one vote moves, 2 n coordinates shifted by 1; for n scalars of which k votes move, n
    coordinates shifted by k. (For histograms of which k > 1 votes move, several patterns are possible and no proof is
    offered here that one of them dominates on the lattice: use the Renyi curve.)

    Raises NoiseError: sigma so small (below about 0.9) that a sum is not close to a discrete Gaussian.
    """
    check_delta(delta)
    n, sigma, k = check_count(coordinates, "coordinates"), check_scale(sigma, "sigma"), check_votes_moved(shift)
    return _least_epsilon(lambda epsilon: discrete_delta(n, sigma, k, epsilon), delta) if n else 0.0


def exact_epsilon(parts: Sequence[Composed], delta: float) -> float | None:
    """Least epsilon of a composition of releases as if what they are made of left whole, or None where no exact form is
    known.

    All noise has to be Gaussian and of one kind, and shares fine enough. Integer noise: one sigma, one vote that moves
    (or numbers only), and a lattice of at most `MOST_LATTICE` points.
    """
    used = [part for part in parts if part.releases]
    if not used:
        return 0.0
    if any(part.what == "laplace" for part in used) or len({(part.noise, part.votes_moved) for part in used}) > 1:
        return None
    noise, votes_moved, sigma = used[0].noise, used[0].votes_moved, used[0].sigma
    # counts that move by a vote: of a number one, of a histogram two for each vote that moves
    counts = [part.releases * (1 if part.what == "check" else 2 * votes_moved) for part in used]
    # Each probability is off by a factor within e^(+-slack): delta grows by one such factor, the loss by two.
    slack = sum(part.slack * count for part, count in zip(used, counts, strict=True))
    if slack > _LARGEST_SLACK:
        return None
    within, beyond = delta * math.exp(-slack), 2 * slack
    numbers = [part.what == "check" for part in used]
    if noise is Noise.CONTINUOUS:
        squared = sum(
            mu_squared(part.releases, part.sigma, votes_moved, scalar=scalar)
            for part, scalar in zip(used, numbers, strict=True)
        )
        return epsilon_of(squared, within) + beyond
    if len({part.sigma for part in used}) > 1 or (votes_moved > 1 and not all(numbers)):
        return None
    if sigma < 1 or _far(sigma * math.sqrt(sum(counts)), sum(counts) * votes_moved) > MOST_LATTICE:
        return None
    return discrete_epsilon(sum(counts), sigma, votes_moved, within) + beyond
