"""A graph of rows that are alike, and labels spread over it.

Zelnik-Manor, Perona, Self-tuning spectral clustering, NIPS 2004 (a width for each row); Zhou, Bousquet, Lal, Weston,
Schoelkopf, Learning with local and global consistency, NIPS 2003 (spreading); Zhu, Ghahramani, Lafferty, ICML 2003
(class mass).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

_BLOCK = 1000
_WIDTH_NEIGHBOUR = 7
_STEPS = 300
_DENSE = 500
"""Rows up to which all eigenvectors are found, since the sparse solver needs many more rows than vectors."""

_PASSES = 3


def squared_distances(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Between all rows of float32 (n, inputs) and (m, inputs) -> float32 (n, m)."""
    squares = left @ right.T
    squares *= -2
    squares += (left**2).sum(axis=1)[:, None]
    squares += (right**2).sum(axis=1)
    return np.maximum(squares, 0, out=squares)


def nearest_rows(rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The `count` nearest other rows of each of float32 rows (m, inputs), or all where there are fewer, nearest first.

    Returns their indices int64 (m, count) and squared distances float32 (m, count).
    """
    total = len(rows)
    count = min(count, total - 1)
    nearest = np.empty((total, count), dtype=np.int64)
    squares = np.empty((total, count), dtype=np.float32)
    for start in range(0, total, _BLOCK):
        block = squared_distances(rows[start : start + _BLOCK], rows)
        block[np.arange(len(block)), start + np.arange(len(block))] = np.inf
        found = np.argpartition(block, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(block, found, axis=1), axis=1, kind="stable")
        nearest[start : start + _BLOCK] = np.take_along_axis(found, order, axis=1)
        squares[start : start + _BLOCK] = np.take_along_axis(block, nearest[start : start + _BLOCK], axis=1)
    return nearest, squares


def neighbour_graph(nearest: np.ndarray, squares: np.ndarray) -> sparse.csr_array:
    """Symmetric graph of what `nearest_rows` found, normalised: D^-1/2 W D^-1/2, (m, m).

    The weights are exp(-d^2 / (s_i s_j)), s_i the distance of row i's seventh nearest.
    """
    total, count = nearest.shape
    width = np.sqrt(squares[:, min(_WIDTH_NEIGHBOUR, count) - 1]) + np.float32(1e-12)
    weights = np.exp(-squares / (width[:, None] * width[nearest]))
    starts = np.arange(0, total * count + 1, count)
    graph = sparse.csr_array((weights.ravel(), nearest.ravel(), starts), shape=(total, total))
    graph = graph.maximum(graph.T).tocsr()
    degree = 1 / np.sqrt(np.maximum(graph.sum(axis=1), 1e-12)).astype(np.float32)
    return sparse.csr_array(graph.multiply(degree[:, None]).multiply(degree[None, :]))


def smoothest(graph: sparse.csr_array, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Functions of the rows that change least between neighbours: eigenvectors of `neighbour_graph`'s (m, m).

    Returns float64 eigenvalues (k,) with the largest first, and vectors (m, k) of length 1; k is `count`, fewer where
    there are fewer rows or where the solver found fewer.
    """
    total = len(graph.indptr) - 1
    if total <= _DENSE:
        values, vectors = np.linalg.eigh(graph.toarray().astype(np.float64))
        values, vectors = values[-count:], vectors[:, -count:]
    else:
        try:
            wanted = min(count, total - 1)
            start = np.ones(total)
            values, vectors = eigsh(graph.astype(np.float64), wanted, which="LA", v0=start)
        except ArpackNoConvergence as error:  # those that it did find
            values, vectors = error.eigenvalues, error.eigenvectors
    order = np.argsort(-values)
    return values[order], vectors[:, order]


def principal_places(rows: np.ndarray, count: int) -> np.ndarray:
    """Float32 rows (m, inputs) in the `count` directions in which they vary most, or as they are where that is no less.

    Distances hardly change, and take a fraction of the time. Halko, Martinsson, Tropp, Finding structure with
    randomness, SIAM Review 2011, algorithm 4.4; the start is fixed, so the same rows have the same places.
    """
    centred = rows - rows.mean(axis=0)
    if count >= min(rows.shape):
        return centred
    found = np.random.default_rng(0).standard_normal((rows.shape[1], count)).astype(np.float32)
    for _ in range(_PASSES):
        found, _ = np.linalg.qr(centred.T @ (centred @ found))
    return centred @ found


def spread(graph: sparse.csr_array, given: np.ndarray, share: float) -> np.ndarray:
    """F <- share graph F + (1 - share) given, from `given` (m, classes); then each class by its number of labels."""
    scores = given
    for _ in range(_STEPS):
        scores = np.float32(share) * (graph @ scores) + np.float32(1 - share) * given
    return scores / np.maximum(given.sum(axis=0), 1)
