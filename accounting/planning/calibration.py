"""Parameters of a Confident run that keep its worst-case epsilon below a target. Never looks at private votes.

The worst case is linear in the order: n queries asked and at most M answered cost alpha r with r = k^2 (n / (2
sigma1^2) + M / sigma2^2). So the target epsilon fixes r, and what is left to choose is how r is split between check
and label, how many answers to allow, and the threshold. They are scored on public votes, or on a made-up consensus
profile.

Also what the noise does to the labels. All are functions of votes, so secret on private ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from consilium.accounting.checks import blocks, check_count, check_delta, check_scale
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.gaussian import (
    log_pr_answered,
    log_q_gnmax,
    log_q_threshold,
    rdp_data_dependent,
    sum_rdp_data_dependent,
)
from consilium.accounting.errors import CalibrationError, VotesError
from consilium.accounting.units import Noise

_NODES, _MASSES = np.polynomial.hermite_e.hermegauss(48)
_WEIGHTS = _MASSES / _MASSES.sum()
_QUANTILES = 256


def pr_label(votes: np.ndarray, sigma: float, label: np.ndarray | None = None) -> np.ndarray:
    """Pr[GNMax returns ``label``] for each query: float64 (queries,), by Gauss-Hermite quadrature (48 nodes).

    votes : signed integers (queries, classes). label : int (queries,), the plurality if None. Continuous noise; the
    lattice changes this in the fourth digit at most at the scales in use.

    >>> pr_label(np.array([[126, 124], [250, 0]]), 40.0).round(4).tolist()
    [0.5141, 1.0]
    """
    array = np.asarray(votes)
    wanted = array.argmax(axis=1) if label is None else np.asarray(label)
    check_scale(sigma, "sigma")
    out = np.empty(array.shape[0])
    for part, block in blocks(array, None):
        rows = np.arange(block.shape[0])
        lead = (block[rows, wanted[part]][:, None] - block).astype(np.float64) / sigma
        lead[rows, wanted[part]] = np.inf
        wins = np.zeros((block.shape[0], _NODES.size))
        for column in range(block.shape[1]):
            wins += log_ndtr(lead[:, column : column + 1] + _NODES)
        out[part] = np.exp(wins) @ _WEIGHTS
    return out


def pr_label_laplace(votes: np.ndarray, gamma: float, label: np.ndarray | None = None) -> np.ndarray:
    """Pr[LNMax returns ``label``] for each query: float64 (queries,), a mean over 256 quantiles of the label's noise.

    votes, label : as in ``pr_label``. gamma : inverse scale of the noise, continuous. Right to 5e-4.

    >>> pr_label_laplace(np.array([[126, 124], [250, 0]]), 0.05).round(3).tolist()
    [0.525, 1.0]
    """
    array = np.asarray(votes)
    wanted = array.argmax(axis=1) if label is None else np.asarray(label)
    rate = check_scale(gamma, "gamma")
    share = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    noise = np.where(share < 0.5, np.log(2 * share), -np.log(2 * (1 - share)))
    out = np.empty(array.shape[0])
    for part, block in blocks(array, None):
        rows = np.arange(block.shape[0])
        lead = (block[rows, wanted[part]][:, None] - block) * rate
        lead[rows, wanted[part]] = np.inf
        wins = np.ones((block.shape[0], _QUANTILES))
        for column in range(block.shape[1]):
            ahead = lead[:, column : column + 1] + noise
            tail = np.exp(-np.abs(ahead)) / 2
            wins *= np.where(ahead < 0, tail, 1 - tail)
        out[part] = wins.mean(axis=1)
    return out


PROFILES: dict[str, tuple[float, ...]] = {
    "strong": (0.55, 0.75, 0.85, 0.9, 0.94, 0.96, 0.98, 0.99, 1.0, 1.0),
    "typical": (0.3, 0.45, 0.6, 0.7, 0.78, 0.85, 0.9, 0.94, 0.97, 1.0),
    "weak": (0.2, 0.28, 0.35, 0.42, 0.5, 0.58, 0.66, 0.75, 0.85, 0.95),
}
"""Share of the teachers that back the plurality, at ten equally likely kinds of query. Made up, and public."""

_CHECK_SHARES = (0.03, 0.06, 0.1, 0.2, 0.35, 0.5)
_ANSWER_SHARES = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
_THRESHOLD_SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)
_LEAST_ACCURACY = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One way to run, and what to expect of it on the public votes.

    threshold, sigma1, sigma2 : of the Confident aggregator. asked_cap, answered_cap : fixed before the run.
    epsilon : what the query budget guarantees. answered : expected answers, at most the cap. accuracy : expected share
    of
        answers that are the truth (or the plurality, if the truth is not known). epsilon_if_alike : data-dependent
        epsilon *if* private votes looked like the public ones; a forecast, no guarantee.
    """

    threshold: float
    sigma1: float
    sigma2: float
    asked_cap: int
    answered_cap: int
    epsilon: float
    answered: float
    accuracy: float
    epsilon_if_alike: float

    @property
    def score(self) -> float:
        """Expected right answers minus wrong ones."""
        return self.answered * (2 * self.accuracy - 1)


def profile_votes(profile: str, teachers: int, classes: int) -> np.ndarray:
    """Made-up public votes int64 (10, classes): six tenths of the dissent on one rival, the rest spread evenly.

    Raises
    ------
    CalibrationError : unknown profile.

    >>> profile_votes("typical", 100, 4)[2].tolist()
    [60, 24, 8, 8]
    """
    if profile not in PROFILES:
        raise CalibrationError(f"unknown consensus profile {profile!r}; known: {', '.join(PROFILES)}.")
    rows = np.zeros((len(PROFILES[profile]), classes), dtype=np.int64)
    for row, share in zip(rows, PROFILES[profile], strict=True):
        top = math.ceil(max(share * teachers, teachers / classes))
        row[0] = top
        rest = teachers - top
        if classes == 2:
            row[1] = rest
            continue
        row[1] = min(top, max(math.floor(0.6 * rest), math.ceil(rest / (classes - 1))))
        left = rest - int(row[1])
        spread, extra = divmod(left, classes - 2)
        row[2:] = spread
        row[2 : 2 + extra] += 1
    return rows


def budget(epsilon: float, delta: float) -> float:
    """Largest r for which the curve alpha r costs at most ``epsilon`` (CKS): what a whole run may spend.

    >>> round(budget(1.0, 1e-5), 5)
    0.03056
    """
    if not epsilon > 0 or math.isinf(epsilon):
        raise CalibrationError(f"epsilon must be finite and above 0, got {epsilon!r}.")
    check_delta(delta)

    def excess(log_rate: float) -> float:
        return rdp_to_epsilon(math.exp(log_rate) * DEFAULT_ORDERS, DEFAULT_ORDERS, delta).epsilon - epsilon

    if excess(-30.0) > 0:
        raise CalibrationError(f"epsilon {epsilon:g} at delta {delta:g} is out of reach. Raise one of them.")
    from scipy.optimize import brentq  # a fifth of a second to import, in each process of a node

    rate = math.exp(float(brentq(excess, -30.0, 12.0, xtol=1e-12)))  # pyright: ignore[reportArgumentType]
    return rate * (1 - 1e-9)


def _settings(
    votes: np.ndarray,
    truth: np.ndarray | None,
    teachers: int,
    rate: float,
    delta: float,
    queries: int,
    k: int,
    noise: Noise,
) -> Iterator[Setting]:
    top = votes.max(axis=1).astype(np.int64)
    scale = queries / votes.shape[0]
    for answer_share in _ANSWER_SHARES:
        cap = max(1, round(answer_share * queries))
        for check_share in _CHECK_SHARES:
            sigma1 = k * math.sqrt(queries / (2 * check_share * rate))
            sigma2 = k * math.sqrt(cap / ((1 - check_share) * rate))
            # Rounded up to three digits: parameters are meant to be read, and more noise never costs more.
            sigma1, sigma2 = _round_up(sigma1), _round_up(sigma2)
            right = pr_label(votes, sigma2, truth)
            spent = k * k * (queries / (2 * sigma1**2) + cap / sigma2**2)
            worst = rdp_to_epsilon(spent * DEFAULT_ORDERS, DEFAULT_ORDERS, delta).epsilon
            for threshold_share in _THRESHOLD_SHARES:
                threshold = float(round(threshold_share * teachers))
                pass_ = np.exp(log_pr_answered(top, threshold, sigma1, noise)[0])
                reached = float(pass_.sum()) * scale
                used = min(1.0, cap / reached) if reached > 0 else 1.0
                check = sum_rdp_data_dependent(
                    log_q_threshold(top, threshold, sigma1, noise), sigma1, DEFAULT_ORDERS, k, scalar=True
                )
                label = pass_ @ rdp_data_dependent(log_q_gnmax(votes, sigma2, noise), sigma2, DEFAULT_ORDERS, k)
                alike = scale * used * (check + label)
                yield Setting(
                    threshold=threshold,
                    sigma1=sigma1,
                    sigma2=sigma2,
                    asked_cap=queries,
                    answered_cap=cap,
                    epsilon=worst,
                    answered=reached * used,
                    accuracy=float(pass_ @ right / pass_.sum()) if reached > 0 else 0.0,
                    epsilon_if_alike=rdp_to_epsilon(alike, DEFAULT_ORDERS, delta).epsilon,
                )


def _round_up(value: float) -> float:
    digit = 10 ** (math.floor(math.log10(value)) - 2)
    return float(math.ceil(value / digit) * digit if digit >= 1 else math.ceil(value / digit) / round(1 / digit))


def calibrate(
    public_votes: np.ndarray,
    teachers: int,
    epsilon: float,
    delta: float,
    queries: int,
    *,
    votes_moved: int = 1,
    noise: Noise = Noise.DISCRETE,
    truth: np.ndarray | None = None,
    alternatives: int = 5,
) -> list[Setting]:
    """Settings whose worst case stays below ``epsilon``, best first; the first is the recommendation.

    Best is the largest expected number of right answers minus wrong ones among settings with at least 80 % accuracy (or
    among all, if none reaches that). The alternatives answer clearly different numbers of queries.

    Parameters
    ----------
    public_votes : signed integers (rows, classes), standing in for the private votes; weighted up to ``queries``.
    votes_moved : k, votes that one unit of privacy moves. truth : int (rows,), right classes, if known.

    Raises
    ------
    CalibrationError : the target is out of reach. VotesError, DeltaError.
    """
    votes = np.asarray(public_votes)
    check_count(queries, "queries", 1, CalibrationError)
    if votes.ndim != 2 or not votes.shape[0]:
        raise VotesError("public votes must be a non-empty (rows, classes) matrix.")
    rate = budget(epsilon, delta)
    found = sorted(
        _settings(votes, truth, teachers, rate, delta, queries, votes_moved, noise), key=lambda s: s.score, reverse=True
    )
    good = [s for s in found if s.accuracy >= _LEAST_ACCURACY] or found
    chosen = [good[0]]
    for setting in [*good, *found]:
        if len(chosen) > alternatives:
            break
        if all(
            abs(setting.answered - other.answered) > 0.15 * max(setting.answered, other.answered) for other in chosen
        ):
            chosen.append(setting)
    return chosen
