"""Gaussian releases of a random subset of the rows, for rivals that gain from sampling. Consilium's own mechanisms
claim no such gain: whose votes are in a sum is known to who collects them.

sigma is in units of the L2 distance that one row of the *subset* moves what is released by. The subset is drawn anew
for each release, and nobody learns who is in it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, logsumexp

from consilium.accounting.checks import check_count, check_scale
from consilium.accounting.curves.conversion import rdp_to_epsilon
from consilium.accounting.errors import NoiseError
from consilium.accounting.units import Neighbouring

ORDERS = np.arange(2, 129, dtype=np.float64)
"""The formula is for whole orders."""


def rdp_subsampled_gaussian(share: float, sigma: float, neighbouring: Neighbouring) -> np.ndarray:
    """Renyi curve at `ORDERS` of one release of a subset in which each row is with probability ``share``, by itself:
    float64 (127,).

    add_or_remove: Mironov, Talwar, Zhang 2019, arXiv 1908.10530, section 3.3. replace: the row goes, and another comes,
    joined by the weak triangle inequality (Mironov 2017, arXiv 1702.07476, Proposition 11); an upper bound.

    Raises
    ------
    NoiseError : sigma is no positive number, or the share is not above 0 and at most 1.

    >>> curve = rdp_subsampled_gaussian(1.0, 5.0, Neighbouring.ADD_OR_REMOVE)
    >>> round(float(curve[0]), 4), round(float(rdp_subsampled_gaussian(0.1, 5.0, Neighbouring.REPLACE)[0]), 6)
    (0.04, 0.001848)
    """
    check_scale(sigma, "sigma")
    if not 0 < share <= 1:
        raise NoiseError(f"the share of the rows in a subset must be above 0 and at most 1, got {share!r}. Correct it.")
    if neighbouring is Neighbouring.ADD_OR_REMOVE:
        return _one_row(share, sigma, ORDERS)
    gone, come = _one_row(share, sigma, 2 * ORDERS), _one_row(share, sigma, 2 * ORDERS - 1)
    return (ORDERS - 0.5) / (ORDERS - 1) * gone + come


def _one_row(share: float, sigma: float, orders: np.ndarray) -> np.ndarray:
    """Curve of a row that comes or goes, at whole orders from 2 on."""
    whole = orders / (2 * sigma**2)
    if share == 1:
        return whole
    k, alpha = np.arange(orders[-1] + 1), orders[:, None]
    inside = k <= alpha
    others = np.where(inside, alpha - k, 0)
    choose = gammaln(alpha + 1) - gammaln(k + 1) - gammaln(others + 1)
    terms = choose + others * math.log1p(-share) + k * math.log(share) + k * (k - 1) / (2 * sigma**2)
    found = logsumexp(np.where(inside, terms, -np.inf), axis=1) / (orders - 1)
    # sampling never costs more than taking all rows; logarithms of factorials are good to a part in a billion
    return np.minimum(found * (1 + 1e-9) + 1e-11, whole)


def subsampled_epsilon(share: float, sigma: float, releases: int, neighbouring: Neighbouring, delta: float) -> float:
    """Epsilon at ``delta`` of so many releases, each of a fresh subset. Arguments as `rdp_subsampled_gaussian`.

    >>> round(subsampled_epsilon(0.01, 2.0, 300, Neighbouring.ADD_OR_REMOVE, 1e-5), 3)
    0.372
    """
    curve = check_count(releases, "releases") * rdp_subsampled_gaussian(share, sigma, neighbouring)
    return rdp_to_epsilon(curve, ORDERS, delta).epsilon


def subsampled_sigma(share: float, releases: int, neighbouring: Neighbouring, epsilon: float, delta: float) -> float:
    """The least sigma (to one part in a thousand, rounded up) at which so many releases cost ``epsilon`` at most.

    >>> sigma = subsampled_sigma(0.1, 300, Neighbouring.REPLACE, 1.0, 1e-5)
    >>> subsampled_epsilon(0.1, sigma, 300, Neighbouring.REPLACE, 1e-5) <= 1.0
    True
    """
    low = high = 1.0
    while subsampled_epsilon(share, high, releases, neighbouring, delta) > epsilon:
        low, high = high, 2 * high
    while low == high or subsampled_epsilon(share, low, releases, neighbouring, delta) <= epsilon:
        low /= 2
        if low < 1e-3:
            return high
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if subsampled_epsilon(share, middle, releases, neighbouring, delta) <= epsilon else (
            middle, high
        )  # fmt: skip
    return high
