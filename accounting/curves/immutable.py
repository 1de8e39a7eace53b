"""The immutable noisy argmax of the near-zero-cost paper: what it claims, and what is true.

The mechanism adds a constant c to the largest count and then noise, and returns the largest. Its paper charges it as if
the noise alone protected the votes: (2 gamma, 0)-DP per query, moments 2 gamma^2 l (l + 1), near 0 for small gamma.

That proof needs counts that change by 1 between neighbours. The counts after adding c do not: (126 + c, 125) and
(125, 126 + c) are neighbours, and return different classes unless noise bridges a gap of c + 1. So the true epsilon is
about (c + 1) gamma for Laplace noise, and grows without bound in c.
"""

from __future__ import annotations

from consilium.accounting.checks import check_count
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, EpsilonBound, Method, rdp_to_epsilon
from consilium.accounting.curves.gaussian import rdp_gaussian
from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.units import Noise


def claimed_epsilon(
    queries: int, gamma: float, delta: float, orders: object = DEFAULT_ORDERS, method: Method = "classic"
) -> EpsilonBound:
    """The epsilon that the near-zero-cost paper states (Theorem 4, moments 2 gamma^2 l (l+1)). NOT a guarantee.

    >>> round(claimed_epsilon(9000, 1e-10, 1e-5).epsilon, 4)
    0.0231
    """
    each = rdp_laplace(gamma, orders, noise=Noise.CONTINUOUS, baseline="paper")
    return rdp_to_epsilon(check_count(queries, "queries") * each, orders, delta, method)


def claimed_epsilon_gaussian(
    queries: int, sigma: float, delta: float, orders: object = DEFAULT_ORDERS, method: Method = "classic"
) -> EpsilonBound:
    """What the same paper states for Gaussian noise, by the curve alpha / sigma^2 of the noise alone. NOT a guarantee.

    >>> round(claimed_epsilon_gaussian(9000, 1e5, 1e-5).epsilon, 4)
    0.0235
    """
    each = rdp_gaussian(sigma, orders)
    return rdp_to_epsilon(check_count(queries, "queries") * each, orders, delta, method)
