"""Independent of the package: outcomes of noisy argmax from their definition, and the worst of them by search."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr


def lattice_noise(sigma, reach):
    """Probabilities and distribution function of a discrete Gaussian at -reach..reach."""
    z = np.arange(-reach, reach + 1)
    pmf = np.exp(-(z**2) / (2 * sigma**2))
    pmf /= pmf.sum()
    return pmf, np.minimum(np.cumsum(pmf), 1.0)


def winners(histogram, sigma):
    """Probability of each class to win with integer noise; the lowest index wins ties. Sums over the lattice."""
    n = np.asarray(histogram)
    reach = int(np.ceil(14 * sigma)) + int(n.max()) + 2
    pmf, below = lattice_noise(sigma, 2 * reach)
    x = np.arange(-reach, reach + 1)

    def at(table, value):
        return table[np.clip(value, -2 * reach, 2 * reach) + 2 * reach]

    out = []
    for j in range(n.size):
        others = [at(below, x - n[i] - (1 if i < j else 0)) for i in range(n.size) if i != j]
        out.append(np.sum(at(pmf, x - n[j]) * np.prod(others, axis=0)))
    return np.array(out)


def neighbours(teachers, classes) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs of histograms between which one vote moves, in both directions."""
    for cut in itertools.combinations(range(teachers + classes - 1), classes - 1):
        n = np.diff((-1, *cut, teachers + classes - 1)) - 1
        for a, b in itertools.permutations(range(classes), 2):
            if n[a]:
                moved = n.copy()
                moved[a] -= 1
                moved[b] += 1
                yield tuple(n.tolist()), tuple(moved.tolist())


def renyi(p, q, order):
    """D_order(p || q), formed without its leading 1."""
    excess = np.sum(p * np.expm1((1 - order) * np.log(q / p)) + (order - 1) * (q - p))
    return np.log1p(excess) / (order - 1)


def worst_histogram(teachers, classes, sigma, orders):
    """Largest divergence over all histograms, moves and directions: float64 (orders,)."""
    cache = {}

    def of(histogram):
        if histogram not in cache:
            cache[histogram] = winners(histogram, sigma)
        return cache[histogram]

    pairs = [(of(n), of(moved)) for n, moved in neighbours(teachers, classes)]
    return np.array([max(renyi(p, q, order) for p, q in pairs) for order in orders])


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def three_outcomes(u, v):
    """a, b or the third wins, continuous noise of deviation 1: float64 (3,). Gauss-Legendre on short panels."""
    edges = np.linspace(0.0, max(u, v, 0.0) + 12.0, 41)
    half = np.diff(edges)[:, None] / 2
    x = ((edges[1:] + edges[:-1])[:, None] / 2 + half * _NODES).ravel()
    w = (half * _WEIGHTS).ravel() / np.sqrt(2 * np.pi)
    a = np.sum(w * np.exp(-((x - u) ** 2) / 2) * ndtr(x - v))
    b = np.sum(w * np.exp(-((x - v) ** 2) / 2) * ndtr(x - u))
    return np.array([a, b, ndtr(-u) * ndtr(-v)])


def worst_lead(h, order):
    """Largest divergence over real (u, v), continuous noise, by local search from many starts."""

    def loss(lead):
        u, v = lead
        if max(abs(u), abs(v)) > 9:
            return 0.0
        return -renyi(three_outcomes(u, v), three_outcomes(u - h, v + h), order) / (order * h**2)

    tilt = (order - 1) * h
    starts = [(0.75, 0.75), (3.0, 3.0), (3 - tilt, 3 + tilt), (0.7 - tilt / 2, 0.7 + tilt / 2), (-tilt, 4.0), (0, 0)]
    found = [minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-9}) for start in starts]
    return -min(each.fun for each in found) * order * h**2
