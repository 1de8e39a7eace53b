"""Kernel ridge regression, and a graph of rows that are alike with labels spread over it: what few labels say. Both are
linear solves in numpy, without a random part. Saunders, Gammerman, Vovk 1998 (kernel ridge); Zelnik-Manor, Perona,
Self-tuning spectral clustering, NIPS 2004 (a width for each row); Zhou, Bousquet, Lal, Weston, Schoelkopf, Learning
with local and global consistency, NIPS 2003 (spreading); Zhu, Ghahramani, Lafferty, ICML 2003 (class mass)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sparse
from scipy.linalg import solve
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from scipy.spatial.distance import pdist

_BLOCK = 1000
_WIDTH_NEIGHBOUR = 7
_STEPS = 300
_DENSE = 500
"""Rows up to which all eigenvectors are found, since the sparse solver needs many more rows than vectors."""
_SAMPLE = 300


def nearest_rows(rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The `count` nearest other rows of each of float32 rows (m, inputs), or all where there are fewer, nearest first.
    Returns their indices int64 (m, count) and squared distances float32 (m, count)."""
    from sklearn.neighbors import NearestNeighbors

    found = NearestNeighbors(n_neighbors=min(count, len(rows) - 1), algorithm="brute").fit(rows)
    distances, nearest = found.kneighbors()
    return nearest, (distances**2).astype(np.float32)


def neighbour_graph(nearest: np.ndarray, squares: np.ndarray) -> sparse.csr_array:
    """Symmetric graph of what `nearest_rows` found, normalised: D^-1/2 W D^-1/2, (m, m). The weights are exp(-d^2 /
    (s_i s_j)), s_i the distance of row i's seventh nearest."""
    total, count = nearest.shape
    width = np.sqrt(squares[:, min(_WIDTH_NEIGHBOUR, count) - 1]) + np.float32(1e-12)
    weights = np.exp(-squares / (width[:, None] * width[nearest]))
    starts = np.arange(0, total * count + 1, count)
    graph = sparse.csr_array((weights.ravel(), nearest.ravel(), starts), shape=(total, total))
    graph = graph.maximum(graph.T).tocsr()
    degree = 1 / np.sqrt(np.maximum(graph.sum(axis=1), 1e-12)).astype(np.float32)
    return sparse.csr_array(graph.multiply(degree[:, None]).multiply(degree[None, :]))


def smoothest(graph: sparse.csr_array, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Functions of the rows that change least between neighbours: eigenvectors of `neighbour_graph`'s (m, m). Returns
    float64 eigenvalues (k,) with the largest first, and vectors (m, k) of length 1; k is `count`, fewer where there are
    fewer rows or where the solver found fewer."""
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
    Distances hardly change, and take a fraction of the time. The start is fixed, so the same rows have the same places.
    """
    from sklearn.decomposition import PCA

    if count >= min(rows.shape):
        return rows - rows.mean(axis=0)
    return PCA(count, svd_solver="randomized", random_state=0).fit_transform(rows)


def spread(graph: sparse.csr_array, given: np.ndarray, share: float) -> np.ndarray:
    """F <- share graph F + (1 - share) given, from `given` (m, classes); then each class by its number of labels."""
    scores = given
    for _ in range(_STEPS):
        scores = np.float32(share) * (graph @ scores) + np.float32(1 - share) * given
    return scores / np.maximum(given.sum(axis=0), 1)


@dataclass(frozen=True)
class KernelModel:
    """Gaussian kernel around `rows` float32 (m, inputs) with `weights` float32 (m, classes). `offset` float64
    (classes,): scores far from all rows; None where that is 1/classes."""

    rows: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    gamma: float
    offset: np.ndarray | None = field(default=None, repr=False)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`: scores without their negative part, scaled to sum 1."""
        scores = np.maximum(self.scores(x), 1e-12)
        return scores / scores.sum(axis=1, keepdims=True)

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Float (n, inputs) -> float64 (n, classes): shares as they are regressed, which may lie outside 0 to 1."""
        scores = np.concatenate(
            [
                kernel(x[start : start + _BLOCK].astype(np.float32), self.rows, self.gamma) @ self.weights
                for start in range(0, max(len(x), 1), _BLOCK)
            ]
        )
        offset = 1 / scores.shape[1] if self.offset is None else self.offset
        return scores.astype(np.float64) + offset


def kernel(left: np.ndarray, right: np.ndarray, gamma: float) -> np.ndarray:
    """exp(-gamma |a - b|^2) of float32 (n, inputs) and (m, inputs) -> float32 (n, m)."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * (left @ right.T)
    return np.exp(-gamma * np.maximum(squares, 0))


def usual_gamma(rows: np.ndarray) -> float:
    """Of the Gaussian kernel on rows float (n, inputs): 1 over the median squared distance of some of them. Of the
    scenario digits, seeds 100 and 101, which do not judge, it is .0086: from .006 to .02 nothing changes."""
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), _SAMPLE)).astype(int)].astype(np.float64)
    apart = pdist(some, "sqeuclidean")
    apart = apart[apart > 1e-9]
    return float(1 / np.median(apart)) if len(apart) else 1.0


def kernel_ridge(rows: np.ndarray, targets: np.ndarray, gamma: float, alpha: float) -> KernelModel:
    """Fit targets (m, classes) less 1/classes on float32 rows (m, inputs); 4 m^2 bytes, m^3 / 3 multiplications."""
    gram = kernel(rows, rows, gamma)
    gram[np.diag_indices_from(gram)] += np.float32(alpha)
    centred = targets - np.float32(1 / targets.shape[1])
    return KernelModel(rows, solve(gram, centred, assume_a="pos", overwrite_a=True), gamma)
