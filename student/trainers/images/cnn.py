"""A small convolutional network on the labels alone, on distorted copies if asked (Simard et al. 2003)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from consilium.student.trainers.images.loop import AVERAGED, Descent, Material
from consilium.student.trainers.images.rows import Distortion

if TYPE_CHECKING:
    from torch import nn

_BATCH = 64


class Supervised:
    """See `loop.Method`. `cycle`: for a network with batch normalisation, which needs no average."""

    def __init__(self, net: nn.Sequential, material: Material, change: Distortion, cycle: bool = False) -> None:
        self._net, self._material, self._change = net, material, change
        self._descent = Descent.of(net, cycle=cycle)
        self.decay = 0.0 if cycle else AVERAGED
        self.parts: dict[str, Any] = {"net": net, "optimiser": self._descent.optimiser}

    def update(self, done: float) -> None:
        """See `loop.Method.update`."""
        from torch.nn import functional

        images, labels = self._material.labelled_batch(_BATCH)
        images = self._change(images, self._material.generator)
        self._descent.step(functional.cross_entropy(self._net(images), labels), done)
