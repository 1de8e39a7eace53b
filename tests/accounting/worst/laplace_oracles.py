"""Independent of the package: winners under Laplace noise from their definition."""

from __future__ import annotations

import itertools

import numpy as np

from tests.accounting.worst.oracles import renyi


def integer_winners(histogram, gamma):
    """Probability of each class to win with integer noise; the lowest index wins ties. Sums over the lattice."""
    n = np.asarray(histogram)
    reach = int(np.ceil(40 / gamma)) + int(n.max()) + 3
    x = np.arange(-reach, reach + 1)
    r = np.exp(-gamma)

    def at_most(centre):
        above, under = np.maximum(x - centre + 1, 0), np.maximum(centre - x, 0)
        return np.where(x < centre, np.exp(-gamma * under) / (1 + r), 1 - np.exp(-gamma * above) / (1 + r))

    def winner(j):
        others = [at_most(n[i] + (1 if i < j else 0)) for i in range(n.size) if i != j]
        return np.sum(np.tanh(gamma / 2) * np.exp(-gamma * np.abs(x - n[j])) * np.prod(others, axis=0))

    return np.array([winner(j) for j in range(n.size)])


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def real_winners(centres):
    """The same for real noise of scale 1 around real centres. Gauss-Legendre between kinks: what is integrated is no
    polynomial times exponentials there, but smooth."""
    n = np.asarray(centres, dtype=np.float64)
    kinks = np.concatenate(([n.min() - 38], np.sort(n), [n.max() + 38]))
    edges = np.unique(np.concatenate([np.linspace(a, b, 25) for a, b in itertools.pairwise(kinks)]))
    half = np.diff(edges)[:, None] / 2
    x = ((edges[1:] + edges[:-1])[:, None] / 2 + half * _NODES).ravel()
    weights = (half * _WEIGHTS).ravel()
    near = np.exp(-np.abs(x - n[:, None])) / 2
    below = np.where(x < n[:, None], near, 1 - near)
    return np.array([np.sum(weights * near[j] * np.prod(np.delete(below, j, axis=0), axis=0)) for j in range(n.size)])


def both_directions(p, q, orders):
    """The larger of the two divergences at each order: float64 (orders,)."""
    return np.array([max(renyi(p, q, order), renyi(q, p, order)) for order in orders])
