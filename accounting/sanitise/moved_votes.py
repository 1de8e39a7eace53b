"""q of a histogram after d votes have moved, as far as d moves can push it.

Towards dissent, q grows most if every moved vote goes from the plurality to the runner-up: the tail is convex in the
gap, so spreading the votes does less. Towards consensus, q falls most if votes go from whichever rival is highest to
the plurality: the rivals are levelled from the top, like water poured out. Both ends are closed forms in d, so no vote
is walked.

On the lattice q is replaced by an upper bound of the same shape: for D >= 1, Pr[Z - Z' >= D] <= 1/2 erfc((D - 1/2) /
(2 sigma)), up to a factor 1 + 3 e^(-pi^2 sigma^2). (The density is convex beyond its inflexion, where the midpoint rule
is below the integral; inside, where it is concave, the same holds for the complement. The factor is a ratio of lattice
sums to integrals.) At D = 0 both are above 1/2, where Theorem 6 never applies: it needs q <= 1/e. The bound is within a
factor e^(1 / (2 sigma)) of the exact table up to a gap of 4 sigma, and keeps the smoothness of erfc that the
sensitivity theorem needs.

What one moved vote can do to q is read off erfc itself (``sanitise.sensitivity``), not off erfc times that factor,
and comes out too small by as much as the factor exceeds 1: at sigma 1 the bound on a cost was 1.70966 where the truth
was 1.70984. From sigma 2 on the factor is 1 in every digit of a double (3 e^(-4 pi^2) is 2e-17), so less is refused.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from consilium.accounting.curves.gnmax import check_noise
from consilium.accounting.errors import NoiseError
from consilium.accounting.units import Noise

LEAST_LATTICE_SIGMA = 2.0


def check_walkable(sigma: float, noise: Noise) -> None:
    """Refuse integer noise so small that moved votes are not bounded by the shape of erfc. Looks at no votes.

    Raises
    ------
    NoiseError : integer noise with sigma below 2.
    """
    if noise is Noise.DISCRETE and sigma < LEAST_LATTICE_SIGMA:
        raise NoiseError(
            f"sigma {sigma:g} of integer noise is below {LEAST_LATTICE_SIGMA:g}, where no bound on local sensitivity is"
            " proved. Take a larger sigma, or publish the worst case."
        )


def envelope_tails(sigma: float, max_gap: int, noise: Noise | str) -> np.ndarray:
    """log of the erfc-shaped bound by gap: float64 (max_gap + 1,). Continuous: the exact tail itself.

    Raises
    ------
    NoiseError : integer noise with sigma below 2, see ``check_walkable``.
    """
    gaps = np.arange(max_gap + 1, dtype=np.float64)
    if check_noise(noise) is Noise.CONTINUOUS:
        return log_ndtr(-gaps / (math.sqrt(2) * sigma))
    check_walkable(sigma, Noise.DISCRETE)
    return log_ndtr(-(gaps - 0.5) / (math.sqrt(2) * sigma)) + math.log1p(3 * math.exp(-(math.pi**2) * sigma**2))


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """log of the sum of exponentials over the last axis; -inf entries are fine, all -inf is not expected."""
    peak = logs.max(axis=-1)
    return peak + np.log(np.exp(logs - peak[..., None]).sum(axis=-1))


def sort_rows(votes: np.ndarray) -> np.ndarray:
    """Votes int64 (queries, classes), each row in descending order."""
    return -np.sort(-votes, axis=1)


def log_q_sorted(ordered: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """log q (not capped) of rows in descending order: float64 (queries,)."""
    return _log_sum(tails[ordered[:, :1] - ordered[:, 1:]])


def _runs(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct counts of each row and how often each occurs, padded with count 0 occurring 0 times.

    Most of 150 classes share a handful of small counts, so there is far less to look up than classes.
    """
    starts = np.concatenate((np.ones((len(ordered), 1), dtype=bool), np.diff(ordered, axis=1) != 0), axis=1)
    place = np.cumsum(starts, axis=1) - 1
    width = int(place.max(initial=0)) + 1
    flat = (np.arange(len(ordered))[:, None] * width + place).ravel()
    times = np.bincount(flat, minlength=len(ordered) * width).reshape(-1, width)
    counts = np.zeros(times.size, dtype=np.int64)
    counts[flat] = ordered.ravel()
    return counts.reshape(times.shape), times


def log_q_towards_dissent(ordered: np.ndarray, distances: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Largest log q within each distance: float64 (queries, distances).

    ordered : int64 (queries, classes), rows descending. Beyond the point where the first two classes meet, the value
        there stands for all larger distances; it is above every q at which Theorem 6 applies.
    """
    top, second = ordered[:, 0], ordered[:, 1]
    d = np.minimum(distances[None, :], ((top - second) // 2)[:, None])
    log_q = tails[(top - second)[:, None] - 2 * d]
    # The other classes fall behind the plurality by d only.
    if ordered.shape[1] > 2:
        counts, times = _runs(ordered[:, 2:])
        gaps = top[:, None] - counts
        peak = tails[np.maximum(gaps[:, :1] - d, 0)]
        total = np.zeros(d.shape)
        for column in range(counts.shape[1]):
            term = tails[np.maximum(gaps[:, column : column + 1] - d, 0)] - peak
            total += times[:, column : column + 1] * np.exp(term)
            # Columns descend, so once all that remain change nothing together, they can be left out.
            if term.max() < -60 - math.log(ordered.shape[1]):
                break
        log_q = np.logaddexp(log_q, peak + np.log(total))
    return log_q


def log_q_towards_consensus(ordered: np.ndarray, distances: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Smallest log q within each distance: float64 (queries, distances); -inf never, a unanimous row has the least.

    ordered : int64 (queries, classes), rows descending.
    """
    top, rivals = ordered[:, 0], ordered[:, 1:]
    size = rivals.shape[1]
    sums = np.cumsum(rivals, axis=1)
    following = np.concatenate((rivals[:, 1:], np.zeros((len(rivals), 1), dtype=rivals.dtype)), axis=1)
    # Votes to take until the first j rivals are level with the next one.
    to_level = sums - np.arange(1, size + 1) * following
    out = np.empty((len(ordered), len(distances)))
    for column, distance in enumerate(distances):
        d = np.minimum(distance, sums[:, -1])
        group = np.minimum((to_level < d[:, None]).sum(axis=1), size - 1)
        left = np.take_along_axis(sums, group[:, None], axis=1)[:, 0] - d
        count = group + 1
        level, remainder = left // count, left % count
        index = np.arange(size)
        counts = np.where(index <= group[:, None], level[:, None] + (index < remainder[:, None]), rivals)
        out[:, column] = _log_sum(tails[(top + d)[:, None] - counts])
    return out
