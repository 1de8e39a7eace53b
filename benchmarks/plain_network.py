"""The plain student of what the paper of 2017 tried first: the network of `student.trainers.images` on given targets.

No unlabelled image, no distorted copy: what is measured is what the targets tell. Targets are probabilities, so that a
label is one of 1, and at a temperature T the network's own are softmax(logits / T) while it learns (Hinton, Vinyals,
Dean, arXiv:1503.02531). Gradients are not multiplied by T^2 as there, since Adam's steps do not change with the scale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from consilium.models.images.loop import AVERAGED, Descent, ImageTrainer, Material
from consilium.models.images.network import ImageModel
from consilium.models.specs import CnnStudent

if TYPE_CHECKING:
    from torch import Tensor, nn

STEPS = 300
_BATCH = 64


class SoftTargets:
    """See `loop.Method`. The material's labels are row numbers of `targets` float (n, classes)."""

    def __init__(self, net: nn.Sequential, material: Material, targets: np.ndarray, temperature: float) -> None:
        import torch

        self._net, self._material, self._temperature = net, material, temperature
        self._targets = torch.from_numpy(targets.astype(np.float32)).to(material.labels.device)
        self._descent = Descent.of(net)
        self.decay = AVERAGED
        self.parts: dict[str, Any] = {"net": net, "optimiser": self._descent.optimiser}

    def draw(self) -> tuple[Tensor, ...]:
        """See `loop.Method.draw`."""
        return self._material.labelled_batch(_BATCH)

    def update(self, drawn: tuple[Tensor, ...], done: float) -> None:
        """See `loop.Method.update`."""
        from torch.nn import functional

        images, rows = drawn
        self._descent.step(functional.cross_entropy(self._net(images) / self._temperature, self._targets[rows]), done)


def one_hot(labels: np.ndarray, classes: int) -> np.ndarray:
    """Labels int64 (n,) as targets float64 (n, classes)."""
    return np.eye(classes)[labels]


def learn(
    x: np.ndarray, targets: np.ndarray, seed: int, temperature: float = 1.0, steps: int = STEPS, channels: int = 16
) -> ImageModel:
    """Train on pixels `x` float (n, pixels) and `targets` float (n, classes), rows of probabilities."""
    spec = CnnStudent(steps=steps, settled=0.0, augment="none", channels=channels)
    trainer = ImageTrainer(lambda net, material: SoftTargets(net, material, targets, temperature), spec, x[:0])
    return trainer.fit(x, np.arange(len(x)), targets.shape[1], seed)


def accuracy(model: ImageModel, x: np.ndarray, y: np.ndarray) -> float:
    """Share of rows `x` float (n, pixels) that `model` calls `y` int64 (n,)."""
    return float((model.predict_proba(x).argmax(axis=1) == y).mean())
