"""Nodes at which the position of the winning noisy count is summed, and how far such a sum can be from the truth.

The probability that class j wins is a sum (integer noise) or an integral over x, the height of the winner: the density
of count j at x times, for each other class, the probability of staying below. Three rules:

discrete Laplace    every integer: nothing is approximated.
Gaussian            the trapezoidal rule. For z = x + iy both |density(z)| <= e^(y^2/2s^2) density(x) and
                    |Phi(z)| <= e^(y^2/2s^2) Phi(x) hold (the second from Phi(z) = integral over t >= 0 of
                    density(z - t)), for integer noise as well, whose tail is the same with a sum over t. A class 3 s
                    or more below x also has |Phi(z)| <= 1 + e^(y^2/2s^2) Phi(-3). So with N classes near, in the strip
                    |y| <= d, the integrand grows by at most e^((N+1) d^2/2s^2) times the far ones' share, and the
                    trapezoidal error is at most 2 / (e^(2 pi d/h) - 1) times that, relative to the probability itself
                    (Trefethen and Weideman, SIAM Review 2014, Theorem 5.1). A sum over every h-th integer is compared
                    with the sum over all through the same integral. Where more classes come near, deep below, hardly
                    any of the probability lies: e^-a^2 at a s below the midpoint of a class and the plurality.
continuous Laplace  Gauss-Legendre within each unit, as densities have kinks at integers only. A factor grows by at
                    most e^(gamma R) within distance R, so all m by e^(m gamma R): the error follows from the largest
                    value in a Bernstein ellipse (Trefethen, SIAM Review 2008, Theorem 4.5).

``ERROR`` bounds all of them, and the tails that are cut off, relative to each probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from consilium.accounting.units import Noise

ERROR = 2e-11
"""Relative error of each probability, of the rule and of the tails cut off together."""

_RULE = 1e-11
_FAR = 3.0
_LOW, _HIGH = 6.5, 8.0
_DEEPER = 3.0
_LAPLACE_LOW, _LAPLACE_HIGH = 16.0, 30.0


@dataclass(frozen=True, slots=True)
class NodeRule:
    """Nodes around an integer lattice: ``stride`` integers apart, or several ``offsets`` after each integer.

    offsets, weights : float64 (per unit,). stride : integers from one node to the next; 1 if there are several offsets.
    """

    stride: int
    offsets: tuple[float, ...]
    weights: tuple[float, ...]


def reach(kind: str, scale: float, gap: int) -> tuple[int, int]:
    """Integers below and above the largest count between which the winner lies, for every class within ``gap`` of it.

    Outside lies less than 1e-12 of each class's probability of winning. Gaussian: a class D behind that wins does so
    around D/2, with deviations that fall at least like two squared Gaussians. Laplace: below the class's own count both
    it and the plurality decay.
    """
    if kind == "laplace":
        return -math.ceil(gap + _LAPLACE_LOW / scale) - 2, math.ceil(_LAPLACE_HIGH / scale) + 2
    return -math.ceil(gap / 2 + _LOW * scale) - 2, math.ceil(_HIGH * scale) + 2


def near_classes(gaps: np.ndarray, scale: float) -> np.ndarray:
    """How many classes of each query are not 3 s below 9.5 s under the midpoint: int64 (queries,). Gaussian noise."""
    lowest = -(gaps.max(axis=1) / 2 + (_LOW + _DEEPER) * scale) - 4
    return np.count_nonzero(gaps + lowest[:, None] < _FAR * scale, axis=1)


def _growth(y: np.ndarray, d: np.ndarray) -> np.ndarray:
    """log of the most by which |Phi| exceeds Phi(y) at imaginary part d; both in units of s."""
    return np.minimum(d**2 / 2, np.log1p(np.exp(d**2 / 2) * ndtr(-y)) - np.log(ndtr(y)))


@lru_cache(maxsize=4096)
def largest_step(near: int, classes: int) -> float:
    """Largest step in units of s whose trapezoidal error is below 1e-11: the least over strips of half-width d s.

    >>> round(largest_step(10, 10), 3), round(largest_step(150, 150), 3)
    (0.272, 0.07)
    """
    d = np.geomspace(0.02, 8.0, 400)
    # the winner's own density grows as well, whether its class is near or not
    grown = min(near + 1, classes) * d**2 / 2 + (classes - near) * _growth(np.array(_FAR), d)
    # deeper, where more classes come near, the law of the winner falls by e^-depth^2
    depth = np.linspace(0.0, 20.0, 201)[:, None]
    tail = near * d**2 / 2 + (classes - near) * _growth(_FAR - depth, d) - (_LOW + _DEEPER + depth) ** 2
    grown = np.where((tail < math.log(_RULE)).all(axis=0), grown, np.inf)
    # two sums are compared with one integral, hence 4 rather than 2
    return float(np.max(2 * math.pi * d / np.logaddexp(0.0, grown + math.log(4 / _RULE))))


@lru_cache(maxsize=256)
def _gauss_legendre(growth: float) -> NodeRule:
    """Fewest nodes in a unit for an integrand that grows by e^(growth R) within distance R."""
    rho = np.geomspace(1.5, 400.0, 300)
    log_most = growth * ((rho + 1 / rho) / 4 + 0.5) + math.log(64 / 15) - np.log1p(-(rho**-2))
    nodes = 2
    while np.min(log_most - 2 * nodes * np.log(rho)) > math.log(_RULE):
        nodes += 1
    x, w = np.polynomial.legendre.leggauss(nodes)
    return NodeRule(1, tuple((x + 1) / 2), tuple(w / 2))


def rule(kind: str, scale: float, noise: Noise, near: int, classes: int) -> NodeRule:
    """The coarsest rule that keeps the stated error, for histograms of which ``near`` classes are near the winner."""
    if kind == "laplace":
        return NodeRule(1, (0.0,), (1.0,)) if noise is Noise.DISCRETE else _gauss_legendre(scale * classes)
    step = scale * largest_step(near, classes)
    if step >= 1 or noise is Noise.DISCRETE:
        stride = max(1, math.floor(step))
        return NodeRule(stride, (0.0,), (float(stride),))
    parts = math.ceil(1 / step)
    return NodeRule(1, tuple(i / parts for i in range(parts)), (1 / parts,) * parts)
