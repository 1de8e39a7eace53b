"""Exact tails of integer noise, as logarithms: at sigma 40 and a gap of 5,000 the tail is e^-3900.

Deployed noise is an integer, so two noisy counts can tie, and Pr[noise wins or ties] is larger than the continuous
formula says (ratio 1.02 to 1.04 at sigma 40, 1.17 at sigma 10). The tables here are exact up to rounding, and count a
tie as a loss of the plurality, whatever rule the mechanism uses to break it.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from consilium.accounting.checks import check_count, check_gap, check_orders, check_scale, check_table
from consilium.accounting.errors import NoiseError

_MOST_LONGER = 2**16
"""Entries by which a table that is kept may be longer than it has to be."""
_AT_ONCE = 1 << 16
"""Steps of a recursion."""
NO_SLACK = 1e-18
"""Of noise that is a sum: with a million queries less than rounding."""


def _frozen(values: np.ndarray) -> np.ndarray:
    values.setflags(write=False)
    return values


def _log_lattice_sum(sigma: float, shift: float) -> float:
    """log of the sum over integers x of exp(-(x + shift)^2 / (2 sigma^2)), 0 <= shift <= 1/2; the largest term is taken
    out, which with little noise is no double."""
    reach = math.ceil(12 * sigma) + 2
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    x += shift
    largest = -(shift**2) / (2 * sigma**2)
    exponents = _exponents(x, sigma)
    exponents -= largest
    return largest + math.log(float(np.sum(np.exp(exponents, out=exponents))))


def _exponents(x: np.ndarray, sigma: float) -> np.ndarray:
    """-x^2 / (2 sigma^2), in the place of x: with much noise there are millions."""
    np.square(x, out=x)
    x /= -2 * sigma**2
    return x


def _log_tails(log_pmf: np.ndarray, size: int) -> np.ndarray:
    """log of the sums from each index on, for the first ``size`` indices, by r[t] = 1 + r[t+1] pmf[t+1] / pmf[t], which
    stays of order sigma while the tail itself underflows. Not all steps, Python's numbers, are in memory at once."""
    ratio, last = 1.0, len(log_pmf) - 1
    ratios = np.empty(size)
    ratios[last:] = ratio
    for end in range(last, 0, -_AT_ONCE):
        start = max(0, end - _AT_ONCE)
        steps = np.exp(np.diff(log_pmf[start : end + 1]))[::-1].tolist()
        beyond = max(0, end - max(start, size))  # of these no ratio is asked for
        for step in steps[:beyond]:
            ratio = 1.0 + ratio * step
        wanted = []
        for step in steps[beyond:]:
            ratio = 1.0 + ratio * step
            wanted.append(ratio)
        ratios[start : start + len(wanted)] = wanted[::-1]
    return log_pmf[:size] + np.log(ratios)


@lru_cache(maxsize=64)
def _gaussian_tail(sigma: float, size: int) -> np.ndarray:
    # So far beyond what is asked that the terms left out are below e^-84 of the smallest tail in the table.
    reach = math.ceil(math.hypot(size, 13 * sigma)) + 2
    check_table(reach, "sigma", sigma)
    log_pmf = _exponents(np.arange(reach, dtype=np.float64), sigma)
    log_pmf -= _log_lattice_sum(sigma, 0.0)
    return _frozen(_log_tails(log_pmf, size))


def log_tail_table(sigma: float, max_value: int) -> np.ndarray:
    """log Pr[Z >= t] for t = 0..max_value, Z a discrete Gaussian: float64 (max_value + 1,), read-only. Pr[Z = z] is
    proportional to exp(-z^2 / (2 sigma^2)) on the integers (Canonne, Kamath, Steinke, arXiv 2004.00010, Definition
    1). ``sigma`` is that parameter, not the standard deviation (they agree to 1e-15 for sigma above 1.5).

    Raises NoiseError: sigma not above 0, or so large that no table is made (``checks.MOST_ENTRIES``). VotesError:
    max_value above ``checks.MOST_GAP``.
    """
    size = check_count(check_gap(max_value), "max_value") + 1
    # a few lengths of each sigma: a short table is the beginning of a long one, to the last digit
    most = min(1 << (size - 1).bit_length(), -(-size // _MOST_LONGER) * _MOST_LONGER)
    return _gaussian_tail(check_scale(sigma, "sigma"), most)[:size]


@lru_cache(maxsize=64)
def _gaussian_loss(sigma: float, max_gap: int) -> np.ndarray:
    # Z - Z' = d has probability exp(-d^2 / (4 sigma^2)) * S(d), S(d) = sum_x exp(-(x + d/2)^2 / sigma^2) / N^2,
    # by completing the square; S takes two values, for even and for odd d.
    check_table(max_gap + 19 * sigma, "sigma", sigma)
    gaps = np.arange(max_gap + math.ceil(19 * sigma) + 3, dtype=np.float64)
    wide = sigma / math.sqrt(2)
    parity = np.where(gaps % 2 == 0, _log_lattice_sum(wide, 0.0), _log_lattice_sum(wide, 0.5))
    log_pmf = -(gaps**2) / (4 * sigma**2) + parity - 2 * _log_lattice_sum(sigma, 0.0)
    return _frozen(_log_tails(log_pmf, max_gap + 1))


def log_pr_loss_table(sigma: float, max_gap: int) -> np.ndarray:
    """log Pr[Z - Z' >= D] for D = 0..max_gap, the votes by which the plurality leads a class: float64 (max_gap + 1,),
    read-only. Z and Z' are independent discrete Gaussians of parameter ``sigma``. Ties are counted as losses, so
    entry 0 is above 1/2.

    Raises NoiseError, EventError, VotesError: as ``log_tail_table``; max_gap negative.
    """
    return _gaussian_loss(check_scale(sigma, "sigma"), check_count(check_gap(max_gap), "max_gap"))


def log_pr_loss_table_laplace(gamma: float, max_gap: int) -> np.ndarray:
    """The same table for discrete Laplace noise, Pr[Z = z] proportional to exp(-gamma |z|): closed form. With p =
    e^-gamma: Pr[Z - Z' = d] = ((1-p)/(1+p))^2 p^d (d + (1+p^2)/(1-p^2)) for d >= 0, summed from D on."""
    gaps = np.arange(check_count(check_gap(max_gap), "max_gap") + 1, dtype=np.float64)
    p, q = math.exp(-check_scale(gamma, "gamma")), -math.expm1(-gamma)
    spread = (1 + p * p) / (-math.expm1(-2 * gamma))
    return 2 * math.log(q / (1 + p)) - gamma * gaps + np.log((gaps + spread) / q + p / q**2)


@lru_cache(maxsize=64)
def convolution_slack(terms: int, sigma: float) -> float:
    """How far a sum of ``terms`` discrete Gaussians of parameter ``sigma`` is from one of parameter sigma sqrt(terms).

    Largest |log ratio| of the two probabilities at any integer is at most 5 sum_{k=1}^{terms-1} exp(-2 pi^2 sigma^2 k /
    (k+1)): Kairouz, Liu, Steinke 2021 (arXiv 2102.06387), Proposition 13 applied term by term. The summands fall with
    k; beyond the first 1,000 the last of those stands for each.

    Raises NoiseError: sigma below 1/2, where the proposition does not hold.

    >>> convolution_slack(250, 40 / 250**0.5) < 1e-25, round(convolution_slack(250, 0.8), 3)
    (True, 0.016)
    """
    if check_scale(sigma, "sigma") < 0.5:
        raise NoiseError(f"sigma of one share is {sigma:g}, but the bound on their sum needs at least 0.5.")
    count = check_count(terms, "terms", 1) - 1
    k = np.arange(1, min(count, 1000) + 1)
    head = float(np.exp(-2 * math.pi**2 * sigma**2 * k / (k + 1)).sum())
    rest = max(0, count - 1000) * math.exp(-2 * math.pi**2 * sigma**2 * 1000 / 1001)
    return 5 * (head + rest)


def pair_slack(first: float, second: float) -> float:
    """The same of the sum of one discrete Gaussian of parameter ``first`` and one of ``second``, against one of
    parameter sqrt(first^2 + second^2): 5 exp(-2 pi^2 / (1 / first^2 + 1 / second^2)), the same Proposition 13.
    Raises NoiseError as well."""
    if min(check_scale(first, "sigma"), check_scale(second, "sigma")) < 0.5:
        raise NoiseError(f"noise of sigma {first:g} and {second:g}: the bound on its sum needs at least 0.5 each.")
    return 5 * math.exp(-2 * math.pi**2 / (1 / first**2 + 1 / second**2))


def slack_rdp(slack: float, votes_moved: int, orders: object) -> np.ndarray:
    """What one noisy histogram costs on top where the noise of a count is within e^(+-slack) of a discrete Gaussian:
    float64 (orders,).

    D_alpha grows by at most slack (2 alpha - 1) / (alpha - 1) for each count that changes, and one moved vote changes
    two. A winner costs no more on top: the noise of the counts that do not change may have any law, since the bound on
    the winner (``worst.renyi``) holds for every largest count of the others.
    """
    alpha = check_orders(orders)
    return 2 * votes_moved * slack * (2 * alpha - 1) / (alpha - 1)
