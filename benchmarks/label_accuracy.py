"""What noise does to labels: how probable each is, at given votes. Functions of votes, so secret on private ones."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from consilium.accounting.checks import blocks, check_scale

_NODES, _MASSES = np.polynomial.hermite_e.hermegauss(48)
_WEIGHTS = _MASSES / _MASSES.sum()
_QUANTILES = 256


def pr_label(votes: np.ndarray, sigma: float, label: np.ndarray | None = None) -> np.ndarray:
    """Pr[GNMax returns ``label``] for each query: float64 (queries,), by Gauss-Hermite quadrature (48 nodes).

    votes : signed integers (queries, classes). label : int (queries,), the plurality if None. Continuous noise; the
    lattice changes this in the fourth digit at most at the scales in use.

    >>> pr_label(np.array([[126, 124], [250, 0]]), 40.0).round(4).tolist()
    [0.5141, 1.0]
    """
    array = np.asarray(votes)
    wanted = array.argmax(axis=1) if label is None else np.asarray(label)
    check_scale(sigma, "sigma")
    out = np.empty(array.shape[0])
    for part, block in blocks(array, None):
        rows = np.arange(block.shape[0])
        lead = (block[rows, wanted[part]][:, None] - block).astype(np.float64) / sigma
        lead[rows, wanted[part]] = np.inf
        wins = np.zeros((block.shape[0], _NODES.size))
        for column in range(block.shape[1]):
            wins += log_ndtr(lead[:, column : column + 1] + _NODES)
        out[part] = np.exp(wins) @ _WEIGHTS
    return out


def pr_label_laplace(votes: np.ndarray, gamma: float, label: np.ndarray | None = None) -> np.ndarray:
    """Pr[LNMax returns ``label``] for each query: float64 (queries,), a mean over 256 quantiles of the label's noise.

    votes, label : as in ``pr_label``. gamma : inverse scale of the noise, continuous. Right to 5e-4.

    >>> pr_label_laplace(np.array([[126, 124], [250, 0]]), 0.05).round(3).tolist()
    [0.525, 1.0]
    """
    array = np.asarray(votes)
    wanted = array.argmax(axis=1) if label is None else np.asarray(label)
    rate = check_scale(gamma, "gamma")
    share = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    noise = np.where(share < 0.5, np.log(2 * share), -np.log(2 * (1 - share)))
    out = np.empty(array.shape[0])
    for part, block in blocks(array, None):
        rows = np.arange(block.shape[0])
        lead = (block[rows, wanted[part]][:, None] - block) * rate
        lead[rows, wanted[part]] = np.inf
        wins = np.ones((block.shape[0], _QUANTILES))
        for column in range(block.shape[1]):
            ahead = lead[:, column : column + 1] + noise
            tail = np.exp(-np.abs(ahead)) / 2
            wins *= np.where(ahead < 0, tail, 1 - tail)
        out[part] = wins.mean(axis=1)
    return out
