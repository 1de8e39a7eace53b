"""Independent of the package: outcomes of noisy argmax from their definition, and the worst of them by search."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache, partial

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr

from tests.accounting.outcome.oracle import Oracle


def lattice_noise(sigma, reach):
    """Probabilities and distribution function of a discrete Gaussian at -reach..reach."""
    z = np.arange(-reach, reach + 1)
    pmf = np.exp(-(z**2) / (2 * sigma**2))
    pmf /= pmf.sum()
    return pmf, np.minimum(np.cumsum(pmf), 1.0)


_oracle = cache(Oracle)


def _winners(kind, histogram, scale):
    """Probability of each class to win with integer noise; the lowest index wins ties."""
    counts = [int(n) for n in histogram]
    span = 1 << (max(counts) - min(counts) + 1).bit_length()
    return _oracle(kind, scale, "discrete", span).law(counts, max(counts)).astype(np.float64)


winners, laplace_winners = partial(_winners, "gaussian"), partial(_winners, "laplace")


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


def both_directions(p, q, orders):
    """The larger of the two divergences at each order: float64 (orders,)."""
    return np.array([max(renyi(p, q, order), renyi(q, p, order)) for order in orders])


def worst_histogram(law, teachers, classes, scale, orders):
    """Largest divergence over all histograms, moves and directions: float64 (orders,). law: ``winners`` or its like."""
    of = cache(lambda histogram: law(histogram, scale))
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


def real_laplace_winners(centres):
    """The same for real Laplace noise of scale 1 around real centres, by Gauss-Legendre between kinks."""
    n = np.asarray(centres, dtype=np.float64)
    kinks = np.concatenate(([n.min() - 38], np.sort(n), [n.max() + 38]))
    edges = np.unique(np.concatenate([np.linspace(a, b, 25) for a, b in itertools.pairwise(kinks)]))
    half = np.diff(edges)[:, None] / 2
    x = ((edges[1:] + edges[:-1])[:, None] / 2 + half * _NODES).ravel()
    weights = (half * _WEIGHTS).ravel()
    near = np.exp(-np.abs(x - n[:, None])) / 2
    below = np.where(x < n[:, None], near, 1 - near)
    return np.array([np.sum(weights * near[j] * np.prod(np.delete(below, j, axis=0), axis=0)) for j in range(n.size)])
