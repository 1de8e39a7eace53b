"""One trainer for labels and for noisy histograms, made of two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilium.student.trainers.base import Model, Shares, SharesTrainer, Trainer


@dataclass(frozen=True)
class WithShares:
    """`labels` where a federation releases labels, `shares` where it releases noisy histograms."""

    labels: Trainer
    shares: SharesTrainer

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`."""
        return self.labels.fit(x, y, classes, seed)

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> Model:
        """See `SharesTrainer.fit_shares`."""
        return self.shares.fit_shares(x, told, seed)
