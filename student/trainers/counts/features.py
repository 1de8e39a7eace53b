"""What rows become before shares are regressed on them: scaled columns, a kernel, or a graph."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from consilium.protocol.provenance import Provenance
from consilium.student.asking.graph import nearest_rows, neighbour_graph, smoothest
from consilium.student.trainers.kernel import kernel

LANDMARKS = 500
"""Most rows that a kernel is around: noise leaves far fewer directions that can be learned."""

_LANDMARK_LOT = 0x6C6D
_JITTER = 1e-4
_SAMPLE = 300
_WIDTHS = (0.5, 2.0, 8.0)
"""Squared length scales over the median squared distance of two rows, half of each."""

_FUNCTIONS = 200

PROVENANCE = Provenance(
    keys=("LANDMARKS", "_WIDTHS", "_FUNCTIONS"),
    rows="unknown",
    votes="simulated",
    where="Nobody wrote down on which rows the widths and numbers of functions were settled",
)


def column_scales(rows: np.ndarray) -> np.ndarray:
    """Mean absolute over standard deviation of each column of (n, inputs): .8 for a bell, small for what is rare.

    A column that is 1 for few rows, and large there once it is standardised, would else take the noise of those few.
    Of codes that are 0 or 1 it undoes the standardisation, up to the factor 2 (Gelman, Scaling regression inputs by
    dividing by two standard deviations, 2008). A column that is constant gets 0.

    >>> column_scales(np.array([[1.0, 0, 5], [-1, 0, 5], [1, 0, 5], [-1, 8, 5]])).round(2).tolist()
    [1.0, 0.87, 0.0]
    """
    centred = rows - rows.mean(axis=0)
    deviation = centred.std(axis=0)
    return np.abs(centred).mean(axis=0) / np.where(deviation > 1e-12, deviation, np.inf)


@dataclass(frozen=True)
class Landmarks:
    """A Gaussian kernel as features: rows (n, inputs) -> K(rows, landmarks) L^-T, whose products are K (Nystroem).

    `rows` float32 (m, inputs), `root` float64 (m, m): L, the Cholesky root of the landmarks' own kernel.
    """

    rows: np.ndarray = field(repr=False)
    root: np.ndarray = field(repr=False)
    gamma: float

    @classmethod
    def among(cls, rows: np.ndarray, gamma: float, seed: int) -> Landmarks:
        """All of float32 rows (n, inputs), or `LANDMARKS` of them by lot."""
        chosen = np.random.default_rng([seed, _LANDMARK_LOT]).permutation(len(rows))[:LANDMARKS]
        marks = rows[np.sort(chosen)]
        gram = kernel(marks, marks, gamma).astype(np.float64)
        gram[np.diag_indices_from(gram)] += _JITTER
        return cls(marks, cholesky(gram, lower=True), gamma)

    def features(self, rows: np.ndarray) -> np.ndarray:
        """Float32 rows (n, inputs) -> float64 (n, m)."""
        near = kernel(rows, self.rows, self.gamma).astype(np.float64)
        return solve_triangular(self.root, near.T, lower=True).T

    def weights(self, of_features: np.ndarray) -> np.ndarray:
        """Weights (m, classes) of the features as weights of the kernel around the landmarks."""
        return solve_triangular(self.root.T, of_features, lower=False)


def gammas(rows: np.ndarray) -> list[float]:
    """Kernel widths worth a trial for float32 rows (n, inputs), by the median distance of some of them."""
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), _SAMPLE)).astype(int)].astype(np.float64)
    apart = ((some[:, None, :] - some[None, :, :]) ** 2).sum(axis=2) if some.shape[1] <= 200 else _apart(some)
    apart = apart[apart > 1e-9]
    return [float(1 / (2 * width * np.median(apart))) for width in _WIDTHS] if len(apart) else [1.0]


def graph_functions(rows: np.ndarray, neighbours: int, spread: float) -> np.ndarray:
    """The graph of float32 rows (m, inputs) as features float64 (m, functions): its smoothest functions.

    Their products are the kernel (1 - spread S)^-1 of the normalised graph S, cut to its largest eigenvalues: labels
    spread over the graph (`student.asking.graph.spread`) are regressed on it (Zhou et al. 2003).
    """
    values, vectors = smoothest(neighbour_graph(*nearest_rows(rows, neighbours)), _FUNCTIONS)
    return vectors / np.sqrt(1 - spread * np.minimum(values, 1.0))


def _apart(rows: np.ndarray) -> np.ndarray:
    squares = (rows**2).sum(axis=1)
    return np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0)
