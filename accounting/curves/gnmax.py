"""GNMax: how likely is it that noise overturns the plurality of the votes?"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from consilium.accounting.checks import check_scale
from consilium.accounting.curves.discrete import log_pr_loss_table
from consilium.accounting.errors import NoiseError
from consilium.accounting.histogram import blocks
from consilium.accounting.units import Noise

_SMALLEST = 1e-280
"""Below this a sum of tails is taken in logarithms; above it doubles lose nothing."""


def log_tail_by_gap(sigma: float, max_gap: int, noise: Noise | str) -> np.ndarray:
    """log of the probability that a class D votes behind overtakes (or, on the lattice, ties): float64 (max_gap + 1,).

    continuous: 1/2 erfc(D / (2 sigma)). discrete: the exact table of ``accounting.curves.discrete``.
    """
    noise = check_noise(noise)
    if noise is Noise.DISCRETE:
        return log_pr_loss_table(sigma, max_gap)
    return log_ndtr(-np.arange(max_gap + 1) / (np.sqrt(2) * check_scale(sigma, "sigma")))


def check_noise(noise: Noise | str) -> Noise:
    """The noise as an enum member; never guessed, because q of the wrong noise is not an upper bound.

    Raises
    ------
    NoiseError : neither "discrete" nor "continuous".
    """
    try:
        return Noise(noise)
    except ValueError:
        raise NoiseError(f"noise must be 'discrete' or 'continuous', got {noise!r}.") from None


def log_q_cap(classes: int, noise: Noise) -> float:
    """log of the largest q that can occur.

    continuous: 1 - 1/m, since by symmetry no class is returned more often than the plurality. discrete: 1, because a
    rule that breaks ties by class number may favour a rival. Theorem 6 does not apply near either, so no cost differs.
    """
    return float(np.log1p(-1.0 / classes)) if noise is Noise.CONTINUOUS else 0.0


def log_q_from_tails(votes: np.ndarray, log_tails: np.ndarray) -> np.ndarray:
    """log of the union bound over all classes but the plurality, not capped: float64 (queries,).

    votes : int64 (queries, classes). log_tails : (largest gap + 1,), by gap. Not validated: use ``log_q_gnmax``.
    """
    queries = votes.shape[0]
    top = np.argmax(votes, axis=1)
    gaps = votes[np.arange(queries), top][:, None] - votes
    # The plurality must not count as its own rival: send it to an extra entry of probability 0.
    gaps[np.arange(queries), top] = log_tails.size
    tails = np.append(np.exp(log_tails), 0.0)
    q = tails[gaps].sum(axis=1)
    tiny = q < _SMALLEST
    log_q = np.log(np.where(tiny, 1.0, q))
    if tiny.any():
        logs = np.append(log_tails, -np.inf)[gaps[tiny]]
        peak = logs.max(axis=1)
        log_q[tiny] = peak + np.log(np.exp(logs - peak[:, None]).sum(axis=1))
    return log_q


def log_q_gnmax(votes: object, sigma: float, noise: Noise | str, teachers: int | None = None) -> np.ndarray:
    """log of an upper bound on Pr[GNMax does not return the plurality], for each query: float64 (queries,), secret.

    q = sum over j other than the top of Pr[noise lifts j to the top's height], capped as in ``log_q_cap``. Papernot et
    al. 2018, Proposition 7 (Lemma 3 of the first version); on the lattice with ties as losses.

    Parameters
    ----------
    votes : signed integers (queries, classes), read in blocks, so it may be memory-mapped.
    sigma : noise on one count.
    noise : "discrete" (deployed) or "continuous" (as in the paper). Required.
    teachers : if given, rows are checked to sum to it.

    Raises
    ------
    VotesError, NoiseError.

    >>> log_q_gnmax(np.array([[250, 0, 0], [126, 124, 0]]), 40.0, "continuous").round(6).tolist()
    [-11.523306, -0.695432]
    >>> log_q_gnmax(np.array([[250, 0, 0], [126, 124, 0]]), 40.0, "discrete").round(6).tolist()
    [-11.482712, -0.687801]
    """
    noise = check_noise(noise)
    check_scale(sigma, "sigma")
    array = np.asarray(votes)
    out = np.empty(array.shape[0] if array.ndim else 0)
    for part, block in blocks(array, teachers):
        log_q = log_q_from_tails(block, log_tail_by_gap(sigma, int(block.max()), noise))
        out[part] = np.minimum(log_q, log_q_cap(block.shape[1], noise))
    return out
