"""Which queries to ask: at random, or where the student's present model says that a label would teach it most. A choice
is a function of labels that were released and of public rows, so it costs no privacy. `margin` is of Scheffer,
Decomain, Wrobel, Active hidden Markov models for information extraction, IDA 2001; of two classes it is the strategy of
Papernot et al. 2017 (first version, appendix C.2). `typical` is of Hacohen, Dekel, Weinshall, ICML 2022."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np

from consilium.models.kernel import nearest_rows, neighbour_graph, smoothest

Strategy = Literal["random", "margin", "typical"]
BY_ROWS: Strategy = "typical"
"""It looks at the rows and needs no model, so that it can choose the first queries too."""


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
    rows: float (rows, inputs), the pool as the schema represents it (`Schema.inputs`); only `BY_ROWS` uses them.
    earlier: indices of rows asked before. probabilities: float64 (rows, classes) of the present model; None before
    there is one, when the choice is random. equal: int64 (rows,), see `protocol.queries.first_equal`. Equal rows are
    one query: a second one has its answer already. At random, a row that occurs twice is twice as likely to be asked.
    margin: smallest lead over the second class. typical: the densest of each cluster, for few queries."""
    shuffled = generator.permutation(candidates)
    shuffled = shuffled[np.sort(np.unique(equal[shuffled], return_index=True)[1])]
    count = min(count, len(shuffled))
    if strategy == BY_ROWS:
        return typical_rows(rows, shuffled, earlier, count, generator)
    if strategy == "random" or probabilities is None:
        return shuffled[:count]
    top = np.sort(probabilities[shuffled], axis=1)[:, -2:]
    return shuffled[np.argsort(top[:, 1] - top[:, 0], kind="stable")][:count]


_NEIGHBOURS, _CROWD = 10, 20
"""Of the graph; nearest rows whose mean distance tells how typical a row is, as in the paper."""
_MOST_DIMENSIONS = 40
"""Eigenvectors that clusters are sought in; fewer where there are fewer clusters."""
_STEPS = 50
"""Of k-means: Lloyd's, from centres that k-means++ draws."""


def typical_rows(
    rows: np.ndarray, candidates: np.ndarray, earlier: np.ndarray, count: int, generator: np.random.Generator
) -> np.ndarray:
    """`count` of the `candidates`: the densest of each cluster in which nothing was asked yet, largest cluster
    first. There are as many clusters as rows that were asked or will be; where they are too few, as of rows that are
    all alike, the rest is drawn by lot. rows: float (rows, inputs); the others: int64 (n,), indices into it."""
    from scipy.cluster.vq import kmeans2

    if len(rows) < 3:
        return generator.permutation(candidates)[:count]
    nearest, squares = nearest_rows(rows.astype(np.float32), _CROWD)
    distance = np.sqrt(squares).mean(axis=1)
    clusters = min(len(earlier) + count, len(rows))
    graph = neighbour_graph(nearest[:, :_NEIGHBOURS], squares[:, :_NEIGHBOURS])
    _, vectors = smoothest(graph, min(max(clusters, 2), _MOST_DIMENSIONS, len(rows) - 1))
    places = vectors if vectors.size else np.ones((len(rows), 1))
    places = places / np.maximum(np.linalg.norm(places, axis=1, keepdims=True), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows that are all alike: fewer clusters do as well
        cluster = kmeans2(places, clusters, iter=_STEPS, minit="++", rng=generator)[1].astype(np.int64)
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
