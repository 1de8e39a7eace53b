"""A small torch MLP as student."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import softmax

from consilium.protocol.node.threads import one_thread
from consilium.student.config import StudentSpec
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

    spec: StudentSpec

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`."""
        import torch  # two seconds to import: only for students that need it
        from torch import nn

        with one_thread(), torch.random.fork_rng():
            torch.manual_seed(seed)
            network = nn.Sequential(
                nn.Linear(x.shape[1], self.spec.hidden),
                nn.ReLU(),
                nn.Dropout(0.2),
                nn.Linear(self.spec.hidden, classes),
            )
            rows, labels = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)
            optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=WEIGHT_DECAY)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.spec.epochs)
            loss = nn.CrossEntropyLoss()
            network.train()
            for _ in range(self.spec.epochs):
                for part in torch.randperm(len(rows)).split(BATCH):
                    optimiser.zero_grad()
                    loss(network(rows[part]), labels[part]).backward()
                    optimiser.step()
                schedule.step()
        return MlpModel(*(part.detach().numpy() for part in network.parameters()))
