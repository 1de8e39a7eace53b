"""Public rows as the students of a plan see them: principal components, and random features of a smooth kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

MOST_COMPONENTS = 60
"""Principal components of the pool: what lies beyond is too little for a student that learns from noise."""
KERNEL_FEATURES = 120
"""Random Fourier features (Rahimi, Recht 2007) that stand for a kernel: finer structure is lost in the noise anyway."""

_LOT = 0x66656174


@dataclass(frozen=True)
class FeatureMap:
    """From rows float64 (n, inputs) to features, all centred on the pool.

    axes: (inputs, components). gamma: of the kernel exp(-gamma |a - b|^2). frequencies, phases: of its features.
    """

    centre: np.ndarray = field(repr=False)
    axes: np.ndarray = field(repr=False)
    gamma: float
    frequencies: np.ndarray = field(repr=False)
    phases: np.ndarray = field(repr=False)
    kernel_centre: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, rows: np.ndarray) -> FeatureMap:
        """Fitted to the pool. The kernel's width is the rows' own: exp(-1/2) between two at the mean distance."""
        centre = rows.mean(axis=0)
        centred = rows - centre
        values, vectors = np.linalg.eigh(centred.T @ centred / len(rows))
        keep = [index for index in np.argsort(-values)[:MOST_COMPONENTS] if values[index] > 1e-9 * max(values[-1], 1.0)]
        axes = vectors[:, keep] if keep else np.zeros((rows.shape[1], 1))
        gamma = 1 / (4 * max(float(values.sum()), 1e-9))
        generator = np.random.default_rng(_LOT)
        frequencies = np.sqrt(2 * gamma) * generator.standard_normal((axes.shape[1], KERNEL_FEATURES))
        phases = generator.uniform(0, 2 * np.pi, KERNEL_FEATURES)
        kernel_centre = _waves(centred @ axes, frequencies, phases).mean(axis=0)
        return cls(centre, axes, gamma, frequencies, phases, kernel_centre)

    def linear(self, rows: np.ndarray) -> np.ndarray:
        """Principal components (n, components), at their own scale."""
        return (rows - self.centre) @ self.axes

    def kernel(self, rows: np.ndarray) -> np.ndarray:
        """Features (n, KERNEL_FEATURES) whose products are about the kernel's values."""
        return _waves(self.linear(rows), self.frequencies, self.phases) - self.kernel_centre


def _waves(components: np.ndarray, frequencies: np.ndarray, phases: np.ndarray) -> np.ndarray:
    return np.sqrt(2 / len(phases)) * np.cos(components @ frequencies + phases)
