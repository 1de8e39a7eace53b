"""Noise brought to a lattice on which a supremum over all votes is a maximum over finitely many.

A supremum over all leads is wanted, and noise comes in two forms and in every size. Two steps bring every case to noise
on the integers with a parameter of some tens and centres on the integers (docs/accounting.md, "The worst case of what
leaves", has the proofs):

1. Of noise on a finer lattice (or on the reals) the residue modulo a spacing is *revealed*. That can only raise a
   divergence. Given the residues, what is left is again a discrete Gaussian, in units of the spacing, with a real
   centre.
2. A discrete Gaussian of parameter s with a real centre is a mixture, over integer centres, of ones with parameter
   sqrt(s^2 - TAU^2), up to a factor of e^(+-SLACK). Renyi moments and hockey-stick divergences are jointly convex, so
   each is at most its maximum over integer centres, at a little less noise.

Where the noise is an integer and small, neither step is taken: all integers are tried, and nothing is lost.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from consilium.accounting.units import Noise

TAU = 1.5
"""Standard deviation, in spacings, of the weights of the mixture."""
SLACK = 5 * math.exp(-2 * (math.pi * TAU) ** 2 * 0.99)
"""Bound on |log| of the ratio of a probability to that of the mixture, for one count: twice the first term of Poisson's
sum, 2 exp(-2 pi^2 t^2) with t^2 = TAU^2 (1 - TAU^2 / s^2), at least .99 TAU^2 for parameters s of 15 and more, and a
quarter for the terms behind it. 4e-19."""


class Lattice(NamedTuple):
    """Noise on the integers.

    scale : parameter of the discrete Gaussian.
    shift : by how much the centre of a count moves. Whole where the mixture was not used.
    slack : ``SLACK``, or 0 where the mixture was not used.
    """

    scale: float
    shift: float
    slack: float


def reduce(sigma: float, noise: Noise, votes: int, fine: float) -> Lattice:
    """The lattice for noise ``sigma`` on a count that moves by ``votes``.

    fine : the parameter to come near to, at least 24. Integer noise keeps its own up to 1.4 times that: beyond, the
        plane that is searched would take hundreds of megabytes.

    >>> reduce(40.0, Noise.DISCRETE, 1, 36.0)
    Lattice(scale=40.0, shift=1, slack=0.0)
    >>> [round(x, 3) for x in reduce(150.0, Noise.DISCRETE, 1, 36.0)[:2]]
    [37.47, 0.25]
    """
    if noise is Noise.CONTINUOUS:
        return Lattice(math.sqrt(fine**2 - TAU**2), votes * fine / sigma, SLACK)
    if sigma <= 1.4 * fine:
        return Lattice(sigma, votes, 0.0)
    spacing = max(2, round(sigma / fine))
    return Lattice(math.sqrt((sigma / spacing) ** 2 - TAU**2), votes / spacing, SLACK)


def mass(scale: float, step: int = 1, start: int = 0) -> float:
    """Sum of exp(-x^2 / (2 scale^2)) over x in start + step Z."""
    reach = step * (math.ceil(14 * scale / step) + 1)
    x = np.arange(start - reach, start + reach + 1, step, dtype=np.float64)
    return float(np.sum(np.exp(-(x**2) / (2 * scale**2))))


def tail(scale: float, reach: float) -> float:
    """Sum of exp(-x^2 / (2 scale^2)) over x = reach, reach + 1, ..."""
    x = reach + np.arange(math.ceil(14 * scale) + 2, dtype=np.float64)
    return float(np.sum(np.exp(-(x**2) / (2 * scale**2))))


def sums_from(weights: np.ndarray, axis: int = 0) -> np.ndarray:
    """Sums of non-negative weights from each index to the end: nothing cancels, so small sums keep their digits."""
    return np.flip(np.cumsum(np.flip(weights, axis), axis), axis)


@lru_cache(maxsize=32)
def both_tails(scale: float, shift: float, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Pr[c + Z >= 1] and Pr[c + Z <= 0] for centres c = first + shift, ..., last + shift: two float64, read-only.

    Z is a discrete Gaussian around the real centre c: the probability of x is proportional to exp(-(x - c)^2 / 2 s^2).
    """
    margin = math.ceil(14 * scale) + 2
    total = mass(scale)
    # c + Z >= 1 is Z' >= 1 - c with Z' on the lattice Z - c; both sides are sums over the same terms
    centres = np.arange(first, last + 1)
    x = np.arange(1 - last - margin, 1 - first + margin + 1) - shift
    weights = np.exp(-(x**2) / (2 * scale**2)) / total
    upper = sums_from(weights)[(1 - centres) - (1 - last - margin)]
    lower = np.cumsum(weights)[(0 - centres) - (1 - last - margin)]
    upper.setflags(write=False)
    lower.setflags(write=False)
    return upper, lower
