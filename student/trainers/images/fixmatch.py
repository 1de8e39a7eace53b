"""FixMatch: sure predictions on slightly distorted images are the labels of strongly distorted ones.

Sohn, Berthelot, Carlini, Zhang, Zhang, Raffel, Cubuk, Kurakin, Li, FixMatch, NeurIPS 2020, arXiv:2001.07685, equations
3 and 4. Here the strong distortion is affine and elastic with cutout instead of RandAugment, and there are four
unlabelled images to a labelled one instead of seven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from consilium.student.trainers.images.loop import Descent, Material
from consilium.student.trainers.images.rows import STRONG, WEAK

if TYPE_CHECKING:
    from torch import nn

_LABELLED = 32
_UNLABELLED = 128


class FixMatch:
    """See `loop.Method`."""

    def __init__(self, net: nn.Sequential, material: Material, sure: float) -> None:
        self._net, self._material, self._sure = net, material, sure
        self._descent = Descent.of(net)
        self.parts: dict[str, Any] = {"net": net, "optimiser": self._descent.optimiser}

    def update(self, done: float) -> None:
        """See `loop.Method.update`."""
        import torch
        from torch.nn import functional

        generator = self._material.generator
        images, labels = self._material.labelled_batch(_LABELLED)
        other = self._material.batch(_UNLABELLED)
        with torch.no_grad():
            top, guess = torch.softmax(self._net(WEAK(other, generator)), dim=1).max(dim=1)
        logits = self._net(torch.cat([WEAK(images, generator), STRONG(other, generator)]))
        supervised = functional.cross_entropy(logits[:_LABELLED], labels)
        each = functional.cross_entropy(logits[_LABELLED:], guess, reduction="none")
        self._descent.step(supervised + (each * (top >= self._sure)).mean(), done)
