"""The student of PATE-G on MNIST: trains the two networks of `feature_matching`, goes on after a kill."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from consilium.protocol.devices import asked_device, resolve_device
from consilium.student.trainers.base import SILENT, Job
from consilium.student.trainers.images.checkpoint import checkpoint_path, read_checkpoint, write_checkpoint
from consilium.student.trainers.images.dense import DenseModel
from consilium.student.trainers.images.feature_matching import BATCH, Duel
from consilium.student.trainers.images.network import few_threads
from consilium.student.trainers.images.rows import Pixels
from consilium.student.trainers.settings import TrainerKind

KEPT_EVERY = 200
"""Steps between two checkpoints, which are large."""


@dataclass(frozen=True)
class ImprovedGanTrainer:
    """Trains on labels and on `unlabelled` float (n, pixels) for so many epochs of both; that costs no privacy."""

    spec: TrainerKind
    epochs: int
    unlabelled: np.ndarray = field(repr=False)
    job: Job = SILENT

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> DenseModel:
        """See `Trainer.fit`, but `x` float (n, pixels) are features as they travel.

        Raises
        ------
        ConfigError : rows are no square images, or the device is absent. DataError : the checkpoint is damaged.
        """
        training = self.begun(x, y, classes, seed)
        while training.step < training.steps:
            training.advance(min(KEPT_EVERY, training.steps - training.step))
        return training.model()

    def begun(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> ImprovedGanTraining:
        """As `fit`, but only to where it was stopped."""
        return ImprovedGanTraining(self, x, y, classes, seed)


class ImprovedGanTraining:
    """One training. step: so many were made. steps: of all epochs, each every full batch of the pool. duel: what is
    trained."""

    def __init__(self, trainer: ImprovedGanTrainer, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> None:
        rows = np.concatenate([x, trainer.unlabelled])
        self.step, self.steps = 0, trainer.epochs * max(1, len(rows) // BATCH)
        self._pixels, self._job, self._name = Pixels.of(rows), trainer.job, f"train student, {trainer.spec.name}"
        device = resolve_device(asked_device())
        self._generator = torch.Generator().manual_seed(seed)
        images, labels = torch.from_numpy(self._pixels.scaled(rows)).to(device), torch.from_numpy(y).to(device)
        self._path = checkpoint_path(trainer.job.folder, trainer.spec, x, y, trainer.unlabelled, seed)
        with few_threads():
            self.duel = Duel(images, labels, classes, self._generator)
            self.duel.first_look()
        read_checkpoint(self._path, self._restore)
        self._job.progress(self._name, self.step, self.steps)

    def advance(self, steps: int) -> None:
        """Make so many steps, and write the checkpoint."""
        with few_threads():
            for _ in range(steps):
                self.duel.step()
        self.step += steps
        if self._path is not None:
            parts = {name: part.state_dict() for name, part in self.duel.parts.items()}
            state = {"step": self.step, "generator": self._generator.get_state(), "parts": parts}
            write_checkpoint(self._path, state)
        self._job.progress(self._name, self.step, self.steps)

    def model(self) -> DenseModel:
        """The average of the discriminator so far."""
        plain = self.duel.averaged.plain()
        return DenseModel(
            self._pixels, tuple((weights.cpu().numpy(), offsets.cpu().numpy()) for weights, offsets in plain)
        )

    def _restore(self, content: dict[str, Any]) -> None:
        self.step = int(content["step"])
        self._generator.set_state(content["generator"])
        for name, part in self.duel.parts.items():
            part.load_state_dict(content["parts"][name])
