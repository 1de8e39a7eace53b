"""A small torch MLP as student."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from student.config import StudentSpec
from student.trainers.base import Model

BATCH = 64
WEIGHT_DECAY = 0.05


@dataclass(frozen=True)
class MlpModel:
    """A trained network."""

    network: Any

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`."""
        import torch

        with torch.no_grad():
            logits = self.network(torch.from_numpy(x.astype(np.float32)))
            return torch.softmax(logits, dim=1).numpy().astype(np.float64)


@dataclass(frozen=True)
class MlpTrainer:
    """One hidden layer, dropout, AdamW with a cosine schedule. The same seed gives the same network on CPU."""

    spec: StudentSpec

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`."""
        import torch  # two seconds to import: only for students that need it
        from torch import nn

        with torch.random.fork_rng():
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
        return MlpModel(network.eval())
