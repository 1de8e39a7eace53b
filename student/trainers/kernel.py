"""Kernel ridge regression, and with a graph over the unlabelled rows: what few labels say about rows that are alike.

Both are linear solves in numpy, without a random part. Saunders, Gammerman, Vovk 1998 (kernel ridge); Zhou, Bousquet,
Lal, Weston, Schoelkopf, Learning with local and global consistency, NIPS 2003 (the graph); Zelnik-Manor, Perona,
Self-tuning spectral clustering, NIPS 2004 (a width for each row); Zhu, Ghahramani, Lafferty, ICML 2003 (class mass).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sparse
from scipy.linalg import solve

from student.config import StudentSpec
from student.trainers.base import Model

_BLOCK = 1000
_WIDTH_NEIGHBOUR = 7
_STEPS = 300


@dataclass(frozen=True)
class KernelModel:
    """Gaussian kernel around `rows` float32 (m, inputs) with `weights` (m, classes)."""

    rows: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    gamma: float

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`: scores without their negative part, scaled to sum 1."""
        scores = np.concatenate(
            [
                kernel(x[start : start + _BLOCK].astype(np.float32), self.rows, self.gamma) @ self.weights
                for start in range(0, max(len(x), 1), _BLOCK)
            ]
        )
        scores = np.maximum(scores.astype(np.float64) + 1 / scores.shape[1], 1e-12)
        return scores / scores.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class KernelTrainer:
    """Kernel ridge regression on the labels alone."""

    spec: StudentSpec

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`; no random part, so the seed is not used."""
        return kernel_ridge(
            x.astype(np.float32), np.eye(classes, dtype=np.float32)[y], self.spec.gamma, self.spec.alpha
        )


@dataclass(frozen=True)
class GraphTrainer:
    """Labels spread over a graph of like rows first; kernel ridge on all rows then, so that new rows can be judged.

    `unlabelled` float (n, inputs). Post-processing of released labels: costs no privacy.
    """

    spec: StudentSpec
    unlabelled: np.ndarray = field(repr=False)

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`; no random part, so the seed is not used."""
        rows = np.concatenate([x, self.unlabelled]).astype(np.float32)
        given = np.zeros((len(rows), classes), dtype=np.float32)
        given[np.arange(len(y)), y] = 1
        spread_out = spread(neighbour_graph(rows, self.spec.neighbours), given, self.spec.spread)
        reached = spread_out.sum(axis=1) > 0
        hard = np.eye(classes, dtype=np.float32)[spread_out[reached].argmax(axis=1)]
        return kernel_ridge(rows[reached], hard, self.spec.gamma, self.spec.alpha)


def kernel(left: np.ndarray, right: np.ndarray, gamma: float) -> np.ndarray:
    """exp(-gamma |a - b|^2) of float32 (n, inputs) and (m, inputs) -> float32 (n, m)."""
    squares = _squared_distances(left, right)
    squares *= -gamma
    return np.exp(squares, out=squares)


def kernel_ridge(rows: np.ndarray, targets: np.ndarray, gamma: float, alpha: float) -> KernelModel:
    """Fit targets (m, classes) less 1/classes on float32 rows (m, inputs); 4 m^2 bytes, m^3 / 3 multiplications."""
    gram = kernel(rows, rows, gamma)
    gram[np.diag_indices_from(gram)] += np.float32(alpha)
    centred = targets - np.float32(1 / targets.shape[1])
    return KernelModel(rows, solve(gram, centred, assume_a="pos", overwrite_a=True), gamma)


def neighbour_graph(rows: np.ndarray, neighbours: int) -> sparse.csr_array:
    """Symmetric graph of nearest neighbours of float32 rows (m, inputs), normalised: D^-1/2 W D^-1/2, (m, m).

    The weights are exp(-d^2 / (s_i s_j)), s_i the distance of row i's seventh nearest.
    """
    count = len(rows)
    neighbours = min(neighbours, count - 1)
    nearest = np.empty((count, neighbours), dtype=np.int64)
    squares = np.empty((count, neighbours), dtype=np.float32)
    for start in range(0, count, _BLOCK):
        block = _squared_distances(rows[start : start + _BLOCK], rows)
        block[np.arange(len(block)), start + np.arange(len(block))] = np.inf
        found = np.argpartition(block, neighbours - 1, axis=1)[:, :neighbours]
        order = np.argsort(np.take_along_axis(block, found, axis=1), axis=1, kind="stable")
        nearest[start : start + _BLOCK] = np.take_along_axis(found, order, axis=1)
        squares[start : start + _BLOCK] = np.take_along_axis(block, nearest[start : start + _BLOCK], axis=1)
    width = np.sqrt(squares[:, min(_WIDTH_NEIGHBOUR, neighbours) - 1]) + np.float32(1e-12)
    weights = np.exp(-squares / (width[:, None] * width[nearest]))
    starts = np.arange(0, count * neighbours + 1, neighbours)
    graph = sparse.csr_array((weights.ravel(), nearest.ravel(), starts), shape=(count, count))
    graph = graph.maximum(graph.T).tocsr()
    degree = 1 / np.sqrt(np.maximum(graph.sum(axis=1), 1e-12)).astype(np.float32)
    return sparse.csr_array(graph.multiply(degree[:, None]).multiply(degree[None, :]))


def spread(graph: sparse.csr_array, given: np.ndarray, share: float) -> np.ndarray:
    """F <- share graph F + (1 - share) given, from `given` (m, classes); then each class by its number of labels."""
    scores = given
    for _ in range(_STEPS):
        scores = np.float32(share) * (graph @ scores) + np.float32(1 - share) * given
    return scores / np.maximum(given.sum(axis=0), 1)


def _squared_distances(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    squares = left @ right.T
    squares *= -2
    squares += (left**2).sum(axis=1)[:, None]
    squares += (right**2).sum(axis=1)
    return np.maximum(squares, 0, out=squares)
