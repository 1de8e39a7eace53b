"""The immutable noisy argmax of the near-zero-cost paper: what it claims, and what is true.

The mechanism adds a constant c to the largest count and then noise, and returns the largest. Its paper charges it as if
the noise alone protected the votes: (2 gamma, 0)-DP per query, moments 2 gamma^2 l (l + 1), near 0 for small gamma.

That proof needs counts that change by 1 between neighbours. The counts after adding c do not: (126, 125) becomes
(126 + c, 125) and its neighbour (125, 126) becomes (125, 126 + c). The first returns class 0, the second class 1,
except with the probability that noise bridges a gap of c + 1. The true epsilon is at least log of that ratio, about (c
+ 1) gamma for Laplace noise: it grows without bound in c, and a small gamma with c much above 1/gamma, as recommended,
is the noiseless plurality. There is no finite worst-case guarantee that does not grow with c.

True part: where the gap exceeds 2, no neighbour changes the answer. But whether it does is itself private;
``accounting.curves.stable`` tests it privately and is the sound form of the idea.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from consilium.accounting.checks import check_count, check_delta, check_scale
from consilium.accounting.curves.conversion import EpsilonBound, Method, rdp_to_epsilon
from consilium.accounting.curves.discrete import log_pr_loss_laplace
from consilium.accounting.curves.gnmax import check_noise
from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.curves.orders import DEFAULT_ORDERS
from consilium.accounting.errors import NoiseError
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


def log_pr_flip(constant: int, scale: float, mechanism: str, noise: Noise | str) -> float:
    """log Pr[noise bridges the gap c + 1 between the two counts of the counterexample], ties included.

    scale : gamma (inverse scale) for "laplace", sigma for "gaussian".
    """
    gap = float(check_count(constant, "constant") + 1)
    lattice = check_noise(noise) is Noise.DISCRETE
    check_scale(scale, "scale")
    if mechanism == "laplace":
        x = scale * gap
        return float(log_pr_loss_laplace(scale, np.array(gap))) if lattice else math.log((2 + x) / 4) - x
    if mechanism == "gaussian":
        # On the lattice the erfc-shaped upper bound of ``sanitise.moved_votes``: more flips, so a smaller true epsilon.
        lead = (gap - 0.5 if lattice else gap) / (math.sqrt(2) * scale)
        return float(log_ndtr(-lead)) + (math.log1p(3 * math.exp(-((math.pi * scale) ** 2))) if lattice else 0.0)
    raise NoiseError(f"mechanism must be 'laplace' or 'gaussian', got {mechanism!r}.")


def actual_epsilon(constant: int, scale: float, mechanism: str, noise: Noise | str, delta: float = 0.0) -> float:
    """Lower bound on the true epsilon of ONE query, from the votes (126, 125) against (125, 126).

    Any epsilon below it is violated by the event "class 0 is returned": Pr under D is 1 - t, under D' at most t, so
    epsilon >= log((1 - t - delta) / t). More queries and classes only make it worse.

    Parameters
    ----------
    constant : c, added to the top count. scale : gamma or sigma, see ``log_pr_flip``. delta : at this delta (0 for
        pure).

    >>> [round(actual_epsilon(c, 0.05, "laplace", "continuous"), 2) for c in (0, 100, 1000, 10000)]
    [0.05, 4.47, 47.48, 495.22]
    """
    if delta:
        check_delta(delta)
    log_t = log_pr_flip(constant, scale, mechanism, noise)
    t = math.exp(log_t)
    if 1 - t - delta <= 0:
        return 0.0
    return max(0.0, float(np.log1p(-(t + delta))) - log_t)
