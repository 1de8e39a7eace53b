"""Shares of all public rows without their noise, for trainers that must be given labels: trees and networks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.student.trainers.base import Model, Shares, SoftTrainer
from consilium.student.trainers.counts.smooth import fit_kernel
from consilium.student.trainers.counts.softmax import fit_softmax


def denoise(x: np.ndarray, told: Shares, rows: np.ndarray, seed: int) -> np.ndarray:
    """Shares float64 (m, classes) of `rows` (m, inputs), probabilities, from `told` of the rows `x` (n, inputs).

    They are those of the linear student or of the one with a kernel, whichever has more evidence.
    """
    linear, kernel = fit_softmax(x, told), fit_kernel(x, told, (), seed)
    model = linear.model if linear.evidence >= kernel.evidence else kernel.model
    return model.predict_proba(rows)


@dataclass(frozen=True)
class OnDenoised:
    """A trainer of labels, given the denoised shares of the rows that were asked and of `unlabelled` (m, inputs)."""

    trainer: SoftTrainer
    unlabelled: np.ndarray = field(repr=False)

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> Model:
        """See `SharesTrainer.fit_shares`."""
        rows = np.concatenate([x, self.unlabelled])
        return self.trainer.fit_soft(rows, denoise(x, told, rows, seed), seed)
