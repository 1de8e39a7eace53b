"""The privacy profile of one release beside a Gaussian release, in the worst case over all votes.

Alone, the profile of a winner (the largest hockey-stick divergence over all leads) is that of the histogram: for every
epsilon there is a lead at which the winner is the very event that tells most. No single lead is bad at every epsilon,
and this is where the gain is; it shows as soon as something smooths the profile. So each release is looked at together
with an imagined Gaussian release of parameter ``beside`` (``worst.compose`` says what it is good for).

With V(gamma) the profile of that Gaussian, gamma = e^epsilon, the profile of both together is sum_j p_j V(gamma q_j /
p_j): jointly convex in (p, q), increasing in p by at most 1 and decreasing in q by at most gamma, so the same places of
the same channel bound it (docs/accounting.md, "The worst case of what leaves"). All is rounded up.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from consilium.accounting.curves.near_zero import ROUNDING
from consilium.accounting.units import Noise
from consilium.accounting.worst.channel import (
    Pairs,
    Reach,
    check_line,
    check_tail,
    difference,
    duel_line,
    duel_tail,
    planes,
    third_tail,
)
from consilium.accounting.worst.check import FINE_LINE
from consilium.accounting.worst.lattice import Lattice, reduce
from consilium.accounting.worst.supremum import envelope

FINE = 24.0
"""Parameter of the lattice of two counts. A profile costs more to evaluate than a moment, so it is coarser than there:
.4 % of what a release adds."""
_SUMS = 3 * ROUNDING
"""Relative rounding of sums of at most 2,000 positive terms."""


def gaussian_profile(mu: float, gammas: np.ndarray | np.floating) -> np.ndarray:
    """delta of a Gaussian release with distance ``mu``, as a function of gamma: float64, shape of gammas."""
    losses = np.log(gammas) / mu
    return ndtr(mu / 2 - losses) - gammas * ndtr(-mu / 2 - losses)


def _largest(pairs: Pairs, beside: float, gammas: np.ndarray) -> np.ndarray:
    """max over places of sum_j p_j V(gamma q_j / p_j), for gammas of at least 1.

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

    return envelope(rest, facts, gammas) + part * gaussian_profile(beside, gammas)


def check_profile(sigma: float, noise: Noise, votes: int, beside: float, gammas: np.ndarray, far: float) -> np.ndarray:
    """delta of one threshold check beside the Gaussian, at increasing ``gammas``: float64 (gammas,)."""
    lattice, reach = reduce(sigma, noise, votes, FINE_LINE), Reach(far, 0.0)
    tails = (check_tail(lattice, reach) + 2 * lattice.slack) * (1 + gammas)
    found = _largest(check_line(lattice, reach), beside, gammas)
    return np.maximum(found, gaussian_profile(beside, gammas)) + tails


def argmax_profile(
    sigma: float, noise: Noise, together: int, beside: float, gammas: np.ndarray, far: float
) -> np.ndarray:
    """delta of one released winner beside the Gaussian; the move carries ``together`` ballots: float64 (gammas,)."""
    lattice, reach = reduce(sigma, noise, together, FINE), Reach(far, 0.0)
    found = np.maximum(
        _largest(check_line(lattice, reach), beside, gammas), _largest(duel_line(lattice, reach), beside, gammas)
    )
    for plane in planes(lattice, reach):
        found = np.maximum(found, _largest(plane, beside, gammas))
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
