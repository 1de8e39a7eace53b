"""A trained network of dense layers, and the scale of the pixels that it takes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import softmax

from consilium.student.trainers.images.rows import Pixels


@dataclass(frozen=True)
class DenseModel:
    """ReLU after each layer but the last. layers: of each, float32 weights (outputs, inputs) and offsets (outputs,)."""

    pixels: Pixels
    layers: tuple[tuple[np.ndarray, np.ndarray], ...] = field(repr=False)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Rows float (n, pixels), as they travel -> probabilities float64 (n, classes)."""
        seen = self.pixels.scaled(x)
        *hidden, (weights, offsets) = self.layers
        for inner, inner_offsets in hidden:
            seen = np.maximum(seen @ inner.T + inner_offsets, 0)
        return softmax((seen @ weights.T + offsets).astype(np.float64), axis=1)
