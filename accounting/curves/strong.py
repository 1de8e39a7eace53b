"""Composition without Renyi curves: what the PATE papers compare theirs with.

Every query is (pure, 0)-DP, whatever the votes are; for LNMax pure = 2 gamma k. They stand beside the moments in
tables. Nothing is charged by them: over many queries the exact Laplace curve (``curves.laplace.rdp_laplace``) is less.
"""

from __future__ import annotations

import math
from typing import Literal

from consilium.accounting.checks import check_count, check_delta, check_scale
from consilium.accounting.errors import AccountingError

Form = Literal["paper", "dwork", "optimal"]


def strong_composition(pure: float, releases: int, delta: float, form: Form = "paper") -> float:
    """Epsilon at ``delta`` of so many releases that are (pure, 0)-DP each, chosen adaptively.

    All have the term pure sqrt(2 n ln(1 / delta)); they differ in what stands beside it. dwork: n pure (e^pure - 1),
    Dwork, Rothblum, Vadhan 2010, Theorem III.3. paper: n pure^2, as Papernot et al. 2017 print it below Theorem 2
    (4 T gamma^2 + 2 gamma sqrt(2 T ln(1 / delta))) and the near-zero-cost paper below its Theorem 4; smaller than
    dwork, and still sound because the next is smaller. optimal: n pure tanh(pure / 2), the mean loss of randomised
    response (Kairouz, Oh, Viswanath 2015, Theorem 3.4).

    Parameters
    ----------
    pure : above 0. releases : n. delta : in (0, 1).

    Raises
    ------
    NoiseError, AccountingError, DeltaError : a number out of range.

    The papers' 5.80 and "about 26", and the least known for the same:

    >>> [round(strong_composition(0.1, n, delta), 2) for n, delta in ((100, 1e-5), (1000, 1e-6))]
    [5.8, 26.62]
    >>> [round(strong_composition(0.1, n, delta, "optimal"), 2) for n, delta in ((100, 1e-5), (1000, 1e-6))]
    [5.3, 21.62]
    """
    n = check_count(releases, "releases")
    check_scale(pure, "pure")
    beside = {"dwork": math.expm1(pure), "paper": pure, "optimal": math.tanh(pure / 2)}
    if form not in beside:
        raise AccountingError(f"form must be one of {', '.join(beside)}, got {form!r}.")
    return n * pure * beside[form] + pure * math.sqrt(2 * n * math.log(1 / check_delta(delta)))


def zero_concentrated(rho: float, delta: float) -> float:
    """Epsilon at ``delta`` of rho-zCDP: rho + 2 sqrt(rho ln(1 / delta)) (Bun, Steinke 2016, Proposition 1.3).

    Gaussian releases add up: n histograms of sigma and m numbers of sigma1 have rho = n / sigma^2 + m / (2 sigma1^2).
    It is the classic conversion of alpha rho at the best real order.

    Papernot et al. 2018 print 8.42 and 10.14 for what they call the standard advanced composition of two of their rows;
    this is what comes closest, for the two Confident rows:

    >>> rows = ((7824, 1500), (10762, 500))
    >>> [round(zero_concentrated(n / 100**2 + 12000 / (2 * s**2), 1e-8), 2) for n, s in rows]
    [8.39, 10.1]
    """
    return check_scale(rho, "rho") + 2 * math.sqrt(rho * math.log(1 / check_delta(delta)))
