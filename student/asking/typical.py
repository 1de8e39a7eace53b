"""Rows that each represent many others: what to ask where the budget allows few queries.

Hacohen, Dekel, Weinshall, Active learning on a budget: opposite strategies suit high and low budgets, ICML 2022,
arXiv:2202.02794 (TypiClust). The clusters are those of the graph of neighbours, as in Ng, Jordan, Weiss, On spectral
clustering, NIPS 2001.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

from consilium.student.asking.graph import nearest_rows, neighbour_graph, smoothest

_NEIGHBOURS = 10
"""Of the graph."""

_CROWD = 20
"""Nearest rows whose mean distance tells how typical a row is, as in the paper."""

_MOST_DIMENSIONS = 40
"""Eigenvectors that clusters are sought in; fewer where there are fewer clusters."""


def typical_rows(
    rows: np.ndarray, candidates: np.ndarray, asked: np.ndarray, count: int, generator: np.random.Generator
) -> np.ndarray:
    """`count` of the `candidates`: the densest of each cluster in which nothing was `asked` yet, largest cluster first.

    There are as many clusters as rows that were asked or will be. `rows` float (rows, inputs), the others int64 (n,) of
    indices into it. Where clusters are too few, for example of rows that are all alike, the rest is drawn by lot.
    """
    if len(rows) < 3:
        return generator.permutation(candidates)[:count]
    nearest, squares = nearest_rows(rows.astype(np.float32), _CROWD)
    distance = np.sqrt(squares).mean(axis=1)
    clusters = min(len(asked) + count, len(rows))
    places = _embedding(neighbour_graph(nearest[:, :_NEIGHBOURS], squares[:, :_NEIGHBOURS]), clusters)
    cluster = _clusters(places, clusters, generator)
    known = np.zeros(len(rows), dtype=bool)
    known[cluster[asked]] = True  # there are never more clusters than rows
    free = candidates[~known[cluster[candidates]]]
    densest = free[np.argsort(distance[free], kind="stable")]
    _, first = np.unique(cluster[densest], return_index=True)
    sizes = np.bincount(cluster, minlength=len(rows))
    best = densest[first]
    best = best[np.argsort(-sizes[cluster[best]], kind="stable")][:count]
    rest = generator.permutation(np.setdiff1d(candidates, best))
    return np.concatenate([best, rest[: count - len(best)]])


def _embedding(graph: sparse.csr_array, clusters: int) -> np.ndarray:
    """Each row of the graph (m, m) as a unit vector (m, dimensions) of its coordinates in the first eigenvectors."""
    total = len(graph.indptr) - 1
    _, vectors = smoothest(graph, min(max(clusters, 2), _MOST_DIMENSIONS, total - 1))
    if not vectors.size:
        vectors = np.ones((total, 1))
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _clusters(places: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Number of the cluster of each row, int64 (m,)."""
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    means = KMeans(count, n_init=1, max_iter=50, random_state=int(generator.integers(2**31)))  # pyright: ignore[reportArgumentType]
    # several threads add up their shares in the order in which they come, so that a seed would not decide
    with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows that are all alike: fewer clusters do as well
        return means.fit_predict(places).astype(np.int64)
