"""Bayesian linear regression on noisy shares whose noise is known; the scale of the prior by the evidence.

A weight has the prior N(0, scale), an offset a flat one, and a share the noise that its histogram was released with,
times a factor of at least 1 for what no weights explain. Scale and factor are those of the largest marginal likelihood
(MacKay, Bayesian interpolation, Neural Computation 1992; Bishop 2006, section 3.5), on a grid: no row is held out for
it, no label is needed. Shares sum to 1, so classes - 1 contrasts with independent noise say all that they say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import eigh, helmert

from consilium.student.trainers.base import Shares

_RATIOS = np.geomspace(1e-3, 1e9, 121)
"""Prior variance over noise, in the direction that the rows tell most about."""

_STEP = 2.0
"""Between factors of the noise that are tried."""

_ROUNDING = 1e-12
"""Of the sum of squares: an eigenvalue below it is what subtracting the offset has left of nothing."""


@dataclass(frozen=True)
class Regression:
    """Shares are features @ `weights` (features, classes) + `offset` (classes,).

    evidence: log marginal likelihood of the contrasts, in units of their noise, at `scale`, the prior variance of a
    weight, and `excess`, the factor by which residuals vary more than the noise.
    """

    weights: np.ndarray = field(repr=False)
    offset: np.ndarray = field(repr=False)
    evidence: float
    scale: float
    excess: float

    def shares(self, features: np.ndarray) -> np.ndarray:
        """Features float64 (n, features) -> shares float64 (n, classes) that sum to 1; some may be negative."""
        return features @ self.weights + self.offset


def contrasts(classes: int) -> np.ndarray:
    """Orthonormal (classes, classes - 1): what is left of shares once their sum is known.

    >>> contrasts(2).round(3).tolist()
    [[0.707], [-0.707]]
    """
    return helmert(classes).T


def regress(features: np.ndarray, told: Shares) -> Regression:
    """Fit `told` of n >= 1 rows on `features` float64 (n, features)."""
    basis = contrasts(told.classes)
    observed = told.shares @ basis
    noise = told.deviation[:, None]
    unit = 1 / told.deviation
    unit /= np.linalg.norm(unit)
    rows, targets = _without(unit, features / noise), _without(unit, observed / noise)
    values, directions = _principal(rows, _ROUNDING * float(((features / noise) ** 2).sum()))
    found = (rows @ directions / np.sqrt(values)).T @ targets  # (kept, contrasts)
    rest = max(float((targets**2).sum() - (found**2).sum()), 0.0)
    free = (len(targets) - 1) * targets.shape[1]
    scale, excess, evidence = _largest_evidence(values, (found**2).sum(axis=1), rest, free, targets.shape[1])
    shrunk = (scale * np.sqrt(values) / (scale * values + excess))[:, None] * found
    weights = directions @ shrunk @ basis.T
    precision = told.deviation**-2.0
    means = precision @ np.concatenate([features, observed], axis=1) / precision.sum()
    mean, level = means[: features.shape[1]], means[features.shape[1] :]
    return Regression(weights, basis @ level - mean @ weights + 1 / told.classes, evidence, scale, excess)


def _largest_evidence(
    values: np.ndarray, found: np.ndarray, rest: float, free: int, contrasts: int
) -> tuple[float, float, float]:
    """Scale, excess, and the evidence there; `free`: numbers that were observed, less the offsets."""
    if not len(values):
        excess = max(rest / free, 1.0) if free else 1.0
        return 0.0, excess, _log_density(free, free * math.log(excess) + rest / excess)
    left = free - contrasts * len(values)
    most = max((rest + float(found.sum())) / free, 1.0)
    best = (0.0, 1.0, -math.inf)
    for excess in np.geomspace(1.0, most, math.ceil(math.log(most, _STEP)) + 1):
        scales = _RATIOS * excess / values.max()
        total = scales[:, None] * values + excess
        cost = contrasts * np.log(total).sum(axis=1) + (found / total).sum(axis=1)
        cost += left * math.log(excess) + rest / excess
        at = int(cost.argmin())
        evidence = _log_density(free, float(cost[at]))
        if evidence > best[2]:
            best = (float(scales[at]), float(excess), evidence)
    return best


def _log_density(count: int, cost: float) -> float:
    return -0.5 * (count * math.log(2 * math.pi) + cost)


def _without(unit: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Columns (n, m) less their part along the unit vector (n,)."""
    return columns - np.outer(unit, unit @ columns)


def _principal(rows: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (kept,) of rows' rows (n, features) above `least`, and their directions (features, kept)."""
    wide = rows.shape[1] > len(rows)
    values, vectors = eigh(rows @ rows.T if wide else rows.T @ rows)
    keep = values > least
    values, vectors = values[keep], vectors[:, keep]
    return values, rows.T @ vectors / np.sqrt(values) if wide else vectors
