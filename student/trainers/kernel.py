"""Kernel ridge regression, and with a graph over the unlabelled rows: what few labels say about rows that are alike.

Both are linear solves in numpy, without a random part. Saunders, Gammerman, Vovk 1998 (kernel ridge).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import solve

from consilium.student.asking.graph import nearest_rows, neighbour_graph, spread, squared_distances
from consilium.student.trainers.base import Model
from consilium.student.trainers.settings import SpreadingStudent

_BLOCK = 1000


@dataclass(frozen=True)
class KernelModel:
    """Gaussian kernel around `rows` float32 (m, inputs) with `weights` float32 (m, classes).

    `offset` float64 (classes,): scores far from all rows; None where that is 1/classes.
    """

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


@dataclass(frozen=True)
class KernelTrainer:
    """Kernel ridge regression on the labels alone. gamma: of the kernel. alpha: penalty."""

    gamma: float
    alpha: float

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`; no random part, so the seed is not used."""
        return kernel_ridge(x.astype(np.float32), np.eye(classes, dtype=np.float32)[y], self.gamma, self.alpha)


@dataclass(frozen=True)
class GraphTrainer:
    """Labels spread over a graph of like rows first; kernel ridge on all rows then, so that new rows can be judged.

    `unlabelled` float (n, inputs). Post-processing of released labels: costs no privacy.
    """

    spec: SpreadingStudent
    unlabelled: np.ndarray = field(repr=False)

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`; no random part, so the seed is not used."""
        rows = np.concatenate([x, self.unlabelled]).astype(np.float32)
        told, reached = spread_labels(rows, y, classes, self.spec)
        known = np.eye(classes, dtype=np.float32)[told[reached]]
        return kernel_ridge(rows[reached], known, self.spec.gamma, self.spec.alpha)


def spread_labels(
    rows: np.ndarray, y: np.ndarray, classes: int, spec: SpreadingStudent
) -> tuple[np.ndarray, np.ndarray]:
    """Labels `y` of the first of float32 rows (m, inputs), spread over their graph.

    Returns each row's class int64 (m,), and bool (m,): whether a label reached it; the class means nothing if not.
    """
    given = np.zeros((len(rows), classes), dtype=np.float32)
    given[np.arange(len(y)), y] = 1
    graph = neighbour_graph(*nearest_rows(rows, spec.neighbours))
    scores = spread(graph, given, spec.spread)
    return scores.argmax(axis=1), scores.sum(axis=1) > 0


def kernel(left: np.ndarray, right: np.ndarray, gamma: float) -> np.ndarray:
    """exp(-gamma |a - b|^2) of float32 (n, inputs) and (m, inputs) -> float32 (n, m)."""
    squares = squared_distances(left, right)
    squares *= -gamma
    return np.exp(squares, out=squares)


def kernel_ridge(rows: np.ndarray, targets: np.ndarray, gamma: float, alpha: float) -> KernelModel:
    """Fit targets (m, classes) less 1/classes on float32 rows (m, inputs); 4 m^2 bytes, m^3 / 3 multiplications."""
    gram = kernel(rows, rows, gamma)
    gram[np.diag_indices_from(gram)] += np.float32(alpha)
    centred = targets - np.float32(1 / targets.shape[1])
    return KernelModel(rows, solve(gram, centred, assume_a="pos", overwrite_a=True), gamma)
