"""A small torch MLP as student."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import softmax

from consilium.protocol.devices import one_thread
from consilium.student.trainers.base import Model

BATCH = 64
WEIGHT_DECAY = 0.05


@dataclass(frozen=True)
class MlpModel:
    """A trained network: float32 arrays, `first` (hidden, inputs), `last` (classes, hidden), and an offset of each."""

    first: np.ndarray = field(repr=False)
    first_offset: np.ndarray = field(repr=False)
    last: np.ndarray = field(repr=False)
    last_offset: np.ndarray = field(repr=False)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`."""
        hidden = np.maximum(x.astype(np.float32) @ self.first.T + self.first_offset, 0)
        return softmax((hidden @ self.last.T + self.last_offset).astype(np.float64), axis=1)


@dataclass(frozen=True)
class MlpTrainer:
    """One hidden layer, dropout, AdamW with a cosine schedule. The same seed gives the same network on CPU."""

    hidden: int
    epochs: int

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`."""
        return self._trained(x, y, classes, seed)

    def fit_soft(self, x: np.ndarray, shares: np.ndarray, seed: int) -> Model:
        """See `SoftTrainer.fit_soft`."""
        return self._trained(x, shares.astype(np.float32), shares.shape[1], seed)

    def _trained(self, x: np.ndarray, targets: np.ndarray, classes: int, seed: int) -> MlpModel:
        """`targets`: classes int64 (n,), or shares float32 (n, classes)."""
        import torch  # two seconds to import: only for students that need it
        from torch import nn

        with one_thread(), torch.random.fork_rng():
            torch.manual_seed(seed)
            network = nn.Sequential(
                nn.Linear(x.shape[1], self.hidden),
                nn.ReLU(),
                nn.Dropout(0.2),
                nn.Linear(self.hidden, classes),
            )
            rows, wanted = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(targets)
            optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=WEIGHT_DECAY)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.epochs)
            loss = nn.CrossEntropyLoss()
            network.train()
            for _ in range(self.epochs):
                for part in torch.randperm(len(rows)).split(BATCH):
                    optimiser.zero_grad()
                    loss(network(rows[part]), wanted[part]).backward()
                    optimiser.step()
                schedule.step()
        return MlpModel(*(part.detach().numpy() for part in network.parameters()))
