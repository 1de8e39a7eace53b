"""Which queries to ask: at random, or where the student's present model says that a label would teach it most.

A choice is a function of labels that were released and of public rows, so it costs no privacy. Of Papernot et al. 2017
one strategy alone is taken, `least_confident` (arXiv:1610.05755, first version, appendix C.2: "Identifying unconfident
points using the student"); it is older (Lewis, Gale, A sequential algorithm for training text classifiers, SIGIR 1994).
`margin` is of Scheffer, Decomain, Wrobel, Active hidden Markov models for information extraction, IDA 2001; `entropy`
as in Settles, Active learning literature survey, 2009; `k_centre` of Sener, Savarese, Active learning for convolutional
neural networks, ICLR 2018, arXiv:1708.00489; `typical` has its own module. What each of them brought:
docs/laboratory/papers.md.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sparse

from consilium.models.kernel import nearest_rows, neighbour_graph, smoothest

Strategy = Literal["random", "least_confident", "margin", "entropy", "k_centre", "typical"]

BY_ROWS: tuple[Strategy, ...] = ("k_centre", "typical")
"""Strategies that look at the rows and need no model, so that they can choose the first queries too."""


def choose(
    strategy: Strategy,
    candidates: np.ndarray,
    count: int,
    rows: np.ndarray,
    earlier: np.ndarray,
    probabilities: np.ndarray | None,
    generator: np.random.Generator,
    equal: np.ndarray,
) -> np.ndarray:
    """`count` of the `candidates` (row indices), no two of them equal, in the order in which they should be asked.

    Parameters
    ----------
    rows : float (rows, inputs), the pool as the schema represents it (`Schema.inputs`); only `BY_ROWS` use them.
    earlier : indices of rows asked before.
    probabilities : float64 (rows, classes) of the present model; None before there is one, when the choice is random.
    equal : int64 (rows,), see `protocol.queries.first_equal`. Equal rows are one query: a second one has its
        answer already. At random, a row that occurs twice is twice as likely to be asked.

    least_confident: smallest largest probability. margin: smallest lead over the second. entropy: largest entropy. With
    two classes these three choose the same rows. k_centre: greedily the row farthest from all rows asked so far.
    typical: the densest of each cluster (`student.asking.typical`), for few queries.
    """
    shuffled = generator.permutation(candidates)
    shuffled = shuffled[np.sort(np.unique(equal[shuffled], return_index=True)[1])]
    count = min(count, len(shuffled))
    if strategy == "k_centre":
        return _k_centre(shuffled, count, rows, earlier)
    if strategy == "typical":
        return typical_rows(rows, shuffled, earlier, count, generator)
    if strategy == "random" or probabilities is None:
        return shuffled[:count]
    p = probabilities[shuffled]
    match strategy:
        case "least_confident":
            doubt = -p.max(axis=1)
        case "margin":
            top = np.sort(p, axis=1)[:, -2:]
            doubt = top[:, 0] - top[:, 1]
        case "entropy":
            doubt = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
    return shuffled[np.argsort(-doubt, kind="stable")][:count]


def _k_centre(candidates: np.ndarray, count: int, rows: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    x = rows[candidates]
    if len(earlier):
        distance = np.min([((x - rows[index]) ** 2).sum(axis=1) for index in earlier], axis=0)
    else:
        distance = ((x - x.mean(axis=0)) ** 2).sum(axis=1)
    chosen = []
    for _ in range(count):
        best = int(distance.argmax())
        chosen.append(best)
        distance = np.minimum(distance, ((x - x[best]) ** 2).sum(axis=1))
        distance[best] = -1.0
    return candidates[chosen]


_NEIGHBOURS = 10
"""Of the graph."""

_CROWD = 20
"""Nearest rows whose mean distance tells how typical a row is, as in the paper."""

_MOST_DIMENSIONS = 40
"""Eigenvectors that clusters are sought in; fewer where there are fewer clusters."""


def typical_rows(
    rows: np.ndarray, candidates: np.ndarray, earlier: np.ndarray, count: int, generator: np.random.Generator
) -> np.ndarray:
    """`count` of the `candidates`: the densest of each cluster in which nothing was asked yet, largest cluster
    first.

    There are as many clusters as rows that were asked or will be. `rows` float (rows, inputs), the others int64 (n,) of
    indices into it. Where clusters are too few, for example of rows that are all alike, the rest is drawn by lot.
    """
    if len(rows) < 3:
        return generator.permutation(candidates)[:count]
    nearest, squares = nearest_rows(rows.astype(np.float32), _CROWD)
    distance = np.sqrt(squares).mean(axis=1)
    clusters = min(len(earlier) + count, len(rows))
    places = _embedding(neighbour_graph(nearest[:, :_NEIGHBOURS], squares[:, :_NEIGHBOURS]), clusters)
    cluster = _clusters(places, clusters, generator)
    known = np.zeros(len(rows), dtype=bool)
    known[cluster[earlier]] = True  # there are never more clusters than rows
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


_STEPS = 50
"""Of k-means: Lloyd's, from centres that k-means++ draws."""


def _clusters(places: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Number of the cluster of each row, int64 (m,)."""
    import warnings

    from scipy.cluster.vq import kmeans2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows that are all alike: fewer clusters do as well
        return kmeans2(places, count, iter=_STEPS, minit="++", rng=generator)[1].astype(np.int64)
