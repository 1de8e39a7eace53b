"""The noisy threshold check of the Confident and Interactive aggregators."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
from scipy.special import log_ndtr

from consilium.accounting.checks import check_scale
from consilium.accounting.curves.discrete import log_tail_table
from consilium.accounting.curves.gnmax import check_noise
from consilium.accounting.errors import ThresholdError, VotesError
from consilium.accounting.units import Noise


def check_threshold(threshold: object) -> float:
    """A finite number of votes, at least 0. Above the number of teachers is allowed: it answers rarely, exactly.

    Raises
    ------
    ThresholdError : NaN, infinite, not a number, or negative.
    """
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not math.isfinite(threshold) or threshold < 0:
        raise ThresholdError(f"threshold must be a finite number of votes, at least 0, got {threshold!r}.")
    return float(threshold)


def public_offsets(probabilities: object, teachers: int) -> np.ndarray:
    """M p_j of the Interactive aggregator, rounded half up to whole votes: int64 (queries, classes).

    The rounding is done on the public number before any vote is subtracted. Rounding the difference instead can turn
    one moved vote into a change of 2, when float spacing changes between the two differences.

    probabilities : float64 (queries, classes), the student's public class probabilities, each in [0, 1].

    >>> public_offsets([[0.5, 0.3, 0.2]], 5).tolist()
    [[3, 2, 1]]
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or not np.all((p >= 0) & (p <= 1)):
        raise ThresholdError("student probabilities must be a (queries, classes) matrix within [0, 1]. Normalise them.")
    return np.floor(teachers * p + 0.5).astype(np.int64)


def log_pr_answered(
    top_votes: object, threshold: float, sigma1: float, noise: Noise | str
) -> tuple[np.ndarray, np.ndarray]:
    """log Pr[top + noise >= threshold] and log of its complement: two float64 (queries,), secret.

    Both are computed on their own, so that neither loses digits when the other is near 1.

    Parameters
    ----------
    top_votes : int64 (queries,), largest count of each query (or max_j(n_j - M p_j), which may be negative).
    threshold : votes; for discrete noise a fraction is rounded up, which changes no outcome.
    sigma1 : noise of the check.
    noise : "discrete" or "continuous". Required.

    Raises
    ------
    ThresholdError, NoiseError, VotesError.

    >>> p, not_p = log_pr_answered([200, 230], 200.0, 150.0, "continuous")
    >>> np.exp(p).round(4).tolist(), np.exp(not_p).round(4).tolist()
    ([0.5, 0.5793], [0.5, 0.4207])
    """
    limit, sigma1, noise = check_threshold(threshold), check_scale(sigma1, "sigma1"), check_noise(noise)
    top = np.atleast_1d(np.asarray(top_votes))
    if top.ndim != 1 or (top.size and not np.issubdtype(top.dtype, np.signedinteger)):
        raise VotesError(f"top votes must be a vector of signed integers, got {top.dtype} in {top.ndim} dimension(s).")
    if noise is Noise.CONTINUOUS:
        z = (top - limit) / sigma1
        return log_ndtr(z), log_ndtr(-z)
    need = math.ceil(limit) - top.astype(np.int64)
    reach = int(np.abs(need).max(initial=0)) + 1
    tails = log_tail_table(sigma1, reach)
    # Pr[Z >= t] for t <= 0 is 1 - Pr[Z >= 1 - t], by symmetry.
    upper = np.where(need > 0, tails[np.abs(need)], np.log1p(-np.exp(tails[np.abs(1 - need)])))
    lower = np.where(need > 0, np.log1p(-np.exp(tails[np.abs(need)])), tails[np.abs(1 - need)])
    return upper, lower


def log_q_threshold(top_votes: object, threshold: float, sigma1: float, noise: Noise | str) -> np.ndarray:
    """log of the probability of the less likely of answer and abstention: float64 (queries,), secret.

    This is q for Theorem 6 on the check (with ``scalar=True``), Papernot et al. 2018, Section 3.2.

    >>> log_q_threshold([230], 200.0, 150.0, "discrete").round(4).tolist()
    [-0.8688]
    """
    return np.minimum(*log_pr_answered(top_votes, threshold, sigma1, noise))
