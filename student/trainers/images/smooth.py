"""What noisy shares of the votes say about all rows, if like rows get like votes: Gaussian regression on a graph.

The shares are a sum of the graph's smoothest functions with normal coefficients, those of less smooth ones smaller:
variance tau exp(-t u), u from 0 for the smoothest to 1 for the last (a diffusion kernel: Kondor, Lafferty, ICML 2002;
Smola, Kondor, COLT 2003). The noise is known, so tau and t have a likelihood (MacKay 1992; Rasmussen, Williams 2006,
section 5.4) and are the best of a grid: nothing is tuned on a label, and where the votes are mostly noise few functions
are left. Post-processing of what was released: costs no privacy.
"""

from __future__ import annotations

import numpy as np

from consilium.protocol.provenance import Provenance
from consilium.student.asking.graph import nearest_rows, neighbour_graph, smoothest
from consilium.student.trainers.base import Shares

FUNCTIONS = 100

PROVENANCE = Provenance(
    keys=("FUNCTIONS",),
    rows="development",
    votes="simulated",
    where="Training images of Fashion-MNIST, three splits (docs/decisions/image-students.md)",
)

_VARIANCES = np.geomspace(1e-4, 3.0, 18)
_DECAYS = np.concatenate([[0.0], np.geomspace(0.2, 50.0, 13)])


def smooth_shares(rows: np.ndarray, told: Shares, neighbours: int) -> np.ndarray:
    """Shares of all float32 `rows` (m, inputs), of which the first are `told`: float64 (m, classes), means of the
    posterior, which may lie a little outside 0 to 1."""
    if len(rows) < 2:
        return told.shares
    values, vectors = smoothest(neighbour_graph(*nearest_rows(rows, neighbours)), FUNCTIONS)
    basis = vectors * np.sqrt(len(rows))
    rough = (values[0] - values) / max(values[0] - values[-1], 1e-12)
    return basis @ _coefficients(basis[: len(told)], rough, told) + 1 / told.classes


def _coefficients(basis: np.ndarray, rough: np.ndarray, told: Shares) -> np.ndarray:
    """Posterior means (functions, classes) from `basis` (n, functions) at the rows that were told."""
    weighted = basis / told.deviation[:, None]
    product = weighted.T @ weighted
    seen = weighted.T @ ((told.shares - 1 / told.classes) / told.deviation[:, None])
    best, found = -np.inf, np.zeros_like(seen)
    for decay in _DECAYS:
        for variance in _VARIANCES:
            root = np.sqrt(variance * np.exp(-decay * rough))
            inner = root[:, None] * product * root + np.eye(len(root))
            mean = np.linalg.solve(inner, root[:, None] * seen)
            fit = float((root[:, None] * seen * mean).sum())
            evidence = fit - told.classes * np.linalg.slogdet(inner)[1]
            if evidence > best:
                best, found = evidence, root[:, None] * mean
    return found
